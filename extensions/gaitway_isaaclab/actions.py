"""Joint position targets in the robot's own joint order, clamped first where the task says so."""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

from gaitway_tasks.robots.robot import Robot
from gaitway_tasks.spec import JointPositionAction
from isaaclab.envs.mdp.actions.actions_cfg import JointPositionActionCfg
from isaaclab.envs.mdp.actions.joint_actions import JointPositionAction as IsaacJointPositionAction
from isaaclab.utils import configclass
from torch import Tensor

from . import compat
from .world import index_of


class OrderedJointPositionAction(IsaacJointPositionAction):
    """Isaac Lab's term over all joints in the order of ``joint_names``.

    Isaac Lab keeps that order as a list, which it copies to the device in every physics step.
    """

    def __init__(self, cfg: JointPositionActionCfg, env: Any):
        super().__init__(cfg, env)
        index = index_of("joint", cfg.joint_names, self._asset.joint_names, self.device)
        self._joint_ids = slice(None) if index is None else compat.index(index)


@configclass
class OrderedJointPositionActionCfg(JointPositionActionCfg):
    class_type: type = OrderedJointPositionAction


class ClampedJointPositionAction(OrderedJointPositionAction):
    """On ``clamp(action, -raw_clip, raw_clip)``, as rsl_rl's ``clip_actions`` does outside the environment."""

    cfg: ClampedJointPositionActionCfg

    def process_actions(self, actions: Tensor) -> None:
        super().process_actions(actions.clamp(-self.cfg.raw_clip, self.cfg.raw_clip))


@configclass
class ClampedJointPositionActionCfg(JointPositionActionCfg):
    class_type: type = ClampedJointPositionAction
    raw_clip: float = MISSING  # type: ignore[assignment]


def action_cfg(action: JointPositionAction, robot: Robot) -> Any:
    """``JointPositionActionCfg`` over all joints in the robot's order, whatever order the simulator has."""
    settings: dict[str, Any] = {
        "asset_name": "robot",
        "joint_names": list(robot.joint_names),
        "preserve_order": True,
        "scale": _plain(action.scale),
        "use_default_offset": action.offset is None,
        "offset": 0.0 if action.offset is None else _plain(action.offset),
        "clip": _plain(action.clip),
    }
    if action.raw_clip is None:
        return OrderedJointPositionActionCfg(**settings)
    return ClampedJointPositionActionCfg(raw_clip=action.raw_clip, **settings)


def _plain(value: Any) -> Any:
    """Isaac Lab asks for a ``dict``, not for any mapping."""
    return value if value is None or isinstance(value, float | int) else dict(value)
