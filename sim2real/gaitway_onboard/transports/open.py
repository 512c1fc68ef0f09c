"""Transports, one row each, and the way from a robot's definition to a robot that can be connected."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gaitway_files.hardware import Hardware

from ..interface import DeployError, HardwareInterface, load_function
from ..wire.bus import Bus


@dataclass(frozen=True, kw_only=True)
class Transport:
    """One way to speak with robots: ``module:name`` of each of its parts, imported where it is used."""

    robot: str
    """The function that makes a :class:`HardwareInterface` from Hardware and Connection."""
    twin: str = ""
    """The robot's end, a :class:`gaitway_sim2real.digital_twin.side.Side`; "" has no twin."""
    audit: str = ""
    """Reader of the frames for audits, a :class:`gaitway_sim2real.digital_twin.side.Ear`; "" cannot be rehearsed."""

    def __post_init__(self) -> None:
        for part, name in vars(self).items():
            if ":" not in name and (name or part == "robot"):
                raise DeployError(f"transport {self.robot!r}: its {part} is {name!r}, and is written as module:name")


_UNITREE = Transport(
    robot="gaitway_onboard.transports.unitree:UnitreeRobot",
    twin="gaitway_sim2real.digital_twin.unitree:UnitreeSide",
    audit="gaitway_sim2real.digital_twin.unitree_ear:UnitreeEar",
)
TRANSPORTS = {
    "unitree_go": _UNITREE,
    "unitree_hg": _UNITREE,
    "ros2": Transport(
        robot="gaitway_onboard.transports.ros2:open_robot", twin="gaitway_sim2real.digital_twin.ros2:Ros2Side"
    ),
}
"""Transports by :attr:`Hardware.family`."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Connection to a robot, with the operator's permissions. A transport uses what applies to it."""

    interface: str = ""
    """Network interface that faces the robot, such as "eth0"."""
    domain: int = 0
    """DDS domain."""
    bus: Bus | None = None
    """A bus that is open already, instead of DDS on ``interface`` and ``domain``."""
    own_controller: bool = True
    """False only for a simulator without a controller of its own to switch off."""
    silent_writers: bool = False
    """True allows other programs that could write commands, as long as they do not: the robot's own controller may stay
    on the network when it is switched off."""
    unsealed_states: bool = False
    """True accepts states that have zero in place of a checksum, as those of some simulators; one that has a checksum
    must still be right."""
    robot_ids: Collection[str] = ()
    """Robot to use where several write states: ids or addresses, as the refusal prints them."""
    say: Callable[[str], None] = lambda text: None
    """Gets a line for each step of taking over."""

    @property
    def where(self) -> str:
        """Address in words."""
        return f"interface {self.interface}, domain {self.domain}" if self.interface else "this bus"

    def dds(self) -> Bus:
        """:attr:`bus`, or the DDS bus of ``interface`` and ``domain``."""
        if self.bus is not None:
            return self.bus
        from ..wire.dds import DdsBus

        return DdsBus(self.interface, self.domain, drives=True)


def transport_of(hardware: Hardware) -> Transport:
    """The row of its family; one elsewhere is ``module:name`` of a :class:`Transport`, or of its function alone."""
    family = hardware.family
    if ":" in family:
        found = load_function(family)
        return found if isinstance(found, Transport) else Transport(robot=family)
    if family not in TRANSPORTS:
        raise DeployError(
            f"{hardware.name}: unknown transport {family!r}: known are {', '.join(TRANSPORTS)}, or module:name"
        )
    return TRANSPORTS[family]


def open_robot(hardware: Hardware, connection: Connection) -> HardwareInterface:
    """The robot, not yet connected. Raises :class:`DeployError` if its transport is unknown or cannot be opened."""
    transport = transport_of(hardware)
    robot: HardwareInterface = load_function(transport.robot)(hardware, connection)
    if not hasattr(robot, "safe_stop"):
        raise DeployError(f"{transport.robot}: its robot has no safe_stop(), which returns None if no message stops it")
    return robot
