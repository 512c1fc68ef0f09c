"""Transports, one row each, and the way from a robot's definition to a robot that can be connected."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..hardware import Hardware
from ..interface import DeployError, HardwareInterface, load_function
from ..wire.bus import Bus

TRANSPORTS = {
    "unitree_go": "gaitway_onboard.transports.unitree:open_robot",
    "unitree_hg": "gaitway_onboard.transports.unitree:open_robot",
    "ros2": "gaitway_onboard.transports.ros2:open_robot",
}
"""By :attr:`Hardware.family`: the function that makes a :class:`HardwareInterface` from Hardware and Connection."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where the robot is, and what the operator allows there. A transport uses what applies to it."""

    interface: str = ""
    """Network interface that faces the robot, such as "eth0"."""
    domain: int = 0
    """DDS domain."""
    bus: Bus | None = None
    """A bus that is open already, instead of DDS on ``interface`` and ``domain``."""
    own_controller: bool = True
    """False only for a simulator without a controller of its own to switch off."""
    silent_writers: bool = False
    """Whether other programs may be there that could write commands, as long as they do not."""
    unsealed_states: bool = False
    """Whether states without a checksum are believed, as those of some simulators."""
    robot_ids: Collection[str] = ()
    """Which robot is meant where several write states: ids or addresses, as the refusal prints them."""
    say: Callable[[str], None] = lambda text: None
    """Gets a line for each step of taking over."""

    def dds(self) -> Bus:
        """:attr:`bus`, or the DDS bus of ``interface`` and ``domain``."""
        if self.bus is not None:
            return self.bus
        from ..wire.dds import DdsBus

        return DdsBus(self.interface, self.domain, drives=True)


def open_robot(hardware: Hardware, connection: Connection) -> HardwareInterface:
    """The robot, not yet connected. Raises :class:`DeployError` if its transport is unknown or cannot be opened."""
    function = TRANSPORTS.get(hardware.family, hardware.family)
    if ":" not in function:
        raise DeployError(
            f"{hardware.name}: unknown transport {function!r}: known are {', '.join(TRANSPORTS)}, or module:function"
        )
    robot: HardwareInterface = load_function(function)(hardware, connection)
    return robot
