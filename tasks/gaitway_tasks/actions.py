"""Actions: the kinds that a task names, and what simulators and bundles ask of them.

A kind is a frozen dataclass with its ``num`` and ``targets``; ours has a row in :data:`KINDS`, and one of another
package is named ``module:Class``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .robots.robot import Robot

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KINDS = ("gaitway_tasks.actions:JointPositionAction",)
"""The kinds of action, imported when a task has one."""


STEEP = 1e6
"""Scale of a gripper's number, whose target is clamped: only between 0 and -4e-8 is it neither open nor closed."""


class Action(ABC):
    """One kind of action, A numbers of the policy for each robot."""

    raw_clip: float | None = None
    """Clamp of the action, also for the terms that read it."""

    @abstractmethod
    def num(self, robot: Robot) -> int:
        """A, the numbers of one action."""

    @abstractmethod
    def targets(self, robot: Robot, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The function from actions (N, A) to joint targets [rad], (N, J), in canonical order."""

    def as_joint_positions(self) -> JointPositionAction | None:
        """Action as one number for each joint, which bundles, mirrors and Isaac Lab can have; None if it is none."""
        return None


@dataclass(frozen=True, kw_only=True)
class BinaryJointPositionAction:
    """A gripper that one number opens or closes, as Isaac Lab's: below 0 it closes, else it opens.

    ``joint_names`` are regular expressions of its joints, whose targets are ``open_command`` or ``close_command`` [m].
    """

    joint_names: tuple[str, ...]
    open_command: float
    close_command: float

    def __post_init__(self) -> None:
        if self.open_command == self.close_command:
            raise UserError(f"a gripper whose targets are both {self.open_command:g} does nothing: give two")


@dataclass(frozen=True, kw_only=True)
class JointPositionAction(Action):
    """Joint position target [rad] = ``offset`` + ``scale`` * action, over joints in canonical order.

    ``joint_names`` are regular expressions of the joints that act, all by default; the others hold their ``offset``.
    Numbers hold for all joints; mappings go from regular expressions of whole joint names to values, as in Isaac Lab,
    and joints without a match have scale 1, offset 0 and no clip. ``offset`` None is the default pose. ``raw_clip``
    first clamps the action, also for the terms that read it (rsl_rl's ``clip_actions``); ``clip`` clamps the target.
    The last number of an action is that of the ``gripper``, if there is one.
    """

    joint_names: tuple[str, ...] = (".*",)
    scale: float | Mapping[str, float] = 0.5
    offset: float | Mapping[str, float] | None = None
    clip: Mapping[str, tuple[float, float]] | None = None
    raw_clip: float | None = None
    gripper: BinaryJointPositionAction | None = None

    def num(self, robot: Robot) -> int:
        return len(self.acting(robot))

    def acting(self, robot: Robot) -> tuple[int, ...]:
        """Indices of the joints that act, one for each number of an action, (A,)."""
        return (*_matching(robot, self.joint_names), *self._held(robot)[:1])

    def _held(self, robot: Robot) -> tuple[int, ...]:
        """Indices of the joints of the gripper; refuses those that act by themselves."""
        found = () if self.gripper is None else _matching(robot, self.gripper.joint_names)
        if twice := [robot.joint_names[joint] for joint in found if joint in _matching(robot, self.joint_names)]:
            raise UserError(f"joint {twice[0]!r} is one of the gripper and acts by itself: leave it out of joint_names")
        return found

    def sources(self, robot: Robot) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Joints that an action moves, and the number of it that moves each."""
        acting, held = self.acting(robot), self._held(robot)
        return (*acting, *held[1:]), (*range(len(acting)), *(len(acting) - 1 for _ in held[1:]))

    def targets(self, robot: Robot, device: torch.device) -> Callable[[Tensor], Tensor]:
        import torch

        scale, offset = (torch.tensor(values, device=device) for values in (self.scales(robot), self.offsets(robot)))
        clips = self.clips(robot)
        limits = None if clips is None else torch.tensor(clips, device=device).unbind(1)
        if self.num(robot) == robot.num_joints:
            return lambda action: joint_targets(action, scale, offset, limits)
        moved, numbers = (torch.tensor(part, device=device) for part in self.sources(robot))
        if self.gripper is None:
            return lambda action: joint_targets(of_joints(action, moved, robot.num_joints), scale, offset, limits)
        return lambda action: joint_targets(
            of_joints(action.index_select(1, numbers), moved, robot.num_joints), scale, offset, limits
        )

    def as_joint_positions(self) -> JointPositionAction:
        return self

    def scales(self, robot: Robot) -> tuple[float, ...]:
        """Scale of each joint, 0 for one that does not act, (J,)."""
        acting, held = self.acting(robot), self._held(robot)
        scales = _per_joint(robot, "scale", self.scale, 1.0)
        of_all = tuple(scale if joint in acting else 0.0 for joint, scale in enumerate(scales))
        if self.gripper is None:
            return of_all
        steep = math.copysign(STEEP, self.gripper.open_command - self.gripper.close_command)
        return _instead(of_all, held, steep)

    def offsets(self, robot: Robot) -> tuple[float, ...]:
        """Target of each joint for the action zero [rad], (J,)."""
        found = robot.default_joint_pos if self.offset is None else _per_joint(robot, "offset", self.offset, 0.0)
        return found if self.gripper is None else _instead(found, self._held(robot), self.gripper.open_command)

    def clips(self, robot: Robot) -> tuple[tuple[float, float], ...] | None:
        """Lowest and highest target of each joint [rad], (J, 2); None without a clip."""
        if self.gripper is None:
            return None if self.clip is None else _per_joint(robot, "clip", self.clip, (-math.inf, math.inf))
        ends = sorted((self.gripper.open_command, self.gripper.close_command))
        return _instead(
            _per_joint(robot, "clip", self.clip or {}, (-math.inf, math.inf)), self._held(robot), tuple(ends)
        )


def joint_positions(task: Any) -> JointPositionAction:
    """The action of ``task`` as what bundles, mirrors and Isaac Lab can have; refuses another kind."""
    found: JointPositionAction | None = task.actions.as_joint_positions()
    if found is None:
        raise UserError(
            f"the action of {task.name} is a {type(task.actions).__name__}: bundles, mirrors and Isaac Lab have a "
            "target of each joint, offset + scale * action; train it in MuJoCo with symmetry 'none', or let its "
            "as_joint_positions() give the same as a JointPositionAction"
        )
    return found


def of_joints(action: Tensor, acting: Tensor, joints: int) -> Tensor:
    """``action`` (N, A) as a number of each of all ``joints``, 0 for those that are not ``acting`` (A,), (N, J)."""
    return action.new_zeros(action.shape[0], joints).index_copy(1, acting, action)


def joint_targets(action: Tensor, scale: Tensor, offset: Tensor, limits: Sequence[Tensor] | None) -> Tensor:
    """``offset + scale * action`` (N, J) [rad], between the ``limits`` (J,) below and above."""
    target = offset + scale * action
    return target if limits is None else target.clamp(limits[0], limits[1])


def _matching(robot: Robot, patterns: Sequence[str]) -> tuple[int, ...]:
    return tuple(sorted({joint for pattern in patterns for joint in robot.joint_ids(pattern)}))


def _instead(values: tuple[Any, ...], joints: Sequence[int], value: Any) -> tuple[Any, ...]:
    """``values`` of all joints with ``value`` at ``joints``."""
    return tuple(value if joint in joints else each for joint, each in enumerate(values))


def _per_joint(robot: Robot, what: str, value: Any, missing: Any) -> tuple[Any, ...]:
    """``value`` for each joint, by name where it is a mapping; refuses two values for one joint."""
    if not isinstance(value, Mapping):
        return (value,) * robot.num_joints
    found: dict[int, str] = {}
    for pattern in value:
        for joint in robot.joint_ids(pattern):
            if joint in found:
                raise UserError(
                    f"action {what}: joint {robot.joint_names[joint]!r} matches both {found[joint]!r} and {pattern!r}"
                )
            found[joint] = pattern
    return tuple(value[found[j]] if j in found else missing for j in range(robot.num_joints))
