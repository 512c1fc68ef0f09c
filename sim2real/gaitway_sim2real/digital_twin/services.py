"""The services that a deployment talks to: ``motion_switcher`` and as much of ``sport`` as lays a robot down.

Function numbers and codes are those of Unitree's unitree_sdk2_python (``comm/motion_switcher``, ``go2/sport``,
``rpc/internal.py``).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import deque
from typing import Any

from gaitway_files.json_files import parse_json
from gaitway_onboard.transports.motion_switcher import CHECK_MODE, RELEASE_MODE, SELECT_MODE, SERVICE
from gaitway_onboard.wire.bus import Bus, Topic
from gaitway_onboard.wire.declarations import REQUEST, RESPONSE
from gaitway_onboard.wire.idl import WireError, decode, encode

from .sport import SportMode

SLOW = 2.0  # [s]
DAMP, STAND_UP, STAND_DOWN = 1001, 1004, 1005
NOT_IMPLEMENTED, BAD_PARAMETER, NOT_ACTIVE = 3203, 3204, 7004


class _Service(ABC):
    """Answers requests, ``delay`` [s] after they came; ``silent`` is one that is not there at all."""

    def __init__(self, bus: Bus, name: str, *, delay: float = 0.0, silent: bool = False):
        self.name, self.present, self._delay = name, not silent, delay
        self._late: deque[tuple[float, bytes]] = deque()
        self._requests = self._responses = None
        if not silent:
            self._requests = bus.subscriber(Topic(f"rt/api/{name}/request", REQUEST.name, depth=16))
            self._responses = bus.publisher(Topic(f"rt/api/{name}/response", RESPONSE.name))

    @abstractmethod
    def answer(self, now: float, function: int, parameter: Any) -> tuple[int, str]:
        """Code and data of the answer."""

    def serve(self, now: float) -> None:
        if self._requests is None or self._responses is None:
            return
        for stamp, payload in self._requests.take_all():
            try:
                request = decode(REQUEST, payload)
            except WireError:
                continue
            identity = request["header"]["identity"]
            try:
                code, data = self.answer(now, identity["api_id"], parse_json(request["parameter"] or "{}", "parameter"))
            except ValueError:
                code, data = BAD_PARAMETER, ""
            response = encode(RESPONSE, {"header": {"identity": identity, "status": {"code": code}}, "data": data})
            if not request["header"]["policy"]["noreply"]:
                self._late.append((stamp + self._delay, response))
        while self._late and self._late[0][0] <= now:
            self._responses.send(self._late.popleft()[1])


class MotionSwitcher(_Service):
    def __init__(self, bus: Bus, sport: SportMode, manner: str):
        """``manner`` is one of :data:`gaitway_sim2real.digital_twin.quirks.SWITCHERS`."""
        super().__init__(bus, SERVICE, delay=SLOW * (manner == "slow"), silent=manner == "absent")
        self._sport, self._manner = sport, manner

    def answer(self, now: float, function: int, parameter: Any) -> tuple[int, str]:
        sport = self._sport
        if self._manner == "nonsense":
            return 0, "\x00<nonsense>"
        if function == CHECK_MODE:
            return 0, json.dumps({"form": "0", "name": sport.name if sport.active else ""})
        if function == RELEASE_MODE:
            if self._manner != "stubborn":
                sport.release()
            return 0, ""
        if function == SELECT_MODE:
            if parameter.get("name") != sport.name:
                return NOT_ACTIVE, ""
            sport.select(now)
            return 0, ""
        return NOT_IMPLEMENTED, ""


class SportService(_Service):
    def __init__(self, bus: Bus, sport: SportMode):
        super().__init__(bus, "sport")
        self._sport = sport

    def answer(self, now: float, function: int, parameter: Any) -> tuple[int, str]:
        moves = {DAMP: self._sport.damp, STAND_UP: self._sport.stand_up, STAND_DOWN: self._sport.stand_down}
        if function not in moves:
            return NOT_IMPLEMENTED, ""
        if not self._sport.active:
            return NOT_ACTIVE, ""
        moves[function](now)
        return 0, ""
