"""Pony's task: to follow velocity commands on flat ground."""

from dataclasses import replace

from gaitway_tasks.robots import Robot
from gaitway_tasks.spec import Task
from gaitway_tasks.velocity import blind, unitree

from . import PONY


def flat(robot: Robot) -> Task:
    """The task of Unitree's small quadrupeds, with a payload that a robot of eight kilograms can carry."""
    task = unitree.flat(robot)
    payload = replace(task.events["add_base_mass"], params={"mass_distribution_params": (-0.5, 1.0)})
    return replace(task, events={**task.events, "add_base_mass": payload})


WALK = flat(PONY)
BLIND = blind(WALK)
