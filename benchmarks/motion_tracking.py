"""How well do robots follow motions that they learnt on two cores? Clips, robots and seeds, judged by the suite.

    python benchmarks/motion_tracking.py [--out runs/tracking] [--clips DIR] [--only NAME ...] [--table]

Each training is ``track-ROBOT-blind``, preset cpu, for :data:`STEPS` steps; each policy goes through the suite of
motions (docs/tracking.md), of which the table has the scenario "Motion": 64 robots with starts of their own, on physics
of half the training's step. Clips of the generator are there; DIR has files of others by the clips' names.

Rows are kept in benchmarks/tracked/, one file a training, and the script goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROBOTS, SEEDS, STEPS = ("anymal-c", "go2"), (1, 2), 2_000_000
CLIPS = ("trot", "pace", "backwards", "turn", "march", "bow")
ROWS = Path(__file__).parent / "tracked"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/tracking"))
    parser.add_argument("--clips", type=Path, help="folder of further clips, NAME.npz")
    parser.add_argument("--only", nargs="*", help="names such as go2-trot-1")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    ROWS.mkdir(exist_ok=True)
    jobs = [(robot, clip, seed) for seed in SEEDS for clip in CLIPS for robot in ROBOTS]
    for robot, clip, seed in () if options.table else jobs:
        name = f"{robot}-{clip}-{seed}"
        path = ROWS / f"{name}.json"
        if path.exists() or (options.only and name not in options.only):
            continue
        file = options.clips / f"{clip}.npz" if options.clips else None
        motion = str(file) if file is not None and file.exists() else clip
        path.write_text(json.dumps(measured(options.out / name, robot, motion, seed), indent=1) + "\n")
        print(f"{name}: done", flush=True)
    print(table())


def measured(run: Path, robot: str, motion: str, seed: int) -> dict[str, Any]:
    """One training and its verdict."""
    words = [f"track-{robot}-blind", "--preset", "cpu", "--out", run, f"seed={seed}", f"total_steps={STEPS}",
             f"task.commands.motion.clip={motion}"]  # fmt: skip
    for command in (("train", *words, *(["--resume"] if (run / "run.json").exists() else [])),
                    ("validate", run, "--no-video", "--json", run / "verdict.json")):  # fmt: skip
        done = subprocess.run([sys.executable, "-m", "gaitway.cli", *map(str, command)], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{run}: {done.stderr[-500:]}")
    verdict = json.loads((run / "verdict.json").read_text())
    nominal = next(s for s in verdict["scenarios"] if s["name"] == "nominal")["metrics"]
    required = [s for s in verdict["scenarios"] if s["required"]]
    return {
        "robot": robot, "clip": Path(motion).stem, "seed": seed, "steps": STEPS, "verdict": verdict["verdict"],
        "passed": sum(s["passed"] for s in required), "of": len(required),
        "suite": verdict["suite_version"],
        **{key: nominal[key] for key in ("completed", "falls", "mpkpe", "reproduced", "joint_error", "velocity_error")},
    }  # fmt: skip


def table() -> str:
    """Rows so far as Markdown."""
    lines = ["| robot | clip | seed | verdict | scenarios | completed | reproduced | body position error | speed |",
             "|---|---|---:|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for path in sorted(ROWS.glob("*.json")):
        row = json.loads(path.read_text())
        lines.append(
            f"| {row['robot']} | {row['clip']} | {row['seed']} | {row['verdict']} | {row['passed']} of {row['of']} "
            f"| {100 * row['completed']:.0f} % | {100 * row['reproduced']:.0f} % | {100 * row['mpkpe']:.1f} cm "
            f"| {row['velocity_error']:.2f} m/s off |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
