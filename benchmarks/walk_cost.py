"""Cost of training a walking robot, in units that hold on any machine.

    python benchmarks/walk_cost.py [--task velocity-flat-anymal-c-blind] [--preset cpu] [--iterations 12] [--scaling]
        [key=value ...]

One B is the CPU time of a million bare control steps of ANYmal C: two physics steps of 10 ms, N = 256, one thread, on a
plane, with ``mujoco.batch`` and nothing of ours. Iterations of the trainer that ``gaitway train`` builds alternate with
bare steps, so both see the same load; costs are medians of the process's CPU time (all threads), since wall times are
worth little on a busy machine.

Of several processes (``processes``, with the preset 2 on two cores), the table is about one, with its share of the
robots. What they cost together is the difference of a long and a short training.

``--scaling`` also measures the wall time of an iteration on one core and on two, and how much of bare physics an
environment step keeps on each. ``ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2`` in the environment show what a
machine without AVX-512 would do.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gaitway.runs.folder import RunFolder

WARM_UP = 3  # iterations
SHORT_LONG = (40_960, 409_600)  # steps of two trainings
BARE_STEPS = 24  # bare control steps after each iteration
FALL = 0.25  # [m] a bare robot whose base is lower starts again

Clocks = np.ndarray
"""Wall and CPU time [s], (2,)."""


def clocks() -> Clocks:
    return np.array([time.perf_counter(), time.process_time()])


class Bare:
    """ANYmal C under random joint targets, as batches of ``mujoco.batch`` step it."""

    def __init__(self, num_envs: int = 256, num_threads: int = 1):
        from gaitway_mujoco.model import build_model
        from gaitway_mujoco.options import PhysicsOptions
        from gaitway_tasks.registry import find_task
        from mujoco.batch import Batch

        task = find_task("velocity-flat-anymal-c", "cpu")
        assert task is not None and task.timing.physics_dt == 0.01 and task.timing.decimation == 2
        task = task.replace(events={})  # an action delay would add to the cost
        self.batch = Batch(build_model(task, PhysicsOptions()), num_envs, num_threads)
        self.pose = np.array(task.robot.default_joint_pos)
        self.ctrl, self.qpos = self.batch.bind("ctrl"), self.batch.bind("qpos")
        self.random, self.num_envs = np.random.default_rng(0), num_envs
        self.qpos[:, 2], self.qpos[:, 7:] = task.robot.init_height, self.pose
        self.start = self.qpos.copy()
        for _ in range(20):  # down to the ground
            self.step()

    def step(self) -> Clocks:
        """One control step; the time of its physics."""
        self.ctrl[:] = self.pose + 0.3 * self.random.standard_normal(self.ctrl.shape)
        start = clocks()
        self.batch.step(nstep=2)
        took = clocks() - start
        fallen = np.flatnonzero(self.qpos[:, 2] < FALL)
        if len(fallen):
            self.batch.reset(fallen)
            self.qpos[fallen] = self.start[fallen]
        return took

    def steps(self, count: int) -> Clocks:
        """Time of a million control steps, from ``count`` steps of all robots."""
        return sum((self.step() for _ in range(count)), np.zeros(2)) * 1e6 / (count * self.num_envs)


class Meter:
    """The time spent in a function."""

    def __init__(self, owner: Any, name: str):
        self.spent, self.function = np.zeros(2), getattr(owner, name)
        setattr(owner, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = clocks()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.spent += clocks() - start

    def pop(self) -> Clocks:
        spent, self.spent = self.spent, np.zeros(2)
        return spent


def main() -> None:
    from gaitway.runs.provenance import machine
    from gaitway.train_config import resolve

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="velocity-flat-anymal-c-blind")
    parser.add_argument("--preset", default="cpu")
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--scaling", action="store_true", help="measure wall times on one core and on two as well")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the training")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = resolve(options.task, preset=options.preset, overrides=options.settings)
    print(
        f"{options.task}, preset {options.preset} {' '.join(options.settings)}: {machine()['processor']}, "
        f"{machine()['cores']} cores, {torch.backends.cpu.get_cpu_capability()}, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    costs(config, options.iterations)
    if options.scaling:
        scaling(config, options.iterations)


def costs(config: Any, iterations: int) -> None:
    bare = Bare()
    parts = measure(config, iterations, after=lambda: bare.steps(BARE_STEPS))
    unit = parts.pop("after")[1]
    print(f"B = {unit:.1f} CPU-s; a million steps of the training:")
    print(f"{'part':14}{'CPU [s]':>10}{'wall [s]':>10}{'CPU [B]':>10}")
    for name, (wall, cpu) in parts.items():
        print(f"{name:14}{cpu:10.1f}{wall:10.1f}{cpu / unit:10.2f}")
    share = parts["physics"] / parts["environment"]
    print(f"environment step keeps {share[0]:.0%} of the physics' wall time, {share[1]:.0%} of its CPU time")
    total = parts["all"][1] / unit
    print(f"{config.total_steps / 1e6:g} M steps: {total * config.total_steps / 1e6:.1f} B", flush=True)
    if config.processes > 1:
        together(config, bare)


def together(config: Any, bare: Bare) -> None:
    """Cost of a million steps where several processes train, by the difference of a long and a short training."""
    units, spent = [], []
    for steps in (*SHORT_LONG, *SHORT_LONG):
        units.append(bare.steps(200)[1])
        with tempfile.TemporaryDirectory() as out:
            run = RunFolder.create(Path(out) / "run", replace(config, total_steps=steps, evaluation_episodes=0))
            train = [sys.executable, "-m", "gaitway", "train", config.task.name, "--resume", "--out", str(run.path)]
            before = os.times()
            subprocess.run([*train, "--preset", config.preset], check=True, stdout=subprocess.DEVNULL)
            after = os.times()
        spent.append(np.array([after.elapsed - before.elapsed, sum(after[2:4]) - sum(before[2:4])]))
    unit, (short, long) = float(np.mean(units)), SHORT_LONG
    for begin in (0, 2):
        wall, cpu = (spent[begin + 1] - spent[begin]) * 1e6 / (long - short) / unit
        print(f"{config.processes} processes: {wall:.2f} B of wall time, {cpu:.2f} B of CPU time", flush=True)


def measure(config: Any, iterations: int, after: Callable[[], Clocks] | None = None) -> dict[str, Clocks]:
    """Median times of a million steps, by part; ``after`` is called after each iteration and is such a time too."""
    trainer = config.domain.trainer(config)
    physics = Meter(trainer.env.world, "step_physics")
    environment, rollout = Meter(trainer.env, "step"), Meter(trainer.source, "collect")
    rows: list[dict[str, Clocks]] = []
    for i in range(WARM_UP + iterations):
        for meter in (physics, environment, rollout):
            meter.pop()
        begin, steps = clocks(), trainer.steps
        trainer.iterate()
        whole = clocks() - begin
        scale = 1e6 / (trainer.steps - steps)
        inside, stepping, gathering = (meter.pop() for meter in (physics, environment, rollout))
        row = {
            "physics": inside * scale,
            "environment": stepping * scale,
            "policy": (gathering - stepping) * scale,
            "learning": (whole - gathering) * scale,
            "all": whole * scale,
        }
        if after is not None:
            row["after"] = after()
        if i >= WARM_UP:
            rows.append(row)
    trainer.env.close()
    return {name: np.array([statistics.median(r[name][i] for r in rows) for i in range(2)]) for name in rows[0]}


def scaling(config: Any, iterations: int) -> None:
    """Wall times on one core and on as many as there are."""
    everywhere = os.sched_getaffinity(0)
    print(
        f"{'cores':>5}{'environment':>14}{'kept':>8}{'policy':>10}{'learning':>10}{'all':>10}   wall [s] of a million"
    )
    for count in sorted({1, min(2, len(everywhere))}):
        os.sched_setaffinity(0, set(sorted(everywhere)[:count]))
        optimizer = replace(config.agent.optimizer, workers=count)
        agent = replace(config.agent, optimizer=optimizer)
        parts = measure(replace(config, num_threads=count, agent=agent), iterations)
        wall = {name: times[0] for name, times in parts.items()}
        print(
            f"{count:5d}{wall['environment']:14.1f}{wall['physics'] / wall['environment']:8.0%}{wall['policy']:10.1f}"
            f"{wall['learning']:10.1f}{wall['all']:10.1f}   {parts['all'][1] / wall['all']:.2f} cores busy",
            flush=True,
        )
    os.sched_setaffinity(0, everywhere)


if __name__ == "__main__":
    main()
