"""A task on one identified robot, instead of the nominal model."""

from __future__ import annotations

from typing import Any

from gaitway_files.errors import UserError

from .mdp import events
from .robots.parameters import RobotParameters
from .spec import Event, Task

SPREAD = 2.0
"""Half width of the delay range, in standard deviations of the identified delay."""


def identified_task(task: Task, parameters: RobotParameters) -> Task:
    """``task`` with the robot that ``parameters`` describe.

    The identified delay, plus and minus :data:`SPREAD` standard deviations, replaces the range of the action-delay
    event. An actuator network replaces the whole drive, delay and gains included, so events that vary those are left
    out. All other events stay and vary the identified values. Raises ValueError if the parameters belong to
    another robot.
    """
    robot = task.robot
    if parameters.robot != robot.name:
        raise UserError(f"the parameters are of the robot {parameters.robot!r}, and {task.name} is for {robot.name!r}")
    if unknown := [name for name in parameters.joints if name not in robot.joint_names]:
        raise UserError(f"the parameters have joints that {robot.name} lacks: {', '.join(unknown)}")
    if parameters.actuator_network is not None:
        inside = (events.randomize_action_delay, events.randomize_actuator_gains)
        kept = {name: event for name, event in task.events.items() if event.func not in inside}
    else:
        kept = dict(task.events)
        name = next((key for key, event in kept.items() if event.func is events.randomize_action_delay), "action_delay")
        unsure = SPREAD * parameters.std.get("delay", 0.0)
        limits = (max(0.0, parameters.delay - unsure), parameters.delay + unsure)
        if limits[1] > 0.0:
            kept[name] = Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": limits})
        else:
            kept.pop(name, None)
    return task.replace(robot=robot.replace(parameters=parameters), events=kept)


def longest_delay(task: Task) -> float:
    """The longest action delay that the task's events draw [s]."""
    longest = 0.0
    for name, event in task.events.items():
        if event.func is events.randomize_action_delay:
            limits: Any = event.params.get("delay_range")
            try:
                _, high = limits
                longest = max(longest, float(high))
            except (TypeError, ValueError):
                raise UserError(
                    f"task.events.{name}.params.delay_range={limits!r}: give the shortest and the longest delay in "
                    "seconds, such as [0.0, 0.02]"
                ) from None
    return longest
