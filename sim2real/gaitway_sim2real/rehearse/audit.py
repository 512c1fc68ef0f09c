"""An independent listener on the bus: every command frame is checked against the state that it answered.

What a frame asks of a motor is computed from the bytes on the wire alone, in double precision, with the newest state
that was on the wire before it. Frames are float32, so the inequality is that of the numbers a drive gets. The robot is
the writer of the first state; states of other writers are not its own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.hardware import Hardware
from gaitway_onboard.interface import Array
from gaitway_onboard.wire import declarations
from gaitway_onboard.wire.bus import Bus, Topic
from gaitway_onboard.wire.crc import check
from gaitway_onboard.wire.idl import Struct, WireError
from gaitway_onboard.wire.layouts import layout_of

from .verdict import TrialCheck

MESSAGES: dict[str, tuple[Struct, Struct]] = {
    "unitree_go": (declarations.GO_LOW_CMD, declarations.GO_LOW_STATE),
    "unitree_hg": (declarations.HG_LOW_CMD, declarations.HG_LOW_STATE),
}
"""Command and state of each family."""
DEPTH = 4096


@dataclass(frozen=True, slots=True)
class Frame:
    """One command as it was on the wire."""

    time: float
    """When it was sent [s]."""
    share: float
    """Largest ``|kp (q* - q) + kd (dq* - dq) + tau|`` of all motors, as a share of the limit; inf if a field is not
    finite, NaN if no state was there to answer."""
    stiff: bool
    """Whether any motor has stiffness or a torque of its own: damping has neither."""
    faults: str
    """What is wrong with it as a message; "" if nothing."""


class Audit:
    """Listens to ``rt/lowcmd`` and ``rt/lowstate``. Call :meth:`collect` often enough for :data:`DEPTH` messages."""

    def __init__(self, bus: Bus, hardware: Hardware, effort_limit: Array | None = None):
        """``effort_limit`` [N m], (J,), in the order of ``hardware.joint_names``, may be below the hardware's."""
        command, state = MESSAGES[hardware.family]
        self._commands = bus.subscriber(Topic("rt/lowcmd", command.name, depth=DEPTH))
        self._states = bus.subscriber(Topic("rt/lowstate", state.name, depth=DEPTH))
        self._command, self._state = layout_of(command).new(), layout_of(state).new()
        self._slots = np.array([slot for slot, joint in enumerate(hardware.motors) if joint is not None])
        self._unused = np.array([slot for slot, joint in enumerate(hardware.motors) if joint is None], dtype=int)
        limit = np.array([hardware.effort_limit[name] for name in hardware.joint_names])
        self.limit = limit if effort_limit is None else np.minimum(limit, effort_limit)
        self._enable = np.array([hardware.enable[name] for name in hardware.joint_names])
        self._pending: deque[tuple[float, bytes]] = deque()
        self._answered: tuple[Array, Array] | None = None
        self._robot: int | None = None
        self.commanders: set[int] = set()
        """Writers of the commands that were heard, by their handles."""
        self.frames: list[Frame] = []
        self.states = 0

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
                self._take_state(self._pending.popleft()[1])
            self.frames.append(self._judge(time, payload))

    def clear(self) -> None:
        """Forget what was heard; the next state is that of the robot from then on."""
        self.frames.clear()
        self.commanders.clear()
        self._pending.clear()
        self._robot = self._answered = None

    def _take_state(self, payload: bytes) -> None:
        """A state that the robot's driver can have used: whole, and with its checksum."""
        self.states += 1
        try:
            self._state.load(payload)
        except WireError:
            return
        if check(self._state):
            pos, vel = (self._state[f"motor_state.{name}"][self._slots].astype(float) for name in ("q", "dq"))
            self._answered = pos, vel

    def _judge(self, time: float, payload: bytes) -> Frame:
        message = self._command
        try:
            message.load(payload)
        except WireError as error:
            return Frame(time, np.inf, True, str(error))
        faults = [] if check(message) else ["wrong checksum"]
        used = {
            name: message[f"motor_cmd.{name}"][self._slots].astype(float) for name in ("q", "dq", "tau", "kp", "kd")
        }
        if not (message["motor_cmd.mode"][self._slots] == self._enable).all():
            faults.append("a motor is not switched on")
        if any(message[f"motor_cmd.{name}"][self._unused].any() for name in ("mode", "kp", "kd", "tau")):
            faults.append("an unused motor is driven")
        stiff = bool(used["kp"].any() or used["tau"].any())
        if not all(np.isfinite(value).all() for value in used.values()):
            return Frame(time, np.inf, stiff, "; ".join([*faults, "not finite"]))
        share = np.nan
        if self._answered is not None:
            with np.errstate(invalid="ignore"):  # an encoder may have said infinity
                share = float((np.abs(self._torque(used, *self._answered)) / self.limit).max())
        return Frame(time, share, stiff, "; ".join(faults))

    @staticmethod
    def _torque(used: dict[str, Array], pos: Array, vel: Array) -> Array:
        # Unused targets ("no command" is 2.1e9 rad) have no stiffness, and their product no meaning.
        spring = np.where(used["kp"] != 0.0, used["kp"] * (used["q"] - pos), 0.0)
        drag = np.where(used["kd"] != 0.0, used["kd"] * (used["dq"] - vel), 0.0)
        return spring + drag + used["tau"]

    def since(self, time: float) -> list[Frame]:
        """Frames from ``time`` [s] on."""
        return [frame for frame in self.frames if frame.time >= time]

    @property
    def worst(self) -> float:
        """Largest share of a torque limit that any frame asked for."""
        return _largest(self.frames)

    def checks(self, stiff: bool = False) -> tuple[TrialCheck, TrialCheck]:
        """What every frame must keep to; with ``stiff``, the torque limit is only for frames with stiffness."""
        broken = sum(bool(frame.faults) for frame in self.frames)
        worst = _largest([frame for frame in self.frames if frame.stiff]) if stiff else self.worst
        return (
            TrialCheck(title="largest torque asked for, of the limit", value=worst, limit=1.0),
            TrialCheck(title="broken command frames", value=broken, limit=0),
        )


def _largest(frames: list[Frame]) -> float:
    return max((frame.share for frame in frames if not np.isnan(frame.share)), default=np.nan)
