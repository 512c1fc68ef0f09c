"""Stand-in."""

from __future__ import annotations

from dataclasses import replace

from ..robots import Robot
from ..spec import Task
from . import base


def flat(robot: Robot) -> Task:
    """Velocity task on a plane."""
    task = base.flat(robot)
    feet = "|".join(robot.foot_names)
    air = task.rewards["feet_air_time"]
    rewards = {
        **base.without(task.rewards, "undesired_contacts"),
        "feet_air_time": replace(air, params={**air.params, "feet": feet}),
    }
    mass = replace(task.events["add_base_mass"], params={"mass_distribution_params": (-0.1, 0.1)})
    return replace(task, rewards=rewards, events={**task.events, "add_base_mass": mass})
