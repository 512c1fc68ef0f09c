"""Interface of a robot, real or simulated, to the on-board half. A transport implements :class:`RobotInterface`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from gaitway_files.errors import UserError
from numpy.typing import NDArray

Array = NDArray[np.floating]


@dataclass(slots=True)
class Health:
    """Health of a robot: its own reports beside its motion. None, or empty, if its wire does not tell."""

    tick: int | None = None
    """The robot's own clock, as it counts; one that stands still means that an old state is being repeated."""
    imu_tick: int | None = None
    """Clock of the IMU, where it has a message of its own."""
    tick_rate: float | None = None
    """Rate of that clock's ticks [1/s], where it is known."""
    behind: float = 0.0
    """Largest age of a state relative to a state before it, by that clock [s]; such a state is not used."""
    corrupt: int = 0
    """States dropped since the start because their checksum was wrong."""
    motor_temperature: Array | None = None
    """[degrees C], (J,)"""
    motor_lost: Array | None = None
    """The motors' own counters of communication failures, (J,)"""
    battery: float | None = None
    """State of charge, of 1."""
    other_writers: tuple[str, ...] = ()
    """Other programs that write commands to this robot now; :func:`RobotInterface.read` need not look every time."""
    taken_by: str = ""
    """Name of the robot's own controller where it is active again, and drives the motors."""
    source: str = ""
    """Writer of the states, where the wire tells it."""
    other_sources: tuple[str, ...] = ()
    """Other writers of this robot's states, now or since it was connected; their states are not used."""
    remote: Remote | None = None


BUTTONS = (
    "R1", "L1", "start", "select", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left",
)  # fmt: skip
"""Buttons of a transmitter, from the lowest bit of its message on."""


@dataclass(slots=True)
class Remote:
    """The operator's hand-held transmitter: sticks in [-1, 1], and the names of the buttons that are down."""

    left: tuple[float, float] = (0.0, 0.0)
    """Right and up are positive."""
    right: tuple[float, float] = (0.0, 0.0)
    buttons: frozenset[str] = frozenset()
    """Pressed buttons, names of :data:`BUTTONS`."""


def pressed(bits: int) -> frozenset[str]:
    """Names of the buttons whose bits are set."""
    return frozenset(name for bit, name in enumerate(BUTTONS) if bits >> bit & 1)


def button_bits(buttons: frozenset[str]) -> int:
    """The inverse of :func:`pressed`."""
    return sum(1 << bit for bit, name in enumerate(BUTTONS) if name in buttons)


UPRIGHT, UNTURNED = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
"""Orientation and angular velocity of a base that is fixed."""


@dataclass(slots=True)
class Signals:
    """One reading of the robot's sensors; joints in the robot's own order."""

    joint_pos: Array
    """[rad], (J,)"""
    joint_vel: Array
    """[rad/s], (J,)"""
    imu_quat_wxyz: Array | None
    """Orientation of the base in the world, (4,); None of a robot whose base is fixed"""
    gyro: Array | None
    """Angular velocity in the base frame [rad/s], (3,); None likewise"""
    stamp: float
    """Time at which the sensors were read, on the robot's :meth:`RobotInterface.clock` [s]"""
    base_lin_vel: Array | None = None
    """Estimate of the base's velocity in the base frame [m/s], (3,); for policies that ask for it"""
    height_scan: Array | None = None
    """Estimate of the base's height above each point of the contract's ``height_scan`` [m], (P,); likewise"""
    object_pos: Array | None = None
    """Estimate of the middle of the contract's object in the base's frame [m], (3,); likewise"""
    accelerometer: Array | None = None
    """Specific force in the base frame [m/s^2], (3,): (0, 0, 9.81) at rest"""
    joint_torque: Array | None = None
    """Torques that the drives report [N m], (J,)"""
    foot_force: Array | None = None
    """Readings of the feet's own sensors, in the sensors' unit, (F,)"""
    health: Health | None = None

    @property
    def orientation(self) -> Array:
        """``imu_quat_wxyz``, upright without an IMU."""
        return UPRIGHT if self.imu_quat_wxyz is None else self.imu_quat_wxyz

    @property
    def turning(self) -> Array:
        """``gyro``, zero without an IMU."""
        return UNTURNED if self.gyro is None else self.gyro


class RobotInterface(Protocol):
    """A robot whose drives run ``kp (target - q) - kd qd``. Calls come from one thread."""

    @property
    def joint_names(self) -> tuple[str, ...]:
        """The order of every joint array of this robot."""
        ...

    def clock(self) -> float:
        """Monotonic time [s] that control periods and stamps are counted in."""
        ...

    def sleep_until(self, deadline: float) -> None:
        """Return when :meth:`clock` reaches ``deadline``; a simulated robot moves meanwhile."""
        ...

    def read(self) -> Signals:
        """The newest signals; does not wait for new ones."""
        ...

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        """Follow targets [rad] until the next call, with gains kp [N m/rad] and kd [N m s/rad], (J,) each."""
        ...

    def damp(self) -> None:
        """Let every joint resist motion without holding a position (kp = 0). Must work in any state."""
        ...

    def close(self) -> None:
        """Release the transport. The robot is damped before this is called."""
        ...


class HardwareInterface(RobotInterface, Protocol):
    """A real robot, or a twin on its wire. Nothing moves before :meth:`take_over`."""

    period: float
    """Time between two commands [s]: :meth:`write` is wanted this often, whatever the policy's rate."""

    def connect(self, timeout: float = 3.0) -> None:
        """Wait for the first states and check who is there; raises :class:`DeployError` with what is missing."""
        ...

    def check_alone(self) -> None:
        """Raise :class:`DeployError` if another program drives this robot; sends nothing that others could notice."""
        ...

    def take_over(self) -> None:
        """Make the robot obey: whatever of its own drives the motors is released first. Raises :class:`DeployError`."""
        ...

    def safe_stop(self) -> SafeStop | None:
        """Message that stops this robot without its controller; it must be connected.

        None if no fixed message does: then nothing can stop the robot once its controller is killed.
        """
        ...

    def ignore(self, identity: str) -> None:
        """The sender with this :attr:`StopSender.identity` is the guardian's: it is no second writer of commands."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """One step of a policy. ``time`` is when its signals were handed over [s], on the robot's clock."""

    time: float
    command: tuple[float, ...]
    state: Array
    """The policy's memory before the step."""
    action: Array
    estimates: Mapping[str, Array]
    """Estimates of the policy, by the name of the output."""
    targets: Array
    """[rad], robot's order, (J,); empty if ``refused``."""
    compute_us: float
    """Time from the signals to the targets [us]."""
    refused: str | None = None
    """Reason why signals or outputs made no sense."""


@dataclass(frozen=True, kw_only=True)
class SafeStop:
    """Safe stop of a robot whose controller cannot stop it: plain data that a guardian process gets as JSON.

    The transport makes it. The guardian calls ``sender(**settings)`` in its own process and sends with what it gets.
    """

    sender: str
    """``module:function`` that opens a :class:`StopSender`; the transport's code names it, never a file."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of that function, as JSON has them: the channel, and the message that damps every joint."""
    period: float = 0.002
    """Time between two messages [s]."""
    seconds: float = 1.0
    """Shortest time for which they are sent [s]; as long as the controller hangs, if that is longer."""


class StopSender(Protocol):
    """A channel to the robot that is open and silent. Raises ValueError where it cannot be opened."""

    identity: str
    """Identity of this sender on the channel; "" where a channel does not tell its senders apart."""

    def send(self) -> None:
        """Send the stop once. Does not block."""
        ...

    def arrived(self) -> bool | None:
        """True if the robot has acknowledged the message; None if this channel cannot tell."""
        ...

    def close(self) -> None:
        """Give the channel back."""
        ...


def load_function(name: str) -> Callable[..., Any]:
    """The function ``module:function``. The name must come from code, never from a file or a message."""
    module, _, function = name.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise DeployError(f"{name!r} is not a function, written as module:function: {error}") from None
    return found


class DeployError(UserError):
    """A robot, or a bundle for it, that must not be driven; with the reason and the fix."""
