"""Is a gait by the clock more natural with adversarial motion priors, and at which cost? Arms, seeds, a table.

    python benchmarks/natural.py --clips DIR [--out runs/natural] [--only NAME ...] [--no-verdict] [--table]

DIR has the clips of motion_imitation (Apache-2.0, in its PyPI package), which are retargeted into OUT/clips. Each
training is velocity-flat-go2-blind, preset cpu, for :data:`STEPS` steps: with the clock's rewards of feet, with a style
reward beside them, or with a style reward in their place. Each policy is measured by docs/amp.md's seven numbers of a
natural gait, which were named before any of these trainings, and validated.

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
COMMANDS = {"0.5": (0.5, 0.0, 0.0), "0.84": (0.84, 0.0, 0.0), "-0.84": (-0.84, 0.0, 0.0)}
"""Commands of the measurement: vx, vy [m/s], yaw rate [rad/s]."""
LEARNT = {"dog_trot": (1.0, 1.4, 1.8), "dog_backwards_trot": (1.0, 1.4, 1.8)}
"""Clips of the reference, and how many times slower."""
HELD_OUT, SLOWER = {"0.84": "dog_pace", "-0.84": "dog_backwards_pace"}, 1.0
"""Clips that no training sees, by the command that they are compared at: their speed."""
GENERATED = ("sideways", "turn")
"""Motions of the generator, for what the dog's clips do not do."""
ROBOTS, SECONDS = 32, 8.0
NO_CLOCK = ["task.rewards.feet_phase=null", "task.rewards.feet_gait=null"]
ROWS = Path(__file__).parent / "walked"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, help="folder of motion_imitation's .txt files")
    parser.add_argument("--out", type=Path, default=Path("runs/natural"))
    parser.add_argument("--only", nargs="*", help="names such as amp-1")
    parser.add_argument("--no-verdict", action="store_true", help="train and measure, but do not validate")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    ROWS.mkdir(exist_ok=True)
    if not options.table:
        if options.clips is None:
            parser.error("--clips is needed to train")
        clips = retargeted(options.clips, options.out / "clips")
        style = prior([*[str(path) for name, path in clips.items() if name not in HELD_OUT.values()], *GENERATED])
        arms = {"clock": [], "clock+amp": style, "amp": [*style, *NO_CLOCK]}
        for name, arm, seed in [(f"{arm}-{seed}", arm, seed) for seed in SEEDS for arm in arms]:
            if options.only and name not in options.only:
                continue
            path, run = ROWS / f"{name}.json", options.out / name
            row = json.loads(path.read_text()) if path.exists() else {"arm": arm, "seed": seed, "steps": STEPS}
            if "natural" not in row:
                row |= trained(run, seed, arms[arm], clips)
            path.write_text(json.dumps(row, indent=1) + "\n")
            if "verdict" not in row and not options.no_verdict:
                path.write_text(json.dumps(row | judged(run), indent=1) + "\n")
            print(f"{name}: done", flush=True)
    print(table())


def prior(motions: list[str]) -> list[str]:
    return [f"agent.additions.amp={{kind: AMPConfig, motions: {json.dumps(motions)}}}"]


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


def trained(run: Path, seed: int, settings: list[str], clips: dict[str, Path]) -> dict[str, Any]:
    """One training, and how natural it walks."""
    again = ["--resume"] if (run / "run.json").exists() else []
    gaitway("train", TASK, "--preset", "cpu", "--seed", seed, "--out", run, f"total_steps={STEPS}", "processes=1",
            "evaluation_episodes=0", "num_threads=1", "agent.optimizer.workers=1", *settings, *again)  # fmt: skip
    if not (run / "bundle").exists():
        gaitway("export", run, "--out", run / "bundle")
    cpu = json.loads((run / "run.json").read_text())["cpu_time_s"]
    return {"cpu_s": cpu, "natural": measures(run / "bundle", clips)}


def judged(run: Path) -> dict[str, Any]:
    gaitway("validate", run / "bundle", "--no-video", "--json", run / "verdict.json")
    verdict = json.loads((run / "verdict.json").read_text())
    required = [s for s in verdict["scenarios"] if s["required"]]
    return {
        "verdict": verdict["verdict"],
        "passed": sum(s["passed"] for s in required),
        "of": len(required),
        "failed": [s["name"] for s in required if not s["passed"]],
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
            yaw=rng.uniform(-np.pi, np.pi, ROBOTS), velocity=np.zeros((ROBOTS, 2)),
            joint_offset=rng.uniform(-0.05, 0.05, (ROBOTS, contract.num_joints)),
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
        told = f"{row['verdict']} | {row['passed']} of {row['of']}" if "verdict" in row else "– | –"
        lines.append(f"| {row['arm']} | {row['seed']} | {told} | {row['cpu_s'] / 60:.1f} |")
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
