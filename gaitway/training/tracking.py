"""Measures of robots: tracking errors of their commands, and falls."""

from __future__ import annotations

from typing import Any

from gaitway_files.blame import blamed
from gaitway_files.errors import UserError
from torch import Tensor


def off_command(env: Any, name: str) -> dict[str, Tensor]:
    """Distance of each robot from what command ``name`` says, by the command's own measures, (N,) each."""
    command, told = env.task.commands[name], env.world.command(name)
    with blamed(f"command {name!r}, errors,", type(command)):
        found: dict[str, Tensor] = command.errors(told, env.world.robot)
    for measure, error in found.items():
        if not (isinstance(error, Tensor) and error.shape == told.shape[:1]):
            shape = tuple(error.shape) if isinstance(error, Tensor) else type(error).__name__
            raise UserError(
                f"command {name!r}: its error {measure!r} is {shape}: expected a tensor of shape ({len(told)},), the "
                "distance of each robot"
            )
    return found


def tracking_errors(env: Any) -> dict[str, float]:
    """A robot's mean distance from its commands now, over all environments."""
    task = getattr(env, "task", None)
    return {
        f"tracking/{name}/{measure}": float(error.mean())
        for name in (task.commands if task is not None else ())
        for measure, error in off_command(env, name).items()
    }


class RobotMeasures:
    """Falls and mean tracking errors of the robots in ``env``, over the steps of an evaluation."""

    def __init__(self, env: Any):
        self.env = env
        self.falls = self.steps = 0
        self.errors: dict[str, dict[str, Tensor | float]] = {name: {} for name in env.task.commands}

    def __call__(self, counted: Tensor, terminated: Tensor, truncated: Tensor) -> None:
        counted = counted.to(terminated.device)
        self.falls += int((counted & terminated).sum())
        seen = counted & ~(terminated | truncated)  # the others have been restarted
        self.steps += int(seen.sum())
        for name, total in self.errors.items():
            for measure, error in off_command(self.env, name).items():
                total[measure] = total.get(measure, 0.0) + error[seen].double().sum()

    def summary(self) -> dict[str, Any]:
        """Fields of a row of ``evaluations.jsonl``: how many episodes ended by a fall, and mean errors by command."""
        steps = max(self.steps, 1)
        means = {name: {k: float(e) / steps for k, e in total.items()} for name, total in self.errors.items()}
        return {"falls": self.falls, "tracking": means}
