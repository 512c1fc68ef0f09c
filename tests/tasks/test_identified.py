"""Identified parameters change the task of a robot, and nothing else of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gaitway_tasks.identified import identified_task, longest_delay
from gaitway_tasks.mdp import events
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

FOUND = RobotParameters(robot="go2", delay=0.008, std={"delay": 0.0005})


def delays(task):
    return [e.params["delay_range"] for e in task.events.values() if e.func is events.randomize_action_delay]


@pytest.mark.parametrize("preset", [None, "cpu"])
def test_the_delay_that_was_found_takes_the_place_of_a_range(preset):
    task = get_task("velocity-flat-go2-blind", preset) if preset else get_task("velocity-flat-go2-blind")
    found = identified_task(task, FOUND)
    ((low, high),) = delays(found)
    assert (low, high) == (pytest.approx(0.007), pytest.approx(0.009))
    assert longest_delay(found) == high
    others = {k: e for k, e in found.events.items() if e.func is not events.randomize_action_delay}
    assert others == {k: e for k, e in task.events.items() if e.func is not events.randomize_action_delay}
    assert found.rewards == task.rewards and found.robot.parameters == FOUND
    assert delays(identified_task(task, replace(FOUND, delay=0.0, std={}))) == []


def test_a_network_has_gains_and_delay_inside():
    task = identified_task(get_task("velocity-flat-go2-blind", "cpu"), replace(FOUND, actuator_network="drives.pt"))
    inside = (events.randomize_action_delay, events.randomize_actuator_gains)
    assert not [event for event in task.events.values() if event.func in inside]


def test_real_drives_differ_from_what_they_are_told():
    joints = {"FL_calf_joint": JointParameters(stiffness_scale=1.1, damping_scale=0.9, strength=0.5, armature=0.02)}
    robot = GO2.replace(parameters=RobotParameters(robot="go2", joints=joints))
    law, real = robot.joint_actuators[2], robot.real_actuators[2]
    assert (real.stiffness, real.damping) == (pytest.approx(law.stiffness * 0.55), pytest.approx(law.damping * 0.45))
    assert real.effort_limit == law.effort_limit / 2 and real.saturation_effort == law.saturation_effort / 2
    assert real.armature == 0.02 and real.velocity_limit == law.velocity_limit
    assert robot.real_actuators[:2] == robot.joint_actuators[:2]
    assert GO2.real_actuators == GO2.joint_actuators


def test_parameters_of_another_robot_are_refused():
    task = get_task("velocity-flat-go2-blind")
    with pytest.raises(ValueError, match=r"of the robot 'h1', and velocity-flat-go2-blind is for 'go2'"):
        identified_task(task, RobotParameters(robot="h1"))
    with pytest.raises(ValueError, match="joints that go2 lacks: knee"):
        identified_task(task, RobotParameters(robot="go2", joints={"knee": JointParameters()}))
