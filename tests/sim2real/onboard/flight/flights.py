"""Signals as a Unitree robot would give them, and a controller's log calls on them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gaitway_onboard.flight.log import FlightLog
from gaitway_onboard.interface import Decision, Health, Remote, Signals

JOINTS = tuple(f"{leg}_{part}" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))
PERIOD = 0.002


def states(count: int, seed: int = 0) -> Iterator[Signals]:
    """Random bits in the types of the wire; every value a float32 can have may come up, NaN and infinity too."""
    rng = np.random.default_rng(seed)

    def any_float32(n: int) -> np.ndarray:
        return np.frombuffer(rng.bytes(4 * n), np.float32)

    for k in range(count):
        yield Signals(
            joint_pos=any_float32(12),
            joint_vel=any_float32(12),
            imu_quat_wxyz=any_float32(4),
            gyro=any_float32(3),
            stamp=1234.5 + PERIOD * k + 1e-9 * rng.random(),
            accelerometer=any_float32(3),
            joint_torque=any_float32(12),
            foot_force=rng.integers(-(2**15), 2**15, 4).astype(np.int16),
            base_lin_vel=rng.normal(size=3) if k % 3 else None,
            health=Health(
                tick=2 * k,
                corrupt=k // 7,
                motor_temperature=rng.integers(20, 90, 12).astype(np.uint8),
                motor_lost=rng.integers(0, 2**32, 12, dtype=np.uint32),
                battery=float(rng.random()),
                remote=Remote(left=(0.25, -0.5), buttons=frozenset({"A", "up"} if k % 2 else ())),
            ),
        )


def fly(log: FlightLog, count: int, seed: int = 0) -> None:
    """``count`` periods of 2 ms: a state and a frame each, a step of the policy every tenth."""
    rng = np.random.default_rng(seed + 1)
    for k, signals in enumerate(states(count, seed)):
        mode = "ramp" if k < count // 2 else "policy"
        if k in (0, count // 2):
            log.event(signals.stamp, "mode", mode)
        log.state(signals)
        targets = rng.normal(size=12)
        log.frame(signals.stamp, mode, targets, np.full(12, 40.0), np.full(12, 1.0), targets + 0.1)
        if k % 10 == 0:
            action = rng.normal(size=12).astype(np.float32)
            memory, targets = np.full(46, k, np.float32), 0.5 * action
            log.policy(Decision(signals.stamp, (0.5, 0.0, 0.1), memory, action, {}, targets, 0.0), k == 20)
