"""Carrier of messages: DDS to a real robot or a twin in another process, memory to a twin in this one.

A message is its CDR payload, header included, whatever carries it: so a test in memory and a robot on a cable see the
same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gaitway_files.errors import NotDone

from ..interface import SafeStop


@dataclass(frozen=True)
class Topic:
    """A name on the bus and the type of its messages."""

    name: str
    """Name on the wire, such as "rt/lowcmd"."""
    type: str
    """Name of the type in :data:`gaitway_onboard.wire.messages.TYPES`, such as "unitree_go::msg::dds_::LowCmd_"."""
    reliable: bool = True
    """QoS of a writer, and what a reader asks for."""
    depth: int = 1
    """Messages that a slow reader finds when it comes back."""


@dataclass(frozen=True)
class Endpoint:
    """A writer or reader of a topic that belongs to another program."""

    handle: int
    """Handle of a writer, which :meth:`Subscriber.take_from` gives with each of its messages. It is never reused."""
    id: str
    """Identity of its program on this bus, as long as that program runs."""
    who: str
    """Description of that program: process, host and address, as far as it tells them."""
    type: str
    """Type of the messages."""
    address: str = ""
    """Address of its computer; "" if it is not known, or this one."""
    drives: bool = False
    """True if the program announces that it drives robots, as deployments and their guardians do."""


CLOSED = "this bus is closed"


class BusError(NotDone):
    """A message that the bus cannot carry, or a bus that carries none any more."""


class Publisher(Protocol):
    def send(self, payload: bytes | bytearray | memoryview) -> None:
        """Send one message. Does not block. Raises :class:`BusError`."""
        ...


class Subscriber(Protocol):
    """Reader of a topic; no call blocks."""

    def take_from(self) -> list[tuple[float, bytes, int]]:
        """Every message that was not taken before, oldest first, as far as ``depth`` kept them: when it came [s], its
        payload, and the :attr:`Endpoint.handle` of its writer."""
        ...

    def take_all(self) -> list[tuple[float, bytes]]:
        """As :meth:`take_from`, without the writers."""
        return [(stamp, payload) for stamp, payload, _ in self.take_from()]

    def take(self) -> tuple[float, bytes] | None:
        """The newest message not taken before; older ones are skipped."""
        messages = self.take_all()
        return messages[-1] if messages else None


class Bus(Protocol):
    """Not shared between threads, but for :meth:`clock`."""

    introduced: float
    """Time after which every program that was there before is known to this bus, on its clock [s]."""

    def clock(self) -> float:
        """Monotonic time [s] of arrivals and deadlines."""
        ...

    def sleep_until(self, deadline: float) -> None: ...

    def publisher(self, topic: Topic) -> Publisher: ...

    def subscriber(self, topic: Topic) -> Subscriber: ...

    def writers(self, topic: Topic) -> tuple[Endpoint, ...]:
        """Every writer of this topic, whatever its type, but those of this bus."""
        ...

    def readers(self, topic: Topic) -> tuple[Endpoint, ...]:
        """Every reader of it, likewise."""
        ...

    def claim(self, topic: Topic) -> None:
        """Be the only bus of this computer that writes ``topic`` on this network, until it is closed.

        Raises :class:`gaitway_onboard.interface.DeployError` if another has claimed it.
        """
        ...

    def other_writers(self, topic: Topic) -> tuple[str, ...]:
        """Everyone else who writes this topic, in words: host, process or id. Publishers made by this bus are not."""
        return tuple(sorted({each.who for each in self.writers(topic)}))

    def other_types(self, topic: Topic) -> tuple[str, ...]:
        """Other types than ``topic.type`` that others write under its name: of another robot or firmware."""
        return tuple(sorted({each.type for each in self.writers(topic)} - {topic.type}))

    def safe_stop(self, topic: Topic, payload: bytes) -> SafeStop:
        """Safe stop with which another process sends ``payload`` on ``topic`` of this bus."""
        ...

    def ignore(self, identity: str) -> None:
        """Never count the bus of this identity among the others: a guardian's, which writes when this cannot."""
        ...

    def close(self) -> None: ...
