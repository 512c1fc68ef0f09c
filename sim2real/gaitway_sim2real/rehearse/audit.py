"""An independent listener on the bus: every command frame is checked against the state that it answered.

What a frame asks of a motor is computed from the bytes on the wire alone, in double precision, with the newest state
that was on the wire before it. Frames are float32, so the inequality is that of the numbers a drive gets. The robot is
the writer of the first state; states of other writers are not its own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.interface import Array, DeployError, load_function
from gaitway_onboard.transports.open import transport_of
from gaitway_onboard.wire.bus import Bus

from ..digital_twin.command import Command
from ..digital_twin.side import Ear
from .verdict import TrialCheck

DEPTH = 4096


@dataclass(frozen=True, slots=True)
class Frame:
    """One command as it was on the wire."""

    time: float
    """Time at which it was sent [s]."""
    share: float
    """Largest ``|kp (q* - q) + kd (dq* - dq) + tau|`` of all motors, as a share of the limit; inf if a field is not
    finite, NaN if no state was there to answer."""
    stiff: bool
    """True if any motor has stiffness or a torque of its own: damping has neither."""
    faults: str
    """Fault of the frame as a message; "" if it has none."""


class Audit:
    """Listens to commands and states. Call :meth:`collect` often enough for :data:`DEPTH` messages."""

    def __init__(self, bus: Bus, hardware: Hardware, effort_limit: Array | None = None):
        """``effort_limit`` [N m], (J,), in the order of ``hardware.joint_names``, may be below the hardware's."""
        row = transport_of(hardware)
        if not row.audit:
            raise DeployError(f"the transport {row.robot!r} of {hardware.name} has no audit: its row must name one")
        self.ear: Ear = load_function(row.audit)(hardware)
        self._commands, self._states = (
            bus.subscriber(replace(topic, depth=DEPTH)) for topic in (self.ear.commands, self.ear.states)
        )
        limit = np.array([hardware.effort_limit[name] for name in hardware.joint_names])
        self.limit = limit if effort_limit is None else np.minimum(limit, effort_limit)
        self._pending: deque[tuple[float, bytes]] = deque()
        self._answered: tuple[Array, Array] | None = None
        """Of the newest state that the robot's driver can have used: what a command answers."""
        self._robot: int | None = None
        self.commanders: set[int] = set()
        """Writers of the commands that were heard, by their handles."""
        self.frames: list[Frame] = []

    def collect(self, deadline: float = np.inf) -> None:
        """Take in what is new on the wire; may be attached to a :class:`MemoryBus`."""
        for time, payload, writer in self._states.take_from():
            if self._robot is None:
                self._robot = writer
            if writer == self._robot:
                self._pending.append((time, payload))
        for time, payload, writer in self._commands.take_from():
            self.commanders.add(writer)
            while self._pending and self._pending[0][0] <= time:
                self._answered = self.ear.state(self._pending.popleft()[1]) or self._answered
            self.frames.append(self._judge(time, payload))

    def clear(self) -> None:
        """Forget what was heard; the next state is that of the robot from then on."""
        self.frames.clear()
        self.commanders.clear()
        self._pending.clear()
        self._robot = self._answered = None

    def _judge(self, time: float, payload: bytes) -> Frame:
        asked, faults = self.ear.command(payload)
        if asked is None:
            return Frame(time, np.inf, True, faults)
        stiff = bool(asked.kp.any() or asked.tau.any())
        if not all(np.isfinite(value).all() for value in (asked.q, asked.dq, asked.tau, asked.kp, asked.kd)):
            return Frame(time, np.inf, stiff, "; ".join(filter(None, (faults, "not finite"))))
        share = np.nan
        if self._answered is not None:
            with np.errstate(invalid="ignore"):  # an encoder may have said infinity
                share = float((np.abs(self._torque(asked, *self._answered)) / self.limit).max())
        return Frame(time, share, stiff, faults)

    @staticmethod
    def _torque(asked: Command, pos: Array, vel: Array) -> Array:
        # Unused targets ("no command" is 2.1e9 rad) have no stiffness, and their product no meaning.
        spring = np.where(asked.kp != 0.0, asked.kp * (asked.q - pos), 0.0)
        drag = np.where(asked.kd != 0.0, asked.kd * (asked.dq - vel), 0.0)
        return spring + drag + asked.tau

    def since(self, time: float) -> list[Frame]:
        """Frames from ``time`` [s] on."""
        return [frame for frame in self.frames if frame.time >= time]

    def checks(self, stiff: bool = False) -> tuple[TrialCheck, TrialCheck]:
        """Checks of every frame; with ``stiff``, the torque limit is only for frames with stiffness."""
        shares = [frame.share for frame in self.frames if frame.stiff or not stiff]
        worst = max((share for share in shares if not np.isnan(share)), default=np.nan)
        return (
            TrialCheck("largest torque asked for, of the limit", worst, 1.0),
            TrialCheck("broken command frames", sum(bool(frame.faults) for frame in self.frames), 0),
        )
