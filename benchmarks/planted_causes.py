"""Does the report of a FAIL name what was wrong with the training? One harmful setting is planted in each of ten.

    python benchmarks/planted_causes.py [--out runs/planted] [--only 3 ...] [--table]

Ten settings are drawn, with the seed below, from the committed list. Each training is the ANYmal C's recipe (preset
cpu) with that one setting changed, 3.4 million steps, seed 31; three more have the recipe's settings alone, until good.
Each policy is validated, and the sentence "likely cause" counts if it begins with the setting's key. A policy that
passes has no sentence: it is told apart, as its setting did no harm that the suite sees. The list was written before
any of these trainings was run, and the draw is not repeated.

Rows are kept in benchmarks/planted/, one file a training, and the script goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

TASK = "velocity-flat-anymal-c-blind"
PLANTED: tuple[str, ...] = (
    "task.rewards.feet_phase.weight=0.5",
    "task.rewards.feet_phase.params.height=0.03",
    "task.rewards.feet_phase.params.period=0.26",
    "task.rewards.feet_slide.weight=0",
    "task.rewards.stand_still.weight=0",
    "task.rewards.stand_still_rate.weight=0",
    "task.rewards.track_ang_vel_z_fine.weight=0",
    "task.rewards.track_lin_vel_xy_fine.weight=0",
    "task.rewards.termination.weight=0",
    "task.rewards.action_rate_l2.weight=-0.3",
    "task.rewards.dof_torques_l2.weight=-0.002",
    "task.rewards.flat_orientation_l2.weight=-100",
    "task.commands.base_velocity.rel_standing_envs=0",
    "task.commands.base_velocity.rel_ends=0",
    "task.commands.base_velocity.rel_zero_axis=0",
    "task.commands.base_velocity.margin=0",
    "task.commands.base_velocity.acceleration=[20,20,20]",
    "task.events.push_robot=null",
    "task.events.physics_material.params.friction_range=[1.0,1.2]",
    "task.events.ground_impedance=null",
    "task.events.add_base_mass=null",
    "task.events.action_delay=null",
    "agent.symmetry=none",
    "agent.model.estimator=null",
    "total_steps=500000",
)
"""What is planted: weights, ranges, draws and settings of the learner."""
DRAWN, CLEAN, DRAW, SEED, STEPS = 10, 3, 1, 31, 3_400_000
ROWS = Path(__file__).parent / "planted"


def chosen() -> list[str]:
    """The settings that were drawn, and an empty one for each clean training."""
    return [*random.Random(DRAW).sample(PLANTED, DRAWN), *[""] * CLEAN]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/planted"))
    parser.add_argument("--only", type=int, nargs="*", help="numbers of trainings, from 0")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    for number, setting in enumerate(() if options.table else chosen()):
        path = ROWS / f"{number:02d}.json"
        if path.exists() or (options.only is not None and number not in options.only):
            continue
        row = measured(options.out / f"{number:02d}", setting, SEED + max(0, number - DRAWN + 1) * (not setting))
        ROWS.mkdir(exist_ok=True)
        path.write_text(json.dumps(row, indent=1) + "\n")
        print(said(row), flush=True)
    print(table())


def measured(run: Path, setting: str, seed: int) -> dict[str, Any]:
    """One training and its verdict."""
    words = [TASK, "--preset", "cpu", "--out", run, f"seed={seed}"]
    words += [f"total_steps={STEPS}", *setting.split()] if setting else ["--until", "good"]
    if (run / "run.json").exists():
        words += ["--resume"]
    done = gaitway("train", *words)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{setting}: {done.stderr[-500:]}")
    verdict = run / "verdict.json"
    done = gaitway("validate", run, "--no-video", "--json", verdict)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{setting}: {done.stderr[-500:]}")
    found = json.loads(verdict.read_text())
    why = found.get("why") or {}
    cause = why.get("cause", "")
    key = setting.partition("=")[0]
    return {
        "planted": setting, "verdict": found["verdict"], "level": found["level"], "suite": found["suite_version"],
        "cause": cause, "named": bool(key) and cause.startswith(key), "seen": why.get("seen", []),
        "common": why.get("common", ""),
        "failed": [s["name"] for s in found["scenarios"] if s["required"] and not s["passed"]],
    }  # fmt: skip


def gaitway(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gaitway.cli", *map(str, words)], capture_output=True, text=True)


def said(row: dict[str, Any]) -> str:
    end = "passes" if row["verdict"] == "PASS" else "named" if row["named"] else "not named"
    return f"{row['planted'] or 'the recipe'}: {end}; {len(row['failed'])} scenarios failed. {row['cause']}"


def table() -> str:
    """Rows so far as Markdown, with the counts."""
    rows = [json.loads(path.read_text()) for path in sorted(ROWS.glob("*.json"))]
    planted = [row for row in rows if row["planted"]]
    failed = [row for row in planted if row["verdict"] == "FAIL"]
    clean = [row for row in rows if not row["planted"]]
    lines = ["| planted | verdict | scenarios failed | likely cause begins with |", "|---|---|---:|---|"]
    for row in rows:
        level = f", {row['level']}" if row["level"] and row["verdict"] == "FAIL" else ""
        cells = (row["planted"] or "nothing", row["verdict"] + level, len(row["failed"]), row["cause"][:70] or "-")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    wrong = sum(bool(row["cause"]) and row["verdict"] == "PASS" for row in clean)
    lines.append(
        f"\n{len(planted)} of {DRAWN} planted trainings were run, {len(failed)} of them failed. The sentence names the "
        f"planted setting of {sum(row['named'] for row in failed)}. {len(clean)} of {CLEAN} clean ones: "
        f"{sum(row['verdict'] == 'PASS' for row in clean)} PASS, {wrong} with a cause."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
