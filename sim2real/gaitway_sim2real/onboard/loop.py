"""The control loop of a robot: passive, ramp to the default pose, hold, policy; damping whatever ends it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from .commands import CommandSource
from .interface import Array, RobotInterface, Signals
from .policy import OnboardPolicy, SignalError
from .safety import SafetyFilter, SafetyLimits, standing_gains, walking_gains

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class State(StrEnum):
    PASSIVE = "passive"  # damping, until the signals make sense
    RAMP = "ramp"  # from the measured pose to the default pose
    HOLD = "hold"  # in the default pose
    POLICY = "policy"
    DAMP = "damp"  # final


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """Durations [s] of the states around the policy."""

    passive_timeout: float = 5.0
    ramp: float = 2.0
    hold: float = 0.5
    damp: float = 0.5
    log_periods: int = 200_000
    """The log keeps the newest of these."""
    limits: SafetyLimits = field(default_factory=SafetyLimits)


@dataclass(frozen=True, kw_only=True)
class Period:
    """One control period, as logged. Joint arrays are in the robot's own order."""

    time: float
    state: State
    signals: Signals
    command: tuple[float, float, float]
    targets: np.ndarray
    compute_us: float


@dataclass(frozen=True, kw_only=True)
class LoopReport:
    ok: bool
    """Whether the loop ran to its end or was asked to stop; False after a trip."""
    reason: str
    policy_periods: int
    overruns: int
    clamped: int
    """Policy periods in which a target was clamped."""
    compute_us: np.ndarray
    """Signals to targets, all checks included, per policy period [us]."""


def run_loop(
    robot: RobotInterface,
    policy: OnboardPolicy,
    command: CommandSource,
    seconds: float,
    *,
    config: LoopConfig | None = None,
    log: Path | None = None,
    on_period: Callable[[Period], None] | None = None,
) -> LoopReport:
    """Drive ``robot`` for ``seconds`` of policy at the contract's rate, then damp it.

    ``policy`` must have been made for ``robot.joint_names``. Damping frames are sent whatever ends the loop: the end of
    the time, a trip, SIGINT, SIGTERM, SIGHUP or an exception, which is raised afterwards. ``log`` gets signals,
    commands and targets as .npz.
    """
    loop = _Loop(robot, policy, command, seconds, config or LoopConfig(), on_period)
    with _stop_signals(loop):
        try:
            loop.run()
        finally:
            loop.damp()
            if log is not None:
                _write_log(log, policy, robot.joint_names, loop.periods)
    return loop.report()


class _Loop:
    def __init__(
        self,
        robot: RobotInterface,
        policy: OnboardPolicy,
        command: CommandSource,
        seconds: float,
        config: LoopConfig,
        on_period: Callable[[Period], None] | None,
    ):
        self.robot, self.policy, self.command, self.seconds = robot, policy, command, seconds
        self.config, self.on_period = config, on_period
        self.period = policy.contract.control_dt
        self.safety = SafetyFilter(policy.contract, robot.joint_names, config.limits)
        self.ranges = np.array(policy.contract.command_ranges)
        self.periods: deque[Period] = deque(maxlen=config.log_periods)
        self.compute_us: list[float] = []
        self.stop: str | None = None
        self.trip: str | None = None
        self.overruns = self.late_in_a_row = self.clamped = 0
        self.state, self.since = State.PASSIVE, robot.clock()
        self.ramp_from = self.safety.default
        self.standing = standing_gains(policy.contract, robot.joint_names)
        self.walking = walking_gains(policy.contract, robot.joint_names)

    def run(self) -> None:
        robot = self.robot
        deadline = robot.clock()
        while self.stop is None and self.trip is None:
            started = time.perf_counter()
            signals, now = robot.read(), robot.clock()
            command, targets = self.decide(signals, now)
            if targets is None:
                robot.damp()
            else:
                robot.write(targets, *self.gains)
            compute = 1e6 * (time.perf_counter() - started)
            self.record(signals, now, command, targets, compute)
            deadline = self.next_deadline(deadline)
            robot.sleep_until(deadline)

    def decide(self, signals: Signals, now: float) -> tuple[tuple[float, float, float], np.ndarray | None]:
        """Command and targets of this period; no targets means damping. Moves between states."""
        elapsed, still = now - self.since, (0.0, 0.0, 0.0)
        fault = self.safety.fault(signals, now)
        if self.state is State.PASSIVE:
            if fault is not None:
                if elapsed > self.config.passive_timeout:
                    self.trip = f"the robot did not become ready: {fault}"
                return still, None
            self.ramp_from = np.array(signals.joint_pos, dtype=float)
            elapsed = self.enter(State.RAMP, now)
        if fault is not None:
            self.trip = fault
            return still, None
        if self.state is State.RAMP:
            share = min(1.0, elapsed / self.config.ramp)
            smooth = share * share * (3.0 - 2.0 * share)
            if share >= 1.0:
                self.enter(State.HOLD, now)
            return still, self.clamp(self.ramp_from + smooth * (self.safety.default - self.ramp_from), signals)
        if self.state is State.HOLD:
            if elapsed < self.config.hold:
                return still, self.clamp(self.safety.default, signals)
            if (unready := self.safety.not_ready(signals)) is not None:
                self.trip = unready
                return still, None
            self.policy.reset()
            elapsed = self.enter(State.POLICY, now)
        if elapsed > self.seconds - 0.5 * self.period:
            self.stop = "finished"
            return still, None
        wanted = np.clip(np.asarray(self.command(elapsed), dtype=float), *self.ranges.T)
        command = (float(wanted[0]), float(wanted[1]), float(wanted[2]))
        try:
            return command, self.clamp(self.policy.step(signals, command), signals)
        except SignalError as error:
            self.trip = str(error)
            return command, None

    @property
    def gains(self) -> tuple[Array, Array]:
        return self.walking if self.state is State.POLICY else self.standing

    def clamp(self, targets: np.ndarray, signals: Signals) -> np.ndarray:
        clamped = self.safety.clamp(targets, signals, *self.gains)
        self.clamped += self.state is State.POLICY and bool(np.any(np.abs(clamped - targets) > 1e-9))
        return clamped

    def enter(self, state: State, now: float) -> float:
        """Change state; returns the time spent in it, zero."""
        self.state, self.since = state, now
        return 0.0

    def record(
        self,
        signals: Signals,
        now: float,
        command: tuple[float, float, float],
        targets: np.ndarray | None,
        compute_us: float,
    ) -> None:
        state = self.state if targets is not None or self.state is State.PASSIVE else State.DAMP
        if state is State.POLICY:
            self.compute_us.append(compute_us)
        held = np.full(len(self.safety.default), np.nan) if targets is None else targets
        period = Period(time=now, state=state, signals=signals, command=command, targets=held, compute_us=compute_us)
        self.periods.append(period)
        if self.on_period is not None:
            self.on_period(period)

    def next_deadline(self, deadline: float) -> float:
        """One period later, or from now on if this period ended late."""
        deadline, now = deadline + self.period, self.robot.clock()
        if now <= deadline:
            self.late_in_a_row = 0
            return deadline
        self.overruns += 1
        self.late_in_a_row += 1
        if self.late_in_a_row > self.config.limits.max_overruns:
            self.trip = f"{self.late_in_a_row} control periods in a row took longer than {1e3 * self.period:g} ms"
        return now

    def damp(self) -> None:
        """Damp for a while, going on through failures: this is the last thing the robot hears."""
        robot, failure = self.robot, None
        for _ in range(max(1, round(self.config.damp / self.period))):
            try:
                robot.damp()
                robot.sleep_until(robot.clock() + self.period)
            except Exception as error:
                failure = error
        self.state = State.DAMP
        if failure is not None and self.trip is None:
            self.trip = f"damping failed: {failure}"

    def report(self) -> LoopReport:
        return LoopReport(
            ok=self.trip is None,
            reason=self.trip or self.stop or "stopped",
            policy_periods=len(self.compute_us),
            overruns=self.overruns,
            clamped=self.clamped,
            compute_us=np.array(self.compute_us),
        )


@contextlib.contextmanager
def _stop_signals(loop: _Loop) -> Iterator[None]:
    """Turn signals into an orderly end of the loop; outside the main thread Python cannot, and leaves them alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        loop.stop = f"stopped by {signal.Signals(number).name}"

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_log(path: Path, policy: OnboardPolicy, joint_names: tuple[str, ...], periods: deque[Period]) -> None:
    columns: dict[str, Any] = {
        "time": [period.time for period in periods],
        "state": [period.state.value for period in periods],
        "command": [period.command for period in periods],
        "targets": [period.targets for period in periods],
        "compute_us": [period.compute_us for period in periods],
    }
    for name in ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro", "stamp", *policy.contract.estimated):
        columns[name] = [np.asarray(getattr(period.signals, name)) for period in periods]
    columns |= {"joint_names": joint_names, "policy_sha256": policy.contract.files["policy.onnx"]}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, allow_pickle=False, **{name: np.asarray(values) for name, values in columns.items()})
