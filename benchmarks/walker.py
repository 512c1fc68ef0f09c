"""Time to a good walker: train from nothing with each seed in turn, then examine each policy.

    python benchmarks/walker.py [--task velocity-flat-anymal-c] [--preset cpu] [--seeds 0 1 2] [--steps N]

Each training is the ``gaitway train`` command in a process of its own; "wall" and "CPU" are of the whole process,
imports included, and "training" is what its run.json says. The examination is that of ``evaluate.py``, with evaluation
seed 10 000 + training seed, and is not part of the time.
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
from evaluate import FIRST_SEED, SECONDS, scores

TARGETS = {  # linear [m/s], yaw [rad/s], falls, wall [s]
    "velocity-flat-anymal-c": (0.10, 0.10, 0.01, 100.0),
    "velocity-flat-anymal-c-blind": (0.15, 0.15, 0.01, 240.0),
}


def main() -> None:
    from gaitway.provenance import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TARGETS, default="velocity-flat-anymal-c")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="environment steps of each training; default: the preset's")
    parser.add_argument("--commands", type=int, default=512)
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    options = parser.parse_args()
    linear, yaw, falls, wall = TARGETS[options.task]
    print(
        f"{options.task}, preset {options.preset}, {machine()['processor']}, {machine()['cores']} cores, load "
        f"{os.getloadavg()[0]:.1f}\ntarget: linear {linear} m/s, yaw {yaw} rad/s, falls {100 * falls:.0f} %, "
        f"{wall:.0f} s; {options.commands} commands x {SECONDS:.0f} s",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as temporary:
        passed = [one_seed(options, seed, (options.out or Path(temporary)) / f"seed{seed}") for seed in options.seeds]
    print(f"{sum(passed)} of {len(passed)} seeds reach the target")


def one_seed(options: argparse.Namespace, seed: int, folder: Path) -> bool:
    from gaitway.runs import RunFolder
    from gaitway.train import load_actor

    command = [sys.executable, "-m", "gaitway", "train", options.task, "--preset", options.preset]
    command += ["--seed", str(seed), "--out", str(folder), "--quiet"]
    command += [f"total_steps={options.steps}"] if options.steps else []
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    record = json.loads((folder / "run.json").read_text())
    torch.set_num_threads(1)
    config, actor, _ = load_actor(RunFolder.open(folder))
    results = scores(config.task, actor, config.physics, FIRST_SEED + seed, options.commands)
    print(
        f"seed {seed}: {record['steps']:,} steps, wall {wall:.0f} s (training {record['wall_time_s']:.0f} s), "
        f"CPU {cpu:.0f} s, {record['steps'] / record['wall_time_s'] / 1000:.1f} k steps/s"
    )
    for label, score in results.items():
        print(f"  {label:34}{score}", flush=True)
    linear, yaw, falls, limit = TARGETS[options.task]
    judged = next(iter(results.values()))  # at the physics step it was trained with
    return judged.within(linear, yaw, falls) and wall <= limit


if __name__ == "__main__":
    main()
