"""Velocity tasks of Unitree's small quadrupeds A1, Go1 and Go2.

Values are Isaac Lab 2.3.2's ``Isaac-Velocity-{Flat,Rough}-Unitree-{A1,Go1,Go2}-v0``, which differ only in the robot.
"""

from __future__ import annotations

from dataclasses import replace

from ..actions import JointPositionAction
from ..robots import Robot
from ..spec import Params, Task
from . import base

LOWER: dict[str, Params] = {
    "boxes": {"grid_height_range": (0.025, 0.1)},
    "random_rough": {"noise_range": (0.01, 0.06), "noise_step": 0.01},
}
"""Tiles of about half the height, because the robots are small."""


def flat(robot: Robot) -> Task:
    """Velocity task on a plane."""
    task = base.reweighted(
        base.flat(robot),
        track_lin_vel_xy_exp=1.5,
        track_ang_vel_z_exp=0.75,
        dof_torques_l2=-2.0e-4,
        feet_air_time=0.25,
        flat_orientation_l2=-2.5,
    )
    air_time = task.rewards["feet_air_time"]
    air_time = replace(air_time, params={**air_time.params, "feet": ".*_foot"})
    mass = replace(task.events["add_base_mass"], params={"mass_distribution_params": (-1.0, 3.0)})
    return replace(
        task,
        actions=JointPositionAction(scale=0.25),
        rewards={**base.without(task.rewards, "undesired_contacts"), "feet_air_time": air_time},
        events={**base.without(base.starting_still(task.events), "base_com", "push_robot"), "add_base_mass": mass},
    )


def rough(robot: Robot) -> Task:
    """Velocity task over rough ground."""
    task = base.reweighted(base.on_rough_ground(flat(robot)), feet_air_time=0.01, flat_orientation_l2=0.0)
    generator = base.ROUGH_TERRAIN.generator
    tiles = dict(generator.sub_terrains)
    for name, params in LOWER.items():
        tiles[name] = replace(tiles[name], params={**tiles[name].params, **params})
    return replace(task, ground=replace(base.ROUGH_TERRAIN, generator=replace(generator, sub_terrains=tiles)))
