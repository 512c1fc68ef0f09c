"""A command and an action of another package: nothing of ours names them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from gaitway_tasks.actions import Action
from gaitway_tasks.commands import Command
from gaitway_tasks.signals import reads


@dataclass(frozen=True, kw_only=True)
class Pose(Command):
    """Height [m] and pitch [rad] of the base."""

    resampling_time_range: tuple[float, float] = (0.05, 0.1)
    height: tuple[float, float] = (0.3, 0.5)
    pitch: tuple[float, float] = (-0.2, 0.2)

    def ranges(self):
        return {"height": self.height, "pitch": self.pitch}

    def errors(self, told, robot):
        return {"height": (told[:, 0] - robot.root_pos_w[:, 2]).abs()}


@dataclass(frozen=True, kw_only=True)
class SomeJoints(Action):
    """Targets of the joints whose names match ``joints``, around the default pose; the others are held."""

    joints: str = ".*"
    scale: float = 0.2

    def num(self, robot):
        return len(robot.joint_ids(self.joints))

    def targets(self, robot, device) -> Callable[[torch.Tensor], torch.Tensor]:
        pose = torch.tensor(robot.default_joint_pos, device=device)
        ids = torch.tensor(robot.joint_ids(self.joints), device=device)
        return lambda action: pose.repeat(len(action), 1).index_add(1, ids, self.scale * action)


@reads("command")
def told_pose(world, command_name):
    return world.command(command_name)


def at_height(world, command_name):
    """Closeness of the base to the height that it is told, (N,)."""
    return torch.exp(-10.0 * (world.command(command_name)[:, 0] - world.robot.root_pos_w[:, 2]).abs())
