"""A bus inside one process, in simulated time: every run is the same, and as fast as the machine allows."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable

from ..interface import DeployError, SafeStop
from .bus import Bus, Endpoint, Subscriber, Topic


class MemoryBus(Bus):
    """Implements :class:`gaitway_onboard.wire.bus.Bus`; perfect, since loss and delay belong to the twin.

    Both sides of a conversation are views of one bus: ``robot_side = bus.join("robot")``. A view that
    sleeps lets time pass: every attached simulation is advanced to the deadline.
    """

    introduced = -math.inf
    """Everyone here is known at once."""

    def __init__(
        self, name: str = "computer", *, address: str = "", drives: bool = False, _shared: _Shared | None = None
    ):
        """``address`` and ``drives`` are what others are told of it, as in :class:`Endpoint`."""
        self.name, self.address, self.drives, self._shared = name, address, drives, _shared or _Shared()

    def join(self, name: str, *, address: str = "", drives: bool = False) -> MemoryBus:
        """Another participant's view of the same bus."""
        return MemoryBus(name, address=address, drives=drives, _shared=self._shared)

    def attach(self, advance: Callable[[float], None]) -> None:
        """Call ``advance(deadline)`` whenever time passes; it moves :attr:`time` on as it goes, at most that far."""
        self._shared.simulations.append(advance)

    @property
    def time(self) -> float:
        return self._shared.time

    @time.setter
    def time(self, value: float) -> None:
        self._shared.time = max(value, self._shared.time)

    def clock(self) -> float:
        return self._shared.time

    def sleep_until(self, deadline: float) -> None:
        for advance in self._shared.simulations:
            advance(deadline)
        self.time = deadline

    def publisher(self, topic: Topic) -> _Publisher:
        return _Publisher(self._shared, topic, self._enter(self._shared.writers, topic))

    def subscriber(self, topic: Topic) -> _Subscriber:
        queue: deque[tuple[float, bytes, int]] = deque(maxlen=topic.depth)
        self._shared.queues[topic.name].append(queue)
        self._enter(self._shared.readers, topic)
        return _Subscriber(queue)

    def _enter(self, endpoints: defaultdict[str, list[Endpoint]], topic: Topic) -> int:
        self._shared.handles += 1
        handle = self._shared.handles
        endpoints[topic.name].append(Endpoint(handle, self.name, self.name, topic.type, self.address, self.drives))
        return handle

    def writers(self, topic: Topic) -> tuple[Endpoint, ...]:
        return tuple(each for each in self._shared.writers[topic.name] if each.id != self.name)

    def readers(self, topic: Topic) -> tuple[Endpoint, ...]:
        return tuple(each for each in self._shared.readers[topic.name] if each.id != self.name)

    def claim(self, topic: Topic) -> None:
        holder = self._shared.claims.setdefault(topic.name, self.name)
        if holder != self.name:
            raise DeployError(f"{holder} drives the robot on {topic.name} already: end it first")

    def safe_stop(self, topic: Topic, payload: bytes) -> SafeStop:
        """Safe stop with its message alone: no other process is on this bus."""
        return SafeStop(sender="", settings={"topic": topic.name, "payload": payload.hex()})

    def ignore(self, identity: str) -> None: ...

    def close(self) -> None:
        for endpoints in (self._shared.writers, self._shared.readers):
            for of_topic in endpoints.values():
                of_topic[:] = [each for each in of_topic if each.id != self.name]
        for topic in [topic for topic, holder in self._shared.claims.items() if holder == self.name]:
            del self._shared.claims[topic]


class _Shared:
    def __init__(self) -> None:
        self.time = 0.0
        self.simulations: list[Callable[[float], None]] = []
        self.queues: defaultdict[str, list[deque[tuple[float, bytes, int]]]] = defaultdict(list)
        self.writers: defaultdict[str, list[Endpoint]] = defaultdict(list)
        self.readers: defaultdict[str, list[Endpoint]] = defaultdict(list)
        self.claims: dict[str, str] = {}
        self.handles = 0


class _Publisher:
    def __init__(self, shared: _Shared, topic: Topic, handle: int):
        self._shared, self._topic, self._handle = shared, topic, handle

    def send(self, payload: bytes | bytearray | memoryview) -> None:
        message = (self._shared.time, bytes(payload), self._handle)
        for queue in self._shared.queues[self._topic.name]:
            queue.append(message)


class _Subscriber(Subscriber):
    def __init__(self, queue: deque[tuple[float, bytes, int]]):
        self._queue = queue

    def take_from(self) -> list[tuple[float, bytes, int]]:
        messages = list(self._queue)
        self._queue.clear()
        return messages
