"""A bus inside one process, in simulated time: every run is the same, and as fast as the machine allows."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

from .bus import Topic


class MemoryBus:
    """Implements :class:`gaitway_sim2real.onboard.wire.bus.Bus`; perfect, since loss and delay belong to the twin.

    Both sides of a conversation are views of one bus: ``robot_side = bus.join("robot")``. Whoever sleeps lets
    time pass: every attached simulation is advanced to the deadline.
    """

    def __init__(self, name: str = "computer", _shared: _Shared | None = None):
        self.name, self._shared = name, _shared or _Shared()

    def join(self, name: str) -> MemoryBus:
        """Another participant's view of the same bus."""
        return MemoryBus(name, self._shared)

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
        self._shared.writers[topic.name].append((self.name, topic.type))
        return _Publisher(self._shared, topic)

    def subscriber(self, topic: Topic) -> _Subscriber:
        queue: deque[tuple[float, bytes]] = deque(maxlen=topic.depth)
        self._shared.queues[topic.name].append(queue)
        return _Subscriber(queue)

    def other_writers(self, topic: Topic) -> tuple[str, ...]:
        return tuple(name for name, _ in self._shared.writers[topic.name] if name != self.name)

    def other_types(self, topic: Topic) -> tuple[str, ...]:
        writers = self._shared.writers[topic.name]
        return tuple(sorted({kind for name, kind in writers if name != self.name and kind != topic.type}))

    def close(self) -> None:
        for writers in self._shared.writers.values():
            writers[:] = [writer for writer in writers if writer[0] != self.name]


class _Shared:
    def __init__(self) -> None:
        self.time = 0.0
        self.simulations: list[Callable[[float], None]] = []
        self.queues: defaultdict[str, list[deque[tuple[float, bytes]]]] = defaultdict(list)
        self.writers: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)


class _Publisher:
    def __init__(self, shared: _Shared, topic: Topic):
        self._shared, self._topic = shared, topic

    def send(self, payload: bytes | bytearray | memoryview) -> None:
        message = (self._shared.time, bytes(payload))
        for queue in self._shared.queues[self._topic.name]:
            queue.append(message)


class _Subscriber:
    def __init__(self, queue: deque[tuple[float, bytes]]):
        self._queue = queue

    def take(self) -> tuple[float, bytes] | None:
        newest = self._queue[-1] if self._queue else None
        self._queue.clear()
        return newest

    def take_all(self) -> list[tuple[float, bytes]]:
        messages = list(self._queue)
        self._queue.clear()
        return messages
