"""Is a gait more natural with adversarial motion priors than by the clock, and at which cost? Robots, seeds, a table.

    python benchmarks/natural.py --clips DIR [--out runs/natural] [--only NAME ...] [--table]

DIR has the clips of motion_imitation (Apache-2.0, in its PyPI package), which are retargeted into OUT/clips. Each
training is velocity-flat-go2-blind, preset cpu, for :data:`STEPS` steps, with the clock's rewards of feet or with a
style reward in their place. Each policy is validated, and then measured by docs/amp.md's seven numbers of a natural
gait, which were named before any of these trainings.

Rows are kept in benchmarks/walked/, one file a training, and the script goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_velocity.natural import MEASURES, natural

TASK, SEEDS, STEPS = "velocity-flat-go2-blind", (1, 2), 1_500_000
COMMANDS = {"0.5": (0.5, 0.0, 0.0), "1.0": (1.0, 0.0, 0.0), "-1.0": (-1.0, 0.0, 0.0)}
"""Commands of the measurement: vx, vy [m/s], yaw rate [rad/s]."""
LEARNT = {
    "dog_pace": (1.5, 1.2), "dog_backwards_pace": (1.5, 1.2), "dog_spin": (1.5,), "turn": (1.5,), "sidesteps": (1.5,),
    "inplace_steps": (1.5,),
}  # fmt: skip
"""Clips of the reference, and how many times slower."""
HELD_OUT, SLOWER = {"1.0": "dog_trot", "-1.0": "dog_backwards_trot"}, 1.4
"""Clips that no training sees, by the command that they are compared at."""
GENERATED = ("trot", "pace", "backwards", "sideways", "turn", "march")
ROBOTS, SECONDS = 32, 8.0
NO_CLOCK = ["task.rewards.feet_phase=null", "task.rewards.feet_gait=null"]
ROWS = Path(__file__).parent / "walked"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, help="folder of motion_imitation's .txt files")
    parser.add_argument("--out", type=Path, default=Path("runs/natural"))
    parser.add_argument("--only", nargs="*", help="names such as amp-1")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    ROWS.mkdir(exist_ok=True)
    if not options.table:
        if options.clips is None:
            parser.error("--clips is needed to train")
        clips = retargeted(options.clips, options.out / "clips")
        arms = {
            "clock": [],
            "amp": [prior([str(path) for name, path in clips.items() if name not in HELD_OUT.values()]), *NO_CLOCK],
            "amp-generated": [prior(GENERATED), *NO_CLOCK],
        }
        for name, arm, seed in [(f"{arm}-{seed}", arm, seed) for arm in arms for seed in SEEDS]:
            path = ROWS / f"{name}.json"
            if path.exists() or (options.only and name not in options.only):
                continue
            row = {"arm": arm, "seed": seed, "steps": STEPS, **measured(options.out / name, seed, arms[arm], clips)}
            path.write_text(json.dumps(row, indent=1) + "\n")
            print(f"{name}: done", flush=True)
    print(table())


def prior(motions: Any) -> str:
    return f"agent.additions.amp={{kind: AMPConfig, motions: {json.dumps(list(motions))}}}"


def retargeted(source: Path, out: Path) -> dict[str, Path]:
    """Clips of a Go2 by name, written once."""
    wanted = [(name, times) for name, all_times in LEARNT.items() for times in all_times]
    wanted += [(name, SLOWER) for name in HELD_OUT.values()]
    found = {}
    for name, times in wanted:
        key = name if name in HELD_OUT.values() else f"{name}-{times:g}"
        found[key] = out / f"{key}.npz"
        if not found[key].exists():
            gaitway("motion", "retarget", source / f"{name}.txt", "--robot", "go2", "--slower", times,
                    "--out", found[key])  # fmt: skip
    return found


def measured(run: Path, seed: int, settings: list[str], clips: dict[str, Path]) -> dict[str, Any]:
    """One training, its verdict, and how natural it walks."""
    again = ["--resume"] if (run / "run.json").exists() else []
    gaitway("train", TASK, "--preset", "cpu", "--seed", seed, "--out", run, f"total_steps={STEPS}", "processes=1",
            "evaluation_episodes=0", "num_threads=1", "agent.optimizer.workers=1", *settings, *again)  # fmt: skip
    gaitway("validate", run, "--no-video", "--json", run / "verdict.json")
    verdict = json.loads((run / "verdict.json").read_text())
    required = [s for s in verdict["scenarios"] if s["required"]]
    return {
        "cpu_s": json.loads((run / "run.json").read_text())["cpu_time_s"],
        "verdict": verdict["verdict"],
        "passed": sum(s["passed"] for s in required),
        "of": len(required),
        "failed": [s["name"] for s in required if not s["passed"]],
        "natural": measures(run / "bundle", clips),
    }


def measures(bundle: Path, clips: dict[str, Path]) -> dict[str, dict[str, float]]:
    """The seven numbers at each command."""
    from gaitway_onboard.bundle.contract import Contract
    from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
    from gaitway_sim2real.mujoco.plant import build_plant
    from gaitway_sim2real.trial.conditions import Conditions
    from gaitway_sim2real.trial.simulate import simulate
    from gaitway_tasks.robots import ROBOTS as KNOWN

    contract = Contract.load(bundle)
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml", gait=True)
    steps, found = round(SECONDS / contract.control_dt), {}
    for name, command in COMMANDS.items():
        rng = np.random.default_rng(0)
        conditions = Conditions(
            command=np.tile(np.array(command), (steps, ROBOTS, 1)), push=np.zeros((steps, ROBOTS, 2)),
            friction=np.full(ROBOTS, 0.8), payload=np.zeros(ROBOTS), strength=np.ones(ROBOTS), delay=np.zeros(ROBOTS),
            yaw=rng.uniform(-np.pi, np.pi, ROBOTS), joint_offset=rng.uniform(-0.05, 0.05, (ROBOTS, contract.num_joints)),
            velocity=np.zeros((ROBOTS, 2)),
        )  # fmt: skip
        rec = simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, ROBOTS), conditions)
        clip = held_out(clips[HELD_OUT[name]], contract.joint_names) if name in HELD_OUT else None
        speed = rec.lin_vel[round(2.0 / contract.control_dt) :, rec.alive.all(0), 0]
        found[name] = natural(rec, KNOWN["go2"], clip)
        found[name] |= {"fell": float((~rec.alive.all(0)).sum()), "speed": float(speed.mean())}
    return found


def held_out(path: Path, joint_names: tuple[str, ...]) -> tuple[Any, Any]:
    """Joint positions and velocities (K, J) of a clip, without the stands at its ends."""
    from gaitway_tracking.motion import load

    motion = load(path).ordered(tuple(joint_names))
    first, last = motion.loop
    velocity = np.gradient(motion.joint_pos, 1.0 / motion.fps, axis=0)
    return motion.joint_pos[first : last + 1], velocity[first : last + 1]


def gaitway(*words: object) -> None:
    done = subprocess.run([sys.executable, "-m", "gaitway.cli", *map(str, words)], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"gaitway {' '.join(map(str, words[:3]))}: {done.stderr[-500:]}")


def table() -> str:
    """Rows so far as Markdown: the verdicts, then the numbers at each command."""
    rows = [json.loads(path.read_text()) for path in sorted(ROWS.glob("*.json"))]
    lines = ["| training | seed | verdict | scenarios | CPU-minutes |", "|---|---:|---|---:|---:|"]
    for row in rows:
        lines.append(f"| {row['arm']} | {row['seed']} | {row['verdict']} | {row['passed']} of {row['of']} "
                     f"| {row['cpu_s'] / 60:.1f} |")  # fmt: skip
    for command in COMMANDS:
        names = [name.replace("_", " ") for name in MEASURES]
        lines += ["", f"At {command} m/s:", "", f"| training | seed | speed | {' | '.join(names)} |"]
        lines += ["|---|---:|---:" + "|---:" * len(names) + "|"]
        for row in rows:
            found = row["natural"][command]
            cells = ["–" if np.isnan(found[name]) else f"{found[name]:.3g}" for name in MEASURES]
            lines.append(f"| {row['arm']} | {row['seed']} | {found['speed']:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
