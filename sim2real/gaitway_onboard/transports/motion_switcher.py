"""Switching the robot's own controller off: Unitree's ``motion_switcher`` service, version 1.0.0.1.

A Unitree robot that was just switched on stands under a controller of its own, which writes to the motors as we would.
``motion_switcher`` says which one is active, by its name, and releases it. Requests and responses are JSON in messages
of ``unitree_api``; nothing but time says that a request was lost, so every wait here ends.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gaitway_files.hardware import Hardware
from gaitway_files.json_files import parse_json
from gaitway_files.reading import VALUE, printable

from ..interface import DeployError
from ..wire.bus import Bus, Topic
from ..wire.declarations import REQUEST, RESPONSE
from ..wire.idl import WireError, decode, encode
from .source import describe

SERVICE = "motion_switcher"
CHECK_MODE, SELECT_MODE, RELEASE_MODE = 1001, 1002, 1003
ANSWER = 5.0  # [s] to wait for one answer, as Unitree's own examples do
ABSENT = 2.0  # [s] after which a service that discovery does not know is not there
POLL = 0.01
LONGEST = 1000  # characters of an answer that says which controller is active
LYING_DOWN = 3.0  # [s] that a robot takes to lie down
WATCH = 0.1  # [s] between two questions while the robot is driven


@dataclass(frozen=True)
class Answer:
    """``code`` is 0 for success; ``data`` is JSON, or what a broken service sends instead."""

    code: int
    data: str


class Service:
    """A client of one of the robot's services; makes its publisher when it is made."""

    def __init__(self, bus: Bus, name: str):
        self.bus, self.name = bus, name
        request = Topic(f"rt/api/{name}/request", REQUEST.name)
        self.response = Topic(f"rt/api/{name}/response", RESPONSE.name, depth=16)
        self._responses = bus.subscriber(self.response)
        self._requests = bus.publisher(request)
        self._number = time.monotonic_ns()  # another client's numbers must not be ours

    def call(self, function: int, parameter: dict[str, Any] | None = None, timeout: float = ANSWER) -> Answer | None:
        """The answer, or None if none came in time. Sent twice, since the first may go before discovery."""
        request, started = self.ask(function, parameter), self.bus.clock()
        for end in (started + 0.2 * timeout, started + timeout):
            if self.bus.clock() > started:
                self._requests.send(request)
            while self.bus.clock() < end:
                self.bus.sleep_until(min(end, self.bus.clock() + POLL))
                if (answer := self.heard()) is not None:
                    return answer
        return None

    def ask(self, function: int, parameter: dict[str, Any] | None = None) -> bytes:
        """Send a request and return it; what is :meth:`heard` from now on is the answer to it."""
        self._number += 1
        identity = {"id": self._number, "api_id": function}
        request = encode(REQUEST, {"header": {"identity": identity}, "parameter": json.dumps(parameter or {})})
        self._requests.send(request)
        return request

    def heard(self) -> Answer | None:
        """The answer, if it has come; does not wait."""
        found = (self._answer(payload) for _, payload in self._responses.take_all())
        return next((answer for answer in found if answer is not None), None)

    def _answer(self, payload: bytes) -> Answer | None:
        try:
            response = decode(RESPONSE, payload)
        except WireError:
            return None
        header = response["header"]
        if header["identity"]["id"] != self._number:
            return None
        return Answer(int(header["status"]["code"]), response["data"])

    @property
    def servers(self) -> tuple[str, ...]:
        """The programs that serve it, in words, as far as discovery tells."""
        return tuple(sorted({describe(each) for each in self.bus.writers(self.response)}))

    @property
    def present(self) -> bool:
        """True if the service exists on the robot's network."""
        return bool(self.servers)


def release(
    bus: Bus, hardware: Hardware, *, timeout: float = 20.0, say: Callable[[str], None] = lambda text: None
) -> None:
    """Switch the robot's own controller off, or raise :class:`DeployError`; ``timeout`` [s] is for all of it.

    A robot that can is laid down first: what stands under its own controller drops when that ends.
    """
    deadline = bus.clock() + timeout
    switcher = Service(bus, SERVICE)
    name = _active(switcher, deadline)
    if not name:
        return
    if hardware.stand_down is not None:
        service, function = hardware.stand_down
        say(f"laying the robot down (its controller {name!r} is active)")
        answer = Service(bus, service).call(function)
        if answer is None or answer.code != 0:
            heard = "does not answer" if answer is None else f"answers with error {answer.code}"
            raise DeployError(
                f"the robot stands under its own controller {name!r}, and its service {service!r}, asked to lay it "
                f"down, {heard}: lay it down and switch the controller off by hand, in the maker's app, then try again"
            )
        bus.sleep_until(min(deadline, bus.clock() + LYING_DOWN))
    say(f"switching off the robot's controller {name!r}")
    while name:
        if bus.clock() >= deadline:
            raise DeployError(
                f"the robot's own controller {name!r} is still active after {timeout:g} s of asking "
                f"{SERVICE} to release it: switch it off in the maker's app, then try again"
            )
        answer = switcher.call(RELEASE_MODE)
        if answer is not None and answer.code != 0:
            raise DeployError(f"{SERVICE} refuses to release {name!r}: error {answer.code}. Is the robot in a fault?")
        name = _active(switcher, deadline)


def _active(switcher: Service, deadline: float) -> str:
    """Name of the active controller, "" for none."""
    if len(servers := switcher.servers) > 1:
        raise DeployError(
            f"{' and '.join(servers)} answer for {SERVICE}, and only the robot may: leave one robot on this network "
            "and domain, and end the other program"
        )
    while True:
        answer = switcher.call(CHECK_MODE, timeout=ANSWER if switcher.present else ABSENT)
        if answer is not None or not switcher.present or switcher.bus.clock() >= deadline:
            break
    if answer is None:
        there = (
            "is on the network and does not answer"
            if switcher.present
            else "is not on this network, and every such robot has one"
        )
        raise DeployError(
            f"the robot's service {SERVICE} {there}, so its own controller may be driving the motors: restart the "
            "robot, and check that this is its network; a simulator may have none, and then nothing is to be released"
        )
    if answer.code != 0:
        raise DeployError(f"{SERVICE} answers the question for the active controller with error {answer.code}")
    name = _name(answer)
    if name is None:
        raise DeployError(
            f"{SERVICE} answers the question for the active controller with {answer.data[:80]!r}, which has no name "
            "in it: restart the robot"
        )
    return name


def _name(answer: Answer) -> str | None:
    """The active controller's in an answer to the question for it, "" for none; None if it has no name in it."""
    name = None
    if len(answer.data) <= LONGEST:
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            name = parse_json(answer.data, SERVICE)["name"]
    return printable(name, VALUE) if isinstance(name, str) else None


class Watch:
    """Asks all the time, and never waits, whether the robot's own controller has been switched on again."""

    def __init__(self, bus: Bus):
        self._switcher = Service(bus, SERVICE)
        self._asked = -math.inf
        self.active = ""
        """Its name; "" as long as it is off, as far as it is known."""

    def look(self, now: float) -> None:
        """Call it at the control rate."""
        answer = self._switcher.heard()
        if answer is not None and answer.code == 0:
            self.active = _name(answer) or ""
        if now - self._asked >= WATCH:
            self._switcher.ask(CHECK_MODE)
            self._asked = now
