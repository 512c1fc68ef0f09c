"""The page of a published bundle, ``README.md``: which robot and task, the verdict, the gait, and how to run it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaitway_onboard.bundle.published import LICENCES, MODEL_LICENCE_FILE, Checked, is_film
from gaitway_onboard.bundle.verdict import old_suite

COLUMNS = {"step_rate": "steps [1/s]", "swing_time": "swing [s]", "clearance": "clearance [m]", "slip": "slip [m/s]"}
"""Metrics of the gait table, with the units of ``gaitway_velocity.metrics``."""
GAITS = "gait_"
"""Begins the names of scenarios whose gait is judged."""
LICENCE_IDS = (
    "apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear", "cc-by-4.0", "cc-by-sa-4.0",
    "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc0-1.0", "gpl-3.0", "lgpl-3.0", "mpl-2.0", "unlicense",
)  # fmt: skip
"""Identifiers of the hub for licences of robots and policies; others are ``other``."""


def licence_of(contract: Any, names: list[str]) -> str:
    """The licence as the contract's ``origin`` says, else the file that has it, else ``unknown``."""
    origin = contract.origin
    told = str(origin.get("licence", "")) if origin is not None else ""
    if told not in ("", "not stated"):
        return told
    return next((name for name in LICENCES if name in names), "unknown")


def card(folder: Path, checked: Checked, place: str) -> str:
    """Markdown with the front matter of the hub."""
    contract, names = checked.contract, sorted(path.name for path in folder.iterdir())
    origin, licence = contract.origin, licence_of(contract, names)
    known = licence.lower() in LICENCE_IDS
    head = {
        "license": licence.lower() if known else "unknown" if licence == "unknown" else "other",
        **({} if known or licence == "unknown" else {"license_name": licence}),
        "library_name": "gaitway",
        "pipeline_tag": "robotics",
        "tags": ["gaitway", "robotics", "reinforcement-learning", "locomotion", contract.robot],
    }
    lines = [
        "---",
        *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()),  # JSON is YAML
        "---",
        f"# {_text(contract.task)} for {_text(contract.robot)}",
        f"A policy for the robot {_text(contract.robot)}, as a bundle of Gaitway: {contract.num_joints} joints, "
        f"{1 / contract.control_dt:.4g} steps per second.",
        *(f"![film]({name})" for name in names if is_film(name) and name.endswith(".gif")),
        *(f"Film: [{name}]({name})." for name in names if is_film(name) and not name.endswith(".gif")),
        *([] if origin is None or not origin.get("source") else [f"Source: {_text(origin['source'])}."]),
        "Licence: " + ("not stated." if licence == "unknown" else f"{_text(licence)}."),
        *(f"Licence of the robot's model: [{name}]({name})." for name in names if name == MODEL_LICENCE_FILE),
        "## Verdict",
        *_verdict(checked.verdict),
        *(
            []
            if checked.signer is None
            else [f"Signed by `{_text(checked.signer)}`: check it with the signer's public key."]
        ),
        "## Run it",
        f"```\npip install 'gaitway[mujoco,hub]'\ngaitway pull {place} --out walk\ngaitway play walk\n```",
        "`pull` checks every file before it keeps one. On a robot, read Gaitway's deployment page first.",
    ]
    front = len(head) + 2
    return "\n".join(lines[:front]) + "\n\n" + "\n\n".join(lines[front:]) + "\n"


def _verdict(verdict: dict[str, Any] | None) -> list[str]:
    if verdict is None:
        return ["None: nobody has validated this policy."]
    required = [row for row in verdict["scenarios"] if row["required"]]
    failed = [_text(row["title"]) for row in required if not row["passed"]]
    said = f"**{_text(verdict['verdict'])}** of validation suite {_text(verdict['suite_version'])}: "
    said += f"{len(required) - len(failed)} of {len(required)} required scenarios passed."
    old = old_suite(verdict["suite_version"])
    return [
        said,
        *([f"Failed: {', '.join(failed)}."] if failed else []),
        *([f"It {_text(old)}."] if old else []),
        *_gait(verdict["scenarios"]),
    ]


def _gait(scenarios: list[dict[str, Any]]) -> list[str]:
    rows = []
    for row in scenarios:
        metrics = row.get("metrics")
        if str(row.get("name")).startswith(GAITS) and isinstance(metrics, Mapping):
            values = (_number(metrics.get(metric)) for metric in COLUMNS)
            rows.append(f"| {_text(row['title'])} | {' | '.join(values)} | {'yes' if row['passed'] else 'no'} |")
    if not rows:
        return []
    head = [f"| scenario | {' | '.join(COLUMNS.values())} | passed |", "|---" * (len(COLUMNS) + 2) + "|"]
    return ["\n".join([*head, *rows])]


def _number(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else ""


def _text(value: object) -> str:
    """A text of the bundle on one line, of which Markdown and HTML make nothing else."""
    line = " ".join(str(value).split())[:300]
    return "".join(f"\\{sign}" if sign in "\\`*[]<>|#!$~" else sign for sign in line if sign.isprintable())
