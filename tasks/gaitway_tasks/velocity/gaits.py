"""A trot by the clock, for quadrupeds that learn on few steps."""

from __future__ import annotations

import math
from dataclasses import replace

from gaitway_files.errors import UserError

from ..mdp import observations, rewards
from ..robots import Robot
from ..spec import ObservationTerm, Reward, Task
from .base import COMMAND

GRAVITY = 9.81


def period(robot: Robot, step_dt: float) -> float:
    """Cycle of a trot [s]: 2.1 sqrt(h / g) with the base height h at a reset, an even number of control steps."""
    return 2 * round(1.05 * math.sqrt(robot.init_height / GRAVITY) / step_dt) * step_dt


def trot(task: Task) -> Task:
    """``task`` with the phase of a trot in every observation, and feet that follow it while the robot is to walk.

    A wider tracking reward than Isaac Lab's tells a robot that steps on the spot that 1 m/s is asked for.

    The robot's first and last feet are one diagonal. Raises ``ValueError`` without its ``foot_height``.
    """
    robot = task.robot
    if robot.foot_height is None:
        raise UserError(
            f"robot {robot.name!r}: foot_height is not set, and a trot by the clock needs it: set it to the height of "
            "the foot frames' origins above the soles [m], the radius of a ball at the origin"
        )
    clock = {"period": period(robot, task.timing.step_dt)}
    feet = "|".join(robot.foot_names)
    schedule = {"feet": feet, **clock, **COMMAND, "duty": 0.5, "offsets": (0.0, 0.5, 0.5, 0.0)}
    height = 0.15 * robot.init_height
    phase = ObservationTerm(func=observations.gait_phase, params={**clock, **COMMAND, "late": 0.5})
    rises = {**schedule, "height": height, "std": 0.8 * height}
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
