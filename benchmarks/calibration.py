"""Does the suite's verdict predict? Policies go through the suite, and through robots that they have never seen.

    python benchmarks/calibration.py --checkouts DIR [--out runs/calibration] [--only NAME ...] [--walk] [--table]

Protocol, fixed before the first of these policies was judged:

- Each policy goes through the suite (seed 0), and walks on 300 twins of its robot. Twins are drawn by
  ``gaitway_sim2real/population/population.py``, their tours and blows by ``gaitway_velocity/tour.py``, both with the
  population's seed. A twin survives if it does not fall, and goes and turns at least half as far as it is told to.
- Policies are public ones, of the repositories in docs/test_house.md, and three checkpoints of each training below: the
  one that the training chose, and those nearest to a half and a quarter of its steps. More may be added. None is
  removed but for a bundle that cannot be made, which is said.
- The suite is chosen on the policies of the half "choice" and their even twins. Every published figure is from the half
  "report" and its odd twins. The half follows from the SHA-256 of the policy's name, or of the training's.
- Four policies on which the difficulty of the population was set are not among them: both of gaitway/demo, one ANYmal C
  after 0.6 and 1 million steps (seed 99), and unitree_rl_gym's H1 on Gaitway's model.

Rows are kept in benchmarks/calibrated/, one file a policy, and the script goes on where it stopped. ``--walk`` leaves
out the suite, which takes longer than the twins. ``--table`` only writes docs/calibration_tables.md from the rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from calibration_table import ROWS, write_table
from test_house import POLICIES

TRAININGS: tuple[tuple[str, int], ...] = (
    ("anymal-c", 21), ("anymal-d", 21), ("anymal-c", 22), ("anymal-d", 22), ("go2", 21), ("anymal-b", 21),
    ("anymal-c", 23), ("anymal-d", 23), ("go1", 21), ("g1-29dof", 21),
)  # fmt: skip
"""Robots and seeds of own trainings, with the preset cpu until good."""
FURTHER = ("grove-g1", "unitree_rl_mjlab-g1-phase", "unitree_cpp-go2-moe", "rl_sar-lite3-himloco")
"""Public policies that no single command imports; their bundles are taken from OUT/bundles if they are there."""
SHARES = {"chosen": 1.0, "half": 0.5, "quarter": 0.25}
DEVELOPED_ON = ("unitree_rl_gym-h1-ours", "xbot")
"""Public policies that are left out: of the first the population was developed on, and the second is no velocity policy
that the suite has finished."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One policy: its name, that of its family in the halves, and where its bundle comes from."""

    name: str
    family: str
    source: str = ""
    model: str | None = None
    options: tuple[str, ...] = ()
    share: str = ""
    """Which of a training's checkpoints; empty for a public policy."""

    @property
    def half(self) -> str:
        return "choice" if hashlib.sha256(self.family.encode()).digest()[0] % 2 else "report"


def subjects() -> Iterator[Subject]:
    """All policies of the protocol: trainings and public ones in turn, so that an unfinished table has both."""
    public = [
        Subject(name=name, family=name, source=policy.source, model=policy.model, options=policy.options)
        for name, policy in POLICIES.items()
        if name not in DEVELOPED_ON
    ]
    public += [Subject(name=name, family=name) for name in FURTHER]
    trained = [
        [Subject(name=f"{robot}-{seed}-{share}", family=f"{robot}-{seed}", share=share) for share in SHARES]
        for robot, seed in TRAININGS
    ]
    for i in range(max(len(trained), len(public))):
        yield from trained[i] if i < len(trained) else ()
        yield from public[3 * i : 3 * i + 3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkouts", type=Path, help="checkouts of the public repositories, by their names")
    parser.add_argument("--out", type=Path, default=Path("runs/calibration"), help="folder of trainings and bundles")
    parser.add_argument("--only", nargs="*", help="names of policies, or of trainings")
    parser.add_argument("--no-training", action="store_true", help="leave out trainings that are not done")
    parser.add_argument("--walk", action="store_true", help="the twins alone")
    parser.add_argument("--table", action="store_true", help="only write the table from the rows that are there")
    options = parser.parse_args()
    for subject in () if options.table else subjects():
        if options.only and not {subject.name, subject.family} & set(options.only):
            continue
        path = ROWS / f"{subject.name}.json"
        row = json.loads(path.read_text()) if path.exists() else {}
        if {"walk", *(() if options.walk else ("verdict",))} <= row.keys():
            continue
        bundle = bundle_of(subject, options)
        if isinstance(bundle, str):
            print(f"{subject.name}: {bundle}", flush=True)
            continue
        row |= {"name": subject.name, "family": subject.family, "half": subject.half}
        if "walk" not in row:
            row |= {"robot": robot_of(bundle), "walk": walked(bundle)}
            keep(path, row)
        if options.walk:
            continue
        if "verdict" not in row:
            row["verdict"] = judged(bundle, options.out / "reports" / subject.name)
            keep(path, row)
        share = row["walk"]["survived"].count("1") / len(row["walk"]["survived"])
        print(f"{subject.name}: {row['verdict']['word']}, {100 * share:.0f} % of twins survived", flush=True)
        write_table()
    print(write_table())


def keep(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(row, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def gaitway(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gaitway.cli", *map(str, words)], capture_output=True, text=True)


def bundle_of(subject: Subject, options: argparse.Namespace) -> Path | str:
    """The bundle of a policy, made if it is not there, or why it cannot be."""
    bundle: Path = options.out / "bundles" / subject.name
    if (bundle / "contract.yaml").exists():
        return bundle
    if not subject.share:
        if not subject.source:
            return f"{bundle} is not there"
        if options.checkouts is None or not (options.checkouts / subject.source).exists():
            return f"{subject.source} is not there"
        model = ["--model", options.checkouts / subject.model] if subject.model else []
        done = gaitway("import", options.checkouts / subject.source, "--out", bundle, *model, *subject.options)
    else:
        run = options.out / subject.family
        if not (run / "done").exists():
            if options.no_training:
                return "its training is not done"
            robot, seed = subject.family.rsplit("-", 1)
            task = f"velocity-flat-{robot}-blind"
            extra = ["--resume"] if (run / "run.json").exists() else []
            done = gaitway("train", task, "--preset", "cpu", "--until", "good", "--out", run, f"seed={seed}",
                           "keep_checkpoints=60", *extra)  # fmt: skip
            if done.returncode not in (0, 1):
                return last_line(done)
            (run / "done").touch()
        done = gaitway("export", run, "--checkpoint", checkpoint(run, SHARES[subject.share]), "--out", bundle)
    return bundle if (bundle / "contract.yaml").exists() else last_line(done)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or done.stdout.strip() or "nothing was said").splitlines()[-1]


def checkpoint(run: Path, share: float) -> int:
    """Steps of the checkpoint nearest to a share of those of the chosen one, or of the last."""
    kept = [int(path.stem.removeprefix("step_")) for path in (run / "checkpoints").glob("step_*.pt")]
    last = json.loads((run / "run.json").read_text()).get("chosen") or max(kept)
    return min(kept, key=lambda steps: abs(steps - share * last))


def robot_of(bundle: Path) -> str:
    from gaitway_onboard.bundle.contract import Contract

    return Contract.load(bundle).robot


def walked(bundle: Path) -> dict[str, Any]:
    """The 300 twins of a policy's robot: who survived, and why others fell."""
    from gaitway_sim2real.population import population
    from gaitway_sim2real.population.survey import survey
    from gaitway_velocity.tour import TOURS, progress, survived

    began = time.process_time()
    found = survey(bundle, TOURS, range(population.TWINS))
    gone = progress(found)
    return {
        "population": population.VERSION,
        "seed": population.SEED,
        "survived": bits(survived(found)),
        "fell": bits(found.fell),
        "causes": found.fall_cause,
        "progress": [[round(float(v), 2) if np.isfinite(v) else None for v in pair] for pair in gone],
        "cpu_seconds": round(time.process_time() - began),
    }


def bits(values: np.ndarray) -> str:
    return "".join("1" if value else "0" for value in values)


def judged(bundle: Path, report: Path) -> dict[str, Any]:
    """The suite's verdict: every check of every scenario."""
    done = gaitway("validate", bundle, "--report", report, "--no-video", "--json", report / "verdict.json")
    if done.returncode not in (0, 1):
        raise SystemExit(f"{bundle}: {last_line(done)}")
    verdict = json.loads((report / "verdict.json").read_text())
    return {
        "word": verdict["verdict"],
        "suite": verdict["suite_version"],
        "policy_sha256": verdict["policy_sha256"],
        "scenarios": {
            scenario["name"]: {
                "required": scenario["required"],
                "passed": scenario["passed"],
                "falls": scenario["metrics"].get("falls"),
                "checks": [check_row(check) for check in scenario["checks"]],
            }
            for scenario in verdict["scenarios"]
        },
    }


def check_row(check: dict[str, Any]) -> list[Any]:
    """Metric, value, limit, True if it must be reached, True if it passed."""
    value = check["value"]
    rounded = None if value is None else float(f"{value:.4g}")
    return [check["metric"], rounded, check["limit"], check["at_least"], check["passed"]]


if __name__ == "__main__":
    main()
