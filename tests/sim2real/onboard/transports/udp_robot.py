"""A transport that is not DDS: datagrams of float32 numbers. It has no row in the table; its robot names it.

To the robot: one letter (H hello, C command, D damping), then targets, kp and kd, (3, J). From the robot, after each:
its time [us] and the positions and velocities of its joints, (2, J). A robot answers whoever spoke to it.
"""

from __future__ import annotations

import socket
import struct
import threading
import time

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.interface import Array, DeployError, Health, SafeStop, Signals
from gaitway_onboard.transports.open import Connection

HOST = "127.0.0.1"
LARGEST = 4096


def open_robot(hardware: Hardware, connection: Connection) -> UdpRobot:
    return UdpRobot(hardware, connection)


class UdpRobot:
    """Implements :class:`gaitway_onboard.interface.HardwareInterface`."""

    def __init__(self, hardware: Hardware, connection: Connection):
        self.joint_names, self.period = hardware.joint_names, hardware.command_period
        self._damping = np.array([hardware.damping[name] for name in self.joint_names])
        self._address = HOST, int(hardware.wire)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((HOST, 0))
        self._socket.settimeout(0.05)
        self._signals: Signals | None = None
        self._driving = False
        self._closed = threading.Event()
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._receiver.start()

    def clock(self) -> float:
        return time.monotonic()

    def sleep_until(self, deadline: float) -> None:
        time.sleep(max(0.0, deadline - time.monotonic()))

    def connect(self, timeout: float = 3.0) -> None:
        deadline = self.clock() + timeout
        while self._signals is None:
            if self.clock() > deadline:
                raise DeployError(f"no robot answers on UDP port {self._address[1]}")
            self._socket.sendto(b"H", self._address)
            self.sleep_until(self.clock() + 0.02)

    def check_alone(self) -> None: ...

    def take_over(self) -> None:
        self._driving = True
        self.damp()

    def read(self) -> Signals:
        assert self._signals is not None
        if not self._driving:
            self._socket.sendto(b"H", self._address)
        return self._signals

    def _receive(self) -> None:
        """A state is stamped when it comes, not when it is read: this program may pause in between."""
        while not self._closed.is_set():
            try:
                data = self._socket.recv(LARGEST)
            except OSError:  # none within the timeout, or nobody listens
                continue
            (tick,), numbers = struct.unpack_from("<I", data), np.frombuffer(data, "<f4", offset=4).astype(float)
            pos, vel = numbers.reshape(2, len(self.joint_names))
            upright, still = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
            self._signals = Signals(pos, vel, upright, still, self.clock(), health=Health(tick=tick, tick_rate=1e6))

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        self._socket.sendto(b"C" + frame(targets, stiffness, damping), self._address)

    def damp(self) -> None:
        self._socket.sendto(self._stop(), self._address)

    def _stop(self) -> bytes:
        zeros = np.zeros(len(self._damping))
        return b"D" + frame(zeros, zeros, self._damping)

    def safe_stop(self) -> SafeStop:
        settings = {"port": self._address[1], "frame": self._stop().hex()}
        return SafeStop(sender=f"{__name__}:UdpStop", settings=settings, period=0.004, seconds=0.8)

    def ignore(self, identity: str) -> None: ...

    def close(self) -> None:
        self._closed.set()
        self._receiver.join()
        self._socket.close()


class UdpStop:
    """Implements :class:`gaitway_onboard.interface.StopSender`."""

    identity = ""

    def __init__(self, *, port: int, frame: str):
        self._address, self._frame = (HOST, port), bytes.fromhex(frame)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send(self) -> None:
        self._socket.sendto(self._frame, self._address)

    def arrived(self) -> bool:
        """The robot answers each datagram, so an answer says that one came."""
        time.sleep(0.05)
        try:
            return bool(self._socket.recv(LARGEST))
        except BlockingIOError:
            return False

    def close(self) -> None:
        self._socket.close()


def frame(*rows: Array) -> bytes:
    return np.asarray(rows, "<f4").tobytes()


class UdpHandRobot:
    """The robot's end: joints follow their targets within ``LAG`` [s]. Runs in a thread until closed."""

    LAG = 0.01

    def __init__(self, default_pos: tuple[float, ...]):
        self.pos = np.array(default_pos)
        self.frames: list[tuple[float, bool]] = []
        """When each command came, and whether it has stiffness."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((HOST, 0))
        self.port = self._socket.getsockname()[1]
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._socket.settimeout(0.05)
        last = time.monotonic()
        while not self._closed.is_set():
            try:
                data, sender = self._socket.recvfrom(LARGEST)
            except TimeoutError:
                continue
            now, before = time.monotonic(), self.pos
            if data[:1] != b"H":
                targets, stiffness, _ = np.frombuffer(data, "<f4", offset=1).reshape(3, -1)
                self.frames.append((now, bool(stiffness.any())))
                if stiffness.any():
                    self.pos = targets + np.exp((last - now) / self.LAG) * (before - targets)
            state = struct.pack("<I", int(1e6 * now) % 2**32) + frame(self.pos, (self.pos - before) / (now - last))
            last = now
            self._socket.sendto(state, sender)

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._socket.close()
