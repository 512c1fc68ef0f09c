"""Speed of training with everything included, and how much of bare physics speed an environment step keeps.

    python benchmarks/walker_throughput.py [--task velocity-flat-anymal-c-blind] [--preset cpu] [--seconds 20]

Training: iterations of the trainer that ``gaitway train`` builds, after a few to warm up, in steps per second of wall
time. Physics: at N = 256 every ``env.step`` is followed by the same physics steps, from the same state and controls,
on a bare ``mujoco.batch.Batch`` of the same model; the share is the bare time over the environment's. Both use all
cores; process time is given too, since it holds on a busy machine. Randomised fields are the same in both.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
import torch

WARM_UP = 3  # iterations


def main() -> None:
    from gaitway.runs.provenance import machine
    from gaitway.train_config import resolve

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="velocity-flat-anymal-c-blind")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to measure each of the two")
    parser.add_argument("--envs", type=int, default=256, help="environments of the physics comparison")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = resolve(options.task, preset=options.preset)
    print(
        f"{options.task}, preset {options.preset}, {machine()['processor']}, {machine()['cores']} cores, load "
        f"{os.getloadavg()[0]:.1f}",
        flush=True,
    )
    train(config, options.seconds)
    share(config, options.envs, options.seconds)


def train(config: Any, seconds: float) -> None:

    trainer = config.domain.trainer(config)
    for _ in range(WARM_UP):
        trainer.iterate()
    times: dict[str, float] = {}
    start, cpu, steps = time.perf_counter(), time.process_time(), trainer.steps
    while time.perf_counter() - start < seconds:
        metrics = trainer.iterate()
        for name in ("environment", "policy", "learning", "total"):
            times[name] = times.get(name, 0.0) + metrics[f"time/{name}"]
    wall, cpu, steps = time.perf_counter() - start, time.process_time() - cpu, trainer.steps - steps
    print(
        f"training: {steps / wall / 1000:.1f} k env-steps/s wall, {steps / cpu / 1000:.1f} k per CPU-second, "
        f"{cpu / wall:.2f} cores busy"
    )
    total = times.pop("total")
    print("  split: " + ", ".join(f"{name} {100 * value / total:.0f} %" for name, value in times.items()), flush=True)


def share(config: Any, num_envs: int, seconds: float) -> None:
    from dataclasses import asdict

    from gaitway_mujoco import make_env
    from mujoco.batch import Batch

    env = make_env(config.task, num_envs, seed=0, num_threads=config.num_threads, **asdict(config.simulator))
    env.reset()
    source, decimation = env.world.batch, config.task.timing.decimation
    bare = Batch(env.world.model, num_envs, config.num_threads)
    same = [(bare.bind(name), source.bind(name)) for name in env.world.state_dict()["physics"]]
    same += [(bare.expand(name), source.expand(name)) for name in env.world.randomised]
    for mine, theirs in same:
        mine[:] = theirs
    bare.set_const()
    generator = torch.Generator().manual_seed(0)
    whole, physics = np.zeros(2), np.zeros(2)  # wall and process time
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        actions = 0.5 * torch.randn(env.action_space.shape, generator=generator)
        for mine, theirs in same:
            mine[:] = theirs
        t0 = clocks()
        _, _, terminated, truncated, _ = env.step(actions)
        t1 = clocks()
        bare.bind("ctrl")[:] = source.bind("ctrl")
        t2 = clocks()
        bare.step(nstep=decimation)
        t3 = clocks()
        alive = ~(terminated | truncated).numpy()
        if not np.array_equal(bare.bind("qpos")[alive], source.bind("qpos")[alive]):
            raise SystemExit("the two did different physics: their times cannot be compared")
        if steps >= 20:  # by then robots have come to the ground
            whole += t1 - t0
            physics += t3 - t2
        steps += 1
    wall, cpu = 100 * physics / whole
    ours, theirs = (steps - 20) * num_envs / 1000 / np.array([whole[0], physics[0]])
    print(
        f"environment step, N = {num_envs}: {ours:.1f} k/s wall of {theirs:.1f} k/s bare, {wall:.0f} % kept "
        f"({cpu:.0f} % by process time)"
    )


def clocks() -> np.ndarray:
    return np.array([time.perf_counter(), time.process_time()])


if __name__ == "__main__":
    main()
