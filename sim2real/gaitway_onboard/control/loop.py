"""Drive a robot with a policy in lock step: read, decide, write, sleep; damping whatever ends it.

Time is the robot's, so that a simulated robot runs as fast as it can and every run of it is the same.
:mod:`.runner` drives the same controller in real time.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np

from ..interface import RobotInterface, Signals
from ..realtime import Timing
from ..safety.clamp import Command
from .commands import CommandSource
from .controller import Controller, Mode, Options
from .executor import Executor, InlineExecutor, Policy

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Period(NamedTuple):
    """One period of commands. Joint arrays are in the robot's own order."""

    time: float
    mode: Mode
    signals: Signals
    command: tuple[float, ...]
    sent: Command | None
    """None while the robot damps by itself."""


@dataclass(frozen=True, kw_only=True)
class LoopReport:
    """Outcome of a run of the loop."""

    ok: bool
    """True if the loop ran to its end or was asked to stop; False after a trip."""
    cause: str
    """Name of the fault (:data:`gaitway_onboard.safety.checks.TRIPS`) or of the stop that ended it."""
    reason: str
    policy_periods: int
    overruns: int
    """Periods of the loop that ended late."""
    policy_overruns: int
    """Policy periods without a result in time."""
    clamped: int
    """Policy periods in which a command was clamped."""
    compute_us: np.ndarray
    """Time from signals to the policy's targets, per policy period [us]."""
    timing: Timing | None = None
    """Timing of the loop; None in simulated time."""


def run_loop(
    robot: RobotInterface,
    policy: Policy,
    command: CommandSource,
    seconds: float,
    *,
    on_period: Callable[[Period], None] | None = None,
    on_start: Callable[[Controller], None] | None = None,
    executor: Executor | None = None,
    **options: Unpack[Options],
) -> LoopReport:
    """Drive ``robot`` for ``seconds`` of policy, lower it, then damp it.

    ``policy`` must have been made for ``robot.joint_names``. Commands are sent every ``robot.period`` if the robot has
    one, else at the policy's rate. Damping frames are sent whatever ends the loop: the end of the time, a trip, SIGINT,
    SIGTERM, SIGHUP or an exception, which is raised afterwards.
    ``on_start`` is given the controller before anything else, so that an operator can ask it for something.
    ``executor`` computes the policy otherwise than at once.
    """
    period: float = getattr(robot, "period", policy.contract.control_dt)
    executor = executor or InlineExecutor(policy)
    controller = Controller(policy.contract, robot.joint_names, executor, command, seconds, period=period, **options)
    if on_start is not None:
        on_start(controller)
    loop = Loop(robot, controller, on_period)
    with stop_signals(controller):
        loop.run()
    return report(controller, loop.schedule.overruns)


class Loop:
    """Read, step, send, sleep; damping at the end, whatever it is."""

    def __init__(
        self, robot: RobotInterface, controller: Controller, on_period: Callable[[Period], None] | None = None
    ):
        self.robot, self.controller, self.on_period = robot, controller, on_period
        self.schedule = Schedule(controller, robot.clock())

    def run(self) -> None:
        """Until the controller has ended; what is raised meanwhile is raised again once the robot is damped."""
        robot, controller = self.robot, self.controller
        try:
            while not controller.ended:
                self.turn()
                robot.sleep_until(self.schedule.next(robot.clock()))
        except BaseException as error:
            controller.end("exception", f"{type(error).__name__}: {error}", robot.clock(), failed=True)
            raise
        finally:
            self.damp()

    def turn(self) -> None:
        """One period."""
        controller = self.controller
        signals, now = self.robot.read(), self.robot.clock()
        command = controller.step(signals, now)
        self.send(command)
        if self.on_period is not None:
            self.on_period(Period(now, controller.mode, signals, controller.command, command))

    def send(self, command: Command | None) -> None:
        """None is the robot's own damping."""
        if command is None:
            self.robot.damp()
        else:
            self.robot.write(command.targets, command.stiffness, command.damping)

    def beat(self) -> None:
        """Called with every command of :meth:`damp`."""

    def damp(self) -> None:
        """Damp for a while, going on through failures: this is the last thing the robot hears."""
        robot, controller = self.robot, self.controller
        controller.end("stopped", "stopped", math.nan, failed=False)
        failure = None
        for _ in range(max(1, round(controller.config.damp / controller.period))):
            command = None
            with contextlib.suppress(Exception):  # without signals, the robot's own damping is as good
                command = controller.step(robot.read(), robot.clock())
            try:
                try:
                    self.send(command)
                except Exception:
                    if command is None:
                        raise
                    robot.damp()  # which asks for nothing that was computed
                self.beat()
                robot.sleep_until(robot.clock() + controller.period)
            except Exception as error:
                failure = error
        if failure is not None and not controller.failed:
            controller.cause, controller.failed = "damping", True
            controller.reason = f"damping failed: {failure}"


class Schedule:
    """Absolute deadlines, one period apart; what comes too late is counted, and tripped over if it goes on."""

    def __init__(self, controller: Controller, now: float):
        self.controller, self.period, self.deadline = controller, controller.period, now
        self.overruns = self.late_in_a_row = 0

    def next(self, now: float) -> float:
        """The next deadline: one period later, or now if this period ended later than that."""
        self.deadline += self.period
        late = now - self.deadline
        if late <= 0.0:
            self.late_in_a_row = 0
            return self.deadline
        self.deadline = now
        self.overruns += 1
        self.late_in_a_row += 1
        limits = self.controller.config.limits
        if late > limits.max_stall:
            self._trip(f"a control period ended {1e3 * late:.0f} ms late", now)
        elif self.late_in_a_row > limits.max_overruns:
            self._trip(f"{self.late_in_a_row} control periods in a row took longer than {1e3 * self.period:g} ms", now)
        return now

    def _trip(self, text: str, now: float) -> None:
        self.controller.end("loop_overrun", text, now, failed=True)


def report(controller: Controller, overruns: int, timing: Timing | None = None) -> LoopReport:
    """Outcome of a loop whose periods ended late ``overruns`` times."""
    return LoopReport(
        ok=not controller.failed,
        cause=controller.cause or "",
        reason=controller.reason,
        policy_periods=len(controller.compute_us),
        overruns=overruns,
        policy_overruns=controller.policy_overruns,
        clamped=controller.clamped,
        compute_us=np.array(controller.compute_us),
        timing=timing,
    )


@contextlib.contextmanager
def stop_signals(controller: Controller) -> Iterator[None]:
    """Turn signals into an orderly end; outside the main thread Python cannot, and leaves them alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        name = signal.Signals(number).name
        controller.stop(name.lower(), f"stopped by {name}")

    before = {number: signal.signal(number, stop) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
