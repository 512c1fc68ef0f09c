"""What a search leaves: a file and a film of each case, and a section of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..mujoco.camera import RenderingError
from ..mujoco.film import film
from ..mujoco.plant import build_plant
from ..pages import media
from ..pages.model import Figure, Folded, Section, Table, note
from .case import Case, Outcome
from .search import Search

FOLDER = "falsified"
"""Folder of the cases, beside the report."""
BEFORE = 2.0
"""Time before the fall from which the report's film is seen [s]."""
SINKS = 0.6
"""Time after the fall that a film shows the last picture [s]."""


def case_film(
    case: Case, outcome: Outcome, bundle: Path, out: Path, frames: Callable[[range], Iterable[int]] = iter
) -> Path:
    """Film one robot of a case until it falls. Raises :class:`RenderingError`."""
    walk, who, contract = outcome.walk, outcome.shown, Contract.load(bundle)
    assert walk.qpos is not None
    steps, xml = int(walk.alive[:, who].sum()), bundle / "robot.xml"
    shown = np.concatenate([np.arange(steps), np.full(round(SINKS / walk.control_dt) * bool(outcome.falls), steps - 1)])
    times = shown * walk.control_dt
    hit = [any(blow.at <= time < blow.at + blow.seconds for blow in case.blows) for time in times]
    return film(
        build_plant(contract, xml, xml, visual=True), walk.qpos[shown, who], walk.command[shown, who],
        np.hstack([walk.lin_vel[shown, who, :2], walk.ang_vel[shown, who, 2:]]), ["a blow" if h else "" for h in hit],
        out, control_dt=walk.control_dt, frames=frames,
    )  # fmt: skip


def save_cases(found: Search, bundle: Path, folder: Path, *, video: bool = True) -> tuple[list[Path], str]:
    """Write ``case-1.json``, the smallest, and so on, with films; returns their paths, and why there is no film.

    Cases of an earlier search are replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("case-*"):
        if old.suffix in (".json", ".mp4"):
            old.unlink()
    paths, why = [], "" if video else "not asked for"
    for number, (case, outcome) in enumerate(found.cases, 1):
        paths.append(case.save(folder / f"case-{number}.json"))
        if not why:
            try:
                case_film(case, outcome, bundle, paths[-1].with_suffix(".mp4"))
            except RenderingError as error:
                why = str(error)
    return paths, why


def section(found: Search, paths: list[Path], why_no_film: str) -> Section:
    """The search in a validation's report."""
    rows: list[list[Any]] = [
        [path.name, f"{case.size:.2f}", f"{case.falls} of {case.copies}", case.says]
        for path, (case, _) in zip(paths, found.cases, strict=True)
    ]
    films = [path.with_suffix(".mp4") for path in paths if path.with_suffix(".mp4").exists()]
    start = max(found.cases[0][0].falls_after - BEFORE, 0.0) if found.cases else 0.0
    words = found.words()
    return Section(
        "Smallest failing case",
        f"{words[0].upper()}{words[1:]}. This does not change the verdict.",
        Table(["Case", "Size", "Robots that fell", "In words"], rows, ["", "num", "num", ""]) if rows else None,
        Figure(media.film(films[0], start)) if films else note(f"No film: {why_no_film}." if why_no_film else ""),
        note(
            "The size is the Euclidean norm of all disturbances, each as a share of its bound: 0 is the model, and one "
            f"disturbance at its bound has size 1. Commands within their ranges are free. The files are in {FOLDER}/."
        ),
        Folded("Bounds of the search", found.bounds),
    )
