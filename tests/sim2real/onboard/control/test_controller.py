"""The state machine: smooth where it moves, deaf to nothing that stops it, final once it has stopped."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.controller import ConfigError, Controller, ControllerConfig, Mode, Request
from gaitway_onboard.control.executor import InlineExecutor
from gaitway_onboard.interface import Decision, Health, Signals
from gaitway_onboard.safety.limits import SafetyLimits
from hypothesis import given, settings
from hypothesis import strategies as st
from sim2real.onboard.onboard_robots import PointRobot, WavePolicy

QUICK = ControllerConfig(ramp=0.3, fade=0.1, hold=0.15, settle=0.1, lower=0.3, damp=0.1, ready_timeout=0.1)
BY_HAND = ControllerConfig(
    ramp=0.3, fade=0.1, hold=0.15, settle=0.1, lower=0.3, ready_timeout=0.1, auto=False,
    start="Enter",
)  # fmt: skip


@pytest.fixture(scope="module")
def contract(exported: Path) -> Contract:
    return Contract.load(exported)


class Play:
    """A controller, its robot and its policy, one period at a time."""

    def __init__(self, contract: Contract, config: ControllerConfig = QUICK, seconds: float = 0.4, **options: Any):
        self.robot = PointRobot(contract)
        self.policy = WavePolicy(contract)
        self.said: list[str] = []
        options = {"executor": InlineExecutor(self.policy), "command": lambda time: (0.5, 0.0, 0.0), **options}
        self.controller = Controller(
            contract,
            contract.joint_names,
            seconds=seconds,
            period=0.002,
            config=config,
            say=self.said.append,
            **options,
        )
        self.rows: list[tuple[Mode, np.ndarray, np.ndarray, np.ndarray, Signals]] = []

    def tick(self) -> Mode:
        robot, controller = self.robot, self.controller
        signals = robot.read()
        command = controller.step(signals, robot.clock())
        if command is None:
            robot.damp()
            zeros = np.zeros(12)
            self.rows.append((controller.mode, signals.joint_pos, zeros, controller.loose[1], signals))
        else:
            robot.write(command.targets, command.stiffness, command.damping)
            sent = command.targets, command.stiffness, command.damping
            self.rows.append((controller.mode, *(values.astype(float) for values in sent), signals))
        robot.sleep_until(robot.clock() + 0.002)
        return controller.mode

    def until(self, mode: Mode, periods: int = 4000) -> None:
        for _ in range(periods):
            if self.tick() is mode:
                return
        raise AssertionError(f"still {self.controller.mode} after {periods} periods")

    def go_on(self, periods: int) -> list[Mode]:
        return [self.tick() for _ in range(periods)]

    @property
    def modes(self) -> list[Mode]:
        return [mode for mode, _ in itertools.groupby(row[0] for row in self.rows)]


WHOLE = [Mode.RAMP, Mode.HOLD, Mode.POLICY, Mode.SETTLE, Mode.HOLD, Mode.LOWER, Mode.DAMP]


def test_a_whole_run_and_that_it_is_smooth(contract: Contract) -> None:
    play = Play(contract)
    play.until(Mode.DAMP)
    assert play.modes == WHOLE
    controller = play.controller
    assert (controller.cause, controller.reason, controller.failed) == ("finished", "finished", False)
    driven = play.rows[:-1]
    targets, stiffness, damping = (np.array([row[column] for row in driven]) for column in (1, 2, 3))
    torque = [kp * (target - s.joint_pos) - kd * s.joint_vel for _, target, kp, kd, s in driven]
    assert np.abs(stiffness[0]).max() == 0.0  # from damping
    assert stiffness[-1].max() < 0.01 * stiffness.max()  # and back to it
    for series, most in ((stiffness, 200.0), (damping, 11.2)):
        assert np.abs(np.diff(series, axis=0)).max() < 1.6 * most * 0.002 / 0.1  # a smooth step of 0.1 s, no jump
    policy = np.array([row[0] in (Mode.POLICY, Mode.SETTLE) for row in driven])
    steps = np.abs(np.diff(targets, axis=0)).max(1)
    assert steps[~policy[1:]].max() < 0.01
    assert np.abs(np.diff(torque, axis=0)).max() < 0.2 * 80.0


def test_the_policy_is_asked_once_in_its_period_with_the_command(contract: Contract) -> None:
    play = Play(contract)
    play.until(Mode.DAMP)
    assert len(play.controller.compute_us) == 20  # 0.4 s at 50 Hz
    assert np.array(play.policy.commands)[:, 0] == pytest.approx(
        [*np.minimum(0.04 * np.arange(1, 21), 0.5), *5 * [0.0]]  # 2 m/s^2; standing while it settles
    )


def test_an_operator_goes_on_step_by_step(contract: Contract) -> None:
    play = Play(contract, BY_HAND, seconds=np.inf)
    assert set(play.go_on(500)) == {Mode.PASSIVE}
    play.controller.request(Request.START)
    play.until(Mode.HOLD)
    assert set(play.go_on(500)) == {Mode.HOLD}
    play.controller.request(Request.START)
    play.until(Mode.POLICY, 2)
    play.go_on(200)
    play.controller.request(Request.START)  # means nothing here
    assert set(play.go_on(50)) == {Mode.POLICY}
    play.controller.request(Request.LOWER)
    play.until(Mode.DAMP)
    assert play.modes == [Mode.PASSIVE, *WHOLE]
    assert play.controller.reason == "asked for by the operator" and not play.controller.failed
    assert play.said[0] == "passive: ready, damped; waits for Enter"


def test_a_wait_for_the_operator_is_said_again(contract: Contract, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gaitway_onboard.control.controller.REMIND", 0.4)
    play = Play(contract, BY_HAND, seconds=np.inf)
    play.go_on(450)  # 0.9 s
    assert play.said[1:] == ["passive: still waits for Enter"] * 2
    play.controller.request(Request.START)
    play.until(Mode.HOLD)
    play.go_on(250)
    assert play.said[3:] == [
        "ramp: standing up", "hold: in the default pose; waits for Enter", "hold: still waits for Enter"
    ]  # fmt: skip


def test_a_start_that_came_too_early_is_not_kept(contract: Contract) -> None:
    play = Play(contract, BY_HAND)
    play.controller.request(Request.START)
    play.until(Mode.RAMP, 1)
    play.controller.request(Request.START)
    play.go_on(10)
    play.until(Mode.HOLD)
    assert set(play.go_on(500)) == {Mode.HOLD}


def test_a_start_away_from_the_default_pose_is_refused(contract: Contract) -> None:
    lax = SafetyLimits(max_load=1.0, max_speed_error=10.0)  # or it would be noticed before
    play = Play(contract, dataclasses.replace(BY_HAND, limits=lax))
    play.controller.request(Request.START)
    play.until(Mode.HOLD)
    play.go_on(100)

    def stuck(signals: Signals) -> None:
        signals.joint_pos[3] += 0.4

    play.robot.tamper = stuck
    play.controller.request(Request.START)
    assert set(play.go_on(10)) == {Mode.HOLD}
    assert play.said[-1].startswith(f"not started: {contract.joint_names[3]} is 0.40 rad from the default pose")
    play.robot.tamper = None
    play.controller.request(Request.START)
    play.until(Mode.POLICY, 1)


def test_a_start_during_a_fault_is_not_kept_until_it_clears(contract: Contract) -> None:
    play = Play(contract, BY_HAND)
    play.go_on(5)
    play.robot.tamper = lambda signals: signals.imu_quat_wxyz.fill(0.0)
    play.go_on(5)
    play.controller.request(Request.START)
    assert set(play.go_on(20)) == {Mode.INIT} and play.said[-1].startswith("not started: the IMU")
    play.robot.tamper = None
    assert set(play.go_on(500)) == {Mode.PASSIVE}
    play.controller.request(Request.START)
    play.until(Mode.RAMP, 1)


def test_lowering_during_a_fault_before_anything_moved_is_the_end(contract: Contract) -> None:
    play = Play(contract, BY_HAND)
    play.robot.tamper = lambda signals: signals.imu_quat_wxyz.fill(0.0)
    play.go_on(5)
    play.controller.request(Request.LOWER)
    play.until(Mode.DAMP, 1)
    assert play.controller.cause == "finished" and not play.controller.failed


@pytest.mark.parametrize("mode", [Mode.RAMP, Mode.HOLD, Mode.POLICY, Mode.SETTLE, Mode.LOWER])
def test_a_stop_is_heeded_in_every_mode_and_is_final(contract: Contract, mode: Mode) -> None:
    play = Play(contract)
    play.until(mode)
    play.go_on(10)
    play.controller.request(Request.STOP)
    play.controller.request(Request.START)
    assert set(play.go_on(50)) == {Mode.DAMP}
    assert play.controller.cause == "operator_stop" and not play.controller.failed
    assert all(not row[2].any() for row in play.rows[-50:])


def test_a_button_that_is_held_lowers_once(contract: Contract) -> None:
    play = Play(contract, seconds=np.inf)
    play.until(Mode.POLICY)
    for _ in range(1000):
        play.controller.request(Request.LOWER)
        if play.tick() is Mode.DAMP:
            break
    assert play.modes == WHOLE


@pytest.mark.parametrize("mode", [Mode.RAMP, Mode.HOLD])
def test_lowering_before_the_policy_skips_it(contract: Contract, mode: Mode) -> None:
    play = Play(contract)
    play.until(mode)
    play.go_on(20)
    play.controller.request(Request.LOWER, "enough")
    play.until(Mode.DAMP)
    assert play.modes == [*WHOLE[: WHOLE.index(mode) + 1], Mode.LOWER, Mode.DAMP]
    assert play.policy.commands == [] and play.controller.reason == "enough"


def test_lowering_what_does_not_stand_is_the_end(contract: Contract) -> None:
    play = Play(contract, BY_HAND)
    play.go_on(5)
    play.controller.request(Request.LOWER)
    play.until(Mode.DAMP, 1)
    assert play.controller.cause == "finished"


def test_faults_before_anything_moves_may_go_away(contract: Contract) -> None:
    play = Play(contract, BY_HAND)
    play.go_on(5)
    play.robot.tamper = lambda signals: signals.imu_quat_wxyz.fill(0.0)
    assert set(play.go_on(20)) == {Mode.INIT} and play.said[-1].startswith("not ready any more: the IMU")
    play.robot.tamper = None
    play.until(Mode.PASSIVE, 1)
    play.robot.tamper = lambda signals: signals.imu_quat_wxyz.fill(0.0)
    play.until(Mode.DAMP, 60)
    assert play.controller.cause == "imu" and "did not become ready" in play.controller.reason


def test_another_writer_is_no_trouble_to_wait_out(contract: Contract) -> None:
    play = Play(contract, BY_HAND)
    play.go_on(5)
    play.robot.health.other_writers = ("sport_mode (pid 7 on robot)",)
    assert play.tick() is Mode.DAMP
    assert play.controller.cause == "second_writer" and "pid 7" in play.controller.reason


SPOIL: dict[str, Any] = {
    "imu": lambda s: s.imu_quat_wxyz.fill(np.nan),
    "not_finite": lambda s: s.joint_vel.fill(np.nan),
    "joint_velocity": lambda s: s.joint_vel.fill(40.0),
    "joint_limit": lambda s: s.joint_pos.fill(-9.0),
    "tilt": lambda s: s.imu_quat_wxyz.__setitem__(slice(None), [0.5, 0.5, 0.5, 0.5]),
    "state_age": lambda s: setattr(s, "stamp", s.stamp - 0.05),
    "temperature": lambda s: setattr(s, "health", Health(motor_temperature=np.full(12, 95.0))),
}


@settings(max_examples=30)
@given(periods=st.integers(1, 400), name=st.sampled_from(sorted(SPOIL)), lasts=st.integers(1, 5))
def test_after_a_trip_nothing_but_bounded_damping_is_sent(exported: Path, periods: int, name: str, lasts: int) -> None:
    contract = Contract.load(exported)
    play = Play(contract, seconds=2.0)
    play.go_on(periods)
    moving = play.controller.mode in (Mode.RAMP, Mode.HOLD, Mode.POLICY)
    play.robot.tamper = SPOIL[name]
    play.go_on(lasts)
    play.robot.tamper = None  # the fault goes away, and is not forgotten
    modes = play.go_on(100)
    assert moving and set(modes) == {Mode.DAMP} and play.controller.cause == name
    effort = np.array(contract.per_joint("effort_limit"))
    for _, targets, stiffness, damping, signals in play.rows[periods:]:
        assert not stiffness.any() and np.isfinite(targets).all() | (name == "not_finite")
        if np.isfinite(signals.joint_vel).all():
            assert (np.abs(damping * signals.joint_vel) <= effort).all()


ADVERSARIES: dict[str, Any] = {
    "constant": lambda targets: np.full(12, 3.0),
    "random": lambda targets: np.random.default_rng(int(1e6 * abs(targets[0]))).normal(0.0, 3.0, 12),
    "alternating": lambda targets: targets + 5.0 * np.sign(np.sin(1e4 * targets[0])),
    "huge": lambda targets: np.full(12, 1e30),
    "NaN": lambda targets: np.full(12, np.nan),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_no_policy_can_ask_for_more_torque_than_there_may_be(contract: Contract, name: str) -> None:
    play = Play(contract, seconds=0.5)
    play.policy.tamper = ADVERSARIES[name]
    play.until(Mode.DAMP)
    effort = np.array(contract.per_joint("effort_limit"))
    for _, targets, stiffness, damping, signals in play.rows:
        assert (np.abs(stiffness * (targets - signals.joint_pos) - damping * signals.joint_vel) <= effort).all()
    if name in ("huge", "NaN"):
        assert play.controller.cause == "policy_output" and Mode.POLICY not in play.modes[3:]
    else:
        assert play.controller.clamped > 0


class SlowExecutor(InlineExecutor):
    """Its steps end after ``periods`` calls of :meth:`poll`."""

    def __init__(self, policy: WavePolicy, periods: Iterator[int]):
        super().__init__(policy)
        self.periods, self.left = periods, 0
        self.pending = False

    def submit(self, signals: Signals, command: tuple[float, float, float], now: float) -> bool:
        if self.pending:
            return False
        self.left, self.pending = next(self.periods), True
        return super().submit(signals, command, now)

    def poll(self) -> Decision | None:
        self.left -= 1
        if not self.pending or self.left > 0:
            return None
        self.pending = False
        return super().poll()


def test_a_late_policy_is_waited_for_and_one_that_hangs_trips(contract: Contract) -> None:
    play = Play(contract)
    play.controller.executor = SlowExecutor(play.policy, itertools.cycle([1, 1, 25]))  # every third is late
    play.until(Mode.DAMP)
    assert not play.controller.failed and play.controller.policy_overruns >= 3
    play = Play(contract, seconds=2.0)
    play.controller.executor = SlowExecutor(play.policy, itertools.chain(5 * [1], itertools.repeat(10_000)))
    play.until(Mode.DAMP)
    assert play.controller.cause == "policy_overrun" and play.controller.policy_overruns == 4
    assert "no result for 4 periods of 20 ms" in play.controller.reason


class Ledger:
    """A flight log in memory, and an estimator that says so."""

    provides = ("base_lin_vel",)

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.seen: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values: self.rows.append((name, *values))

    def reset(self) -> None:
        self.rows.append(("reset",))

    def update(self, signals: Signals) -> None:
        self.seen.append(signals.stamp)
        signals.base_lin_vel = np.array([signals.stamp, 0.0, 0.0])


def test_the_log_hears_of_every_state_command_decision_and_change(contract: Contract) -> None:
    log = Ledger()
    play = Play(contract, flight=log)
    play.until(Mode.DAMP)
    count = {name: sum(row[0] == name for row in log.rows) for name in ("state", "frame", "policy", "event")}
    assert count["state"] == count["frame"] == len(play.rows) and count["policy"] == 25
    changes = [row[3] for row in log.rows if row[0] == "event" and row[2] == "mode"]
    assert changes == ["passive", "ramp", "hold", "policy", "settle", "hold", "lower", "damp"]
    assert log.rows[-2][0] == "event" and log.rows[-2][2:] == ("stop", "finished: finished")
    frames = [row for row in log.rows if row[0] == "frame"]
    np.testing.assert_array_equal(
        [row[3] for row in frames][:-1], [row[1].astype(np.float32) for row in play.rows][:-1]
    )


def test_an_estimator_sees_each_state_once_and_its_estimate_stays(contract: Contract) -> None:
    estimator = Ledger()
    play = Play(contract, estimator=estimator)

    def repeat(signals: Signals) -> None:
        signals.stamp = round(np.floor(signals.stamp / 0.004 + 1e-6) * 0.004, 6)  # every other state is an old one

    play.robot.tamper = repeat
    play.until(Mode.SETTLE)
    assert len(estimator.seen) == len(set(estimator.seen)) == (len(play.rows) + 1) // 2
    assert [row[0] for row in estimator.rows] == ["reset"]  # when it stands
    assert all(row[4].base_lin_vel[0] == row[4].stamp for row in play.rows)


@pytest.mark.parametrize("changes", [{"ramp": 0.0}, {"lower": np.nan}, {"hold": -1.0}, {"fade": np.inf}])
def test_times_that_cannot_be_kept_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(changes))} = "):
        ControllerConfig(**changes)


def test_settling_lasts_until_a_limited_command_has_come_to_rest(contract: Contract) -> None:
    """At 1 m/s^2 from 0.4 m/s, with 0.2 s of steps after it, and 0.1 s at rest."""
    slow = dataclasses.replace(contract, command_acceleration=(1.0, 1.0, 2.0), command_settle=0.2)
    assert slow.time_to_rest((0.4, 0.0, 0.2)) == pytest.approx(0.6) and slow.time_to_rest((0.0, 0.0, 0.0)) == 0.0
    assert contract.time_to_rest((0.4, 0.0, 0.2)) == 0.0  # the controller's own limit lets go at the end
    lasted = []
    for of in (contract, slow):
        play = Play(of)
        play.until(Mode.LOWER)
        lasted.append(0.002 * sum(row[0] is Mode.SETTLE for row in play.rows))
    assert lasted[0] == pytest.approx(0.1, abs=0.005)
    assert lasted[1] == pytest.approx(0.5 / 1.0 + 0.2 + 0.1, abs=0.005)  # told 0.5 m/s
