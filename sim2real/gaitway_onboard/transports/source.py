"""Writers on a robot's topics: states are believed from one writer alone, and commands are written by one alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..interface import DeployError
from ..wire.bus import Bus, Endpoint, Topic


class Source:
    """A topic of a robot's, heard from one writer: the one that was found when it was connected, by its identity.

    A message of any other writer is never used. Call :meth:`settle` once everyone on the bus is known.
    """

    def __init__(self, bus: Bus, topic: Topic, ids: Collection[str] = ()):
        """``ids`` name the programs, or the computers by their addresses, whose states are meant."""
        self.bus, self.topic, self.ids = bus, topic, frozenset(ids)
        self._subscriber = bus.subscriber(topic)
        self.writer: int | None = None
        """Its handle; None until the first message that counts."""
        self.about: Endpoint | None = None
        """Who that is; None before :meth:`settle`."""
        self.settled = self.chosen = False
        """``chosen`` is whether there are others, and ``ids`` said which is meant."""
        self._beside: set[int] = set()
        self._strangers: set[int] = set()

    def take(self) -> list[tuple[float, bytes, int]]:
        """Messages since the last call, oldest first: time, payload, and writer, for :meth:`counts`."""
        return self._subscriber.take_from()

    def counts(self, writer: int) -> bool:
        """True if messages of this writer may be used. The first intended writer is kept from then on."""
        if writer == self.writer:
            return True
        if self.writer is None and (not self.ids or any(w.handle == writer for w in self._meant())):
            self.writer = writer
            return True
        if writer not in self._beside:
            self._strangers.add(writer)
        return False

    def pass_over(self, writer: int) -> None:
        """Ignore this writer: its messages are of something else, such as a gripper's joints."""
        if writer != self.writer and not self.settled:
            self._beside.add(writer)

    def passes_over(self, writer: int) -> bool:
        return writer in self._beside

    def _meant(self) -> list[Endpoint]:
        return [each for each in self.bus.writers(self.topic) if each.id in self.ids or each.address in self.ids]

    def settle(self) -> None:
        """Refuse with :class:`DeployError` if another writer could be the robot; remember who is there."""
        writers = {each.handle: each for each in self.bus.writers(self.topic)}
        self.about = writers.get(self.writer or 0)
        others = (writers.keys() | self._strangers) - {self.writer} - self._beside
        if others and not self.ids:
            there = " and ".join(_name(each, writers) for each in sorted(others | {self.writer or 0}))
            raise DeployError(
                f"{there} write {self.topic.name}: two robots, or a recording beside the robot. Their states would "
                "mix, and both robots would obey: leave one robot on this network and domain, or end the other "
                "program. If only one of them hears commands, --robot-id ID says which is meant"
            )
        if len(meant := self._meant()) > 1:
            raise DeployError(f"{_listed(meant)} are both meant by --robot-id on {self.topic.name}: name one")
        self.chosen = bool(others)
        self._beside |= others
        self._strangers.clear()
        self.settled = True

    def strangers(self) -> tuple[str, ...]:
        """Everyone who writes the topic and was not there, or not such a writer, at :meth:`settle`."""
        writers = {each.handle: each for each in self.bus.writers(self.topic)}
        self._strangers |= writers.keys() - {self.writer} - self._beside
        return tuple(_name(handle, writers) for handle in sorted(self._strangers))

    @property
    def name(self) -> str:
        """Name of the writer; "" before :meth:`settle`."""
        return "" if self.about is None else describe(self.about)

    @property
    def intruded(self) -> bool:
        """True if a message of another writer has come."""
        return bool(self._strangers)

    def absent(self) -> str | None:
        """Reason why no message counts, if ``ids`` is the reason."""
        there = self.bus.writers(self.topic)
        if not self.ids or not there or self._meant():
            return None
        return f"no writer of {self.topic.name} is {' or '.join(sorted(self.ids))}: there is {_listed(there)}"


def describe(endpoint: Endpoint) -> str:
    """Description of a writer, with the id that ``--robot-id`` takes."""
    return f"{endpoint.who}, id {endpoint.id}"


def _listed(endpoints: Iterable[Endpoint]) -> str:
    return " and ".join(describe(each) for each in endpoints)


def _name(handle: int, writers: Mapping[int, Endpoint]) -> str:
    return describe(writers[handle]) if handle in writers else "a writer that has left"


def listeners(bus: Bus, command: Topic, sources: Sequence[Source]) -> tuple[str, ...]:
    """Readers of commands beside the chosen robot, where one had to be chosen: DDS cannot exclude a reader."""
    if not any(source.chosen for source in sources):
        return ()
    own = {source.about.id for source in sources if source.about is not None}
    return tuple(describe(each) for each in bus.readers(command) if each.id not in own)


def refuse_others(bus: Bus, command: Topic, sources: Sequence[Source]) -> None:
    """Raise :class:`DeployError` if states come from more than the robot, or more than the robot would obey."""
    for source in sources:
        if found := source.strangers():
            raise DeployError(
                f"{' and '.join(found)} writes {source.topic.name} since {source.name} was connected: a second robot, "
                "or a recording beside the robot: leave one robot on this network and domain, or end the other program"
            )
    if listening := listeners(bus, command, sources):
        raise DeployError(
            f"{' and '.join(listening)} would hear each command too: {command.name} reaches everyone who reads it, so "
            "--robot-id cannot keep a second robot still. Put the other robot on another network or domain"
        )


def refuse_drivers(bus: Bus, command: Topic) -> list[Endpoint]:
    """Raise :class:`DeployError` if a deployment, or its guardian, is on ``command``. Returns everyone else who is."""
    writers = list(bus.writers(command))
    if drivers := [each for each in writers if each.drives]:
        raise DeployError(
            f"{' and '.join(sorted({each.who for each in drivers}))} drives a robot on {command.name} already, or is "
            "the guardian of such a program: end it first; nothing was sent"
        )
    return writers
