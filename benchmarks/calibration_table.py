"""The tables of ``calibration.py``, from the rows in benchmarks/calibrated/: docs/calibration_tables.md.

Shares of twins survived are pooled over policies. Their intervals are from 2000 draws of trainings (a public policy is
one of its own) with replacement, since twins of one policy, and checkpoints of one training, are not independent. The
area under the curve is the chance that a twin that survived had a policy with the better score than one that did not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

OTHERS: dict[str, tuple[float, float, tuple[float, float] | None]] = {
    "openhomie-g1": (78.3, 77.4, None),
    "grove-g1": (75.1, 79.3, None),
    "asap-g1": (45.6, 44.6, None),
    "rl_sar-g1": (45.1, 42.5, (5.0, 5.1)),
    "falcon-g1": (36.8, 35.8, None),
    "openwbt-g1": (26.8, 40.6, None),
    "unitree_rl_lab-g1": (25.4, 22.1, (7.6, 9.7)),
    "unitree_rl_gym-g1-held": (19.7, 37.7, None),
    "holosoma-g1-fastsac": (5.8, 6.4, None),
    "unitree_rl_mjlab-g1-phase": (5.6, 5.3, None),
    "legged_rl_lab-g1": (3.9, 3.9, (6.9, 3.5)),
}
"""Mean survival [s] of 90 s, of the same files: in MuJoCo Warp and PhysX, by the README of
rhoyn/teleop-walking-benchmark (144,384 runs; punches of up to 500 N, arms driven at random), and by ``gaitkeeper
doctor`` 0.5.4 (three seeds) with arms at random, and with punches besides, where it reads them and moves their arms."""
HERE = Path(__file__).parent
ROWS = HERE / "calibrated"
PAGE = HERE.parent / "docs/calibration_tables.md"
RECORD = HERE.parent / "tasks/gaitway_velocity/track_record.json"
DRAWS = 2000
LEVEL = 0.90
KINDS = {
    "falls": ("falls", "corner_falls", "pushes_survived"),
    "tracking": (
        "lin_vel_error", "yaw_vel_error", "lin_vel_bias", "yaw_vel_bias", "stop_time", "stop_way", "heading_drift",
        "sideways_drift", "drift",
    ),
    "rest": ("rest_speed", "rest_yaw_rate", "rest_joint_speed", "rest_torque_change", "steps_at_rest"),
}  # fmt: skip
"""Kinds of FAIL, the gravest first, by the metrics of the checks that failed; all others are of the gait."""
MOST_USED = 100.0
FEWEST_IN_COMMON = FEWEST = 8


@dataclass(frozen=True)
class Policy:
    """One row: its verdict, and which of its twins survived, (M,) bool."""

    row: dict[str, Any]
    survived: np.ndarray

    @property
    def share(self) -> float:
        return float(self.survived.mean())

    @property
    def scenarios(self) -> dict[str, Any]:
        found: dict[str, Any] = self.row["verdict"]["scenarios"]
        return found

    @property
    def kind(self) -> str:
        """PASS, or what kind of FAIL."""
        if self.row["verdict"]["word"] == "PASS":
            return "PASS"
        failed = {check[0] for s in self.scenarios.values() if s["required"] for check in s["checks"] if not check[4]}
        return "FAIL: " + next((kind for kind, metrics in KINDS.items() if failed & set(metrics)), "gait")


def used(check: Sequence[Any]) -> float:
    """Share of what a check allows; above 1 is beyond the limit."""
    metric, value, limit, at_least, _ = check
    if value is None:
        return MOST_USED
    if metric == "pushes_survived":
        share = (1.0 - value) / (1.0 - limit)
    else:
        share = limit / max(value, 1e-9) if at_least else value / max(limit, 0.01)
    return min(share, MOST_USED)


def worst(scenario: dict[str, Any]) -> float:
    return max((used(check) for check in scenario["checks"]), default=math.nan)


def falls(policy: Policy, names: Sequence[str] | None = None) -> float:
    """Mean share of falls over scenarios."""
    found = [
        s["falls"]
        for name, s in policy.scenarios.items()
        if (names is None or name in names) and s["falls"] is not None
    ]
    return float(np.mean(found)) if found else math.nan


def fallen_worst(policy: Policy) -> float:
    return max(s["falls"] for s in policy.scenarios.values() if s["required"] and s["falls"] is not None)


SCORES: dict[str, Callable[[Policy], float]] = {
    "worst check of a required scenario": lambda p: -max(worst(s) for s in p.scenarios.values() if s["required"]),
    "share of required scenarios failed": lambda p: (
        -float(np.mean([not s["passed"] for s in p.scenarios.values() if s["required"]]))
    ),
    "falls, mean over required scenarios": lambda p: -falls(p, [n for n, s in p.scenarios.items() if s["required"]]),
    "falls, mean over all scenarios": lambda p: -falls(p),
    "falls, worst required scenario": lambda p: -fallen_worst(p),
    "falls, all at once": lambda p: -falls(p, ["everything"]),
}
"""Scores of a verdict, the more the better."""


def load(half: str, parity: int) -> list[Policy]:
    """Finished rows of one half of the policies, with the even (0) or odd (1) twins."""
    found = []
    for path in sorted(ROWS.glob("*.json")):
        row = json.loads(path.read_text())
        if row["half"] == half and {"walk", "verdict"} <= row.keys():
            survived = np.array([bit == "1" for bit in row["walk"]["survived"]])
            found.append(Policy(row, survived[parity::2]))
    return found


def area(policies: Sequence[Policy], scores: np.ndarray) -> float:
    """Area under the curve of scores against the survival of single twins; NaN if all or none survived."""
    good = np.array([p.survived.sum() for p in policies], float)
    bad = np.array([(~p.survived).sum() for p in policies], float)
    if not good.sum() or not bad.sum():
        return math.nan
    better = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    return float(good @ better @ bad / (good.sum() * bad.sum()))


def resampled(policies: Sequence[Policy], value: Callable[[np.ndarray], float]) -> tuple[float, float]:
    """Interval of ``value`` of the indices of policies, over draws of their trainings."""
    families = sorted({p.row["family"] for p in policies})
    members = [[i for i, p in enumerate(policies) if p.row["family"] == family] for family in families]
    rng, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        drawn = rng.integers(len(families), size=len(families))
        found.append(value(np.concatenate([members[i] for i in drawn])))
    low, high = np.nanquantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation; NaN without variation."""
    ranks = [np.array([np.mean(np.flatnonzero(np.sort(x) == v)) for v in x]) for x in (a, b)]
    if min(r.std() for r in ranks) == 0.0:
        return math.nan
    return float(np.corrcoef(*ranks)[0, 1])


def write_table() -> str:
    """Write the page; returns it."""
    rows = [json.loads(path.read_text()) for path in sorted(ROWS.glob("*.json"))]
    done = [row for row in rows if {"walk", "verdict"} <= row.keys()]
    parts = [
        HEAD.format(done=len(done), passed=sum(row["verdict"]["word"] == "PASS" for row in done)),
        *_policies(done),
    ]
    parts += _others(rows)
    report, choice = load("report", 1), load("choice", 0)
    if min(len(report), len(choice)) >= FEWEST:
        parts += [*_given(report), *_scores(choice, report), *_scenarios(choice)]
    else:
        parts.append(
            f"## Given the verdict\n\nNothing is said yet: each half needs {FEWEST} judged policies, and they have "
            f"{len(report)} and {len(choice)}."
        )
    text = "\n".join(parts) + "\n"
    PAGE.write_text(text)
    RECORD.write_text(json.dumps(record(done), indent=1) + "\n")
    return text


def record(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a verdict says of policies that passed the newest suite: how many, and the range of their survival."""
    suite = max((row["verdict"]["suite"] for row in rows), default="")
    passed = [row for row in rows if (row["verdict"]["word"], row["verdict"]["suite"]) == ("PASS", suite)]
    shares = [row["walk"]["survived"].count("1") / len(row["walk"]["survived"]) for row in passed]
    return {
        "suite": suite,
        "policies": len(passed),
        "robots": sorted({row["robot"] for row in passed}),
        "twins": len(rows[0]["walk"]["survived"]) if rows else 0,
        "low": round(min(shares, default=0.0), 4),
        "high": round(max(shares, default=0.0), 4),
    }


HEAD = """# Does a verdict predict?

`python benchmarks/calibration.py --checkouts DIR` takes each policy through the suite, and lets it walk on 300 twins of
its robot that neither training nor suite has seen. [Calibration](calibration.md) explains protocol and result. The
script writes this page, and has {done} judged policies so far, {passed} of them with PASS.
"""


def _policies(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "## Policies\n",
        "| policy | robot | half | verdict | scenarios failed | twins survived | fell | lagged |",
        "|---|---|---|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        required = [s for s in row["verdict"]["scenarios"].values() if s["required"]]
        failed = sum(not s["passed"] for s in required)
        n = len(row["walk"]["survived"])
        survived, fell = (100 * row["walk"][name].count("1") / n for name in ("survived", "fell"))
        lines.append(
            f"| {row['name']} | {row['robot']} | {row['half']} | {row['verdict']['word']} "
            f"| {failed} of {len(required)} | {survived:.0f} % | {fell:.0f} % | {abs(100 - survived - fell):.0f} % |"
        )
    return [*lines, ""]


def _others(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        "## Other judges\n",
        "Survival of 90 s in MuJoCo Warp and PhysX, as [teleop-walking-benchmark](https://github.com/rhoyn/"
        "teleop-walking-benchmark) publishes it, and in gaitkeeper 0.5.4, run on the same files. Both drive the arms "
        "at random and punch.\n",
        "| policy | benchmark, MuJoCo | PhysX | gaitkeeper, arms | arms, punches | twins survived | fell |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    walks = {row["name"]: row["walk"] for row in rows if "walk" in row and row["name"] in OTHERS}
    share = {
        name: [walk[key].count("1") / len(walk[key]) for key in ("survived", "fell")] for name, walk in walks.items()
    }
    for name in (name for name in OTHERS if name in walks):
        warp, physx, keeper = OTHERS[name]
        of_keeper = " | ".join(f"{value:.1f} s" for value in keeper) if keeper else " | "
        survived, fell = share[name]
        lines.append(
            f"| {name} | {warp:.1f} s | {physx:.1f} s | {of_keeper} | {100 * survived:.0f} % | {100 * fell:.0f} % |"
        )
    if len(walks) < FEWEST_IN_COMMON:
        return [*lines, "", f"No correlation is given for fewer than {FEWEST_IN_COMMON} policies.", ""]
    lines.append("")
    theirs = np.array([OTHERS[name][0] for name in walks])
    for title, ours in (
        ("survived", np.array([share[name][0] for name in walks])),
        ("did not fall", np.array([1.0 - share[name][1] for name in walks])),
    ):
        rank, (low, high) = spearman(theirs, ours), _rank_interval(theirs, ours)
        lines.append(
            f"Rank correlation of the share of twins that {title} with the benchmark's survival in MuJoCo: {rank:.2f} "
            f"({low:.2f} to {high:.2f}, {len(walks)} policies).\n"
        )
    return lines


def _rank_interval(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    rng, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        rows = rng.integers(len(a), size=len(a))
        found.append(spearman(a[rows], b[rows]))
    low, high = np.nanquantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _given(report: Sequence[Policy]) -> list[str]:
    lines = [
        "## Given the verdict\n",
        "Policies of the half `report` on their odd twins; intervals at 90 %.\n",
        "| verdict | policies | twins survived | interval | worst policy |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind in ("PASS", "FAIL: gait", "FAIL: rest", "FAIL: tracking", "FAIL: falls"):
        group = [p for p in report if p.kind == kind]
        if not group:
            lines.append(f"| {kind} | 0 | | | |")
            continue
        low, high = resampled(group, lambda rows, group=group: float(np.mean([group[i].share for i in rows])))
        mean, least = np.mean([p.share for p in group]), min(p.share for p in group)
        interval = f"{100 * low:.1f} to {100 * high:.1f} %" if len(group) > 1 else ""
        lines.append(f"| {kind} | {len(group)} | {100 * mean:.1f} % | {interval} | {100 * least:.1f} % |")
    return [*lines, ""]


def _scores(choice: Sequence[Policy], report: Sequence[Policy]) -> list[str]:
    lines = [
        "## Margins against survival\n",
        "| score of a verdict | area, half `choice` | area, half `report` | interval | rank correlation, `report` |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, score in SCORES.items():
        chosen, scores = (np.array([score(p) for p in half]) for half in (choice, report))
        low, high = resampled(report, lambda rows, s=scores: area([report[i] for i in rows], s[rows]))
        rank = spearman(scores, np.array([p.share for p in report]))
        lines.append(
            f"| {name} | {area(choice, chosen):.3f} | {area(report, scores):.3f} | {low:.3f} to {high:.3f} "
            f"| {rank:.2f} |"
        )
    return [*lines, ""]


def _scenarios(choice: Sequence[Policy]) -> list[str]:
    lines = [
        "## Scenarios\n",
        "Half `choice` on its even twins. Alone: policies that fail this required scenario and no other.\n",
        "| scenario | required | policies failed | alone | rank correlation: worst check | falls |",
        "|---|---|---:|---:|---:|---:|",
    ]
    share = np.array([p.share for p in choice])
    names = list(dict.fromkeys(name for p in choice for name in p.scenarios))
    failures = [{n for n, s in p.scenarios.items() if s["required"] and not s["passed"]} for p in choice]
    for name in names:
        have = [i for i, p in enumerate(choice) if name in p.scenarios]
        if len(have) < 5:
            continue
        rows = [choice[i].scenarios[name] for i in have]
        failed = sum(not row["passed"] for row in rows)
        alone = sum(failures[i] == {name} for i in have)
        by_check = spearman(-np.array([worst(row) for row in rows]), share[have])
        fallen = np.array([row["falls"] if row["falls"] is not None else 0.0 for row in rows])
        by_falls = spearman(-fallen, share[have])
        lines.append(
            f"| {name} | {'yes' if rows[0]['required'] else ''} | {failed} of {len(have)} | {alone} | {by_check:.2f} "
            f"| {by_falls:.2f} |"
        )
    return [*lines, ""]
