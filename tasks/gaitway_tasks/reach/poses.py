"""Actions that hold an arm's hand at poses, by inverse kinematics: a policy's first guess."""

from __future__ import annotations

import math
from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..actions import joint_positions
from ..layout import width
from ..math import quat_apply, quat_conjugate, quat_from_euler_xyz, quat_mul
from ..mdp import events, observations, pose
from ..robots.arms import Link, chain, loads
from ..spec import Task, Term

FIT = 5000
"""Gradient steps by which a policy learns the actions."""
POSES, COPIES = 2048, 4
"""Poses that are solved, and states of the arm at each."""
OFF, MOVES = 0.2, 0.5
"""Standard deviations of the joints from where they are to be [rad], and of their speeds [rad/s]."""
WAY, LAST = 30, 15
"""Iterations on the way from the middle of the ranges to each pose, and at its end."""
DAMPING, PULL = 1e-3, 0.1
"""Damping of the least squares, and share by which joints that are free to move return to where they were."""
MARGIN = 0.05
"""Distance of the joints from their limits [rad]."""
WIDTHS = {
    pose.pose_command: 7, pose.measured_position_error: 3, pose.measured_orientation_error: 4,
}  # fmt: skip
"""Numbers of the terms about poses."""
QUICK, DAMPED = 9.0, 0.3
"""Natural frequency [rad/s] and damping ratio that the actions give a joint whose drive is softer: at 30 actions a
second, a quicker one would swing."""


def poses_held(task: Task) -> tuple[tuple[int, ...], Tensor, Tensor]:
    """Columns of the observation ``policy`` that tell pose, angles and speeds, values (S, C), and actions (S, A).

    A joint's target is beyond the angle that brings the hand to its pose: by what holds it against gravity with a mean
    load, and by what takes it there. From the middle of the ranges to each pose the arm moves as little as it can, so
    that near poses have near actions. Raises :class:`UserError` for a task whose policy does not observe all this.
    """
    group, robot, action = task.observations["policy"], task.robot, joint_positions(task)
    read = {term.func: name for name, term in group.terms.items()}
    needed = (observations.joint_pos_rel, observations.joint_vel_rel, pose.pose_command)
    if missing := [func.__name__ for func in needed if func not in read]:
        raise UserError(f"{task.name} has no {missing[0]} among the observations of the policy")
    if group.history_length != 1:
        raise UserError(f"the policy of {task.name} observes a history, and its first guess reads one state")
    command = task.commands[group.terms[read[pose.pose_command]].params["command_name"]]
    assert isinstance(command, pose.UniformPoseCommand)
    default, stiffness, damping, scale, offset, random = _numbers(task)
    low, high = torch.tensor(list(command.ranges().values()), dtype=torch.float64).T
    told = low + (high - low) * torch.rand(POSES, 6, generator=random, dtype=torch.float64)
    links = chain(robot.mjcf, robot.joint_names, robot.base_name, robot.body_names[command.body])
    limits, middle = torch.tensor(robot.joint_limits, dtype=torch.float64), (low + high)[None] / 2.0
    rest = _solve(links, default[None], limits, middle, middle).expand(POSES, -1)
    angles = _solve(links, rest, limits, middle.expand(POSES, -1), told)
    torque, inertia = (torch.from_numpy(v) for v in loads(robot.mjcf, robot.joint_names, angles.numpy(), _masses(task)))
    stiff = torch.maximum(inertia * QUICK**2, stiffness)
    damped = torch.maximum(2.0 * DAMPED * (stiff * inertia).sqrt(), damping)

    def again(values: Tensor) -> Tensor:
        return values.repeat(COPIES, 1)

    off, moves = (s * torch.randn(again(angles).shape, generator=random, dtype=torch.float64) for s in (OFF, MOVES))
    pushed = again(torque) - again(stiff - stiffness) * off - again(damped - damping) * moves
    actions = ((again(angles) + pushed / stiffness - offset) / scale)[:, list(action.acting(robot))]
    seen: dict[Term, Tensor] = {
        observations.joint_pos_rel: again(angles) + off - default,
        observations.joint_vel_rel: moves,
        pose.pose_command: again(torch.cat((told[:, :3], quat_from_euler_xyz(*told[:, 3:].unbind(1))), 1)),
    }
    scaled = [values * torch.as_tensor(group.terms[read[func]].scale) for func, values in seen.items()]
    columns = _columns(task)
    places = tuple(column for func in seen for column in columns[read[func]])
    return places, torch.cat(scaled, 1).float(), actions.float()


def _numbers(task: Task) -> tuple[Any, ...]:
    """Default pose, stiffness, damping, and scale and offset of actions, (J,), and a generator of random numbers."""
    robot, action = task.robot, joint_positions(task)
    drives = robot.joint_actuators
    rows = (
        robot.default_joint_pos, [law.stiffness for law in drives], [law.damping for law in drives],
        action.scales(robot), action.offsets(robot),
    )  # fmt: skip
    return (*(torch.tensor(row, dtype=torch.float64) for row in rows), torch.Generator().manual_seed(0))


def _masses(task: Task) -> dict[str, float]:
    """Mean factors on the masses of bodies that the task's events draw, by the names of bodies."""
    drawn = [event.params for event in task.events.values() if event.func is events.scale_rigid_body_mass]
    return {params.get("body") or task.robot.base_name: math.sqrt(math.prod(params["scale_range"])) for params in drawn}


def _columns(task: Task) -> dict[str, range]:
    """Columns of each term of the policy."""
    found, start = {}, 0
    for name, term in task.observations["policy"].terms.items():
        size = WIDTHS.get(term.func) or width(task, name, term)
        found[name], start = range(start, start + size), start + size
    return found


def _solve(links: list[Link], rest: Tensor, limits: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Angles (S, J) at which the hand is at the poses ``end`` (S, 6), on the way from ``start``, near to ``rest``."""
    angles = rest
    moving = sorted({link.joint for link in links if any(link.axis)})
    low, high = limits[moving, 0] + MARGIN, limits[moving, 1] - MARGIN
    for step in range(WAY + LAST):
        told = start + (end - start) * min(1.0, (step + 1) / WAY)
        error, jacobian = _error(links, angles, told, moving)
        now = angles[:, moving]
        change = _step(jacobian, error, rest[:, moving] - now)
        stuck = ((now + change) > high) & (change > 0) | ((now + change) < low) & (change < 0)
        free = jacobian * ~stuck[:, None]
        change = torch.where(stuck, 0.0, _step(free, error, rest[:, moving] - now))
        angles = angles.index_copy(1, torch.tensor(moving), (now + change).clamp(low, high))
    return angles


def _step(jacobian: Tensor, error: Tensor, away: Tensor) -> Tensor:
    """Damped least squares (S, K), with a pull towards rest by what is free."""
    gram = jacobian @ jacobian.mT + DAMPING * torch.eye(6, dtype=torch.float64)
    inverse = jacobian.mT @ torch.linalg.inv(gram)
    pull = PULL * away[..., None]
    return (inverse @ (error[..., None] - jacobian @ pull) + pull)[..., 0]


def _error(links: list[Link], angles: Tensor, told: Tensor, moving: list[int]) -> tuple[Tensor, Tensor]:
    """Way and turn to the poses ``told`` (S, 6), and how each of the joints ``moving`` changes them, (S, 6, K)."""
    rows = len(angles)
    place, quat = torch.zeros(rows, 3, dtype=torch.float64), torch.zeros(rows, 4, dtype=torch.float64)
    quat[:, 0] = 1.0
    turns: dict[int, tuple[Tensor, Tensor]] = {}
    for link in links:
        pos, own, axis = (torch.tensor(v, dtype=torch.float64) for v in (link.pos, link.quat, link.axis))
        place = place + quat_apply(quat, pos.expand(rows, 3))
        quat = quat_mul(quat, own.expand(rows, 4))
        if axis.any():
            turns[link.joint] = place, quat_apply(quat, axis.expand(rows, 3))
            half = angles[:, link.joint, None] / 2.0
            quat = quat_mul(quat, torch.cat((half.cos(), half.sin() * axis), 1))
    between = quat_mul(quat_from_euler_xyz(*told[:, 3:].unbind(1)), quat_conjugate(quat))
    sine = torch.linalg.vector_norm(between[:, 1:], dim=1, keepdim=True)
    turn = 2.0 * torch.atan2(sine, between[:, :1]) * between[:, 1:] / sine.clamp(min=1e-9)
    columns = [
        torch.cat((torch.linalg.cross(axis, place - at), axis), 1) for at, axis in (turns[joint] for joint in moving)
    ]
    return torch.cat((told[:, :3] - place, turn), 1), torch.stack(columns, 2)
