"""A run's policy, or a bundle, in Isaac Lab: to be watched there, and measured against its commands."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gaitway_isaaclab import launch, preflight
from gaitway_isaaclab.options import IsaacLabOptions
from torch import Tensor

from ..runs.choice import Which
from ..runs.folder import RunFolder, fitting
from ..training.evaluator import EVALUATION_SEED
from ..training.load import act_in, load_actor, load_state
from ..training.progress import Counter
from ..training.tracking import off_command
from .isaaclab_bundle import BundleRobots, random_commands

if TYPE_CHECKING:
    from gaitway_agents.trainer import Trainer
    from gaitway_isaaclab.vector_env import IsaacLabVectorEnv
    from gaitway_isaaclab.viewer import Viewer
    from gaitway_tasks.recording import Recording

    from ..train_config import TrainConfig


@dataclass
class Walk:
    """Measures of the robots, each an (N,) tensor: steps, summed distances from the commands, falls."""

    steps: Tensor
    linear: Tensor
    yaw: Tensor
    falls: Tensor

    @classmethod
    def begun(cls, count: int, device: torch.device | str = "cpu") -> Walk:
        """Measures of ``count`` robots before the first step."""
        zeros = torch.zeros(count, dtype=torch.float64, device=device)
        return cls(*(zeros.clone() for _ in range(4)))

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


def play(
    run: Path, viewer: Viewer, *, physics: str | None, num_envs: int, seconds: float | None, which: Which = None
) -> None:
    """Let a policy walk for ``seconds``, or until Ctrl-C, and print how well its robots followed their commands."""
    folder, config, options = _as_begun(run, physics)
    task = config.robot_task
    here, engine = preflight.find(), preflight.check(options.physics)
    viewer.check(here, engine)
    state, path = load_state(folder, which)
    launch.start_first("auto", viewer)
    seed = config.seed + EVALUATION_SEED
    with viewer.filmed():
        env = launch.make_env(task, num_envs, seed=seed, options=options, viewer=viewer)
        with contextlib.closing(env):
            trainer = config.environments.trainer_in(env, config, seed)
            with fitting(path, folder.path):
                trainer.load_policy(state["trainer"])
            what = f"{task.name}, {state['steps']:,} steps, in Isaac Lab on {env.simulation['engine']}"
            print(f"{what}; robot: {env.simulation['asset']}", flush=True)
            steps: Iterable[int] = itertools.count()
            if seconds is not None:
                steps = Counter("walk", "steps").each(range(round(seconds / task.timing.step_dt)))
            walk = walk_policy(trainer, env, steps, pace=task.timing.step_dt if viewer.is_live else 0.0)
    print("\n".join(walk.lines(task.timing.step_dt)))
    if viewer.video is not None:
        print(f"video: {viewer.video}")


def _as_begun(run: Path, physics: str | None) -> tuple[RunFolder, TrainConfig, IsaacLabOptions]:
    """A run, its configuration, and its choices in Isaac Lab, with ``physics`` if that is given."""
    folder = RunFolder.open(run)
    config = folder.config()
    config = config.domain.as_begun(config, folder.record)
    options = config.simulator if isinstance(config.simulator, IsaacLabOptions) else IsaacLabOptions()
    return folder, config, replace(options, physics=physics or options.physics)


@torch.no_grad()
def walk_policy(trainer: Trainer, env: IsaacLabVectorEnv, steps: Iterable[int], *, pace: float = 0.0) -> Walk:
    """Act deterministically for ``steps``, or until Ctrl-C, each of at least ``pace`` seconds."""
    walk = Walk.begun(env.num_envs, env.device)
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


def play_bundle(
    bundle: Path, viewer: Viewer, *, physics: str | None, num_envs: int, seconds: float | None, seed: int = 0
) -> None:
    """Let the bundle's policy walk for ``seconds``, or until Ctrl-C, and print how well its robots obeyed.

    Robots that fall start again.
    """
    viewer.check(preflight.find(), preflight.check(physics))
    with viewer.filmed():
        robots = BundleRobots(bundle, num_envs, physics=physics, viewer=viewer)
        contract = robots.contract
        with contextlib.closing(robots):
            print(f"{contract.task}, the bundle {bundle}, in {robots.engine}", flush=True)
            steps: Iterable[int] = itertools.count()
            if seconds is not None:
                steps = Counter("walk", "steps").each(range(round(seconds / contract.control_dt)))
            walked = _walk(robots, steps, random_commands(contract, num_envs, seed), live=viewer.is_live)
    print("\n".join(walked.lines(contract.control_dt)))
    if viewer.video is not None:
        print(f"video: {viewer.video}")


def _walk(robots: BundleRobots, steps: Iterable[int], commands: Iterator[np.ndarray], *, live: bool) -> Walk:
    walked = Walk.begun(robots.count)
    with contextlib.suppress(KeyboardInterrupt):
        for _ in steps:
            start, command = time.perf_counter(), next(commands)
            robots.step(robots.policy({**robots.signals(), "command": command})[0])
            state, fallen = robots.walk.state(), robots.fallen()
            off = np.concatenate([state["lin_vel"][:, :2], state["ang_vel"][:, 2:]], 1) - command
            goes_on = torch.from_numpy(~fallen)
            walked.steps += goes_on
            walked.linear += torch.from_numpy(np.linalg.norm(off[:, :2], axis=1)) * goes_on
            walked.yaw += torch.from_numpy(np.abs(off[:, 2])) * goes_on
            walked.falls += ~goes_on
            if fallen.any():
                robots.place(np.flatnonzero(fallen))
            if live:
                time.sleep(max(0.0, start + robots.contract.control_dt - time.perf_counter()))
    return walked


def record_run(
    run: Path, *, physics: str | None, num_envs: int, seconds: float, seed: int, which: Which = None
) -> Recording:
    """Recording of a policy of ``run`` in its task in Isaac Lab, with all noise, pushes and randomisation."""
    from gaitway_isaaclab.recorder import RolloutRecorder

    folder, config, options = _as_begun(run, physics)
    preflight.check(options.physics)
    launch.start_first("auto")
    _, actor, _ = load_actor(folder, which)
    task, recorders = config.robot_task, []
    steps = round(seconds / task.timing.step_dt)

    def recorded(env: Any) -> Any:
        recorders.append(RolloutRecorder(env, None, steps, envs=num_envs))
        return recorders[0]

    env = launch.make_env(task, num_envs, seed=seed, options=options, around=recorded)
    with contextlib.closing(env):
        act_in(env, actor.to(env.device), Counter("record", "steps").each(range(steps)), seed, env.device)
    (recorder,) = recorders
    assert recorder.recording is not None
    return recorder.recording


def record_bundle(bundle: Path, *, physics: str | None, num_envs: int, seconds: float, seed: int) -> Recording:
    """Recording of the robots of ``bundle`` in Isaac Lab on flat ground, with a new random command every 4 s."""
    from gaitway_sim2real.diagnose.record import record_robots, recordable

    contract = recordable(bundle)
    robots = BundleRobots(bundle, num_envs, physics=physics)
    with contextlib.closing(robots):
        steps = Counter("record", "steps").each(range(round(seconds / contract.control_dt)))
        commands = (command for _, command in zip(steps, random_commands(contract, num_envs, seed), strict=False))
        return record_robots(
            robots, robots.step, bundle, contract, commands,
            simulator=robots.engine, physics_dt=robots.physics_dt, torques_held=robots.walk.torques_held,
        )  # fmt: skip
