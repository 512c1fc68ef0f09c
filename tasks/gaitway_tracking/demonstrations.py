"""Motions as observations: what a robot that moved like a motion would have observed.

The terms of an observation group are computed on a motion's frames by the same functions as on a robot in simulation,
so the two agree on every state by construction. Adversarial motion priors compare them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from gaitway_files.errors import UserError
from gaitway_tasks.layout import history_order, width
from gaitway_tasks.managers import ObservationManager
from gaitway_tasks.math import projected_gravity, quat_apply_inverse
from gaitway_tasks.mdp import observations
from gaitway_tasks.robots import Robot
from gaitway_tasks.spec import ObservationGroup, ObservationTerm, Task
from gaitway_tasks.symmetry import group_mirror
from gaitway_tasks.velocity.legged import any_of
from torch import Tensor

from . import mdp
from .motion import Motion, MotionError, load
from .reference import motion_of, tables

PAIR = 2
"""Frames of a transition."""
RESTING = 0.15
"""Largest share of a clip's transitions before and after the part that is repeated."""
COARSEST = 0.4
"""Least frames of a file for each control step: between fewer, straight lines would be what is imitated."""


def amp_group(task: Task) -> ObservationGroup:
    """State of a robot in two frames, of which a discriminator sees the transition.

    It has the parts of AMP_for_hardware and the direction of gravity: height and velocities of the base, joint
    positions and velocities, places of the feet in the base frame. On rough ground it has no height.
    """
    terms = {
        "base_height": ObservationTerm(func=observations.base_pos_z),
        "projected_gravity": ObservationTerm(func=observations.projected_gravity),
        "base_lin_vel": ObservationTerm(func=observations.base_lin_vel),
        "base_ang_vel": ObservationTerm(func=observations.base_ang_vel),
        "joint_pos": ObservationTerm(func=observations.joint_pos_rel),
        "joint_vel": ObservationTerm(func=observations.joint_vel_rel),
        "feet": ObservationTerm(func=mdp.robot_body_pos_b, params={"bodies": any_of(task.robot.foot_names)}),
    }
    if not task.ground.flat:
        del terms["base_height"]
    return ObservationGroup(terms=terms, history_length=PAIR)


class MotionWorld:
    """The frames of a motion as environments, for terms that read the robot's state. Nothing else is known of them."""

    def __init__(self, motion: Motion, robot: Robot, step_dt: float, device: torch.device):
        frames = tables(motion, robot, device)
        self.spec, self.num_envs, self.device, self.step_dt = robot, len(frames), device, step_dt
        self.default_joint_pos = torch.tensor(robot.default_joint_pos, device=device)
        quat = frames.body_quat_wxyz[:, 0]
        self.robot = SimpleNamespace(
            joint_pos=frames.joint_pos,
            joint_vel=frames.joint_vel,
            root_pos_w=frames.body_pos[:, 0],
            root_quat_wxyz=quat,
            root_lin_vel_b=quat_apply_inverse(quat, frames.root_lin_vel),
            root_ang_vel_b=quat_apply_inverse(quat, frames.body_ang_vel[:, 0]),
            projected_gravity_b=projected_gravity(quat),
            body_pos_w=frames.body_pos,
            body_quat_wxyz=frames.body_quat_wxyz,
            body_lin_vel_w=frames.body_lin_vel,
            body_ang_vel_w=frames.body_ang_vel,
        )


def observed(task: Task, group: ObservationGroup, motion: Motion, device: torch.device) -> Tensor:
    """Frames (K, D) of ``group`` in the frames of ``motion``, which is at the control rate of ``task``.

    Raises :class:`UserError` for a term that reads more than the robot's pose and twist.
    """
    world: Any = MotionWorld(motion, task.robot, task.timing.step_dt, device)
    single = replace(group, history_length=1, enable_corruption=False)
    try:
        return ObservationManager(single, world, torch.Generator(device)).finite_frame()
    except AttributeError as error:
        raise UserError(
            f"{task.name}: reference motions have poses and twists of bodies only, and an observation of them "
            f"reads {error.name!r}: leave that term out"
        ) from error


def transitions(task: Task, group: ObservationGroup, clips: Sequence[str], device: torch.device) -> Tensor:
    """Transitions (P, 2 D) of ``clips`` as ``group`` would observe them.

    Every clip has about the same share, and in it the part that is repeated has most: a policy would learn to stand
    from the stands at the ends. Where the robot has a left-right mirror, the mirror images are among them.
    Raises :class:`MotionError` for clips that are not for the robot.
    """
    if group.history_length != PAIR:
        raise UserError(
            f"{task.name}: a transition is an observation with history_length {PAIR}, not {group.history_length}"
        )
    robot, fps = task.robot, 1.0 / task.timing.step_dt
    parts = []
    for clip in clips:
        motion = motion_of(clip, robot, fps)
        _check_origin(clip, motion, robot, fps)
        frames = observed(task, group, motion, device)
        parts.append(_played(torch.cat((frames[:-1], frames[1:]), 1), motion))
    longest = max(len(part) for part in parts)
    rows = torch.cat([part.repeat(round(longest / len(part)), 1) for part in parts])
    dims = [width(task, name, term) for name, term in group.terms.items()]
    rows = rows[:, history_order(dims, PAIR).to(device)]
    for mirror in [each for each in robot.mirrors.values() if each.axis == "y"]:
        perm, sign = (part.to(device) for part in group_mirror(task, group, mirror))
        rows = torch.cat((rows, sign * rows[:, perm]))
    return rows


def _played(pairs: Tensor, motion: Motion) -> Tensor:
    """``pairs`` (K - 1, 2 D) of a motion with its loop as often as leaves :data:`RESTING` for the rest, at most."""
    first, last = motion.loop
    rest = len(pairs) - (last - first)
    wanted = (1.0 - RESTING) / RESTING * rest
    return torch.cat((pairs, pairs[first:last].repeat(max(0, math.ceil(wanted / (last - first)) - 1), 1)))


def _check_origin(clip: str, motion: Motion, robot: Robot, fps: float) -> None:
    if motion.robot not in ("", robot.name):
        raise MotionError(
            f"motion {clip} was made for {motion.robot}, and the robot is {robot.name}: 'gaitway motion retarget' "
            "makes one of a Laikago's clip for any quadruped"
        )
    if Path(clip).is_file() and (own := load(clip).fps) < COARSEST * fps:
        raise MotionError(
            f"motion {clip} has {own:g} frames per second, and the robot is controlled at {fps:g}: give one with "
            f"{COARSEST * fps:g} or more"
        )
