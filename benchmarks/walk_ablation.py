"""Ablation of the recipe for walking robots: the training of ``make walk`` with one of its parts left out.

    python benchmarks/walk_ablation.py [--seeds 0 1 2] [--only NAME ...] [--steps 2500000] [--out runs/walk_ablation]

Every training has the same number of steps and ends with the examination of ``gaitway train --until good``. The table
is written to OUT/ablation.md after each. Started again, the script goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

TASK = "velocity-flat-anymal-c-blind"
TERMS, COMMAND = "task.rewards", "task.commands.base_velocity"
CLOCK = [f"task.observations.{group}.terms.gait_phase.params" for group in ("policy", "critic")]
VARIANTS = {
    "the recipe": [],
    "no estimate of the velocity": ["agent.model.estimator=null"],
    "mirrors by the command alone": [f"{params}.late=0.0" for params in CLOCK],
    "no mirrors": ["agent.symmetry=none"],
    "clock at rest": [f"{params}.threshold=-1.0" for params in CLOCK],
    "no costs at rest": [f"{TERMS}.stand_still.weight=0.0", f"{TERMS}.stand_still_rate.weight=0.0"],
    "no cost of action rate at rest": [f"{TERMS}.stand_still_rate.weight=0.0"],
    "no commands at the ends": [f"{COMMAND}.rel_ends=0.0"],
    "no calibration": [f"{COMMAND}.margin=0.0"],
    "no contacts by the clock": [f"{TERMS}.feet_gait.weight=0.0"],
    "no heights by the clock": [f"{TERMS}.feet_phase.weight=0.0"],
    "no cost of slip": [f"{TERMS}.feet_slide.weight=0.0"],
    "no narrow tracking": [f"{TERMS}.track_lin_vel_xy_fine.weight=0.0", f"{TERMS}.track_ang_vel_z_fine.weight=0.0"],
}
COLUMNS = {
    "error, m/s": ("command_grid", "lin_vel_error"),
    "error, rad/s": ("command_grid", "yaw_vel_error"),
    "bias, m/s": ("command_grid", "lin_vel_bias"),
    "falls, %": ("command_grid", "falls"),
    "falls at stops, %": ("stops", "falls"),
    "turns while straight, rad/s": ("straight", "heading_drift"),
    "joints at rest, rad/s": ("standing", "rest_joint_speed"),
    "dragging feet, %": ("gait_forward_slow", "dragging_feet"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--steps", type=int, default=2_500_000)
    parser.add_argument("--out", type=Path, default=Path("runs/walk_ablation"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:  # all variants of one seed before the next, so that an unfinished table is fair
        for name in options.only:
            found = options.out / f"{name.replace(' ', '_')}-seed{seed}.json"
            if not found.exists():
                run = found.with_suffix("")
                train(run, seed, [*VARIANTS[name], f"total_steps={options.steps}", "evaluation_episodes=0"])
                found.write_text(json.dumps(examined(run)))
            print(written(options.out), flush=True)


def train(run: Path, seed: int, settings: list[str]) -> None:
    command = ["train", TASK, "--preset", "cpu", "--seed", str(seed), "--out", str(run), "--resume", *settings]
    subprocess.run([sys.executable, "-m", "gaitway", *command], check=True)


def examined(run: Path) -> dict[str, Any]:
    """The examination of a finished run, and what its training took."""
    from gaitway_sim2real.trial.examination import Examiner

    from gaitway.runs.folder import RunFolder
    from gaitway.training.load import load_actor

    folder = RunFolder.open(run)
    config, actor, _ = load_actor(folder)
    examination = Examiner(config.robot_task, threads=0)(actor)
    return examination.to_dict() | {"cpu_s": folder.record["cpu_time_s"]}


def written(out: Path) -> str:
    """The table of all trainings that are done, which is also written into ``out``."""
    head = ["left out", "seeds", "good", *COLUMNS, "CPU, s"]
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name in VARIANTS:
        done = sorted(out.glob(f"{name.replace(' ', '_')}-seed*.json"))
        found = [json.loads(path.read_text()) for path in done]
        if found:
            cells = [shown(found, *place) for place in COLUMNS.values()]
            good, cpu = sum(row["passed"] for row in found), statistics.mean(row["cpu_s"] for row in found)
            rows.append(f"| {' | '.join([name, str(len(found)), str(good), *cells, f'{cpu:.0f}'])} |")
    table = "\n".join(rows)
    (out / "ablation.md").write_text(table + "\n")
    return table


def shown(found: list[dict[str, Any]], scenario: str, metric: str) -> str:
    """Mean and range over seeds of a checked number."""
    factor = 100.0 if metric in ("falls", "dragging_feet") else 1.0
    values = [
        factor * check["value"]
        for row in found
        for check in row["checks"]
        if (check["scenario"], check["metric"]) == (scenario, metric) and check["value"] is not None
    ]
    if not values:
        return "–"
    digits = 1 if factor > 1.0 else 3
    spread = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


if __name__ == "__main__":
    main()
