"""Real time: the policy in its own thread, signals and failures end in damping, and everything is put back."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.controller import Controller, ControllerConfig, Mode, Request
from gaitway_onboard.control.runner import ThreadExecutor, run_realtime
from gaitway_onboard.flight.log import FlightLog
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.interface import Signals
from gaitway_onboard.realtime import Stopwatch
from gaitway_onboard.safety.checks import TRIPS
from gaitway_onboard.safety.limits import SafetyLimits
from light_realtime import light_realtime  # noqa: F401
from mcap.reader import make_reader
from sim2real.onboard.onboard_robots import PointRobot, WavePolicy

pytestmark = pytest.mark.usefixtures("light_realtime")
PATIENT = SafetyLimits(max_state_age=0.5, max_stall=1.0, max_overruns=2000, max_policy_overruns=50)
"""A busy machine is no fault here."""
TIMES = {"ramp": 0.1, "fade": 0.05, "hold": 0.05, "settle": 0.05, "lower": 0.1, "damp": 0.2}
QUICK = ControllerConfig(**TIMES, limits=PATIENT)


@pytest.fixture(scope="module")
def contract(exported: Path) -> Contract:
    return Contract.load(exported)


class Script:
    """An operator that asks for ``request`` once the mode has been ``mode`` for ``periods`` periods."""

    def __init__(self, mode: Mode, act: Any, periods: int = 5):
        self.mode, self.act, self.left = mode, act, periods
        self.controller: Controller

    def poll(self, signals: Signals, now: float) -> Request | None:
        self.left -= self.controller.mode is self.mode
        return self.act() if self.left == 0 else None


def play(contract: Contract, policy: WavePolicy, *scripts: Script, seconds: float = 0.3, **options: Any) -> Any:
    robot = PointRobot(contract, wall=True)

    def on_start(controller: Controller) -> None:
        for script in scripts:
            script.controller = controller

    options = {"config": QUICK, **options}
    robot.report = run_realtime(
        robot, policy, lambda time: (0.4, 0.0, 0.0), seconds, operators=scripts, on_start=on_start, **options
    )
    return robot


def damped_for(robot: PointRobot) -> float:
    """Of damping only, at the end [s]."""
    stiff = [time for time, _, kp, _ in robot.sent if kp is not None and kp.any()]
    return robot.sent[-1][0] - (stiff[-1] if stiff else robot.sent[0][0])


def test_a_run_in_real_time(contract: Contract) -> None:
    policy, started = WavePolicy(contract), time.monotonic()
    robot = play(contract, policy)
    report = robot.report
    assert report.ok and report.cause == "finished" and time.monotonic() - started >= 0.6
    assert policy.threads == {"policy"} and 1 <= report.policy_periods <= 15  # 0.3 s at 50 Hz
    assert max(policy.commands) == pytest.approx((0.4, 0.0, 0.0)) and policy.commands[-1] == (0.0, 0.0, 0.0)
    assert damped_for(robot) >= 0.15
    timing = report.timing
    assert timing.period == 0.002 and len(timing.period_error) == len(timing.busy) > 20
    assert 0.0 < timing.cpu < 2.0 and (timing.busy > 0.0).all() and "500 Hz: period error" in timing.summary()


def test_late_periods_show_in_the_report() -> None:
    watch = Stopwatch(0.01)
    for pause in (0.01, 0.03, 0.01):
        watch.begin()
        watch.end()
        time.sleep(pause)
    watch.begin()
    timing = watch.timing(("a note",))
    assert len(timing.period_error) == 3 and timing.period_error.max() >= 0.019 and timing.notes == ("a note",)


@pytest.mark.hostile("deployment")
def test_a_wall_clock_that_jumps_changes_nothing(
    contract: Contract, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By an hour back and forth at every look: no period is late for it, nothing spins, and the flight's times rise."""
    looks = itertools.count()
    true = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true() + (next(looks) % 3 - 1) * 3_600_000_000_000)
    monkeypatch.setattr(time, "time", lambda: time.time_ns() / 1e9)
    flight = open_flight(tmp_path / "a.mcap", contract.joint_names, {}, realtime=True)
    robot = play(contract, WavePolicy(contract), flight=flight)
    flight.close()
    assert robot.report.ok and robot.report.timing.cpu < 0.9 and flight.incomplete is None
    with open(tmp_path / "a.mcap", "rb") as stream:
        found = [message.log_time for _, _, message in make_reader(stream).iter_messages(topics="/frame")]
    assert len(found) > 100 and 0.5e9 < found[-1] - found[0] < 10e9
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_damp(contract: Contract, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    robot = play(contract, WavePolicy(contract), Script(Mode.POLICY, lambda: os.kill(os.getpid(), number)), seconds=1e6)
    assert robot.report.ok and robot.report.cause == number.name.lower()
    assert damped_for(robot) >= 0.15 and signal.getsignal(number) is before


@pytest.mark.parametrize("request_", [Request.STOP, Request.LOWER])
def test_operators_are_heard(contract: Contract, request_: Request) -> None:
    robot = play(contract, WavePolicy(contract), Script(Mode.POLICY, lambda: request_), seconds=1e6)
    assert robot.report.ok
    assert robot.report.cause == ("operator_stop" if request_ is Request.STOP else "finished")


def test_a_policy_that_hangs_does_not_hold_up_the_loop(contract: Contract) -> None:
    limits = dataclasses.replace(PATIENT, max_policy_overruns=3)
    robot = play(
        contract, WavePolicy(contract, delay=0.3), seconds=1e6, config=ControllerConfig(**TIMES, limits=limits)
    )
    report = robot.report
    assert not report.ok and report.cause == "policy_overrun" and report.policy_overruns == 4
    assert len(robot.sent) > 60  # commands went on meanwhile
    assert damped_for(robot) >= 0.15


def test_what_a_policy_raises_is_raised_after_damping(contract: Contract) -> None:
    def fail(targets: np.ndarray) -> np.ndarray:
        raise ArithmeticError("no such policy")

    robot = PointRobot(contract, wall=True)
    with pytest.raises(ArithmeticError, match="no such policy"):
        run_realtime(robot, WavePolicy(contract, tamper=fail), lambda time: (0.0, 0.0, 0.0), 1.0, config=QUICK)
    assert damped_for(robot) >= 0.15


class Watcher:
    """The controller's side of a guardian."""

    def __init__(self) -> None:
        self.latched, self.armed, self.beats = False, False, 0

    @property
    def trouble(self) -> str | None:
        return None

    def arm(self) -> None:
        self.armed = True

    def disarm(self) -> None:
        self.armed = False

    def beat(self) -> None:
        self.beats += 1


def test_what_the_guardian_has_taken_is_not_taken_back(contract: Contract) -> None:
    guardian: Any = Watcher()

    def latch() -> None:
        assert guardian.armed
        guardian.latched = True

    robot = play(contract, WavePolicy(contract), Script(Mode.POLICY, latch), seconds=1e6, guardian=guardian)
    assert not robot.report.ok and robot.report.cause == "hung" and not guardian.armed
    stiff = [kp is not None and bool(kp.any()) for _, _, kp, _ in robot.sent]
    assert guardian.beats > 100 and not any(stiff[-100:])


def test_a_robot_that_the_guardian_took_is_reported_as_that_wherever_the_process_stood(contract: Contract) -> None:
    class Stands(Watcher):
        def beat(self) -> None:
            super().beat()
            if self.beats == 50:  # after the last look at the guardian, before lateness is judged
                time.sleep(1.1)
                self.latched = True

    robot = play(contract, WavePolicy(contract), seconds=1e6, guardian=Stands())
    assert not robot.report.ok and robot.report.cause == "hung"


class LossyLog(FlightLog):
    """A flight whose recorder ends in the middle."""

    def __init__(self) -> None:
        self.frames, self.events = 0, []

    @property
    def incomplete(self) -> str | None:
        return "the disk is full" if self.frames > 50 else None

    def frame(self, *told: Any) -> None:
        self.frames += 1

    def event(self, time: float, kind: str, text: str) -> None:
        self.events.append((kind, text))


@pytest.mark.hostile("durability")
def test_what_is_not_recorded_is_said_once_when_it_happens_and_the_robot_is_driven_on(contract: Contract) -> None:
    log, said = LossyLog(), []
    robot = play(contract, WavePolicy(contract), flight=log, say=said.append)
    assert robot.report.ok and robot.report.cause == "finished" and log.frames > 150
    lines = [line for line in said if "RECORDING INCOMPLETE" in line]
    assert lines == ["RECORDING INCOMPLETE from here on: the disk is full"] and ("drop", lines[0]) in log.events
    assert said.index(lines[0]) < said.index("policy: the policy drives")


class Mortal(Watcher):
    """A guardian that dies in ``mode``, and an operator who goes on pressing start."""

    def __init__(self, mode: Mode):
        super().__init__()
        self.mode, self.controller, self.dead, self.polls = mode, None, False, 0

    @property
    def trouble(self) -> str | None:
        self.dead |= self.controller.mode is self.mode
        return "it is gone" if self.dead else None

    def poll(self, signals: Signals, now: float) -> Request | None:
        self.polls += 1
        return Request.START if self.polls % 20 == 0 else None


@pytest.mark.hostile("deployment")
@pytest.mark.parametrize("mode", [Mode.PASSIVE, Mode.POLICY, Mode.DAMP])
def test_without_its_guardian_the_robot_is_lowered_and_that_is_a_fault(contract: Contract, mode: Mode) -> None:
    guardian: Any = Mortal(mode)
    said: list[str] = []
    robot = play(
        contract, WavePolicy(contract), guardian, guardian=guardian, say=said.append, seconds=0.1,
        config=dataclasses.replace(QUICK, auto=False),
    )  # fmt: skip
    report = robot.report
    assert not report.ok and report.cause == "guardian" and "guardian" in TRIPS and "it is gone" in report.reason
    assert sum("it is gone" in line for line in said) == 1
    stiff = [kp.max() for _, _, kp, _ in robot.sent if kp is not None and kp.any()]
    assert bool(stiff) is (mode is not Mode.PASSIVE)
    assert not stiff or stiff[-1] < 0.1 * max(stiff)  # softly: the stiffness fades, the robot is not dropped
    assert damped_for(robot) >= 0.15


def test_a_step_that_runs_is_not_disturbed(contract: Contract) -> None:
    policy = WavePolicy(contract, delay=0.05)
    executor = ThreadExecutor(policy)
    signals = PointRobot(contract).read()
    assert executor.submit(signals, (0.0, 0.0, 0.0), 0.0)
    assert not executor.submit(signals, (1.0, 0.0, 0.0), 0.02) and executor.poll() is None
    with pytest.raises(RuntimeError, match="still computes"):
        executor.reset()
    signals.joint_pos[:] = np.nan  # a transport reuses its arrays
    while (decision := executor.poll()) is None:
        time.sleep(0.001)
    assert decision.command == (0.0, 0.0, 0.0) and decision.refused is None and decision.compute_us >= 5e4
    executor.reset()
    executor.close()
