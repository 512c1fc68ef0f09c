"""Rehearsals of a standing Go2 in simulated time: nominal, and faults in several modes."""

import dataclasses
import math

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.transports.source import Source
from gaitway_onboard.transports.unitree import UnitreeRobot
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_sim2real.hardware import hardware_from
from gaitway_sim2real.rehearse import faults, nominal
from gaitway_sim2real.rehearse.faults import OF_A_WALK, TROUBLES, Trouble, possible, rehearse_fault
from gaitway_sim2real.rehearse.nominal import laps, rehearse_nominal
from gaitway_sim2real.rehearse.stage import Player, Stage
from gaitway_sim2real.rehearse.suite import Settings
from gaitway_tasks.robots import GO2, ROBOTS
from stand_bundle import make_stand_bundle
from tree import ROOT

MOVING = {"lin_vel_x": (-1.0, 1.0), "lin_vel_y": (0.0, 0.0), "ang_vel_z": (0.0, 0.0)}
WORN = Quirks(loss=0.01, jitter=0.005, command_loss=0.01, command_jitter=0.005)


def trouble(name: str) -> Trouble:
    return next(each for each in TROUBLES if each.name == name)


def values(trial):
    return {check.title: check.value for check in trial.checks}


@pytest.fixture(scope="module")
def nominal_run(go2_bundle):
    return rehearse_nominal(go2_bundle, hardware_from(GO2), seconds=1.5, quirks=WORN, seed=1)


def test_nominal_stands_up_and_lies_down(nominal_run):
    trial, trace = nominal_run
    assert trial.failures() == [] and trial.outcome == "finished"
    assert len(trace.time) == 75 and trace.height.min() > 0.25 and trace.tilt.max() < 0.1
    assert 0.1 < np.nanmax(trace.share) < 1.0
    assert trial.facts["command frames"] > 500 * 6


def test_the_same_seed_gives_the_same_numbers(nominal_run, go2_bundle):
    trial, trace = nominal_run
    again, trace_again = rehearse_nominal(go2_bundle, hardware_from(GO2), seconds=1.5, quirks=WORN, seed=1)
    assert again == trial
    np.testing.assert_array_equal(trace_again.share, trace.share)


def test_what_the_policy_estimates_for_itself_is_compared_with_the_twin(nominal_run, go2_bundle, monkeypatch):
    made = []

    class Kept(Stage):
        def __init__(self, *args, **keys):
            super().__init__(*args, **keys)
            made.append(self)

    def half_off(player):
        return {"estimated_base_lin_vel": made[0].twin.truth().base_lin_vel + np.array([0.3, 0.0, -0.4])}

    monkeypatch.setattr(nominal, "Stage", Kept)
    monkeypatch.setattr(Player, "estimates", property(half_off))
    trial, _ = rehearse_nominal(go2_bundle, hardware_from(GO2), seconds=1.0, quirks=WORN, seed=1)
    assert trial.facts[nominal.OWN_ERROR] == pytest.approx(0.5)
    assert nominal.OWN_ERROR not in nominal_run[0].facts


def test_a_robot_on_two_feet_is_let_down_when_its_policy_starts_and_hung_up_when_it_ends(tmp_path, monkeypatch):
    robot = ROBOTS["g1-29dof"]
    bundle = make_stand_bundle(tmp_path / "bundle", robot, stiffness=60.0, damping=2.0, speed=0.0)
    stage: list[Stage] = []

    def kept(*args, **keys):
        stage.append(Stage(*args, **keys))
        return stage[0]

    monkeypatch.setattr(nominal, "Stage", kept)
    trial, trace = rehearse_nominal(bundle, hardware_from(robot), seconds=1.0, quirks=WORN)
    body = stage[0].twin.body
    assert abs(trace.height[0] - robot.init_height) < 0.05, "its feet are 0.3 m lower than on the stand"
    assert np.ptp(trace.height) > 0.001 and body.hung
    assert {"falls", "mean velocity error"} <= set(values(trial))


def test_nominal_fails_when_the_robot_falls(go2_bundle, monkeypatch):
    """A verdict that cannot be FAIL would be worth nothing."""
    made = []

    class Weak(Stage):
        def __init__(self, *args, **keys):
            super().__init__(*args, **keys)
            made.append(self)
            self.policy.twist = lambda targets: targets + 0.9 * np.sign(np.arange(12) % 2 - 0.5)

    monkeypatch.setattr(nominal, "Stage", Weak)
    trial, _ = rehearse_nominal(go2_bundle, hardware_from(GO2), seconds=1.5, quirks=WORN)
    assert made and not trial.passed
    assert values(trial)["trips"] == 1.0 or values(trial)["falls"] == 1.0


@pytest.mark.usefixtures("lies_already")
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("silence", Mode.RAMP),
        ("checksum", Mode.RAMP),
        ("writer", Mode.RAMP),
        ("rewind", Mode.RAMP),
        ("replay", Mode.RAMP),
        ("second-robot", Mode.RAMP),
        ("clock", Mode.RAMP),
        ("joint-jump", Mode.RAMP),
        ("stall", Mode.RAMP),
        ("joint-nan", Mode.HOLD),
        ("stop", Mode.HOLD),
        ("fall", Mode.POLICY),
        ("policy-late", Mode.POLICY),
        ("exception", Mode.POLICY),
    ],
)
@pytest.mark.hostile("deployment")
def test_faults_end_in_damping(go2_bundle, name, mode):
    trial = rehearse_fault(go2_bundle, hardware_from(GO2), trouble(name), mode, quirks=WORN)
    assert trial.failures() == []
    assert trial.mode == mode and math.isfinite(trial.facts["detected after [ms]"])


TRIED = ("silence", "checksum", "writer", "rewind", "replay", "second-robot", "clock", "joint-jump", "stall",
         "joint-nan", "stop", "fall", "policy-late", "exception", "second-deploy")  # fmt: skip
"""Elsewhere in this file."""
LIES = [
    (each.name, mode)
    for each in TROUBLES
    if each.name not in TRIED
    for mode in sorted({each.modes[0], *({Mode.POLICY} & set(each.modes) if len(each.causes) > 1 else ())})
    if not (mode is Mode.POLICY and each.name in OF_A_WALK)  # the robot only stands
]


@pytest.mark.usefixtures("lies_already")
@pytest.mark.parametrize(("name", "mode"), LIES)
@pytest.mark.hostile("deployment")
def test_lies_end_in_damping(go2_bundle, name, mode, monkeypatch):
    monkeypatch.setattr(faults, "LONG", 2.6)
    if mode is Mode.POLICY:  # what comes before it takes no longer than it must
        monkeypatch.setattr(faults, "CONFIG", dataclasses.replace(faults.CONFIG, ramp=0.5, hold=0.1))
    trial = rehearse_fault(go2_bundle, hardware_from(GO2), trouble(name), mode, quirks=Settings().quirks)
    assert trial.failures() == []


def test_the_page_has_every_fault_with_its_reasons_and_time():
    page = (ROOT / "docs" / "rehearse.md").read_text("utf-8")
    table = page[page.index("## The faults") :]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    said = sorted((name, reasons, within) for name, _, reasons, within in rows if name != "fault")
    wanted = [
        (
            each.name,
            ", ".join(f"`{cause}`" for cause in each.causes) or "none",
            f"{each.within:g} s" * bool(each.causes),
        )
        for each in TROUBLES
    ]
    assert said == sorted(wanted) and f"[{len(TROUBLES)} faults]" in page


def test_what_shows_only_in_a_walk_is_not_asked_of_a_robot_that_stands(go2_bundle):
    contract = Contract.load(go2_bundle)
    turning = dataclasses.replace(contract, commands={"base_velocity": MOVING})
    for name in OF_A_WALK:
        assert not possible(trouble(name), hardware_from(GO2), contract)
        assert possible(trouble(name), hardware_from(GO2), turning)


@pytest.mark.hostile("deployment")
def test_a_second_deployment_disturbs_no_other(go2_bundle, monkeypatch):
    monkeypatch.setattr(faults, "LONG", 0.5)
    trial = rehearse_fault(go2_bundle, hardware_from(GO2), trouble("second-deploy"), Mode.RAMP, quirks=WORN)
    assert trial.failures() == [] and "finished; the second: controller drives a robot on rt/lowcmd" in trial.outcome


def test_a_second_deployment_that_does_not_look_fails(go2_bundle, monkeypatch):
    monkeypatch.setattr(faults, "LONG", 0.5)
    monkeypatch.setattr(UnitreeRobot, "check_alone", lambda robot: None)
    trial = rehearse_fault(go2_bundle, hardware_from(GO2), trouble("second-deploy"), Mode.RAMP, quirks=WORN)
    assert trial.outcome.startswith("second_writer") and values(trial)["trips"] == 1.0


@pytest.mark.usefixtures("lies_already")
def test_states_that_are_believed_of_anybody_fail(go2_bundle, monkeypatch):
    """The audit finds the robot without the transport's help."""
    monkeypatch.setattr(Source, "counts", lambda source, writer: True)
    monkeypatch.setattr(Source, "strangers", lambda source: ())
    trial = rehearse_fault(go2_bundle, hardware_from(GO2), trouble("second-robot"), Mode.RAMP, quirks=Quirks())
    assert not trial.passed


@pytest.mark.usefixtures("lies_already")
def test_a_fault_that_nobody_notices_fails(go2_bundle, monkeypatch):
    monkeypatch.setattr(faults, "LONG", 0.5)
    nothing = Trouble(name="nothing", about="", causes=("state_age",), provoke=lambda stage: None)
    trial = rehearse_fault(go2_bundle, hardware_from(GO2), nothing, Mode.RAMP, quirks=Quirks())
    assert not trial.passed and values(trial)["reason named"] == 0.0


@pytest.mark.usefixtures("lies_already")
def test_a_reason_that_is_another_fails(go2_bundle):
    wrong = Trouble(name="wrong", about="", causes=("battery",), provoke=trouble("imu-nan").provoke)
    trial = rehearse_fault(go2_bundle, hardware_from(GO2), wrong, Mode.RAMP, quirks=Quirks())
    assert trial.failures() == ["wrong in ramp: reason named 0, allowed at least 1"]


def test_laps_repeat_the_tour(exported):
    contract = Contract.load(exported)
    script = laps(contract, 81.0)
    assert len(script) == 27 and [command for _, command in script[:9]] == [command for _, command in script[18:]]
    assert [time for time, _ in script] == sorted(time for time, _ in script) and script[-1][0] < 81.0
    assert len(laps(contract, 2.0)) == 9
