"""A process beside the controller that damps the robot when the controller cannot: killed with -9, or hung.

It is started before the first command, opens the transport's :class:`gaitway_onboard.interface.SafeStop`, and waits.
The controller tells it by a heartbeat in shared memory that it lives, and by a pipe, which the system closes whatever
kills the controller, when it does not. Once the guardian has acted it says so in the same memory, and the controller
must not drive the robot any more, should it come back. The guardian's own heartbeat tells the controller that it is
still watched over: without a guardian the robot is lowered.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from gaitway_files.errors import NotDone

from ..interface import SafeStop, StopSender, load_function
from ..realtime import prioritise

SILENCE = 0.1
"""Silence of the controller after which it counts as hung [s]."""
LOOK_EVERY = 0.01
"""[s]"""
READY_WITHIN = 15.0
"""Interpreter and transport have to start first [s]."""
PRIORITY = 60
"""Above the controller's, so that one that spins cannot keep it from running."""
ABSENCE = 1.0
"""Time without a sign of life after which the guardian counts as hung [s]: it looks every 10 ms, on however busy a
machine."""
HEARTBEAT, ARMED, LATCHED, WATCHED = 0, 1, 2, 3  # doubles in the shared memory: a time, two flags, a time
SHARED = 64


class GuardianError(NotDone):
    """Failure to start the guardian, without which nothing is driven."""


class Guardian:
    """The controller's side. Times are those of :func:`time.monotonic`, which all processes share."""

    def __init__(self, stop: SafeStop, *, silence: float = SILENCE):
        """Start the process and wait until it could send ``stop``; it does not yet.

        The controller counts as hung after ``silence`` seconds without a :meth:`beat`.
        """
        self._stop = stop
        memory = os.memfd_create("guardian")
        os.ftruncate(memory, SHARED)
        self._map = mmap.mmap(memory, SHARED)
        self._shared = memoryview(self._map).cast("d")
        task = {"stop": dataclasses.asdict(stop), "silence": silence}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(memory)],  # -P: no module of the current folder
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(memory,), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(memory)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        self.identity = self._hear()
        """Of its sender, which is no second writer of commands: for :meth:`HardwareInterface.ignore`."""

    def _hear(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], READY_WITHIN)
        word, _, identity = self._process.stdout.readline().decode().strip().partition(" ") if ready else ("", "", "")
        if word != "ready":
            self._process.kill()
            self._process.wait()
            why = ": see its message above" if ready else f" within {READY_WITHIN:g} s: is the machine overloaded?"
            raise GuardianError(f"the guardian process, which damps the robot should this one die, did not start{why}")
        return identity

    @property
    def pid(self) -> int:
        return self._process.pid

    def arm(self) -> None:
        """Start watching: from now on, silence damps the robot."""
        self.beat()
        self._shared[WATCHED] = time.monotonic()
        self._shared[ARMED] = 1.0

    def disarm(self) -> None:
        self._shared[ARMED] = 0.0

    def beat(self) -> None:
        self._shared[HEARTBEAT] = time.monotonic()

    @property
    def latched(self) -> bool:
        """True if it has taken the robot away from the controller."""
        return self._shared[LATCHED] != 0.0

    @property
    def trouble(self) -> str | None:
        """Reason why it would not damp the robot, or None. Takes microseconds."""
        if (code := self._process.poll()) is not None:
            return f"the guardian process has ended with code {code}"
        if time.monotonic() - self._shared[WATCHED] > ABSENCE and not self.latched:
            return f"the guardian process has stood still for {ABSENCE:g} s"
        return None

    def close(self) -> None:
        """Disarm it and let it go."""
        self.disarm()
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(self._stop.seconds + 5.0)
        except subprocess.TimeoutExpired:  # it hangs, and would damp the next controller's robot on waking up
            self._process.kill()
            self._process.wait()


def watch(
    shared: Any, pipe: int, sender: StopSender, stop: SafeStop, *, silence: float, say: Callable[[str], None]
) -> None:
    """Until the controller ends: see that it lives, and send ``stop`` whenever it does not."""
    parent = os.getppid()

    def gone() -> bool:
        # The pipe stays open if a child of the controller's has inherited its other end; the parent is known anyway.
        closed = bool(select.select([pipe], [], [], 0.0)[0]) and os.read(pipe, 1) == b""
        return closed or os.getppid() != parent

    def hung() -> bool:
        return bool(shared[ARMED]) and time.monotonic() - shared[HEARTBEAT] > silence

    while True:
        shared[WATCHED] = time.monotonic()
        dead = gone()
        if dead and not shared[ARMED]:
            return
        if not (dead or hung()):
            select.select([pipe], [], [], LOOK_EVERY)
            continue
        shared[LATCHED] = 1.0
        begun = deadline = time.monotonic()
        while deadline - begun < stop.seconds or (not dead and hung()):
            sender.send()
            if deadline == begun:
                say("controller died: damping" if dead else "controller hangs: damping")
            deadline = max(deadline + stop.period, time.monotonic() - stop.period)
            time.sleep(max(0.0, deadline - time.monotonic()))
            dead = dead or gone()
        with contextlib.suppress(Exception):  # it was sent, and is sent again if need be, whatever this says
            if (arrived := sender.arrived()) is not None:
                say("the robot has received it" if arrived else "nothing shows that the robot has received it")
        if dead:
            return


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whatever ends the controller must not end this one first
    memory = int(sys.argv[1])
    shared = memoryview(mmap.mmap(memory, SHARED)).cast("d")
    os.close(memory)
    task = json.loads(sys.stdin.readline())
    stop = SafeStop(**task["stop"])
    sender: StopSender = load_function(stop.sender)(**stop.settings)
    prioritise(PRIORITY)
    print("ready", sender.identity, flush=True)

    def say(text: str) -> None:
        with contextlib.suppress(OSError):
            print(f"guardian: {text}", file=sys.stderr, flush=True)

    watch(shared, sys.stdin.fileno(), sender, stop, silence=task["silence"], say=say)
    sender.close()


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:  # such as a DeployError of the transport
        sys.exit(f"guardian: {error}")
