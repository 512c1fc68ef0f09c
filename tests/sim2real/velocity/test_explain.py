"""What a robot that failed did: faults written by hand, of which the sentence must name foot, joint or velocity."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gaitway_sim2real.trial.feet import FootTrace
from gaitway_sim2real.trial.result import LimitCheck, ScenarioResult
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import Trajectory
from gaitway_sim2real.trial.why import FailedWalk
from gaitway_velocity.explain import explain
from gaitway_velocity.response import AXES, least_answered, levels
from gaitway_velocity.suite import SUITE
from gaitway_velocity.themes import THEMES
from recording import recording

NAMES = ("LF", "LH", "RF", "RH")
DT, DECIMATION, SECONDS = 0.005, 4, 8.0
STEPS = round(SECONDS / (DT * DECIMATION))
CONTRACT: Any = SimpleNamespace(follows_velocity=True, joint_names=tuple(f"j{k}" for k in range(12)))


def walking(peaks: tuple[float, ...] = (0.05,) * 4, slips: tuple[float, ...] = (0.0,) * 4) -> FootTrace:
    """A trot in which each foot is lifted as high as ``peaks`` and slides with ``slips``."""
    time = np.arange(STEPS * DECIMATION) * DT
    phase = (time[:, None] / 0.5 + np.array([0.0, 0.5, 0.5, 0.0])) % 1.0
    air = (phase < 0.45) & (time[:, None] > 0.5)
    places = np.array([[0.4, 0.3], [-0.4, 0.3], [0.4, -0.3], [-0.4, -0.3]])
    feet = FootTrace.empty(len(time), 1, dt=DT, decimation=DECIMATION, stand_height=0.5, names=NAMES, places=places,
                           soles=np.zeros(4))  # fmt: skip
    feet.contact[:, 0] = ~air
    feet.clearance[:, 0] = air * np.sin(np.pi * phase / 0.45) * np.array(peaks)
    feet.slip[:, 0] = ~air * np.array(slips)
    feet.normal_force[:, 0] = 100.0 * ~air
    return feet


def failed(metric: str, value: float, limit: float, rec: Trajectory, *, at_least: bool = False) -> FailedWalk:
    check = LimitCheck(metric=SUITE.table[metric], value=value, limit=limit, at_least=at_least, passed=False)
    result = ScenarioResult(
        name="s", title="S", about="", required=True, envs=4, seconds=SECONDS, checks=(check,), metrics={},
        fall_causes={},
    )  # fmt: skip
    plant: Any = SimpleNamespace(foot_names=NAMES)
    scenario = Scenario(name="s", title="S", about="", limits=(), envs=4)
    return FailedWalk(result=result, check=check, scenario=scenario, robot=2, recording=rec, plant=plant)


def told(**changes: Any) -> Trajectory:
    command = np.zeros((STEPS, 1, 3))
    command[..., 0] = 0.5
    return recording(**{"steps": STEPS, "robots": 1, "feet": 4, "command": command, **changes})


def test_the_foot_that_drags_is_named() -> None:
    rec = replace(told(), feet=walking(peaks=(0.05, 0.05, 0.004, 0.05)))
    said = explain(failed("clearance", 0.02, 0.03, rec, at_least=True), CONTRACT)
    assert said.seen[0].startswith("robot 3 of 4, told vx 0.5 m/s: RF is lifted 0.4 cm (LF 5.0 cm")
    assert 0.0 <= said.start < said.end <= SECONDS and len(said.figures) == 3


def test_the_foot_that_slides_is_named() -> None:
    rec = replace(told(), feet=walking(slips=(0.01, 0.4, 0.01, 0.01)))
    (said,) = explain(failed("slip", 0.2, 0.1, rec), CONTRACT).seen
    assert "LH slides with 0.40 m/s (LF 0.01 m/s" in said and "allowed are 0.100 m/s" in said


def test_a_robot_that_lifts_no_foot_says_so() -> None:
    feet = walking()
    feet.contact[:] = True
    (said,) = explain(failed("swing_time", 0.0, 0.2, replace(told(), feet=feet), at_least=True), CONTRACT).seen
    assert said.endswith("no foot is lifted")


def test_a_fall_says_when_why_and_after_which_push() -> None:
    push, alive = np.zeros((STEPS, 1, 2)), np.ones((STEPS, 1), bool)
    push[180] = 0.5
    alive[201:] = False
    rec = told(push=push, alive=alive, fall_step=np.array([200]), fall_cause=("base tilt",))
    found = explain(failed("falls", 0.2, 0.05, rec), CONTRACT)
    assert found.seen == ("robot 3 of 4 falls after 4.0 s (base tilt), told vx 0.5 m/s, 0.4 s after a push",)
    assert found.start < 4.0 < found.end


def test_velocities_are_told_beside_the_command() -> None:
    lin_vel = np.zeros((STEPS, 1, 3))
    lin_vel[..., 0] = 0.2
    lin_vel[300:350, :, 1] = 0.9
    (said,) = explain(failed("lin_vel_error", 0.3, 0.15, told(lin_vel=lin_vel)), CONTRACT).seen
    assert "it goes 0.20, 0.15 m/s" in said
    moment = float(said.rpartition("at ")[2].partition(" s")[0])
    assert moment == pytest.approx(6.5, abs=0.6)


@pytest.mark.parametrize(
    ("metric", "part"), [("steps_at_rest", "RH steps at 5.0 s; 1 of its feet"), ("rest_joint_speed", "j7 moves most")]
)
def test_what_moves_at_rest_is_named(metric: str, part: str) -> None:
    contact, joint_vel = np.ones((STEPS, 1, 4), bool), np.zeros((STEPS, 1, 12))
    contact[250:255, :, 3] = False
    joint_vel[..., 7] = 0.3
    rec = told(command=np.zeros((STEPS, 1, 3)), foot_contact=contact, joint_vel=joint_vel)
    (said,) = explain(failed(metric, 0.2, 0.05, rec), CONTRACT).seen
    assert "told to stand" in said and part in said


def test_of_a_sweep_the_largest_ignored_command_is_shown() -> None:
    told_to = levels(np.array([-1.0, 1.0]))
    command = np.zeros((STEPS, len(told_to), 3))
    command[..., 0] = told_to
    lin_vel = np.where(np.abs(command) < 0.12, 0.0, command)
    robots = len(told_to)
    rec = recording(steps=STEPS, robots=robots, feet=4, command=command, lin_vel=lin_vel)
    worst = least_answered(rec, AXES["response_vx"])
    assert abs(told_to[worst]) == max(size for size in np.abs(told_to) if size < 0.12)
    (said,) = explain(failed("dead_zone", 0.15, 0.1, rec.of(slice(worst, worst + 1))), CONTRACT).seen
    assert "it goes 0.00, 0.00 m/s" in said and "dead zone" in said


def test_every_limit_of_the_suite_is_about_something() -> None:
    limited = {limit.metric for scenario in SUITE.scenarios if scenario.required for limit in scenario.limits}
    assert limited <= set(THEMES)
