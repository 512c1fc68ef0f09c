"""Time to a good walker: train from nothing with each seed in turn, then examine each policy.

    python benchmarks/walker.py [--task velocity-flat-anymal-c] [--preset sprint] [--seeds 0 1 2] [--steps N]
    python benchmarks/walker.py --run RUN

Each training is the ``gaitway train`` command in a process of its own; "wall" and "CPU" are of the whole process,
imports included, and "training" is what its run.json says. The examination is that of ``evaluate.py``, with evaluation
seed 10 000 + training seed, and is not part of the time. ``--run`` examines a run folder and trains nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from evaluate import FIRST_SEED, SECONDS, Score, scores

TARGETS = {  # linear [m/s], yaw [rad/s], falls, wall [s]
    "velocity-flat-anymal-c": (0.10, 0.10, 0.01, 100.0),
    "velocity-flat-anymal-c-blind": (0.15, 0.10, 0.01, 240.0),
}
STEPS = {"velocity-flat-anymal-c-blind": 5_500_000}  # what fits the time; the preset trains longer, for its verdict
PRESETS = {"velocity-flat-anymal-c": "sprint", "velocity-flat-anymal-c-blind": "cpu"}


def main() -> None:
    from gaitway.runs.provenance import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TARGETS, help="default: both in turn")
    parser.add_argument("--preset", help="default: sprint where the base velocity is known, else cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="environment steps of each training")
    parser.add_argument("--commands", type=int, default=512)
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    parser.add_argument("--run", type=Path, help="examine this run folder instead of training")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{machine()['processor']}, {machine()['cores']} cores, load {os.getloadavg()[0]:.1f}")
    if options.run:
        examine(options.run, options.commands)
        return
    for task in [options.task] if options.task else TARGETS:
        preset = options.preset or PRESETS[task]
        linear, yaw, falls, wall = TARGETS[task]
        print(
            f"{task}, preset {preset}; {options.commands} commands x {SECONDS:.0f} s\n"
            f"target: linear {linear} m/s, yaw {yaw} rad/s, falls {100 * falls:.0f} %, {wall:.0f} s",
            flush=True,
        )
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.out or Path(temporary)
            passed = [
                one_seed(
                    task,
                    preset,
                    seed,
                    folder / f"{task}-seed{seed}",
                    options.steps or STEPS.get(task),
                    options.commands,
                )
                for seed in options.seeds
            ]
        print(f"{sum(passed)} of {len(passed)} seeds reach the target")


def one_seed(task: str, preset: str, seed: int, folder: Path, steps: int | None, commands: int) -> bool:
    """Train and examine; whether the target was reached."""
    command = [sys.executable, "-P", "-m", "gaitway", "train", task, "--preset", preset]
    command += ["--seed", str(seed), "--out", str(folder), "--quiet"]
    command += [f"total_steps={steps}"] if steps else []
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record = json.loads((folder / "run.json").read_text())
    print(
        f"seed {seed}: {record['steps']:,} steps, wall {wall:.0f} s (training {record['wall_time_s']:.0f} s), "
        f"CPU {cpu:.0f} s, {record['steps'] / record['wall_time_s'] / 1000:.1f} k steps/s"
    )
    judged = next(iter(examine(folder, commands).values()))  # at the physics step it was trained with
    linear, yaw, falls, limit = TARGETS[task]
    return judged.within(linear, yaw, falls) and wall <= limit


def examine(folder: Path, commands: int) -> dict[str, Score]:
    from gaitway.runs.folder import RunFolder
    from gaitway.training.load import load_actor

    config, actor, _ = load_actor(RunFolder.open(folder))
    results = scores(config.task, actor, config.simulator, FIRST_SEED + config.seed, commands)
    for label, score in results.items():
        print(f"  {label:34}{score}", flush=True)
    return results


if __name__ == "__main__":
    main()
