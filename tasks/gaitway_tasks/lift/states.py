"""States of scripted grasps and the actions there: a policy's first guess.

The states are those of a model of the arm that has no forces. Joints lag behind their targets, fingers stop at the
object, and the object goes where the hand goes while they hold it. Targets are disturbed, so that the policy learns to
come back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..actions import joint_positions
from ..managers import ObservationManager
from ..mdp import objects, observations, pose
from ..robots.arms import chain
from ..robots.robot import Robot
from ..spec import Task
from ..world import World
from .script import Script

FIT = 6000
"""Gradient steps by which a policy learns the actions."""
ARMS, STEPS, EVERY = 512, 240, 2
"""Arms that move at the same time, control steps of each, and the steps between two states that are kept."""
DISTURBED, CHANGE, LOSE = 0.06, 0.05, 0.002
"""Standard deviation of disturbances of the targets [rad], and the probabilities by which one changes in a step, and by
which the hand loses what it holds."""
AWAY = 0.15
"""Standard deviation of the joints from the arm's rest at the start [rad]."""
FINGER_LAG, SUNK, FALL = 0.05, 0.002, 0.05
"""Time constant of the fingers [s], the depth to which they press into the object [m], and how far it falls in a step
[m]."""
NEAR = 0.01
"""Standard deviation of an object's middle from between the fingertips, in states that are there on purpose [m]."""
BEYOND = 1.2
"""Factor on the ranges of places at which objects start, about their middle."""


@dataclass
class Arms:
    """S arms as observation terms read a world, and as their own robot."""

    spec: Robot
    default_joint_pos: Tensor
    joint_pos: Tensor
    joint_vel: Tensor
    place: Tensor
    """Middle of the object in the base's frame [m], (S, 3)."""
    told: Tensor
    action: Tensor

    @property
    def robot(self) -> Arms:
        return self

    @property
    def num_envs(self) -> int:
        return len(self.action)

    @property
    def device(self) -> torch.device:
        return self.action.device

    def command(self, name: str) -> Tensor:
        return self.told

    def object_pos(self, name: str) -> Tensor:
        return self.place

    def scripted(self, script: Script, fingers: list[int]) -> tuple[Tensor, Tensor]:
        """Joint targets (S, J) and whether hands close (S,)."""
        angles = self.joint_pos.double()
        return script(angles, angles[:, fingers].mean(1), self.place.double(), self.told[:, :3].double())


def script_of(task: Task) -> Script:
    """The scripted grasp of the arm and object of ``task``."""
    robot, command = task.robot, next(iter(task.commands.values()))
    assert isinstance(command, pose.UniformPoseCommand)
    links = chain(robot.mjcf, robot.joint_names, robot.base_name, robot.body_names[command.body])
    (thing,) = task.objects.values()
    return Script(links, torch.tensor(robot.default_joint_pos, dtype=torch.float64), thing.size[1] / 2.0)


def actions_of(task: Task, targets: Tensor, closed: Tensor) -> Tensor:
    """Actions (S, A) for joint targets (S, J) [rad] and for hands that are ``closed`` (S,)."""
    action, robot = joint_positions(task), task.robot
    scale, offset = (torch.tensor(v, dtype=torch.float64) for v in (action.scales(robot), action.offsets(robot)))
    acting = list(action.acting(robot))
    arm = ((targets - offset) / scale)[:, acting[:-1]]
    return torch.cat((arm, torch.where(closed, -1.0, 1.0)[:, None].double()), 1).float()


def grasps(task: Task) -> tuple[tuple[int, ...], Tensor, Tensor]:
    """Columns of the observation ``policy`` without its last action, values (R, C), and scripted actions (R, A).

    Raises :class:`UserError` for a task without a gripper and one object, and for a policy with a history.
    """
    group = task.observations["policy"]
    if joint_positions(task).gripper is None or len(task.objects) != 1:
        raise UserError(f"{task.name} needs a gripper and one object for its first guess")
    if group.history_length != 1:
        raise UserError(f"the policy of {task.name} observes a history, and its first guess reads one state")
    if (kept := _LAST.get(repr(task))) is None:
        _LAST.clear()
        kept = _LAST[repr(task)] = _grasps(task)
    return kept


_LAST: dict[str, tuple[tuple[int, ...], Tensor, Tensor]] = {}
"""What was computed for the last task: a training asks when it is checked, and when it begins."""


def _grasps(task: Task) -> tuple[tuple[int, ...], Tensor, Tensor]:
    group, robot = task.observations["policy"], task.robot
    random = torch.Generator().manual_seed(0)
    script, arms = script_of(task), _begin(task, random)
    manager = ObservationManager(replace(group, enable_corruption=False), cast(World, arms), random)
    last = {name for name, term in group.terms.items() if term.func is observations.last_action}
    names = [name for name, width in manager.dims.items() for _ in range(width)]
    columns = tuple(column for column, name in enumerate(names) if name not in last)
    stiffness, damping = (
        torch.tensor([getattr(law, name) for law in robot.joint_actuators], dtype=torch.float64)
        for name in ("stiffness", "damping")
    )
    share = 1.0 - torch.exp(-task.timing.step_dt * stiffness / damping)
    gripper = joint_positions(task).gripper
    assert gripper is not None
    fingers = [joint for pattern in gripper.joint_names for joint in robot.joint_ids(pattern)]
    share[fingers] = 1.0 - float(torch.exp(torch.tensor(-task.timing.step_dt / FINGER_LAG)))
    off, seen, acted = torch.zeros(ARMS, robot.num_joints, dtype=torch.float64), [], []
    for step in range(STEPS):
        targets, closed = arms.scripted(script, fingers)
        if step % EVERY == 0:
            for world in (arms, _at_object(arms, script, fingers, random)):
                manager.world = cast(World, world)
                seen.append(manager.frame()[:, list(columns)])
                acted.append(actions_of(task, *world.scripted(script, fingers)))
        change = torch.rand(ARMS, generator=random) < CHANGE
        strength = DISTURBED * torch.rand(ARMS, 1, generator=random).double()
        off = torch.where(change[:, None], strength * torch.randn(off.shape, generator=random).double(), off)
        _move(arms, script, targets + off, closed & (torch.rand(ARMS, generator=random) > LOSE), share, fingers, task)
    return columns, torch.cat(seen), torch.cat(acted)


def _begin(task: Task, random: torch.Generator) -> Arms:
    """Arms near their rest, objects on the table or falling onto it, and goals."""
    robot, command = task.robot, next(iter(task.commands.values()))
    event = next(e for e in task.events.values() if e.func is objects.reset_object_state_uniform)
    (thing,) = task.objects.values()

    def uniform(low: Tensor, high: Tensor) -> Tensor:
        return low + (high - low) * torch.rand(ARMS, len(low), generator=random)

    spread = torch.tensor([event.params["pose_range"].get(axis, (0.0, 0.0)) for axis in "xyz"])
    middle, half = spread.mean(1), BEYOND * (spread[:, 1] - spread[:, 0]) / 2.0
    place = torch.tensor(thing.pos) + uniform(middle - half, middle + half)
    low, high = torch.tensor(list(command.ranges().values())).T
    default = torch.tensor(robot.default_joint_pos)
    angles = default + AWAY * torch.randn(ARMS, len(default), generator=random)
    limits = torch.tensor(robot.joint_limits)
    return Arms(
        spec=robot,
        default_joint_pos=default,
        joint_pos=torch.maximum(torch.minimum(angles, limits[:, 1]), limits[:, 0]),
        joint_vel=torch.zeros(ARMS, len(default)),
        place=place,
        told=uniform(low, high),
        action=torch.zeros(ARMS, task.actions.num(robot)),
    )


def _at_object(arms: Arms, script: Script, fingers: list[int], random: torch.Generator) -> Arms:
    """The same arms with the object at their fingertips, where the script decides and which it passes quickly."""
    rows = len(arms.place)
    way = NEAR * torch.randn(rows, 3, generator=random)
    way[: rows // 2, 2] += NEAR
    joints = arms.joint_pos.clone()
    stop = script.half - SUNK
    joints[:, fingers] = stop + (0.04 - stop) * torch.rand(rows, 1, generator=random)
    joints[: rows // 2, fingers] = 0.04
    place = script.tip(joints.double()).float() - way
    return replace(arms, joint_pos=joints, place=place)


def _move(
    arms: Arms, script: Script, targets: Tensor, closed: Tensor, share: Tensor, fingers: list[int], task: Task
) -> None:
    """A control step in place: joints go ``share`` (J,) of the way to ``targets`` (S, J); hands close if ``closed``."""
    gripper = joint_positions(task).gripper
    assert gripper is not None
    before = arms.joint_pos.double()
    targets = targets.clone()
    targets[:, fingers] = torch.where(closed, gripper.close_command, gripper.open_command)[:, None].double()
    after = before + share * (targets - before)
    tip_before, tip_after = script.tip(before), script.tip(after)
    way = arms.place - tip_before
    between = (way[:, :2].norm(dim=1) < script.half) & (way[:, 2].abs() < script.half)
    stop = script.half - SUNK
    after[:, fingers] = torch.where(between[:, None], after[:, fingers].clamp(min=stop), after[:, fingers])
    held = between & closed & (after[:, fingers].mean(1) < script.half)
    arms.place = torch.where(held[:, None], arms.place + tip_after - tip_before, arms.place)
    rests = arms.place[:, 2].clamp(max=script.half)
    fallen = torch.maximum(arms.place[:, 2] - FALL, rests)
    arms.place[:, 2] = torch.where(held, arms.place[:, 2].clamp(min=script.half), fallen)
    arms.joint_vel = ((after - before) / task.timing.step_dt).float()
    arms.joint_pos, arms.place = after.float(), arms.place.float()
