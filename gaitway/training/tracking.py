"""How well robots follow their commands, and how often they fall."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def off_command(env: Any, name: str) -> tuple[Tensor, Tensor]:
    """Distance of each robot's velocity from what command ``name`` says, (N,) [m/s] and (N,) [rad/s]."""
    command, robot = env.world.command(name), env.world.robot
    planar = (command[:, :2] - robot.root_lin_vel_b[:, :2]).norm(dim=1)
    return planar, (command[:, 2] - robot.root_ang_vel_b[:, 2]).abs()


def tracking_errors(env: Any) -> dict[str, float]:
    """A robot's mean distance from the commanded velocity now, over all environments, [m/s] and [rad/s]."""
    errors: dict[str, float] = {}
    task = getattr(env, "task", None)
    for name in task.commands if task is not None else ():
        planar, yaw = off_command(env, name)
        errors |= {f"tracking/{name}/linear": float(planar.mean()), f"tracking/{name}/yaw": float(yaw.mean())}
    return errors


class RobotMeasures:
    """Falls and mean tracking errors of the robots in ``env``, over the steps of an evaluation."""

    def __init__(self, env: Any):
        self.env = env
        self.falls = self.steps = 0
        self.errors = {name: torch.zeros(2, dtype=torch.float64) for name in env.task.commands}

    def __call__(self, counted: Tensor, terminated: Tensor, truncated: Tensor) -> None:
        self.falls += int((counted & terminated).sum())
        seen = counted & ~(terminated | truncated)  # the others have been restarted
        self.steps += int(seen.sum())
        for name, total in self.errors.items():
            total += torch.stack([part[seen].double().sum() for part in off_command(self.env, name)])

    def summary(self) -> dict[str, Any]:
        """Fields of a row of ``evaluations.jsonl``: how many episodes ended by a fall, and mean errors by command."""
        steps = max(self.steps, 1)
        means = {name: {"linear": float(e[0]) / steps, "yaw": float(e[1]) / steps} for name, e in self.errors.items()}
        return {"falls": self.falls, "tracking": means}
