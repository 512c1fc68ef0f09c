"""Devices of an operator: the robot's own transmitter, a gamepad, the keyboard. Buttons and velocity commands.

Each is polled at the loop's rate and never waits. Sticks and keys say where to go as shares of the range that the
policy was trained on; a device that falls silent stands for zero.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import sys
import termios
import tty
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from ..bundle.contract import Contract
from ..interface import Remote, Signals
from .commands import Command, CommandError
from .controller import Request

DEADZONE = 0.1
"""Share of a stick's range that counts as zero."""
STALE = 0.5
"""Silence after which sticks count as released [s]."""
LET_GO = 1.0
"""Silence after which keys of devices that only tell of changes count as released [s]: longer than a key takes to
repeat, or a thumb rests still."""
NO_REMOTE = Remote()


class Sticks:
    """Forward, left and counter-clockwise in [-1, 1], as velocities in the range that the policy was trained on.

    A policy that follows no velocity is told to rest.
    """

    def __init__(self, contract: Contract, stale: float = STALE):
        """``stale`` is the silence after which they count as released [s]."""
        self._ranges, self._stale = contract.command_ranges if contract.follows_velocity else None, stale
        self._still = contract.still
        self._shares = (0.0, 0.0, 0.0)
        self._stamp = -1e9

    def move(self, forward: float, left: float, turn: float, now: float) -> None:
        self._shares, self._stamp = (_beyond(forward), _beyond(left), _beyond(turn)), now

    def command(self, now: float) -> Command:
        if self._ranges is None or now - self._stamp > self._stale:
            return self._still
        vx, vy, yaw = (
            share * (high if share > 0.0 else -low)
            for share, (low, high) in zip(self._shares, self._ranges, strict=True)
        )
        return vx, vy, yaw


def _beyond(share: float) -> float:
    """A stick without its dead zone."""
    if not abs(share) > DEADZONE:  # also true of NaN
        return 0.0
    share = max(-1.0, min(1.0, share))
    return (share - DEADZONE if share > 0.0 else share + DEADZONE) / (1.0 - DEADZONE)


class RemoteOperator:
    """The transmitter that comes with the robot. ``start`` goes on, ``L2+A`` lowers, ``L2+B`` or ``select`` stops."""

    def __init__(self, contract: Contract):
        self.sticks = Sticks(contract)
        self._held: frozenset[str] | None = None

    def poll(self, signals: Signals, now: float) -> Request | None:
        remote = (signals.health.remote if signals.health is not None else None) or NO_REMOTE
        if remote is not NO_REMOTE:
            self.sticks.move(remote.left[1], -remote.left[0], -remote.right[0], now)
        held, before = remote.buttons, self._held
        self._held = held
        if "select" in held or {"L2", "B"} <= held:
            return Request.STOP
        if before is None:  # what is down from the beginning was not pressed for us
            return None
        if {"L2", "A"} <= held and not {"L2", "A"} <= before:
            return Request.LOWER
        return Request.START if "start" in held and "start" not in before else None


class Gamepad:
    """A joystick of Linux, ``/dev/input/js0``: left stick moves, right stick turns.

    Buttons by number, as the kernel's drivers of Xbox and Sony pads count them: ``start`` (7, 9) goes on, A or cross
    (0) lowers, B or circle (1) and ``back`` (6, 8) stop. A pad that is unplugged stops the robot. One out of reach or
    without power is like one that is held still, so sticks count for :data:`LET_GO` after the pad's last event.
    """

    EVENT = struct.Struct("IhBB")  # time [ms], value, kind, number
    BUTTON, AXIS, INITIAL = 0x01, 0x02, 0x80
    REQUESTS = {7: Request.START, 9: Request.START, 0: Request.LOWER, 1: Request.STOP, 6: Request.STOP, 8: Request.STOP}  # noqa: RUF012
    LEFT_X, LEFT_Y, TURN = 0, 1, 3

    def __init__(self, path: str | Path, contract: Contract):
        self.sticks = Sticks(contract, LET_GO)
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise CommandError(f"no gamepad at {path} ({error.strerror}): plug it in, or name another device") from None
        self._axes: dict[int, float] = {}

    def poll(self, signals: Signals, now: float) -> Request | None:
        try:
            data = os.read(self._file, 64 * self.EVENT.size)
        except BlockingIOError:
            data = None
        except OSError:
            return Request.STOP
        if data == b"":
            return Request.STOP
        request = None
        for _, value, kind, number in self.EVENT.iter_unpack(data[: len(data) // 8 * 8] if data else b""):
            if kind & ~self.INITIAL == self.AXIS:
                self._axes[number] = value / 32767.0
            elif kind == self.BUTTON and value and request is not Request.STOP:
                request = self.REQUESTS.get(number, request)
        if data:
            forward, left, turn = (-self._axes.get(axis, 0.0) for axis in (self.LEFT_Y, self.LEFT_X, self.TURN))
            self.sticks.move(forward, left, turn, now)
        return request

    def close(self) -> None:
        os.close(self._file)


class Keyboard:
    """Keys of the terminal: Enter goes on, x lowers, space stops; w/s, a/d, q/e change the command by a fifth.

    Terminals tell of no key's release, and of no broken connection, so a command holds for :data:`LET_GO` after the
    last key; a full stop that is held down keeps it up. Any other key zeroes it.
    """

    HELP = "Enter: go on   space: STOP (damp)   x: lower"
    STEERING = "   w/s a/d q/e: velocity   hold '.': keep it   0: stand"
    KEEP = "."
    STEPS = {"w": (1, 0, 0), "s": (-1, 0, 0), "a": (0, 1, 0), "d": (0, -1, 0), "q": (0, 0, 1), "e": (0, 0, -1)}  # noqa: RUF012

    def __init__(self, contract: Contract, terminal: IO[Any] | None = None):
        """``terminal`` is stdin's, if not given; keys are read at once, without Enter, until :meth:`close`."""
        self.sticks = Sticks(contract, LET_GO)
        self._file = (terminal or sys.stdin).fileno()
        self._fifths, self._pressed = [0, 0, 0], -1e9
        self._before = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)

    def poll(self, signals: Signals, now: float) -> Request | None:
        request = None
        if select.select([self._file], [], [], 0.0)[0]:
            keys = os.read(self._file, 64).decode("ascii", "replace")
            if not keys:
                return Request.STOP  # the terminal is gone
            if now - self._pressed > LET_GO:
                self._fifths = [0, 0, 0]
            self._pressed = now
            request = self._press(keys)
            forward, left, turn = (DEADZONE * _sign(n) + (1.0 - DEADZONE) * n / 5.0 for n in self._fifths)
            self.sticks.move(forward, left, turn, now)
        return request

    def _press(self, keys: str) -> Request | None:
        request = None
        for key in keys:
            if key == " ":
                return Request.STOP
            if key in "\r\n":
                request = Request.START
            elif key == "x":
                request = Request.LOWER
            elif key in self.STEPS:
                steps = zip(self._fifths, self.STEPS[key], strict=True)
                self._fifths = [max(-5, min(5, n + step)) for n, step in steps]
            elif key != self.KEEP:
                self._fifths = [0, 0, 0]
        return request

    def close(self) -> None:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def first_gamepad(folder: str | Path = "/dev/input") -> Path:
    """The joystick device with the lowest number; raises :class:`CommandError` if there is none."""
    found: Sequence[Path] = sorted(Path(folder).glob("js*"))
    if not found:
        raise CommandError(f"no gamepad: {folder} has no js0; plug one in, or use another --command")
    return found[0]
