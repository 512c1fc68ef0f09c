"""Gaits that suite 2.0 must refuse, commands of each class, and limits that grow with the robot."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.rehearse import nominal
from gaitway_sim2real.trial import Verdict, validate_bundle
from gaitway_sim2real.trial.judging import usable
from gaitway_sim2real.trial.needs import by_reason
from gaitway_sim2real.trial.running import Plants
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_velocity import limits
from gaitway_velocity.command_classes import CLASSES, draw_class, has_class
from gaitway_velocity.limits import GAIT_LIMITS
from gaitway_velocity.needs import NEEDS, TWO_FEET
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from stand_bundle import make_stand_bundle

PATTERING = Path(__file__).parent / "pattering" / "bundle"
RANGES = np.array([[-1.0, 1.0], [-0.5, 0.5], [-1.5, 1.5]])


def verdict_of(bundle: Path, *names: str) -> Verdict:
    chosen = tuple(replace(s, envs=2, seconds=4.0) for s in SCENARIOS if s.name in names)
    assert len(chosen) == len(names)
    return validate_bundle(bundle, scenarios=chosen, processes=1)


def faults(verdict: Verdict) -> dict[str, set[str]]:
    return {r.name: {check.metric.name for check in r.checks if not check.passed} for r in verdict.scenarios}


def test_a_policy_that_patters_fails_for_what_it_does() -> None:
    old = Verdict.load(PATTERING / "validation.json", policy=PATTERING / "policy.onnx")
    assert (old.suite_version, old.passed, len(old.scenarios)) == ("1.0", True, 22)
    verdict = verdict_of(PATTERING, "gait_forward_slow", "gait_turning", "gait_turning_carpet")
    assert not verdict.passed
    patters = {"swing_time", "step_rate", "clearance", "slip", "dragging_feet"}
    found = faults(verdict)
    assert found["gait_forward_slow"] >= patters and found["gait_turning"] >= patters
    assert found["gait_turning_carpet"] >= {"swing_time", "clearance", "slip", "dragging_feet"}
    turning = verdict.scenarios[
        1
    ].metrics  # what an independent program measured: 0.06 s, 2.0 /s, 0.5 cm of all feet, 0.15 m/s
    assert 0.03 < turning["swing_time"] < 0.08 and 2.0 < turning["step_rate"] < 5.0
    assert 0.0005 < turning["clearance"] < 0.005 and 0.13 < turning["slip"] < 0.25
    lines = [line for line in verdict.summary().splitlines() if "Gait" in line]
    assert len(lines) == 3 and all("swing time" in line and "clearance" in line for line in lines)
    said = [f"{result.title}: {check.sentence()}" for result, check in verdict.failures()]
    swing = [line for line in said if line.startswith("Gait: turning: swing time 0.05")]
    assert len(swing) == 1 and "allowed at least 0.189 s" in swing[0]


def test_standing_is_no_gait_and_no_fault_of_standing(tmp_path: Path) -> None:
    verdict = verdict_of(make_stand_bundle(tmp_path), "standing", "gait_forward_fast")
    found = faults(verdict)
    gait = {"swing_time", "clearance", "dragging_feet", "lin_vel_error"}
    assert found["gait_forward_fast"] >= gait and not gait & found["standing"]
    walking = verdict.scenarios[1].metrics
    assert walking["swing_time"] == walking["clearance"] == walking["step_rate"] == 0.0
    assert math.isnan(verdict.scenarios[0].metrics["swing_time"])  # not measured where nothing says to walk


@pytest.mark.parametrize("name", CLASSES)
def test_commands_of_a_class(name: str) -> None:
    command = draw_class(name, RANGES, 40, np.random.default_rng(0))
    share = command / RANGES[:, 1]
    assert (np.abs(share) <= 1.0).all()
    for axis, bounds in enumerate(np.abs(CLASSES[name].shares)):
        size = np.abs(share[:, axis])
        assert (size >= bounds.min()).all() and (size <= bounds.max()).all()
    forward = share[:, 0]
    assert (forward >= 0).all() or name == "backward"
    for axis in (1, 2):
        assert (share[::2, axis] >= 0).all() and (share[1::2, axis] <= 0).all()  # left and right in turns


def test_a_class_that_a_contract_does_not_have() -> None:
    forward_only = np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.6]])
    has = {name for name in CLASSES if has_class(name, forward_only)}
    assert has == {"forward_slow", "forward_fast", "turning", "combined"}
    turns = draw_class("turning", forward_only, 6, np.random.default_rng(0))
    assert (turns[:, 2] > 0).all() and not turns[:, :2].any()
    with pytest.raises(ValueError, match=r"command class 'backward': the contract's range \[0.0, 1.0\]"):
        draw_class("backward", forward_only, 2, np.random.default_rng(0))
    always = np.array([[0.3, 1.0], [-0.5, 0.5], [-1.0, 1.0]])
    assert (draw_class("sideways", always, 4, np.random.default_rng(0))[:, 0] == 0.3).all()


def judged(contract: Contract, bundle: Path) -> tuple[list[Scenario], dict[str, list[str]]]:
    """Scenarios that are run, and titles of the others by the reason."""
    model = bundle / "robot.xml"
    kept, left_out = usable(SUITE, SCENARIOS, contract, Plants(contract, model, model))
    return kept, by_reason([row for row in left_out if row.kind != "metric"])


def test_a_class_that_is_missing_is_said(tmp_path: Path) -> None:
    bundle = make_stand_bundle(tmp_path)
    contract = Contract.load(bundle)
    kept, missing = judged(contract, bundle)
    assert [s.name for s in kept] == [s.name for s in SCENARIOS if s.name != "arms_moved"]
    assert missing == {NEEDS["arms"].why: ["Arms moved"]}
    commands = {"base_velocity": {"lin_vel_x": (0.0, 1.0), "lin_vel_y": (0.0, 0.0), "ang_vel_z": (-1.0, 1.0)}}
    kept, missing = judged(replace(contract, commands=commands), bundle)
    assert len(SCENARIOS) - len(kept) == 7 and not {"backward", "sideways"} & {s.commands for s in kept}
    assert missing["the command ranges do not reach 0.2 sideways"] == [
        "Gait: sideways", "Gait on carpet: sideways"
    ]  # fmt: skip
    walks_on = {"base_velocity": {"lin_vel_x": (0.3, 1.0), "lin_vel_y": (-1.0, 1.0), "ang_vel_z": (0.1, 1.0)}}
    kept, missing = judged(replace(contract, commands=walks_on), bundle)
    assert not {"standing", "stops", "straight"} & {s.commands for s in kept}
    assert {"Standing still", "Stops"} <= set(missing["it cannot be told to stand"]) and len(missing) == 7


def test_a_policy_that_only_stands_is_judged_on_standing(tmp_path: Path) -> None:
    bundle = make_stand_bundle(tmp_path)
    still = {"base_velocity": dict.fromkeys(("lin_vel_x", "lin_vel_y", "ang_vel_z"), (0.0, 0.0))}
    kept, missing = judged(replace(Contract.load(bundle), commands=still), bundle)
    names = {scenario.name for scenario in kept}
    assert names >= {"standing", "standing_pushed", "standing_slope", "pushes", "friction_0.4", "delay_20ms", "nominal"}
    assert not names & {"command_grid", "straight", "stops", "command_steps", "gait_turning"}
    asked = {limit.metric for scenario in kept for limit in scenario.limits}
    assert not asked & {"swing_time", "clearance", "dragging_feet", "corner_falls"} and "falls" in asked
    assert {"Command grid", "Swing time", "Clearance"} <= set(missing["the policy takes no velocity command"])


def test_limits_grow_with_the_robot() -> None:
    """ANYmal C and a robot of a quarter of its height: half the time, half the speed, a quarter of the length."""
    limits = [limit for limit in GAIT_LIMITS if TWO_FEET not in limit.needs]
    large, small = ({limit.metric: limit.for_robot(height) for limit in limits} for height in (0.549, 0.549 / 4))
    assert large["swing_time"].value == pytest.approx(0.189, abs=1e-3)
    assert large["step_rate"].value == pytest.approx(2.62, abs=1e-2)
    assert large["clearance"].value == pytest.approx(0.0329, abs=1e-4)
    assert large["slip"].value == pytest.approx(0.116, abs=1e-3)
    ratio = {name: small[name].value / large[name].value for name in large}
    expected = {"swing_time": 0.5, "step_rate": 2.0, "clearance": 0.25, "slip": 0.5}
    assert ratio == pytest.approx({name: expected.get(name, 1.0) for name in large})
    plain = Limit(metric="falls", value=0.01)
    assert plain.for_robot(0.3) is plain


def test_a_rehearsal_judges_velocities_by_the_limits_of_the_suite() -> None:
    ours = (nominal.LINEAR, nominal.LINEAR_ON_TWO, nominal.YAW)
    assert ours == tuple(limit.value for limit in (limits.LINEAR, limits.LINEAR_ON_TWO, limits.YAW))
