"""Robot's end of a wire, the same for all wires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gaitway_files.hardware import Hardware
from gaitway_onboard.interface import Array, Remote
from gaitway_onboard.wire.bus import Bus, Subscriber, Topic

from ..mujoco.body import Body, Truth
from .command import Command, Counters
from .drives import Drives
from .faults import Fault
from .quirks import Quirks
from .sensors import Reading
from .sport import SportMode

Send = Callable[[bytes], None]


class Side(Protocol):
    """Speaks for a robot whose joints are in the order of the wire. It listens to one topic of commands."""

    bus: Bus
    command_topic: Topic
    commands: Subscriber
    sport: SportMode | None
    """The robot's own controller, where it has one."""
    counters: Counters
    remote: Remote
    """The operator's transmitter, where the wire has one."""

    def __init__(
        self,
        bus: Bus,
        hardware: Hardware,
        body: Body,
        drives: Drives,
        quirks: Quirks,
        *,
        standing: bool,
        own_controller: bool,
    ):
        """``own_controller`` is whether the robot's own is there, where it has one; ``standing`` if the robot does."""
        ...

    @staticmethod
    def period_of(hardware: Hardware) -> float:
        """Time between two states [s]."""
        ...

    @staticmethod
    def faults_of(hardware: Hardware) -> frozenset[Fault]:
        """Faults that this wire can carry."""
        ...

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
        """Send what comes less often, if anything does."""

    def serve(self, now: float) -> None:
        """Answer what came to the robot's services, if it has any."""

    def receive(self) -> list[tuple[float, bytes]]:
        """Payloads on the command topic, and when they came [s]."""
        return self.commands.take_all()

    def decode(self, payload: bytes) -> Command | None:
        """The command in a payload; None if the robot would ignore it, which is counted."""
        ...

    def intrude(self) -> None:
        """Become a second writer of commands, one that sends nothing."""
        self.bus.publisher(self.command_topic)

    def double(self, obeys: bool) -> list[Send]:
        """Become a second writer of states, that of each message of :meth:`state`; and a reader of commands."""
        ...


class Ear(Protocol):
    """Understands what goes over a wire from its bytes alone, as somebody who listens to both ends."""

    commands: Topic
    states: Topic
    """Topic of the joints' states."""

    def __init__(self, hardware: Hardware): ...

    def state(self, payload: bytes) -> tuple[Array, Array] | None:
        """Positions [rad] and speeds [rad/s] of the joints, (J,); None if a robot's driver would ignore the state."""
        ...

    def command(self, payload: bytes) -> tuple[Command | None, str]:
        """Command in a message, and the message's faults; None if it is not a command."""
        ...

    def limp(self) -> bytes:
        """A command that leaves all joints without torque."""
        ...
