"""Common part of the velocity tasks of Unitree's humanoids H1 and G1 in Isaac Lab 2.3.2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..mdp import rewards
from ..mdp.commands import UniformVelocityCommand
from ..robots import Robot
from ..spec import Reward, Task
from . import base
from .base import COMMAND

TORSO = "torso_link"


def flat(robot: Robot, *, ankles: Sequence[str], feet: str) -> Task:
    """Velocity task on a plane, forwards only. ``ankles`` are joints with a limit penalty, ``feet`` the foot bodies."""
    task = base.reweighted(base.flat(robot), flat_orientation_l2=-1.0, action_rate_l2=-0.005, dof_acc_l2=-1.25e-7)
    tracking = {"std": 0.5, **COMMAND}
    step = {"feet": feet, "threshold": 0.4, **COMMAND}
    changed = {
        "termination_penalty": Reward(func=rewards.is_terminated, weight=-200.0),
        "track_lin_vel_xy_exp": Reward(func=rewards.track_lin_vel_xy_yaw_frame_exp, weight=1.0, params=tracking),
        "track_ang_vel_z_exp": Reward(func=rewards.track_ang_vel_z_world_exp, weight=1.0, params=tracking),
        "feet_air_time": Reward(func=rewards.feet_air_time_positive_biped, weight=0.25, params=step),
        "feet_slide": Reward(func=rewards.feet_slide, weight=-0.1, params={"feet": feet}),
        "dof_pos_limits": Reward(func=rewards.joint_pos_limits, weight=-1.0, params={"joints": any_of(*ankles)}),
    }
    fall = task.terminations["base_contact"]
    return replace(
        task,
        rewards={**base.without(task.rewards, "undesired_contacts"), **changed},
        terminations={**task.terminations, "base_contact": replace(fall, params={**fall.params, "bodies": TORSO})},
        commands={
            "base_velocity": replace(UniformVelocityCommand.of(task), lin_vel_x=(0.0, 1.0), lin_vel_y=(0.0, 0.0))
        },
        events=base.without(base.starting_still(task.events), "add_base_mass", "base_com", "push_robot"),
    )


def deviation(weight: float, *joints: str) -> Reward:
    """Cost of moving ``joints`` (expressions for whole names) away from the default pose."""
    return Reward(func=rewards.joint_deviation_l1, weight=weight, params={"joints": any_of(*joints)})


def with_params(task: Task, name: str, **params: object) -> Task:
    """``task`` with other parameters for the reward ``name``."""
    term = task.rewards[name]
    return replace(task, rewards={**task.rewards, name: replace(term, params={**term.params, **params})})


def any_of(*patterns: str) -> str:
    """One expression for names that match one of ``patterns``."""
    return "|".join(patterns)
