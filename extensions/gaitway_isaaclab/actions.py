"""Joint position targets in the robot's own joint order, clamped and delayed if the task requires it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING
from typing import Any

import torch
from gaitway_tasks.actions import joint_positions
from gaitway_tasks.identified import longest_delay
from gaitway_tasks.mdp import events
from gaitway_tasks.spec import Task
from isaaclab.envs.mdp.actions.actions_cfg import JointPositionActionCfg
from isaaclab.envs.mdp.actions.joint_actions import JointPositionAction as IsaacJointPositionAction
from isaaclab.utils import configclass
from torch import Tensor

from . import compat
from .compat import IsaacLabError
from .world import index_of, world_of


class JointPositionAction(IsaacJointPositionAction):
    """Isaac Lab's term over all joints in the order of ``joint_names``.

    Isaac Lab keeps that order as a list, which it copies to the device in every physics step. The name is that of
    Isaac Lab's, so that its Warp frontend finds the term of that name there, which does the same.
    """

    def __init__(self, cfg: OrderedJointPositionActionCfg, env: Any):
        super().__init__(cfg, env)
        index = index_of("joint", cfg.joint_names, self._asset.joint_names, self.device)
        self._joint_ids = slice(None) if index is None else compat.index(index)
        world_of(env)  # checks the robot's masses before events change them


@configclass
class OrderedJointPositionActionCfg(JointPositionActionCfg):
    class_type: type = JointPositionAction


class DelayedJointPositionAction(JointPositionAction):
    """Joint position action on a :class:`DelayLine`."""

    cfg: DelayedJointPositionActionCfg
    _processed_actions: Tensor

    def __init__(self, cfg: DelayedJointPositionActionCfg, env: Any):
        super().__init__(cfg, env)
        self._delay_line = None if cfg.delay is None else DelayLine(cfg.delay, env.physics_dt, self._rest())
        if self._delay_line is not None and getattr(env, "_physics_handles_decimation", False):
            # Newton would take all physics steps of a control step by itself, with the targets of the first.
            env.sim.physics_manager.set_decimation(1)
            env._physics_handles_decimation = False

    def apply_actions(self) -> None:
        if self._delay_line is None:
            super().apply_actions()
            return
        asked = self._processed_actions
        self._processed_actions = self._delay_line.step(asked)
        super().apply_actions()
        self._processed_actions = asked

    def reset(self, env_ids: Sequence[int] | slice | None = None) -> None:
        super().reset(env_ids)
        if self._delay_line is not None:
            self._delay_line.reset(slice(None) if env_ids is None else env_ids, self._rest())

    def _rest(self) -> Tensor:
        return compat.tensor(self._asset.data.default_joint_pos)[:, self._joint_ids]


@configclass
class DelayedJointPositionActionCfg(OrderedJointPositionActionCfg):
    class_type: type = DelayedJointPositionAction
    delay: tuple[float, float] | None = None
    """Shortest and longest time from action to drive [s], drawn at each reset."""


class ClampedJointPositionAction(DelayedJointPositionAction):
    """Joint position action on ``clamp(action, -raw_clip, raw_clip)``, as rsl_rl's ``clip_actions`` does outside the
    environment."""

    cfg: ClampedJointPositionActionCfg

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions.clamp(-self.cfg.raw_clip, self.cfg.raw_clip))


@configclass
class ClampedJointPositionActionCfg(DelayedJointPositionActionCfg):
    class_type: type = ClampedJointPositionAction
    raw_clip: float = MISSING  # type: ignore[assignment]


class DelayLine:
    """Targets delayed by some physics steps, starting from ``rest`` (N, J), as in Gaitway's MuJoCo world.

    The delay line comes before any kind of drive: a delay in an actuator model would be one for each group of joints,
    never reaches PhysX's implicit drives in Isaac Lab 3.0, and keeps its models from running in the simulator.
    """

    def __init__(self, delay: tuple[float, float], physics_dt: float, rest: Tensor):
        self._delay, self._dt = delay, physics_dt
        longest = self._steps(torch.tensor(delay[1], dtype=torch.float64))
        self._targets, self._newest = rest.repeat(int(longest) + 1, 1, 1), 0  # a ring
        self._rows = torch.arange(len(rest), device=rest.device)
        self.steps_late = torch.zeros_like(self._rows)
        self.reset(slice(None), rest)

    def reset(self, rows: Sequence[int] | slice | Tensor, rest: Tensor) -> None:
        """Clear the targets of ``rows`` and draw new delays."""
        self._targets[:, rows] = rest[rows]
        seconds = torch.empty_like(self.steps_late[rows], dtype=torch.float64).uniform_(*self._delay)
        self.steps_late[rows] = self._steps(seconds)

    def step(self, target: Tensor) -> Tensor:
        """Store the newest target and return the one that is now due."""
        length = len(self._targets)
        self._newest = (self._newest + 1) % length
        self._targets[self._newest] = target
        return self._targets[(self._newest - self.steps_late) % length, self._rows]

    def _steps(self, seconds: Tensor) -> Tensor:
        return (seconds / self._dt - 1e-6).ceil().long()


def action_delay(task: Task) -> tuple[float, float] | None:
    """Shortest and longest action delay of the task [s]; None without one.

    Raises :class:`IsaacLabError` for a delay that is not drawn at each reset.
    """
    longest_delay(task)  # raises the error for an invalid range
    for name, event in task.events.items():
        if event.func is events.randomize_action_delay:
            if event.mode != "reset":
                raise IsaacLabError(
                    f"event {name!r}: in Isaac Lab delays are drawn at resets: its mode must be 'reset'"
                )
            low, high = event.params["delay_range"]
            return float(low), float(high)
    return None


def action_cfg(task: Task) -> Any:
    """``JointPositionActionCfg`` over all joints in the robot's order, for any joint order of the simulator."""
    action, delay = joint_positions(task), action_delay(task)
    if action.num(task.robot) != task.robot.num_joints:
        raise IsaacLabError(f"{task.name}: some joints do not act, and in Isaac Lab all must: train it in MuJoCo")
    settings: dict[str, Any] = {
        "asset_name": "robot",
        "joint_names": list(task.robot.joint_names),
        "preserve_order": True,
        "scale": _plain(action.scale),
        "use_default_offset": action.offset is None,
        "offset": 0.0 if action.offset is None else _plain(action.offset),
        "clip": _plain(action.clip),
    }
    if action.raw_clip is not None:
        return ClampedJointPositionActionCfg(raw_clip=action.raw_clip, delay=delay, **settings)
    if delay is not None:
        return DelayedJointPositionActionCfg(delay=delay, **settings)
    return OrderedJointPositionActionCfg(**settings)


def _plain(value: Any) -> Any:
    """``value`` with mappings as ``dict``, which Isaac Lab requires."""
    return value if value is None or isinstance(value, float | int) else dict(value)
