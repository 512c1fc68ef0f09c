"""Speed of one training in two processes that exchange gradients, against one process on the same machine.

All train ANYmal C's blind task with the preset cpu and the same number of environments in total. They take turns, and
the best of several turns counts, for this is meant to be about code and not about what else the machine does:

    one core     one process, held to one core, with one thread
    two threads  one process with two threads for physics and two for learning
    two nodes    gaitway train --cpus 1 --nodes 2, twice: gloo, as between machines
    torchrun     gaitway train --cpus 2: torchrun, shared memory
    companion    processes=2: shared memory

    python benchmarks/several_processes.py [--rounds 3] [--iterations 12] [--envs 512]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from gaitway.runs.rows import read_rows

TASK = "velocity-flat-anymal-c-blind"
CONTESTANTS: dict[str, list[str]] = {
    "one core": ["processes=1", "num_threads=1", "agent.optimizer.workers=1"],
    "two threads": ["processes=1", "num_threads=2", "agent.optimizer.workers=2"],
    "two nodes": ["--cpus", "1", "--nodes", "2", "num_threads=1", "agent.optimizer.workers=1"],
    "torchrun": ["--cpus", "2", "num_threads=1", "agent.optimizer.workers=1"],
    "companion": ["processes=2", "num_threads=2", "agent.optimizer.workers=1"],
}
PORT = 29517
WARM = 2
"""First iterations, which are not counted: they import and allocate."""


def speed(name: str, envs: int, iterations: int) -> float:
    """Steps per second of one turn, from the times of its iterations."""
    settings = CONTESTANTS[name]
    each = envs // 2 if "--cpus" in settings else envs
    cores = sorted(os.sched_getaffinity(0))[:2]
    held = cores[:1] if name == "one core" else cores
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        total = envs * 24 * iterations
        command = [sys.executable, "-m", "gaitway", "train", TASK, "--preset", "cpu", "--quiet", "--out", str(out)]
        size = [f"num_envs={each}", "agent.num_steps=24", f"total_steps={total}", "evaluation_episodes=0"]
        line = ["taskset", "-c", ",".join(map(str, held)), *command, *size, *settings]
        nodes = [["--node-rank", str(rank), "--endpoint", f"127.0.0.1:{PORT}"] for rank in range(2)]
        turn = [[*line, *node] for node in nodes] if "--nodes" in settings else [line]
        processes = [
            subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for each in turn
        ]
        for process in processes:
            _, said = process.communicate()
            if process.returncode:
                raise SystemExit(f"{name}: {said}")
        rows = read_rows(out / "metrics.jsonl")
    first, last = rows[WARM - 1], rows[-1]
    return float((last["steps"] - first["steps"]) / (last["wall_s"] - first["wall_s"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--envs", type=int, default=512)
    args = parser.parse_args()
    best = dict.fromkeys(CONTESTANTS, 0.0)
    for turn in range(args.rounds):
        for name in CONTESTANTS:
            found = speed(name, args.envs, args.iterations)
            best[name] = max(best[name], found)
            print(f"round {turn}: {name:12s} {found:9,.0f} steps/s", flush=True)
    print(f"{'':12s} {'steps/s':>9s}  times one core")
    for name, found in best.items():
        print(f"{name:12s} {found:9,.0f}  {found / best['one core']:.2f}")


if __name__ == "__main__":
    main()
