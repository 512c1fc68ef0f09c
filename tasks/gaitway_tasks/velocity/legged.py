"""Velocity task of a robot on two, four or six feet, from the robot's facts alone.

Lengths, speeds and weights follow from leg length, mass and gravity: robots of another size move alike at the same
Froude number v / sqrt(g h) (R. McN. Alexander, "The Gaits of Bipedal and Quadrupedal Animals", IJRR 1984).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gaitway_files.errors import UserError

from ..actions import JointPositionAction
from ..mdp import rewards
from ..mdp.commands import UniformVelocityCommand
from ..robots import Robot
from ..spec import Reward, Task
from . import base
from .gaits import GAITS, GRAVITY, gait_of

if TYPE_CHECKING:
    from ..robots.anatomy import Anatomy

FROUDE = {2: 0.36, 4: 0.5, 6: 0.5}
"""Fastest command by the number of feet, as a Froude number: 1 m/s for a G1 and for a Go2."""
FASTEST = 1.0
"""Fastest command of any robot [m/s], Isaac Lab's."""
TORQUES = -0.4
"""Cost of torques that hold the robot's weight at its height: Go2's in Isaac Lab."""
START = 0.1
"""Share of the costs of style until commands have grown: a robot that has yet to walk may do it in any way."""
UNUSED = 0.2
"""Part of the largest angle of a step below which a joint of the leg is not needed for it."""


def flat(robot: Robot) -> Task:
    """Velocity task on a plane."""
    if gait_of(robot) is None:
        raise UserError(
            f"robot {robot.name!r} has {len(robot.foot_names)} feet: gaits are known for {', '.join(map(str, GAITS))}"
        )
    from ..robots.anatomy import anatomy

    facts, height = anatomy(robot), robot.init_height
    speed = min(FASTEST, FROUDE[len(robot.foot_names)] * math.sqrt(GRAVITY * height))
    shift = 0.05 * min(1.0, height / 0.6)
    task = base.flat(robot)
    for kind, name, params in (
        ("rewards", "feet_air_time", {"feet": any_of(robot.foot_names)}),
        ("terminations", "base_contact", {"bodies": any_of(_fallen(robot, facts))}),
        ("events", "add_base_mass", {"mass_distribution_params": (-0.05 * facts.mass, 0.1 * facts.mass)}),
        ("events", "base_com", {"com_range": {"x": (-shift, shift), "y": (-shift, shift), "z": (-0.01, 0.01)}}),
    ):
        terms = getattr(task, kind)
        term = replace(terms[name], params={**terms[name].params, **params})
        task = task.replace(**{kind: {**terms, name: term}})
    task = base.reweighted(
        task, dof_torques_l2=TORQUES / (facts.mass * GRAVITY * height) ** 2, flat_orientation_l2=-2.5
    )
    command = replace(UniformVelocityCommand.of(task), lin_vel_x=(-speed, speed), lin_vel_y=(-speed, speed))
    task = replace(
        task,
        rewards=base.without(task.rewards, "undesired_contacts"),
        commands={"base_velocity": command},
    )
    return _upright(task, facts, speed) if len(robot.foot_names) == 2 else task


def any_of(names: Iterable[str]) -> str:
    """Expression for the whole names ``names``."""
    return "|".join(map(re.escape, names))


def _fallen(robot: Robot, facts: Anatomy) -> list[str]:
    """Bodies that touch the ground only in a fall, as in validation: the trunk, and legs but for their last links."""
    touch = {facts.moved[joint] for joint in facts.waists} | {facts.moved[j] for leg in facts.legs for j in leg[:-1]}
    return [robot.base_name, *(name for name in robot.body_names if name in touch)]


def _upright(task: Task, facts: Anatomy, speed: float) -> Task:
    """``task`` for a robot on two legs, whose pelvis stays upright.

    What a step does not need is held in the default pose by a cost: hips that would splay, a waist, arms. Backwards
    and sideways it is told to walk slower.
    """
    from ..robots.anatomy import lift

    robot = task.robot
    used = abs(lift(robot, 0.1 * robot.init_height)).max(0)
    hips = []
    for leg in facts.legs:
        knee = max(leg, key=lambda joint: used[joint])
        hips += [joint for joint in leg[: leg.index(knee)] if used[joint] < UNUSED * used[knee]]
    held = {"hip": (-2.0, hips), "waist": (-8.0, facts.waists), "arms": (-0.5, facts.arms)}
    costs = {
        f"joint_deviation_{part}": Reward(
            func=rewards.joint_deviation_l1,
            weight=weight,
            params={"joints": any_of(robot.joint_names[joint] for joint in joints), "start": START},
        )
        for part, (weight, joints) in held.items()
        if joints
    }
    idle = [robot.joint_names[joint] for joint in (*facts.waists, *facts.arms)]
    legs = [name for name in robot.joint_names if name not in idle]
    task = base.reweighted(task, flat_orientation_l2=-5.0, lin_vel_z_l2=-1.0, ang_vel_xy_l2=-1.0, dof_pos_limits=-2.0)
    rolling = replace(task.rewards["ang_vel_xy_l2"], params={"start": START})
    command = replace(
        UniformVelocityCommand.of(task),
        lin_vel_x=(-0.6 * speed, speed),
        lin_vel_y=(-0.4 * speed, 0.4 * speed),
        ang_vel_z=(-0.8, 0.8),
    )
    return replace(
        task,
        actions=JointPositionAction(scale={any_of(legs): 0.5} | ({any_of(idle): 0.15} if idle else {})),
        rewards={**task.rewards, **costs, "ang_vel_xy_l2": rolling, "alive": Reward(func=rewards.is_alive, weight=1.0)},
        commands={"base_velocity": command},
    )
