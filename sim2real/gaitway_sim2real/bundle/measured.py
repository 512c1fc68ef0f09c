"""Measured speeds of robots under a policy, in simulation: the data of its command calibration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..mujoco.plant import Plant
from ..mujoco.robots import RobotBatch

SECONDS, RAMP = 6.0, 2.0
Policy = Callable[[dict[str, np.ndarray]], tuple[np.ndarray, np.ndarray]]


def mean_velocities(plant: Plant, contract: Contract, policy: Policy, command: np.ndarray) -> np.ndarray:
    """Mean (vx, vy, yaw rate) of robots that start at rest and follow ``command`` (N, 3); NaN for those that fell."""
    n = len(command)
    robots = RobotBatch(plant, contract, n, 0)
    robots.place(yaw=np.zeros(n), joint_offset=np.zeros((n, contract.num_joints)), velocity=np.zeros((n, 2)))
    steps, first = round(SECONDS / contract.control_dt), round(RAMP / contract.control_dt)
    total, fell = np.zeros((n, 3)), np.zeros(n, bool)
    for step in range(steps):
        target, _ = policy({**robots.signals(), "command": command})
        robots.ctrl[:] = np.nan_to_num(target)
        robots.step(plant.decimation)
        for who, _ in robots.falls():
            fell |= who
        if step >= first:
            total += np.column_stack((robots.lin_vel()[:, :2], robots.gyro()[:, 2]))
    return np.where(fell[:, None], np.nan, total / (steps - first))
