"""What the preset ``cpu`` changes for robots on two legs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gaitway_files.trust import is_own

from ..mdp import rewards
from ..mdp.commands import UniformVelocityCommand
from ..spec import Reward, Task
from . import base, gaits, legged
from .base import COMMAND

SETTLE = 0.775
"""Time for which a robot that is told to stop still has its clock, in cycles. Of G1s with 0.45, some crept on or fell;
with a whole cycle, stops took 1.85 s."""
STRIDE = 0.5
"""Time over which a yaw rate is averaged, in the order of a stride [s]."""


def from_facts(task: Task) -> Task:
    """``task`` with rewards, ranges and randomisation from the robot's facts, and the user's own terms.

    Isaac Lab's weights for humanoids are made for a hundred million steps without a clock.
    """
    own = legged.flat(task.robot)
    kept = {name: term for name, term in task.rewards.items() if not is_own(getattr(term.func, "__module__", ""))}
    return replace(
        task,
        actions=own.actions,
        rewards={**own.rewards, **kept},
        terminations={**task.terminations, **own.terminations},
        commands=own.commands,
        events=own.events,
    )


def on_two_legs(task: Task) -> Task:
    """``task``, by the clock, for a robot that falls more easily and has to swing its trunk to turn.

    - It starts nearly still, and a command lasts four seconds. It changes as slowly as in the exported policy, and the
      clock of a robot that is told to stop goes on (:data:`SETTLE`): without it, it steps no more and falls backwards.
    - A pelvis turns to and fro within each step, and a narrow reward of the momentary yaw rate has no slope under that
      swing: the mean over a stride is paid instead.
    - Standing still, which a walking policy finds late, costs more to miss and is asked for more often, but only of a
      robot that is slow: before, it has to step.
    """
    start = task.events["reset_base"]
    speeds = {"x": (-0.3, 0.3), "y": (-0.3, 0.3), "z": (-0.1, 0.1), "roll": (-0.2, 0.2), "pitch": (-0.2, 0.2)}
    command = replace(
        UniformVelocityCommand.of(task),
        resampling_time_range=(4.0, 4.0),
        acceleration=(1.8, 1.8, 2.7),
        ramp=True,
        settle=SETTLE * gaits.period(task.robot, gaits.GAITS[2], task.timing.step_dt),
        rel_standing_envs=0.3,
        rel_ends=0.3,
    )
    task = base.reweighted(
        task,
        track_lin_vel_xy_fine=3.0,
        feet_gait=1.5,
        stand_still=-0.15,
        stand_still_rate=-0.3,
    )
    slow = {
        name: replace(task.rewards[name], params={**COMMAND, "still": 0.25})
        for name in ("stand_still", "stand_still_rate")
    }
    mean: dict[str, Any] = {"time": STRIDE, **COMMAND}
    turning = {
        f"track_ang_vel_z_{name}": Reward(
            func=rewards.track_mean_ang_vel_z_exp, weight=weight, params={"std": std, **mean}
        )
        for name, weight, std in (("exp", 3.0, 0.5), ("fine", 3.0, 0.2), ("wide", 2.0, 1.5))
    }
    steady = {"std": 1.0, **COMMAND, "start": legged.START}
    swing = Reward(func=rewards.track_ang_vel_z_exp, weight=12.0, params=steady)
    return replace(
        task,
        commands={"base_velocity": command},
        rewards={**task.rewards, **slow, **turning, "track_ang_vel_z_swing": swing},
        events={
            **task.events,
            "reset_base": replace(start, params={**start.params, "velocity_range": {**speeds, "yaw": (-0.3, 0.3)}}),
            "reset_robot_joints": replace(task.events["reset_robot_joints"], params={"position_range": (0.8, 1.2)}),
        },
    )
