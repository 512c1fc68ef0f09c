"""FastSAC against PPO on robots, with the same CPU time: returns, falls and tracking errors of each training.

    python benchmarks/off_policy_robots.py [--out runs/off_policy] [--only NAME ...] [--verdict NAME ...] [--table]

Each training is ``gaitway train velocity-flat-ROBOT-blind --preset cpu`` in one process on one thread. :data:`STEPS`
are as many as each agent makes in about a CPU-minute on the machine of the table; each row has its own CPU time. The
settings of FastSAC were chosen with seed 0 on ANYmal C; those of PPO are the preset's. The evaluation is that at a
training's end: 64 deterministic episodes on the training's own randomised physics, which is the same for both agents.
``--verdict`` sends policies through the suite (docs/validate.md).

Rows are kept in benchmarks/off_policy/, one file a training, and the script goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROBOTS, SEEDS = ("anymal-c", "go2"), (1, 2)
STEPS = {"ppo": 480_000, "fast-sac": 330_000}
ROWS = Path(__file__).parent / "off_policy"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/off_policy"))
    parser.add_argument("--only", nargs="*", help="names such as go2-ppo-1")
    parser.add_argument("--verdict", nargs="*", default=[], help="names of trainings whose policies are validated")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    ROWS.mkdir(exist_ok=True)
    jobs = [(robot, agent, seed) for robot in ROBOTS for seed in SEEDS for agent in STEPS]
    for robot, agent, seed in () if options.table else jobs:
        name = f"{robot}-{agent}-{seed}"
        path, run = ROWS / f"{name}.json", options.out / name
        if options.only and name not in options.only:
            continue
        if not path.exists():
            write(path, trained(run, robot, agent, seed))
            print(f"{name}: done", flush=True)
        if name in options.verdict and "verdict" not in (row := json.loads(path.read_text())):
            write(path, row | judged(run))
    print(table())


def trained(run: Path, robot: str, agent: str, seed: int) -> dict[str, Any]:
    """One training, continued where it stopped, and its evaluation."""
    settings = ["num_threads=1", *(["processes=1", "agent.optimizer.workers=1"] if agent == "ppo" else [])]
    gaitway(
        "train", f"velocity-flat-{robot}-blind", "--agent", agent, "--preset", "cpu", "--out", run, f"seed={seed}",
        f"total_steps={STEPS[agent]}", *settings, *(["--resume"] if (run / "run.json").exists() else []),
    )  # fmt: skip
    record = json.loads((run / "run.json").read_text())
    evaluation = json.loads((run / "evaluations.jsonl").read_text().splitlines()[-1])
    returns, errors = evaluation["returns"], evaluation["tracking"]["base_velocity"]
    return {
        "robot": robot, "agent": agent, "seed": seed, "steps": record["steps"], "cpu_s": record["cpu_time_s"],
        "return": sum(returns) / len(returns), "falls": evaluation["falls"], "episodes": len(returns), **errors,
    }  # fmt: skip


def judged(run: Path) -> dict[str, Any]:
    """The suite's verdict of a run's policy."""
    gaitway("validate", run, "--no-video", "--json", run / "verdict.json")
    verdict = json.loads((run / "verdict.json").read_text())
    required = [scenario for scenario in verdict["scenarios"] if scenario["required"]]
    passed = sum(scenario["passed"] for scenario in required)
    return {"verdict": verdict["verdict"], "passed": passed, "of": len(required)}


def gaitway(*words: Any) -> None:
    command = [sys.executable, "-m", "gaitway.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-500:]}")


def write(path: Path, row: dict[str, Any]) -> None:
    path.write_text(json.dumps(row, indent=1) + "\n")


def table() -> str:
    """Rows so far as Markdown."""
    lines = ["| robot | agent | seed | steps [M] | CPU [s] | return | falls | linear error | yaw error | verdict |",
             "|---|---|---:|---:|---:|---:|---:|---:|---:|---|"]  # fmt: skip
    for path in sorted(ROWS.glob("*.json")):
        row = json.loads(path.read_text())
        verdict = f"{row['verdict']}, {row['passed']} of {row['of']}" if "verdict" in row else ""
        lines.append(
            f"| {row['robot']} | {row['agent']} | {row['seed']} | {row['steps'] / 1e6:.2f} | {row['cpu_s']:.0f} "
            f"| {row['return']:.1f} | {row['falls']} of {row['episodes']} | {row['linear']:.3f} m/s "
            f"| {row['yaw']:.3f} rad/s | {verdict} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
