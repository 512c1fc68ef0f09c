"""Robots of pure bookkeeping and policies of a few lines, for tests of what drives them."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.interface import Array, Health, SafeStop, Signals

UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


class PointRobot:
    """Joints go a share of the way to their targets at each command. Time is its own, or the machine's."""

    period = 0.002

    def __init__(self, contract: Contract, *, wall: bool = False, offset: float = 0.2):
        self.joint_names = contract.joint_names
        self.pos = np.array(contract.default_joint_pos) + offset
        self.vel, self.health, self.wall, self.time = np.zeros(len(self.pos)), Health(tick=1), wall, 0.0
        self.tamper: Any = None
        """Called with the signals of each reading."""
        self.sent: list[tuple[float, Array | None, Array | None, Array | None]] = []
        """Time, targets, kp and kd of each command; None for the robot's own damping."""

    def clock(self) -> float:
        return time.monotonic() if self.wall else self.time

    def sleep_until(self, deadline: float) -> None:
        if self.wall:
            time.sleep(max(0.0, deadline - time.monotonic()))
        else:
            self.time = max(self.time, deadline)

    def read(self) -> Signals:
        assert self.health.tick is not None
        self.health.tick += 1
        signals = Signals(
            self.pos.copy(), self.vel.copy(), UPRIGHT.copy(), np.zeros(3), self.clock(), health=self.health
        )
        if self.tamper is not None:
            self.tamper(signals)
        return signals

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        self.sent.append((self.clock(), targets, stiffness, damping))
        if stiffness.any():
            self.pos = self.pos + 0.5 * (targets - self.pos)

    def damp(self) -> None:
        self.sent.append((self.clock(), None, None, None))

    def close(self) -> None: ...

    def connect(self, timeout: float = 3.0) -> None: ...

    def take_over(self) -> None: ...

    def safe_stop(self) -> SafeStop | None:
        return None


class WavePolicy:
    """Targets on a sine around the default pose; ``delay`` makes its steps slow, ``tamper`` changes its targets."""

    def __init__(self, contract: Contract, delay: float = 0.0, tamper: Any = None):
        self.contract, self.delay, self.tamper = contract, delay, tamper
        self.steps = 0
        self.threads: set[str] = set()
        self.commands: list[tuple[float, float, float]] = []
        self.action, self.state = np.zeros(12, np.float32), np.zeros(1, np.float32)
        self.estimates: dict[str, Any] = {}

    def reset(self) -> None:
        self.steps = 0

    def step(self, signals: Signals, command: tuple[float, float, float]) -> Any:
        self.steps += 1
        self.commands.append(command)
        self.threads.add(threading.current_thread().name)
        if self.delay:
            time.sleep(self.delay)
        targets = np.array(self.contract.default_joint_pos) + 0.1 * np.sin(0.3 * self.steps)
        return (targets if self.tamper is None else self.tamper(targets)).astype(np.float32)
