"""Drive a robot in real time: commands at the robot's rate, the policy in a thread beside, a guardian behind.

The state machine is :mod:`.controller`'s, as in lock step; here are clocks, threads, and what the operator does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol, Unpack

import numpy as np

from ..interface import Decision, HardwareInterface, Signals
from ..realtime import PRIORITY, Stopwatch, prioritise, realtime
from ..safety.guardian import Guardian
from .commands import CommandSource
from .controller import Controller, Options, Request
from .executor import Policy, decide
from .loop import Loop, LoopReport, report, stop_signals


class Operator(Protocol):
    """Something with buttons."""

    def poll(self, signals: Signals, now: float) -> Request | None:
        """Request made since the last call. Takes microseconds, and never waits."""
        ...


def run_realtime(
    robot: HardwareInterface,
    policy: Policy,
    command: CommandSource,
    seconds: float,
    *,
    guardian: Guardian | None = None,
    operators: Sequence[Operator] = (),
    on_start: Callable[[Controller], None] | None = None,
    take_over: Callable[[], None] = lambda: None,
    **options: Unpack[Options],
) -> LoopReport:
    """Drive ``robot`` for ``seconds`` of policy, lower it, then damp it.

    As :func:`gaitway_onboard.control.loop.run_loop`, on the wall clock. The main thread must call it, or SIGINT and
    SIGTERM are not heard. ``take_over`` is called once all is prepared, so that its first command is not the last one
    for half a second; without it the robot must have been taken over. ``guardian`` is armed while it runs.
    """
    executor, period = ThreadExecutor(policy), robot.period
    controller = Controller(policy.contract, robot.joint_names, executor, command, seconds, period=period, **options)
    if on_start is not None:
        on_start(controller)
    with contextlib.closing(executor), realtime() as notes:
        take_over()
        loop = _WatchedLoop(robot, controller, guardian, operators)
        with stop_signals(controller):
            loop.run()
        timing = loop.watch.timing(notes)
    return report(controller, loop.schedule.overruns, timing)


class _WatchedLoop(Loop):
    """Beside a guardian, with operators, and timed."""

    def __init__(
        self, robot: HardwareInterface, controller: Controller, guardian: Guardian | None, operators: Sequence[Operator]
    ):
        super().__init__(robot, controller)
        self.guardian, self.operators = guardian, operators
        self.watch = Stopwatch(robot.period)
        self.recorded = True

    def run(self) -> None:
        if self.guardian is not None:
            self.guardian.arm()
        super().run()

    def turn(self) -> None:
        robot, controller = self.robot, self.controller
        self.watch.begin()
        signals, now = robot.read(), robot.clock()
        for operator in self.operators:
            if (request := operator.poll(signals, now)) is not None:
                controller.request(request)
        self.taken(now)  # before this process's own lateness is judged, which is what follows from it
        command = controller.step(signals, now)
        if self.guardian is not None and not self.guarded(self.guardian, now):
            command = None
        self.send(command)
        if self.recorded and (missing := controller.log.incomplete) is not None:
            self.recorded = False
            controller.note("drop", f"RECORDING INCOMPLETE from here on: {missing}", now)
        self.watch.end()
        self.taken(now)

    def beat(self) -> None:
        if self.guardian is not None:
            self.guardian.beat()

    def damp(self) -> None:
        super().damp()
        if self.guardian is not None:
            self.watched(self.guardian, self.robot.clock())
            self.guardian.disarm()

    def guarded(self, guardian: Guardian, now: float) -> bool:
        """Show a sign of life; False if the guardian has taken the robot away, as late as it can be asked."""
        self.watched(guardian, now)
        if self.taken(now):
            return False
        guardian.beat()
        return True

    def taken(self, now: float) -> bool:
        """True if the guardian has taken the robot away, which ends the controller for that reason."""
        if self.guardian is None or not self.guardian.latched:
            return False
        self.controller.end("hung", "this process was not running: the guardian damped the robot", now, failed=True)
        return True

    def watched(self, guardian: Guardian, now: float) -> None:
        """Lower a robot that would not be damped any more if this process died."""
        if (trouble := guardian.trouble) is not None:
            self.controller.abandon("guardian", f"{trouble}: nothing would damp the robot if the controller died", now)


class ThreadExecutor:
    """Computes in a thread of its own, while the loop goes on; onnxruntime does not hold Python's lock."""

    def __init__(self, policy: Policy):
        self._policy = policy
        self._tasks: SimpleQueue[tuple[Signals, tuple[float, ...], float, float] | None] = SimpleQueue()
        self._results: deque[Decision | BaseException] = deque()
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="policy", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        prioritise(PRIORITY - 1)
        while (task := self._tasks.get()) is not None:
            try:
                result: Decision | BaseException = decide(self._policy, *task)
            except BaseException as error:  # whatever it is, the loop must hear of it
                result = error
            self._results.append(result)

    def reset(self) -> None:
        """Only between two steps."""
        if self._busy:
            raise RuntimeError("the policy still computes")
        self._policy.reset()

    def submit(self, signals: Signals, command: tuple[float, ...], now: float) -> bool:
        if self._busy:
            return False
        self._busy = True
        self._tasks.put((_copy(signals), command, now, time.perf_counter()))
        return True

    def poll(self) -> Decision | None:
        if not self._results:
            return None
        result = self._results.popleft()
        self._busy = False
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        self._tasks.put(None)
        self._thread.join(1.0)  # a policy that hangs is left behind; the thread is a daemon


def _copy(signals: Signals) -> Signals:
    """A transport may reuse its arrays."""
    copied = dataclasses.replace(signals)
    for name in Signals.__slots__:
        if isinstance(value := getattr(signals, name), np.ndarray):
            setattr(copied, name, value.copy())
    return copied
