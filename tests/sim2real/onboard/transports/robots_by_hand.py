"""The other end of a Unitree robot's wire, in the hands of a test: states as told, services that answer as told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.transports.unitree_frames import COMMANDS, STATES, slots_of
from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.crc import check, seal
from gaitway_onboard.wire.declarations import REQUEST, RESPONSE
from gaitway_onboard.wire.idl import decode, encode
from gaitway_onboard.wire.layouts import Message, layout_of
from gaitway_onboard.wire.memory import MemoryBus

Answer = Callable[[int], tuple[int, str] | None]
"""Function number to code and data; None for no answer."""


class HandRobot:
    """Sends a state every 2 ms of the bus's time; ``tamper`` may spoil it, after which it is sealed if ``sealed``."""

    def __init__(self, hardware: Hardware, bus: MemoryBus, *, family: str | None = None, name: str = "robot"):
        family = family or hardware.family
        self.hardware, self.bus = hardware, bus.join(name, address="192.168.123.161")
        self.state, self._time = layout_of(STATES[family]).new(), self.bus.time
        self.slots = slots_of(hardware)
        self.tamper: Callable[[Message], None] = lambda state: None
        self.sealed = self.speaking = True
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[float, str, int]] = []
        self._states = self.bus.publisher(Topic("rt/lowstate", STATES[family].name))
        self._command = COMMANDS[hardware.family]
        self._commands = self.bus.subscriber(Topic("rt/lowcmd", self._command.name, depth=4096))
        self._services: dict[str, tuple[Any, Any]] = {}
        self.state["imu_state.quaternion"] = (1.0, 0.0, 0.0, 0.0)
        self.state["motor_state.q"][self.slots] = 0.01 * (1 + np.arange(len(hardware.joint_names)))
        if family == "unitree_hg":
            self.state["mode_machine"] = next(iter(hardware.mode_machines))
        bus.attach(self.advance)

    def serve(self, service: str, answer: Answer) -> None:
        requests = self.bus.subscriber(Topic(f"rt/api/{service}/request", REQUEST.name, depth=16))
        responses = self.bus.publisher(Topic(f"rt/api/{service}/response", RESPONSE.name))
        self.answers[service], self._services[service] = answer, (requests, responses)

    def controller(self, name: str, releases: bool = True) -> None:
        """Be under a controller of this name, with a ``motion_switcher`` that works."""
        active = [name]

        def answer(function: int) -> tuple[int, str]:
            if function == 1003 and releases:
                active[0] = ""
            return 0, json.dumps({"form": "0", "name": active[0]}) if function == 1001 else ""

        self.serve("motion_switcher", answer)

    def advance(self, deadline: float) -> None:
        while self._time + 0.002 <= deadline + 1e-9:
            self._time += 0.002
            self.bus.time = self._time
            if self.speaking:
                self.send()
            for service, (requests, responses) in self._services.items():
                for _, payload in requests.take_all():
                    self._respond(service, responses, decode(REQUEST, payload)["header"]["identity"])

    def send(self) -> None:
        self.state["tick"] += 2  # milliseconds
        self.tamper(self.state)
        if self.sealed:
            seal(self.state)
        self._states.send(self.state.payload)

    def _respond(self, service: str, responses: Any, identity: dict[str, int]) -> None:
        self.calls.append((self.bus.time, service, identity["api_id"]))
        if (answer := self.answers[service](identity["api_id"])) is not None:
            header = {"identity": identity, "status": {"code": answer[0]}}
            responses.send(encode(RESPONSE, {"header": header, "data": answer[1]}))

    def commands(self) -> list[Message]:
        """Commands since the last call, each with the right checksum."""
        found = [layout_of(self._command).read(payload) for _, payload in self._commands.take_all()]
        assert all(check(message) for message in found)
        return found
