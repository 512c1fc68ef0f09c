"""Gaits by the clock, for robots that learn on few steps: a trot on four feet, a walk on two, a tripod gait on six."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gaitway_files.errors import UserError

from ..mdp import curriculums, observations, rewards
from ..robots import Robot
from ..spec import Curriculum, ObservationTerm, Reward, Task
from . import base
from .base import COMMAND

GRAVITY = 9.81


@dataclass(frozen=True)
class Gait:
    """A gait of robots with as many feet as it has ``offsets``; lengths are in heights of the base at a reset."""

    offsets: tuple[float, ...]
    """Start of each foot's swing before the clock's cycle, in cycles."""
    duty: float
    """Share of a cycle in which a foot stands; above one half, feet overlap."""
    period: float
    """Cycle, in sqrt(height / g)."""
    height: float
    """Height to which a foot swings."""

    @property
    def swinging(self) -> float:
        """Mean number of feet in the air."""
        return len(self.offsets) * (1.0 - self.duty)


GAITS = {
    2: Gait(offsets=(0.0, 0.5), duty=0.55, period=2.83, height=0.1),
    4: Gait(offsets=(0.0, 0.5, 0.5, 0.0), duty=0.5, period=2.1, height=0.15),
    6: Gait(offsets=(0.0, 0.5, 0.5, 0.0, 0.0, 0.5), duty=0.5, period=2.1, height=0.15),
}
"""Gait by the number of feet. Four: the first and the last of the robot's feet are one diagonal. Six: they are listed
from front to rear, left before right."""


def gait_of(robot: Robot) -> Gait | None:
    """The gait of a robot with so many feet; None if there is none."""
    return GAITS.get(len(robot.foot_names))


def period(robot: Robot, gait: Gait, step_dt: float) -> float:
    """Cycle [s], an even number of control steps."""
    return 2 * round(0.5 * gait.period * math.sqrt(robot.init_height / GRAVITY) / step_dt) * step_dt


def by_the_clock(task: Task, gait: Gait) -> Task:
    """``task`` with the phase of ``gait`` in every observation, and feet that follow it while the robot is to walk.

    A wider tracking reward than Isaac Lab's tells a robot that steps on the spot that 1 m/s is asked for. The width of
    ``feet_phase`` makes it cost as much to keep down one foot of a humanoid as both of a trot's.

    Raises :class:`UserError` without the robot's ``foot_height``.
    """
    robot = task.robot
    if robot.foot_height is None:
        raise UserError(
            f"robot {robot.name!r}: foot_height is not set, and a gait by the clock needs it: set it to the height of "
            "the foot frames' origins above the soles [m], the radius of a ball at the origin"
        )
    clock = {"period": period(robot, gait, task.timing.step_dt)}
    feet = "|".join(robot.foot_names)
    schedule = {"feet": feet, **clock, **COMMAND, "duty": gait.duty, "offsets": gait.offsets}
    height = gait.height * robot.init_height
    phase = ObservationTerm(func=observations.gait_phase, params={**clock, **COMMAND, "late": 0.5})
    rises = {**schedule, "height": height, "std": 0.8 * height * math.sqrt(gait.swinging / 2.0)}
    return replace(
        task,
        observations={
            name: replace(group, terms={**group.terms, "gait_phase": phase})
            for name, group in task.observations.items()
        },
        rewards={
            **{name: term for name, term in task.rewards.items() if name != "feet_air_time"},
            "track_lin_vel_xy_wide": Reward(
                func=rewards.track_lin_vel_xy_exp, weight=2.0, params={"std": 1.0, **COMMAND}
            ),
            "feet_phase": Reward(func=rewards.feet_phase, weight=6.0, params=rises),
            "feet_gait": Reward(func=rewards.feet_gait, weight=0.5, params=schedule),
            "feet_slide": Reward(func=rewards.feet_slide, weight=-0.25, params={"feet": feet}),
            "stand_still": Reward(func=rewards.stand_still_joint_vel_l1, weight=-0.1, params=COMMAND),
            "stand_still_rate": Reward(func=rewards.stand_still_action_rate_l2, weight=-0.25, params=COMMAND),
        },
    )


SOFT = 0.018
"""Part of the height of a trot's swing that no robot's size changes [m]: floors are as soft under a small one."""


def growing(task: Task) -> Task:
    """``task`` whose commands and pushes grow with success, with rewards that have a slope far from the command.

    Those pay so much for speed that feet come to drag, on carpet first: sliding, contacts and heights against the clock
    weigh more beside them, and so do yaw rates. A trot has to lift each foot alone, as a walk has. Changes of the
    actions cost five to eight times as much: with Isaac Lab's weight, joint targets come to alternate by up to 0.8 rad
    at half the control rate, which shakes the base and would wear out drives.

    Not for a robot with a front-back mirror, which learns forward commands alone: it walks as soon without them, and
    turns more exactly.
    """
    two = len(task.robot.foot_names) == 2
    steps = {"steps": 4000, "then": 4000} if two else {"steps": 3000}
    growth = Curriculum(func=curriculums.CommandGrowth, params={**COMMAND, "share": 0.6, **steps})
    progress = Reward(func=rewards.lin_vel_xy_progress, weight=4.0, params=COMMAND)
    turning = Reward(func=rewards.track_ang_vel_z_exp, weight=2.0, params={"std": 1.5, **COMMAND})
    own = base.reweighted(task, action_rate_l2=-0.05 if two else -0.08).rewards
    if not two:
        rises = own["feet_phase"].params
        height = max(rises["height"], 0.8 * rises["height"] + SOFT)
        rises = {**rises, "height": height, "std": 0.75 * rises["std"]}
        weights = {
            "track_lin_vel_xy_fine": 1.15,
            "track_ang_vel_z_exp": 1.5,
            "track_ang_vel_z_fine": 1.5,
            "feet_gait": 2.0,
            "feet_slide": 4.0,
            "feet_phase": 1.25,
        }
        heavier = {name: replace(own[name], weight=times * own[name].weight) for name, times in weights.items()}
        own = {**own, **heavier, "feet_phase": replace(heavier["feet_phase"], params=rises)}
    return replace(
        task,
        curriculum={**task.curriculum, "command_growth": growth},
        rewards={**own, "lin_vel_xy_progress": progress, "track_ang_vel_z_wide": turning},
    )
