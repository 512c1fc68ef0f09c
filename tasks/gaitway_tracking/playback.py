"""Actions that play a motion without feedback: a policy's first guess."""

from __future__ import annotations

import numpy as np
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.actions import joint_positions
from gaitway_tasks.spec import Task
from torch import Tensor

from . import mdp
from .command import MotionCommand
from .feasibility import standing_feet, torques
from .kinematics import Skeleton
from .reference import motion_of


def played(task: Task) -> tuple[tuple[int, ...], Tensor, Tensor]:
    """Columns of the observation ``policy`` that tell the motion's joints, what they hold (K, 2 J), and actions (K, A).

    A joint's target is where the drive gives, at the motion's angle and speed, the torque of inverse dynamics. Raises
    :class:`UserError` for a task whose policy does not observe the motion first.
    """
    group, robot = task.observations["policy"], task.robot
    first = next(iter(group.terms.values()))
    if first.func is not mdp.motion_joints or group.history_length != 1:
        raise UserError(f"{task.name}: the policy must observe 'motion_joints' first, and no history")
    command = task.commands[first.params["command_name"]]
    assert isinstance(command, MotionCommand)
    motion = motion_of(command.clip, robot, 1.0 / task.timing.step_dt)
    speed = np.gradient(motion.joint_pos, 1.0 / motion.fps, axis=0)
    torque, _ = torques(motion, Skeleton(robot), standing_feet(motion, robot))
    drives, action = robot.joint_actuators, joint_positions(task)
    stiffness, damping = (np.array([getattr(law, name) for law in drives]) for name in ("stiffness", "damping"))
    target = motion.joint_pos + (torque + damping * speed) / stiffness
    acting = list(action.acting(robot))
    actions = ((target - np.array(action.offsets(robot))) / np.array(action.scales(robot)))[:, acting]
    seen = np.concatenate((motion.joint_pos - np.array(robot.default_joint_pos), speed), 1) * np.array(first.scale)
    return tuple(range(seen.shape[1])), torch.from_numpy(seen).float(), torch.from_numpy(actions).float()
