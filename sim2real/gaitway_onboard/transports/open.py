"""Robots by the name that ``--robot`` takes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots.hardware import Hardware

from ..interface import DeployError, HardwareInterface
from ..wire.bus import Bus
from .unitree import UnitreeRobot

HARDWARE: dict[str, Hardware] = {
    hardware.name: hardware for robot in ROBOTS.values() if (hardware := robot.hardware) is not None
}
"""What is driven over its own wire. "ros2" is none of them: its joints are its configuration's."""
ROS2 = "ros2"


def hardware_of(name: str) -> Hardware:
    """The definition of one of :data:`HARDWARE`; raises :class:`DeployError` with the names there are."""
    if name not in HARDWARE:
        raise DeployError(f"unknown robot {name!r}: known are {', '.join([*HARDWARE, ROS2])}")
    return HARDWARE[name]


def open_robot(
    name: str,
    *,
    interface: str = "",
    domain: int = 0,
    config: Path | None = None,
    bus: Bus | None = None,
    own_controller: bool = True,
    silent_writers: bool = False,
    unsealed_states: bool = False,
    robot_ids: Collection[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> HardwareInterface:
    """The robot ``name`` on the network ``interface`` and DDS ``domain``, not yet connected; or on ``bus``, if given.

    ``config`` is the file that describes a robot on ROS 2, and belongs to "ros2" alone. ``own_controller`` is False
    only for a simulator without one to switch off, ``silent_writers`` and ``unsealed_states`` are as for
    :class:`UnitreeRobot`; ``robot_ids`` say whose states are meant where several write them; ``say`` hears what taking
    over does.
    """
    if name == ROS2:
        if config is None:
            raise DeployError("a robot on ROS 2 is described by a file: --config robot.yaml")
        from .ros2 import open_ros2

        return open_ros2(config, bus or _dds(interface, domain), robot_ids)
    hardware = hardware_of(name)
    if config is not None:
        raise DeployError(f"--config describes robots on ROS 2; {name} is known")
    where = f"interface {interface}, domain {domain}" if bus is None else "this bus"
    return UnitreeRobot(
        hardware, bus or _dds(interface, domain), where=where, own_controller=own_controller,
        silent_writers=silent_writers, unsealed_states=unsealed_states, robot_ids=robot_ids, say=say,
    )  # fmt: skip


def _dds(interface: str, domain: int) -> Bus:
    from ..wire.dds import DdsBus

    return DdsBus(interface, domain, drives=True)
