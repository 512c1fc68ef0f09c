"""Rehearsals of a standing Go2 in simulated time: nominal, and faults in several modes."""

import dataclasses

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.controller import ControllerConfig, Mode
from gaitway_onboard.transports import motion_switcher, on_bus
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


class Brisk(Stage):
    """Stands up and lies down faster than a robot would, since little is looked at there."""

    newest: Stage
    twist = None

    def __init__(self, *args, **keys):
        super().__init__(*args, **keys)
        Brisk.newest = self
        self.policy.twist = self.twist

    def perform(self, *args, **keys):
        config = ControllerConfig(ramp=0.5, ramp_speed=4.0, hold=0.1, settle=0.2, lower=0.5, damp=0.2)
        return super().perform(*args, **keys, config=config)


@pytest.fixture(scope="module", autouse=True)
def brisk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nominal, "Stage", Brisk)
        patch.setattr(motion_switcher, "LYING_DOWN", 0.1)  # it lies from the start
        patch.setattr(on_bus, "DISCOVERY", 0.1)
        yield


@pytest.fixture(scope="module")
def nominal_run(go2_bundle):
    return rehearse_nominal(go2_bundle, hardware_from(GO2), seconds=1.5, quirks=WORN, seed=1)


def test_nominal_stands_up_and_lies_down(nominal_run):
    trial, trace = nominal_run
    assert trial.failures() == [] and trial.outcome == "finished"
    assert len(trace.time) == 75 and trace.height.min() > 0.25 and trace.tilt.max() < 0.1
    assert 0.1 < np.nanmax(trace.share) < 1.0
    assert trial.facts["command frames"] > 500 * 3


def test_the_same_seed_gives_the_same_numbers_and_what_the_policy_estimates_is_compared(
    nominal_run, go2_bundle, monkeypatch
):
    def half_off(player):
        return {"estimated_base_lin_vel": Brisk.newest.twin.truth().base_lin_vel + np.array([0.3, 0.0, -0.4])}

    monkeypatch.setattr(Player, "estimates", property(half_off))
    trial, trace = nominal_run
    again, trace_again = rehearse_nominal(go2_bundle, hardware_from(GO2), seconds=1.5, quirks=WORN, seed=1)
    facts = dict(again.facts)
    assert facts.pop(nominal.OWN_ERROR) == pytest.approx(0.5)
    assert dataclasses.replace(again, facts=facts) == trial, "which has no estimates"
    np.testing.assert_array_equal(trace_again.share, trace.share)


def test_a_robot_on_two_feet_is_let_down_when_its_policy_starts_and_hung_up_when_it_ends(tmp_path):
    robot = ROBOTS["g1-29dof"]
    bundle = make_stand_bundle(tmp_path / "bundle", robot, stiffness=60.0, damping=2.0, speed=0.0)
    trial, trace = rehearse_nominal(bundle, hardware_from(robot), seconds=1.0, quirks=WORN)
    assert abs(trace.height[0] - robot.init_height) < 0.05, "its feet are 0.3 m lower than on the stand"
    assert np.ptp(trace.height) > 0.001 and Brisk.newest.twin.body.hung
    assert {"falls", "mean velocity error"} <= set(values(trial))


def test_nominal_fails_when_the_robot_falls(go2_bundle, monkeypatch):
    """A verdict that cannot be FAIL would be worth nothing."""
    monkeypatch.setattr(Brisk, "twist", staticmethod(lambda targets: targets + 0.9 * np.sign(np.arange(12) % 2 - 0.5)))
    trial, _ = rehearse_nominal(go2_bundle, hardware_from(GO2), seconds=1.5, quirks=WORN)
    assert not trial.passed
    assert values(trial)["trips"] == 1.0 or values(trial)["falls"] == 1.0


@pytest.fixture
def rehearse(go2_bundle, monkeypatch):
    """Rehearse a fault, with no more time before and after it than it takes."""
    monkeypatch.setitem(faults.AFTER, Mode.POLICY, 0.5)

    def rehearse(trouble, mode=Mode.RAMP, quirks=WORN, seconds=3.0):
        """``seconds`` of policy."""
        up = {"ramp": 2.0} if mode is Mode.RAMP else {"ramp": 0.5, "ramp_speed": 3.0}
        hold = 0.6 if mode is Mode.HOLD else 0.1
        short = dataclasses.replace(faults.CONFIG, **up, hold=hold, settle=0.1, lower=0.3, damp=0.2)
        monkeypatch.setattr(faults, "CONFIG", short)
        monkeypatch.setattr(faults, "LONG", seconds)
        return rehearse_fault(go2_bundle, hardware_from(GO2), trouble, mode, quirks=quirks)

    return rehearse


ONE_MODE = {
    "joint-nan": Mode.HOLD,
    "stop": Mode.HOLD,
    "fall": Mode.POLICY,
    "checksum": Mode.RAMP,
    "stall": Mode.RAMP,
}


def modes(each: Trouble) -> set[Mode]:
    """The first in which it can happen; and, if it may show in several ways, while the policy runs."""
    if each.name in ONE_MODE:
        return {ONE_MODE[each.name]}
    walk = {Mode.POLICY} & set(each.modes) if len(each.causes) > 1 else set()
    return {each.modes[0], *walk} - ({Mode.POLICY} if each.name in OF_A_WALK else set())  # the robot only stands


CASES = [(each.name, mode) for each in TROUBLES if each.name != "second-deploy" for mode in sorted(modes(each))]


@pytest.mark.parametrize(("name", "mode"), CASES)
@pytest.mark.hostile("deployment")
def test_faults_end_in_damping(rehearse, name, mode):
    each = trouble(name)
    trial = rehearse(each, mode, Settings().quirks, seconds=3.0 if each.causes else 0.1)
    assert trial.failures() == [] and trial.mode == mode


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
def test_a_second_deployment_disturbs_no_other(rehearse):
    trial = rehearse(trouble("second-deploy"), seconds=0.1)
    assert trial.failures() == [] and "finished; the second: controller drives a robot on rt/lowcmd" in trial.outcome


def test_a_second_deployment_that_does_not_look_fails(rehearse, monkeypatch):
    monkeypatch.setattr(UnitreeRobot, "check_alone", lambda robot: None)
    trial = rehearse(trouble("second-deploy"))
    assert trial.outcome.startswith("second_writer") and values(trial)["trips"] == 1.0


def test_states_that_are_believed_of_anybody_fail(rehearse, monkeypatch):
    """The audit finds the robot without the transport's help."""
    counts = Source.counts
    monkeypatch.setattr(Source, "counts", lambda source, writer: counts(source, writer) or True)
    monkeypatch.setattr(Source, "strangers", lambda source: ())
    trial = rehearse(trouble("second-robot"), quirks=Quirks())
    assert trial.failures() == ["second-robot in ramp: reason named 0, allowed at least 1"]


def test_a_fault_that_nobody_notices_fails(rehearse):
    nothing = Trouble(name="nothing", about="", causes=("state_age",), provoke=lambda stage: None)
    trial = rehearse(nothing, quirks=Quirks(), seconds=0.1)
    assert not trial.passed and values(trial)["reason named"] == 0.0


def test_a_reason_that_is_another_fails(rehearse):
    wrong = Trouble(name="wrong", about="", causes=("battery",), provoke=trouble("imu-nan").provoke)
    trial = rehearse(wrong, quirks=Quirks())
    assert trial.failures() == ["wrong in ramp: reason named 0, allowed at least 1"]


def test_laps_repeat_the_tour(exported):
    contract = Contract.load(exported)
    script = laps(contract, 81.0)
    assert len(script) == 27 and [command for _, command in script[:9]] == [command for _, command in script[18:]]
    assert [time for time, _ in script] == sorted(time for time, _ in script) and script[-1][0] < 81.0
    assert len(laps(contract, 2.0)) == 9
