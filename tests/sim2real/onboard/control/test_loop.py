"""The control loop on a robot of pure bookkeeping: states, safety, signals, damping whatever happens."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.commands import CommandError, check_range, parse_script, scripted, tour
from gaitway_onboard.control.controller import ControllerConfig, Mode
from gaitway_onboard.control.loop import Period, run_loop
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.flight.reading import read_flight
from gaitway_onboard.interface import Array, Signals
from gaitway_onboard.safety.gains import standing_gains
from gaitway_onboard.safety.limits import SafetyLimits

QUICK = ControllerConfig(ramp=0.4, fade=0.1, hold=0.1, settle=0.1, lower=0.1, damp=0.1, ready_timeout=0.2)


class LedgerRobot:
    """Joints go where they are told at once; every call is written down. ``tamper`` may spoil a reading."""

    def __init__(self, contract: Contract, tamper: Any = None, slow: float = 0.0):
        self.joint_names = contract.joint_names[::-1]
        self.default = np.array(contract.default_joint_pos)[::-1]
        self.pos, self.time, self.tamper, self.slow = self.default + 0.2, 0.0, tamper, slow
        self.calls: list[tuple[str, Any]] = []

    def clock(self) -> float:
        return self.time

    def sleep_until(self, deadline: float) -> None:
        self.time = max(self.time, deadline)

    def read(self) -> Signals:
        upright = np.array([1.0, 0.0, 0.0, 0.0])
        signals = Signals(self.pos.copy(), np.zeros(12), upright, np.zeros(3), self.time)
        if self.tamper is not None:
            self.tamper(self, signals)
        return signals

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        self.calls.append(("write", (targets.copy(), stiffness, damping)))
        self.pos = targets.copy()
        self.time += self.slow

    def damp(self) -> None:
        self.calls.append(("damp", None))

    def close(self) -> None:
        self.calls.append(("close", None))


@pytest.fixture
def policy(bundle: Path) -> OnboardPolicy:
    return OnboardPolicy(bundle, Contract.load(bundle).joint_names[::-1])


def run(policy: OnboardPolicy, robot: LedgerRobot, seconds: float = 0.5, **options: Any) -> Any:
    return run_loop(robot, policy, lambda time: (0.5, 0.0, 0.0), seconds, **{"config": QUICK, **options})


def test_states_in_order_ramp_from_the_measured_pose_and_damp_at_the_end(policy: OnboardPolicy) -> None:
    robot = LedgerRobot(policy.contract)
    start = robot.pos.copy()
    seen: list[Period] = []
    report = run(policy, robot, on_period=seen.append)
    assert report.ok and report.reason == "finished" and report.policy_periods == 25
    modes = [period.mode for period in seen]
    assert [mode for mode, _ in itertools.groupby(modes)] == [
        Mode.RAMP, Mode.HOLD, Mode.POLICY, Mode.SETTLE, Mode.HOLD, Mode.LOWER, Mode.DAMP,
    ]  # fmt: skip
    np.testing.assert_allclose(seen[0].sent.targets, start, atol=1e-6)
    ramp = np.array([period.sent.targets for period in seen if period.mode is Mode.RAMP])
    assert np.abs(np.diff(ramp, axis=0)).max() < 0.2 * 1.5 / (0.4 / 0.02) * 1.01  # no jump: peak rate of a smooth step
    np.testing.assert_allclose(seen[modes.index(Mode.POLICY) - 1].sent.targets, robot.default, atol=1e-3)
    assert [name for name, _ in robot.calls[-5:]] == ["damp"] * 5


def test_gains_are_stiff_for_standing_and_the_contracts_for_the_policy(policy: OnboardPolicy) -> None:
    robot = LedgerRobot(policy.contract)
    seen: list[Period] = []
    run(policy, robot, on_period=seen.append)
    sent = {period.mode: period.sent for period in seen}  # the last of each mode
    gains = {mode: (each.stiffness[0], each.damping[0]) for mode, each in sent.items() if each is not None}
    np.testing.assert_allclose(gains[Mode.RAMP], (200.0, 5.0 * 5**0.5), rtol=1e-6)
    np.testing.assert_allclose(gains[Mode.POLICY], (40.0, 5.0))
    assert sent[Mode.DAMP] is None, "the robot's own damping"
    np.testing.assert_allclose(standing_gains(policy.contract, robot.joint_names)[0] * 0.4, 80.0)


def test_policy_periods_follow_the_policy(policy: OnboardPolicy, bundle: Path) -> None:
    robot, seen = LedgerRobot(policy.contract), []
    run(policy, robot, on_period=seen.append)
    again = OnboardPolicy(bundle, robot.joint_names)
    first = next(index for index, period in enumerate(seen) if period.mode is Mode.POLICY)
    held, began = seen[first - 1].sent.targets, seen[first].time
    for period in seen:
        if period.mode is Mode.POLICY:
            assert 0.0 < period.command[0] <= 0.5
            raw = again.step(period.signals, period.command)
            low, high = np.array(policy.contract.joint_pos_limits)[::-1].T
            fade = min(1.0, (period.time - began) / QUICK.fade)
            wanted = held + fade**2 * (3.0 - 2.0 * fade) * (raw - held)
            np.testing.assert_allclose(period.sent.targets, wanted.clip(low, high), atol=1e-6)


def spoil(after: float, change: Any) -> Any:
    def tamper(robot: LedgerRobot, signals: Signals) -> None:
        if robot.time >= after - 1e-6:
            change(robot, signals)

    return tamper


def set_nan(robot: LedgerRobot, signals: Signals) -> None:
    signals.gyro[1] = np.nan


def tip_over(robot: LedgerRobot, signals: Signals) -> None:
    signals.imu_quat_wxyz[:] = [np.cos(0.6), np.sin(0.6), 0.0, 0.0]


def go_stale(robot: LedgerRobot, signals: Signals) -> None:
    signals.stamp -= 0.2


def overspeed(robot: LedgerRobot, signals: Signals) -> None:
    signals.joint_vel[robot.joint_names.index("RH_KFE")] = -31.0


def out_of_range(robot: LedgerRobot, signals: Signals) -> None:
    signals.joint_pos[robot.joint_names.index("LF_HAA")] = 0.49 + 0.2


def lose_imu(robot: LedgerRobot, signals: Signals) -> None:
    signals.imu_quat_wxyz[:] = 0.0


@pytest.mark.parametrize("after", [0.2, 0.7])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_nan, "gyro is not finite"),
        (tip_over, "tilted by 1.20 rad"),
        (go_stale, "newest signals are 0.200 s old"),
        (overspeed, "RH_KFE turns at 31.0 rad/s"),
        (out_of_range, "LF_HAA is 0.20 rad beyond its range"),
        (lose_imu, "squared norm 0"),
    ],
)
def test_trips_damp_at_once_in_ramp_and_in_policy(
    policy: OnboardPolicy, after: float, change: Any, message: str
) -> None:
    robot = LedgerRobot(policy.contract, spoil(after, change))
    report = run(policy, robot)
    assert not report.ok and message in report.reason
    driven = [index for index, (name, value) in enumerate(robot.calls) if name == "write" and value[1].any()]
    assert len(driven) == round(after / 0.02) - 1  # one per period until the fault, the first still without stiffness
    assert len(robot.calls) == driven[-1] + 1 + 6


def test_a_robot_that_never_becomes_ready_is_never_driven(policy: OnboardPolicy) -> None:
    robot = LedgerRobot(policy.contract, tip_over)
    report = run(policy, robot)
    assert not report.ok and "did not become ready: the base is tilted" in report.reason
    assert {name for name, _ in robot.calls} == {"damp"}


def test_the_policy_does_not_start_away_from_the_default_pose(policy: OnboardPolicy) -> None:
    def stuck(robot: LedgerRobot, signals: Signals) -> None:
        signals.joint_pos[robot.joint_names.index("RF_KFE")] = -0.8 - 0.4

    lax = dataclasses.replace(QUICK, limits=SafetyLimits(max_load=1.0))  # or it would be noticed before
    report = run(policy, LedgerRobot(policy.contract, stuck), config=lax)
    assert not report.ok and report.policy_periods == 0 and "RF_KFE is 0.40 rad from the default pose" in report.reason


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_in_damping_and_handlers_are_put_back(policy: OnboardPolicy, number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def kill(robot: LedgerRobot, signals: Signals) -> None:
        if robot.time == pytest.approx(0.7):
            os.kill(os.getpid(), number)

    robot = LedgerRobot(policy.contract, kill)
    report = run(policy, robot, seconds=60.0)
    assert report.ok and report.reason == f"stopped by {number.name}"
    assert [name for name, _ in robot.calls[-5:]] == ["damp"] * 5
    assert signal.getsignal(number) is before


def test_an_exception_damps_is_recorded_and_is_raised(policy: OnboardPolicy, tmp_path: Path) -> None:
    def unplug(robot: LedgerRobot, signals: Signals) -> None:
        if robot.time > 0.7:
            raise ConnectionError("cable")

    robot = LedgerRobot(policy.contract, unplug)
    flight = open_flight(tmp_path / "flight.mcap", robot.joint_names, {}, realtime=False)
    with pytest.raises(ConnectionError, match="cable"):
        run(policy, robot, flight=flight)
    flight.close()
    assert [name for name, _ in robot.calls[-5:]] == ["damp"] * 5
    recorded = read_flight(tmp_path / "flight.mcap")
    assert recorded.events[-1].kind == "trip"
    assert recorded.frame.time[-1] > 0.65  # without signals the robot damps by itself, with frames that only it knows


def test_late_periods_are_counted_and_too_many_in_a_row_trip(policy: OnboardPolicy) -> None:
    report = run(policy, LedgerRobot(policy.contract, slow=0.03))
    assert not report.ok and report.overruns == 11
    assert report.reason == "11 control periods in a row took longer than 20 ms"


def test_commands_beyond_the_trained_range_are_clamped(policy: OnboardPolicy) -> None:
    seen: list[Period] = []
    run_loop(
        LedgerRobot(policy.contract), policy, lambda time: (3.0, 0.0, -9.0), 0.6, config=QUICK, on_period=seen.append
    )
    told = [period.command for period in seen if period.mode is Mode.POLICY]
    assert told[0] == pytest.approx((0.04, 0.0, -0.08)) and told[-1] == pytest.approx((1.0, 0.0, -1.0))


def test_the_flight_holds_what_happened(policy: OnboardPolicy, tmp_path: Path) -> None:
    seen: list[Period] = []
    robot = LedgerRobot(policy.contract)
    log = open_flight(tmp_path / "flight.mcap", robot.joint_names, {}, realtime=False)
    run(policy, robot, flight=log, on_period=seen.append)
    log.close()
    flight = read_flight(tmp_path / "flight.mcap")
    assert flight.joint_names == robot.joint_names
    assert flight.frame.mode[: len(seen)].tolist() == [period.mode.value for period in seen]
    pos = [period.signals.joint_pos for period in seen]
    np.testing.assert_array_equal(flight.state.joint_pos[: len(seen)], pos)
    moving = [(k, period) for k, period in enumerate(seen) if period.sent is not None]
    assert len(moving) > 20
    for k, period in moving:
        np.testing.assert_array_equal(flight.frame.targets[k], period.sent.targets)
        np.testing.assert_array_equal(flight.frame.stiffness[k], period.sent.stiffness)


def test_command_scripts() -> None:
    source = scripted(parse_script("0:0,0,0; 2:0.5,0,0.1; 4:-1,0,0"))
    assert [source(time) for time in (0.0, 1.99, 2.0, 3.0, 9.0)] == [
        (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.5, 0.0, 0.1), (0.5, 0.0, 0.1), (-1.0, 0.0, 0.0),
    ]  # fmt: skip
    assert scripted(parse_script("0.5,0,0"))(7.0) == (0.5, 0.0, 0.0)


@pytest.mark.parametrize("text", ["", "fast", "1,", "0:0,0,0;0:1,0,0", "2:0,0,0;1:1,0,0", "nan,0,0", "x:0,0,0"])
def test_bad_command_scripts_say_how_to_write_one(text: str) -> None:
    with pytest.raises(CommandError, match="vx,vy,yaw"):
        parse_script(text)


def test_tours_stay_in_range_and_others_are_refused(exported: Path) -> None:
    contract = Contract.load(exported)
    check_range(tour(contract.command_ranges, 20.0), contract)
    for numbers in ((1.0, 0.0), (1.0, 0.0, 0.0, 0.0)):
        with pytest.raises(CommandError, match="follows 3, vx, vy, yaw rate"):
            check_range([(0.0, numbers)], contract)
    with pytest.raises(CommandError, match=r"vx = 1.5: the policy was trained on \[-1, 1\]"):
        check_range(parse_script("1.5,0,0"), contract)
