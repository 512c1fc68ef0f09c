"""The controller's safety filter between a policy and many simulated robots, as it is between a policy and a robot."""

from __future__ import annotations

from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.interface import Signals
from gaitway_onboard.safety.checks import SafetyFilter
from gaitway_onboard.safety.fault import Fault
from gaitway_onboard.safety.limits import SafetyLimits


class Guards:
    """One :class:`SafetyFilter` for each of N robots, with the default limits, at the policy's rate.

    It cuts targets off and names faults as the controller of ``gaitway run --sim`` does. Where that lowers a damping,
    for joints so fast that damping alone is beyond the effort limit, the simulated drive's own limit does it here.
    """

    def __init__(self, contract: Contract, count: int):
        self._filters = [SafetyFilter(contract, contract.joint_names, SafetyLimits()) for _ in range(count)]
        self._goal = np.tile(contract.default_joint_pos, (count, 1))
        self._gains = [np.array(contract.per_joint(name)) for name in ("stiffness", "damping")]
        self.faults: list[Fault | None] = [None] * count
        """What stopped each robot; a stopped one is not looked at again."""

    def look(self, signals: dict[str, np.ndarray], torque: np.ndarray, now: float, robots: np.ndarray) -> None:
        """Judge the state of ``robots`` (indices) at ``now`` [s]; ``torque`` (N, J) is what drives report [N m]."""
        for i in robots:
            self.faults[i] = self._filters[i].fault(_signals(signals, torque, now, i), now)

    def follow(
        self, targets: np.ndarray, signals: dict[str, np.ndarray], robots: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Targets that are sent for ``targets`` (N, J) [rad], and the mask of those that were clamped, (N,) bool.

        Only ``robots`` (indices) that have no fault are followed; the rest keep their targets.
        """
        sent, cut = np.array(targets, float), np.zeros(len(targets), bool)
        for i in robots:
            safety = self._filters[i]
            if self.faults[i] is not None:
                continue
            self.faults[i] = safety.nonsense(sent[i])
            if self.faults[i] is not None:
                continue
            self._goal[i], cut[i] = safety.limit_rate(sent[i], self._goal[i])
            command = safety.clamp.command(
                self._goal[i], signals["joint_pos"][i], signals["joint_vel"][i], *self._gains
            )
            safety.sent(command)
            sent[i], cut[i] = command.targets, cut[i] or command.clamped
        return sent, cut


def _signals(signals: dict[str, np.ndarray], torque: np.ndarray, now: float, i: int) -> Signals:
    names = ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro")
    measured: dict[str, Any] = {name: signals[name][i] if name in signals else None for name in names}
    return Signals(**measured, stamp=now, joint_torque=torque[i])
