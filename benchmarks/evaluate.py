"""Tracking errors of a trained policy, by a protocol that training never touches.

Used by ``walker.py``; ``walker.py --run RUN`` examines a run that exists.

Every environment gets one command, drawn uniformly from the task's ranges and held for 20 s, from the first step on:
starting up counts. A robot that falls is counted, started again with another command, and kept in the mean. Noise,
randomisation and pushes are those of the task, unless ``calm``. Seeds of at least 10 000 are kept for this.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import torch
from gaitway_mujoco import make_env
from gaitway_mujoco.model import PhysicsOptions
from gaitway_tasks.spec import Task, Timing
from torch import nn

FIRST_SEED = 10_000
SECONDS = 20.0


@dataclass(frozen=True)
class Score:
    """Mean distance from the commanded planar velocity [m/s] and yaw rate [rad/s]; share of robots that ever fell."""

    linear: float
    yaw: float
    falls: float

    def __str__(self) -> str:
        return f"linear {self.linear:.3f} m/s, yaw {self.yaw:.3f} rad/s, falls {100 * self.falls:.1f} %"

    def within(self, linear: float, yaw: float, falls: float) -> bool:
        return self.linear <= linear and self.yaw <= yaw and self.falls <= falls


def evaluate(
    task: Task,
    actor: nn.Module,
    physics: PhysicsOptions,
    *,
    seed: int,
    timing: Timing | None = None,
    calm: bool = False,
    commands: int = 512,
    num_threads: int = 0,
) -> Score:
    """Score of the deterministic ``actor`` (N, D) -> (N, A); ``timing`` replaces the task's physics step."""
    if seed < FIRST_SEED:
        raise ValueError(f"evaluation seed {seed}: seeds below {FIRST_SEED} may have been used in training or tuning")
    examination = examination_of(task, timing or task.timing, calm)
    env = make_env(examination, commands, seed=seed, num_threads=num_threads, **asdict(physics))
    (name,) = task.commands
    robot = env.world.robot
    fell = torch.zeros(commands, dtype=torch.bool)
    linear, yaw, count = 0.0, 0.0, 0
    observation, _ = env.reset()
    with torch.inference_mode():
        for _ in range(round(SECONDS / examination.timing.step_dt)):
            command = env.world.command(name).clone()
            observation, _, terminated, _, _ = env.step(actor(observation["policy"]))
            fell |= terminated
            stands = ~terminated  # the others already show the state after their reset
            linear += float((command[:, :2] - robot.root_lin_vel_b[:, :2]).norm(dim=1)[stands].sum())
            yaw += float((command[:, 2] - robot.root_ang_vel_b[:, 2]).abs()[stands].sum())
            count += int(stands.sum())
    env.close()
    return Score(linear=linear / count, yaw=yaw / count, falls=float(fell.float().mean()))


def examination_of(task: Task, timing: Timing, calm: bool) -> Task:
    """``task`` with held commands and, if ``calm``, without noise, pushes and randomised robots."""
    (name,) = task.commands
    held = replace(
        task.commands[name],
        heading_command=False,
        rel_standing_envs=0.0,
        rel_zero_axis=0.0,
        resampling_time_range=(1e9, 1e9),
    )
    changed = task.replace(
        commands={name: held},
        curriculum={},
        timing=replace(timing, episode_length_s=2 * SECONDS),  # nothing but a fall ends an episode
    )
    if calm:
        changed = changed.replace(
            events={key: event for key, event in task.events.items() if event.mode == "reset"},
            observations={key: replace(group, enable_corruption=False) for key, group in task.observations.items()},
        )
    return changed


def reference_timing(task: Task) -> Timing:
    """The task's control period in physics steps of 5 ms, whatever it was trained at."""
    return replace(task.timing, physics_dt=0.005, decimation=round(task.timing.step_dt / 0.005))


def scores(task: Task, actor: nn.Module, physics: PhysicsOptions, seed: int, commands: int) -> dict[str, Score]:
    """Under the training physics step and the reference one, and calm."""
    trained, reference = task.timing, reference_timing(task)

    def label(timing: Timing) -> str:
        return f"{1000 * timing.physics_dt:g} ms x {timing.decimation}"

    results = {label(trained): evaluate(task, actor, physics, seed=seed, commands=commands)}
    if reference != trained:
        results[label(reference)] = evaluate(task, actor, physics, seed=seed, commands=commands, timing=reference)
    results[f"{label(trained)}, calm"] = evaluate(task, actor, physics, seed=seed, commands=commands, calm=True)
    return results
