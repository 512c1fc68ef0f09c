"""A run's newest policy in Isaac Lab: to be watched there, and measured against its commands."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from gaitway_isaaclab import launch, preflight
from gaitway_isaaclab.options import IsaacLabOptions
from torch import Tensor

from ..runs.folder import RunFolder, fitting
from ..training.evaluator import EVALUATION_SEED
from ..training.load import newest
from ..training.progress import Counter
from ..training.tracking import off_command

if TYPE_CHECKING:
    from gaitway_agents.trainer import Trainer
    from gaitway_isaaclab.vector_env import IsaacLabVectorEnv
    from gaitway_isaaclab.viewer import Viewer


@dataclass
class Walk:
    """What robots did, each an (N,) tensor: steps, summed distances from the commands, falls."""

    steps: Tensor
    linear: Tensor
    yaw: Tensor
    falls: Tensor

    def lines(self, step_dt: float) -> list[str]:
        """One for each robot, and one for all."""
        walked = self.steps.clamp(min=1)
        rows = torch.stack((self.steps * step_dt, self.linear / walked, self.yaw / walked, self.falls.double()), 1)
        names = [f"robot {i + 1}" for i in range(len(rows))]
        everybody = torch.cat((rows[:, :3].mean(0), rows[:, 3:].sum(0)))
        return [
            f"{name}: {seconds:.1f} s, {linear:.3f} m/s and {yaw:.3f} rad/s off the commands, falls: {falls:.0f}"
            for name, (seconds, linear, yaw, falls) in zip(
                [*names, "all"], [*rows.tolist(), everybody.tolist()], strict=True
            )
        ]


def play(run: Path, viewer: Viewer, *, physics: str | None, num_envs: int, seconds: float | None) -> None:
    """Let the policy walk for ``seconds``, or until Ctrl-C, and print how well its robots followed their commands."""
    folder = RunFolder.open(run)
    config = folder.config()
    config = config.domain.as_begun(config, folder.record)
    task = config.robot_task
    options = config.isaaclab or IsaacLabOptions()
    options = replace(options, physics=physics or options.physics)
    here, engine = preflight.find(), preflight.check(options.physics)
    viewer.check(here, engine)
    state, path = newest(folder)
    launch.start_first("auto", viewer)
    seed = config.seed + EVALUATION_SEED
    with viewer.filmed():
        env = launch.make_env(task, num_envs, seed=seed, options=options, viewer=viewer)
        with contextlib.closing(env):
            trainer = config.environments.trainer_in(env, config, seed)
            with fitting(path, folder.path):
                trainer.load_policy(state["trainer"])
            what = f"{task.name}, {folder.record['steps']:,} steps, in Isaac Lab on {env.simulation['engine']}"
            print(f"{what}; robot: {env.simulation['asset']}", flush=True)
            steps: Iterable[int] = itertools.count()
            if seconds is not None:
                steps = Counter("walk", "steps").each(range(round(seconds / task.timing.step_dt)))
            walk = walk_policy(trainer, env, steps, pace=task.timing.step_dt if viewer.is_live else 0.0)
    print("\n".join(walk.lines(task.timing.step_dt)))
    if viewer.video is not None:
        print(f"video: {viewer.video}")


@torch.no_grad()
def walk_policy(trainer: Trainer, env: IsaacLabVectorEnv, steps: Iterable[int], *, pace: float = 0.0) -> Walk:
    """Act deterministically for ``steps``, or until Ctrl-C, each of at least ``pace`` seconds."""
    zeros = torch.zeros(env.num_envs, dtype=torch.float64, device=env.device)
    walk = Walk(*(zeros.clone() for _ in range(4)))
    assert env.task is not None
    observation, _ = env.reset()
    memory = trainer.initial_memory(env.num_envs)
    with contextlib.suppress(KeyboardInterrupt):
        for _ in steps:
            start = time.perf_counter()
            action, memory = trainer.predict(observation | memory)
            observation, _, terminated, truncated, _ = env.step(action)
            goes_on = ~(terminated | truncated)  # what the others show is the beginning of another episode
            for name in env.task.commands:
                off = off_command(env, name)
                walk.linear += off["linear"] * goes_on
                walk.yaw += off["yaw"] * goes_on
            walk.steps += goes_on
            walk.falls += terminated
            memory = {name: value * goes_on[:, None] for name, value in memory.items()}
            if pace:
                time.sleep(max(0.0, start + pace - time.perf_counter()))
    return walk
