"""Base of robots on a bus: their connection, other programs beside them, and the permission to command."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

from gaitway_files.hardware import Hardware

from ..interface import DeployError, Health, Signals
from ..wire.bus import Bus, Publisher, Topic
from .source import Source, listeners, refuse_others

LOOK_EVERY = 0.5
"""Seconds between two looks for other writers: discovery is too slow for every period."""
DISCOVERY = 0.5
"""Seconds until everyone on the network knows of everyone else."""


class BusRobot(ABC):
    """The part of :class:`gaitway_onboard.interface.HardwareInterface` that does not depend on messages."""

    def __init__(self, hardware: Hardware, bus: Bus, command_topic: Topic, robot_ids: Collection[str]):
        """``robot_ids`` say whose states are meant where several write them, as for :class:`.source.Source`."""
        self.hardware, self.bus, self.command_topic, self.robot_ids = hardware, bus, command_topic, robot_ids
        self.joint_names, self.period = hardware.joint_names, hardware.command_period
        self._heard_from: list[Source] = []
        self._commands: Publisher | None = None
        self._signals: Signals | None = None
        self._silent: frozenset[int] = frozenset()
        """Writers of commands that may be there as long as they send none."""
        self._others: tuple[str, ...] = ()
        self._strangers: tuple[str, ...] = ()
        self._looked = -math.inf

    def clock(self) -> float:
        return self.bus.clock()

    def sleep_until(self, deadline: float) -> None:
        self.bus.sleep_until(deadline)

    def ignore(self, identity: str) -> None:
        self.bus.ignore(identity)

    @property
    def _sources(self) -> list[Source]:
        if not self._heard_from:
            raise DeployError("connect first")
        return self._heard_from

    def _connect(self, topics: Collection[Topic], heard: Callable[[], bool], timeout: float) -> None:
        """Listen to ``topics`` until enough has been ``heard`` and everyone on the bus is known."""
        self.bus.claim(self.command_topic)
        self._heard_from = [Source(self.bus, topic, self.robot_ids) for topic in topics]
        deadline = max(self.clock() + timeout, self.bus.introduced)
        while not heard() or self.clock() < self.bus.introduced:
            if self.clock() >= deadline:
                absent = next(filter(None, (source.absent() for source in self._heard_from)), None)
                raise DeployError(absent or self._silence(timeout))
            self.sleep_until(min(deadline, self.clock() + self.period))
            self._take()
        for source in self._heard_from:
            source.settle()

    @abstractmethod
    def _take(self) -> None:
        """Take in what came."""

    @abstractmethod
    def _silence(self, timeout: float) -> str:
        """Reason why there are no signals, as far as it can be told."""

    def check_alone(self) -> None:
        """As :meth:`HardwareInterface.check_alone`; who else may write commands depends on the robot."""
        refuse_others(self.bus, self.command_topic, self._sources)

    def _announce(self) -> Publisher:
        """A publisher of commands that everyone on the network has had time to notice; nothing is sent yet."""
        if self._signals is None:
            raise DeployError("connect before taking over")
        self.check_alone()
        commands = self.bus.publisher(self.command_topic)
        self.sleep_until(self.clock() + DISCOVERY)  # then damping is heard at once
        self.check_alone()  # since another may have begun when this did
        return commands

    def _watched(self) -> tuple[Signals, Health]:
        """The newest signals, and in their health who else writes: looked for now and then, and when one was heard."""
        intruded = not self._strangers and any(source.intruded for source in self._heard_from)
        if self._commands is not None and (self.clock() - self._looked >= LOOK_EVERY or intruded):
            writers = self.bus.writers(self.command_topic)
            self._others = tuple(sorted({each.who for each in writers if each.handle not in self._silent}))
            found = [stranger for source in self._heard_from for stranger in source.strangers()]
            self._strangers = (*found, *listeners(self.bus, self.command_topic, self._heard_from))
            self._looked = self.clock()
        if self._signals is None:
            raise DeployError("no state has come: connect first")
        health = self._signals.health
        assert health is not None
        health.other_writers = self._others
        if self._strangers:
            health.source = " and ".join(source.name for source in self._heard_from)
            health.other_sources = self._strangers
        return self._signals, health
