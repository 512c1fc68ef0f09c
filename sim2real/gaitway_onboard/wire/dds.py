"""The bus that real robots are on: DDS, through the PyPI package ``cyclonedds``. Needs the ``robot`` extra."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from ..interface import DeployError, SafeStop
from .bus import CLOSED, Bus, Endpoint, Topic
from .claim import claim

if TYPE_CHECKING:
    from .presence import Presence
    from .raw import Reader, Writer

LOOPBACK = "lo"
MAX_DOMAIN = 232
"""Domains beyond have no port numbers."""
DISCOVERY = 0.5
"""Seconds until everyone on a network knows of everyone else: five times what it takes."""
MAX_PROCESSES = 60
"""Buses on one loopback interface and domain that find each other."""


class DdsBus(Bus):
    """One participant of a DDS domain. Implements :class:`gaitway_onboard.wire.bus.Bus`.

    ``interface`` is the network interface to use, such as "eth0", or "lo" for other processes of this computer;
    ``domain`` is 0 on Unitree's robots. Its configuration is this one, whatever CYCLONEDDS_URI says. Raises
    :class:`DeployError` if there is no such interface, or no DDS on it.
    """

    def __init__(self, interface: str, domain: int = 0, *, sender_times: bool = False, drives: bool = False):
        """``sender_times`` stamps messages when they were sent, not when they were seen: for a listener that may be
        late, on the computer of those it listens to. ``drives`` tells the others of a program that drives robots."""
        try:
            from cyclonedds.core import DDSException, Policy, Qos
            from cyclonedds.domain import DomainParticipant

            from .presence import DRIVES, Presence
            from .raw import Reader, Writer
        except ImportError as error:
            raise DeployError(f"DDS needs cyclonedds ({error}): pip install 'gaitway[robot]'") from None
        self._domain = _Domain.lease(interface, domain)
        try:
            qos = Qos(Policy.Userdata(DRIVES)) if drives else None
            self._participant: Any = DomainParticipant(domain, qos=qos)
        except DDSException as error:
            self._domain.end()
            raise _unusable(interface, domain, error) from None
        self._make_reader, self._make_writer, self._sender_times = Reader, Writer, sender_times
        self.guid = str(self._participant.guid)
        """Who this bus is to the others: the identity that another process gives to :meth:`ignore`."""
        self.introduced = time.monotonic() + DISCOVERY
        self._interface, self._number, self._claims = interface, domain, contextlib.ExitStack()
        self._ignored = {self.guid}
        self._presence: Presence | None = Presence(self._participant)
        self._topics: dict[str, Any] = {}
        self._endpoints: list[Writer | Reader] = []

    def clock(self) -> float:
        return time.monotonic()

    def sleep_until(self, deadline: float) -> None:
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(left)

    def publisher(self, topic: Topic) -> Writer:
        publisher = self._make_writer(self._participant, self._topic(topic), topic)
        self._endpoints.append(publisher)
        return publisher

    def subscriber(self, topic: Topic) -> Reader:
        """As :meth:`Bus.subscriber`. Only a topic with ``reliable=False`` hears writers of either kind."""
        subscriber = self._make_reader(self._participant, self._topic(topic), topic, self._sender_times)
        self._endpoints.append(subscriber)
        return subscriber

    def writers(self, topic: Topic) -> tuple[Endpoint, ...]:
        """As :meth:`Bus.writers`, but those of a bus that :meth:`ignore` was told of.

        Discovery takes some 100 ms to tell of them, and up to 10 s to forget one that was killed.
        """
        return self._others().writers(topic.name, self._ignored)

    def readers(self, topic: Topic) -> tuple[Endpoint, ...]:
        return self._others().readers(topic.name, self._ignored)

    def claim(self, topic: Topic) -> None:
        self._claims.enter_context(
            claim(f"{self._interface} {self._number} {topic.name}", f"the robot on {topic.name}")
        )

    def _others(self) -> Presence:
        if self._presence is None:
            raise DeployError(CLOSED)
        return self._presence

    def ignore(self, identity: str) -> None:
        """As :meth:`Bus.ignore`; it is the other bus's :attr:`guid`."""
        self._ignored.add(identity)

    def safe_stop(self, topic: Topic, payload: bytes) -> SafeStop:
        where = {"interface": self._interface, "domain": self._number}
        about = {"topic": topic.name, "type": topic.type, "reliable": topic.reliable}
        return SafeStop(sender=f"{__name__}:StopOnTopic", settings={**where, **about, "payload": payload.hex()})

    def close(self) -> None:
        """Leave the domain; what this bus made can no longer be used. Closing twice is allowed."""
        if self._participant is None:
            return
        for endpoint in self._endpoints:
            endpoint.close()
        self._endpoints.clear()
        self._topics.clear()
        self._presence = self._participant = None
        self._claims.close()
        self._domain.end()

    def _topic(self, topic: Topic) -> Any:
        if self._participant is None:
            raise DeployError(CLOSED)
        from cyclonedds.topic import Topic as DdsTopic

        from .messages import TYPES

        if topic.type not in TYPES:
            raise DeployError(f"topic {topic.name}: unknown message type {topic.type}; known: {', '.join(TYPES)}")
        found = self._topics.get(topic.name)
        if found is None:
            found = self._topics[topic.name] = DdsTopic(self._participant, topic.name, TYPES[topic.type])
        elif found.data_type is not TYPES[topic.type]:
            raise DeployError(f"topic {topic.name} carries {found.typename} on this bus, not {topic.type}")
        return found


class StopOnTopic:
    """Implements :class:`gaitway_onboard.interface.StopSender`: one message, and a bus of its own to send it on."""

    def __init__(self, *, interface: str, domain: int, topic: str, type: str, reliable: bool, payload: str):
        self._payload, self._bus = bytes.fromhex(payload), DdsBus(interface, domain, drives=True)
        self._publisher = self._bus.publisher(Topic(topic, type, reliable=reliable))
        self.identity = self._bus.guid

    def send(self) -> None:
        self._publisher.send(self._payload)

    def arrived(self) -> bool:
        return self._publisher.acknowledged()

    def close(self) -> None:
        self._bus.close()


class _Domain:
    """Cyclone has one configuration for each domain of a process, so buses on the same domain share it."""

    _open: dict[int, _Domain] = {}  # noqa: RUF012
    _lock = threading.Lock()

    def __init__(self, interface: str, number: int):
        from cyclonedds.core import DDSException
        from cyclonedds.domain import Domain

        self.interface, self.number, self.users = interface, number, 0
        try:
            self.entity: Any = Domain(number, configuration(interface))
        except DDSException as error:
            raise _unusable(interface, number, error) from None

    @classmethod
    def lease(cls, interface: str, number: int) -> _Domain:
        if not 0 <= number <= MAX_DOMAIN:
            raise DeployError(f"DDS domain {number}: domains are 0 to {MAX_DOMAIN}; Unitree's robots are on 0")
        names = [name for _, name in socket.if_nameindex()]
        if interface not in names:
            raise DeployError(f"no network interface {interface!r}: this computer has {', '.join(names)}")
        with cls._lock:
            found = cls._open.get(number)
            if found is None:
                found = cls(interface, number)
            elif found.interface != interface:
                raise DeployError(f"this process has DDS domain {number} on {found.interface}, so not on {interface}")
            found.users += 1
            cls._open[number] = found
            return found

    def end(self) -> None:
        with self._lock:
            self.users -= 1
            if self.users == 0:
                del self._open[self.number]
                self.entity = None


def configuration(interface: str) -> str:
    """Cyclone's XML for one interface. Loopback has no multicast: there, peers are asked for one by one."""
    network = f"<Interfaces><NetworkInterface name={quoteattr(interface)}/></Interfaces>"
    if interface != LOOPBACK:
        return f'<CycloneDDS><Domain Id="any"><General>{network}</General></Domain></CycloneDDS>'
    return (
        f'<CycloneDDS><Domain Id="any"><General>{network}<AllowMulticast>false</AllowMulticast></General><Discovery>'
        f"<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>{MAX_PROCESSES}</MaxAutoParticipantIndex>"
        '<Peers><Peer Address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>'
    )


def _unusable(interface: str, domain: int, error: Exception) -> DeployError:
    return DeployError(f"no DDS on {interface}, domain {domain} ({error}): is the interface up, with an IPv4 address?")
