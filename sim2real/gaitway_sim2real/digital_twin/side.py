"""What the robot's end of a wire does, whatever the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gaitway_onboard.interface import Remote

from ..mujoco.body import Truth
from .command import Command, Counters
from .faults import Fault
from .sensors import Reading

Send = Callable[[bytes], None]


class Side(Protocol):
    period: float
    """Between two states [s]."""
    faults: frozenset[Fault]
    """Those that this wire can carry."""
    counters: Counters
    remote: Remote
    """The operator's transmitter, where the wire has one."""

    @property
    def sends(self) -> tuple[str, ...]:
        """Topics of the robot, in words."""
        ...

    @property
    def obeys(self) -> tuple[str, ...]:
        """Topics and services that the robot listens to, in words."""
        ...

    def state(self, now: float, reading: Reading, intact: bool) -> list[tuple[Send, bytes]]:
        """The messages of one state, sampled ``now`` [s]; their checksum is right if ``intact``."""
        ...

    def beside(self, now: float, reading: Reading, truth: Callable[[], Truth]) -> None:
        """Send what comes less often."""
        ...

    def serve(self, now: float) -> None:
        """Answer what came to the robot's services."""
        ...

    def receive(self) -> list[tuple[float, bytes]]:
        """Payloads on the command topic, and when they came [s]."""
        ...

    def decode(self, payload: bytes) -> Command | None:
        """The command in a payload; None if the robot would ignore it, which is counted."""
        ...

    def intrude(self) -> None:
        """Become a second writer of commands, one that sends nothing."""
        ...

    def double(self, obeys: bool) -> list[Send]:
        """Become a second writer of states, that of each message of :meth:`state`; and a reader of commands."""
        ...
