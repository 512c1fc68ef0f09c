"""What keeps a policy from harming the robot, as far as it depends on no transport."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .contract import Contract
from .interface import Array, Signals

STANDING_REACH = 0.4
"""Position error at which standing uses the whole effort limit [rad]."""


@dataclass(frozen=True, kw_only=True)
class SafetyLimits:
    """What trips the robot into damping. The defaults leave room for any gait that a person would call walking."""

    max_tilt: float = 1.0
    """Angle between the base's z axis and the vertical [rad]."""
    max_signal_age: float = 5.0
    """In control periods."""
    joint_pos_margin: float = 0.1
    """How far an encoder may read beyond its joint's range [rad]."""
    max_joint_vel: float = 30.0
    """[rad/s]"""
    max_ready_error: float = 0.3
    """Largest distance of a joint from the default pose at which the policy may start [rad]."""
    max_overruns: int = 10
    """Control periods in a row that may end late."""


class SafetyFilter:
    """Judges signals and clamps targets; every joint array is in the robot's own order."""

    def __init__(self, contract: Contract, joint_names: tuple[str, ...], limits: SafetyLimits):
        order = [contract.joint_names.index(name) for name in joint_names]
        self.limits, self.joint_names, self.period = limits, joint_names, contract.control_dt
        self.low, self.high = np.array(contract.joint_pos_limits)[order].T
        self.default = np.array(contract.default_joint_pos)[order]
        self.effort_limit = np.array(contract.per_joint("effort_limit"))[order]

    def fault(self, signals: Signals, now: float) -> str | None:
        """Why the robot must not be driven on these signals, or None."""
        limits = self.limits
        if now - signals.stamp > limits.max_signal_age * self.period:
            return f"the newest signals are {now - signals.stamp:.3f} s old"
        for name in ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro"):
            if not np.isfinite(getattr(signals, name)).all():
                return f"{name} is not finite: {np.asarray(getattr(signals, name)).tolist()}"
        w, x, y, z = (float(value) for value in signals.imu_quat_wxyz)
        norm = w * w + x * x + y * y + z * z
        if not 0.8 < norm < 1.2:
            return f"the IMU's quaternion has squared norm {norm:.3g}"
        tilt = math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y) / norm)))
        if tilt > limits.max_tilt:
            return f"the base is tilted by {tilt:.2f} rad (limit {limits.max_tilt:g})"
        beyond = np.maximum(self.low - signals.joint_pos, signals.joint_pos - self.high)
        if beyond.max() > limits.joint_pos_margin:
            worst = int(beyond.argmax())
            return f"{self.joint_names[worst]} is {beyond[worst]:.2f} rad beyond its range"
        speed = np.abs(signals.joint_vel)
        if speed.max() > limits.max_joint_vel:
            worst = int(speed.argmax())
            return f"{self.joint_names[worst]} turns at {speed[worst]:.1f} rad/s (limit {limits.max_joint_vel:g})"
        return None

    def not_ready(self, signals: Signals) -> str | None:
        """Why the policy must not take over from the default pose, or None."""
        error = np.abs(signals.joint_pos - self.default)
        if error.max() > self.limits.max_ready_error:
            worst = int(error.argmax())
            return (
                f"{self.joint_names[worst]} is {error[worst]:.2f} rad from the default pose "
                f"(limit {self.limits.max_ready_error:g}): does the robot stand on its feet?"
            )
        return None

    def clamp(self, targets: Array, signals: Signals, stiffness: Array, damping: Array) -> Array:
        """Targets within the joint ranges, for which the PD law asks for no more than the effort limit at this moment.

        The second clamp also bounds how fast a target can run away, so there is no separate rate limit.
        """
        softest = np.maximum(stiffness, 1e-9)  # a joint without stiffness is held by nothing that could be clamped
        centre = signals.joint_pos + damping / softest * signals.joint_vel
        reach = self.effort_limit / softest
        return np.clip(np.clip(targets, centre - reach, centre + reach), self.low, self.high)


def standing_gains(contract: Contract, joint_names: tuple[str, ...]) -> tuple[Array, Array]:
    """kp and kd of each joint for the ramp and the hold, at least the policy's, (J,) each.

    A policy's gains are often too soft to stand on without feedback: the robot would sink to where the policy has
    never been. These reach the effort limit at ``STANDING_REACH``, with the policy's damping ratio.
    """
    stiffness, damping = walking_gains(contract, joint_names)
    order = [contract.joint_names.index(name) for name in joint_names]
    effort = np.array(contract.per_joint("effort_limit"))[order]
    factor = np.maximum(1.0, effort / (STANDING_REACH * np.maximum(stiffness, 1e-9)))
    return factor * stiffness, np.sqrt(factor) * damping


def walking_gains(contract: Contract, joint_names: tuple[str, ...]) -> tuple[Array, Array]:
    """kp and kd that the policy was trained with, in the order of ``joint_names``, (J,) each."""
    order = [contract.joint_names.index(name) for name in joint_names]
    return np.array(contract.per_joint("stiffness"))[order], np.array(contract.per_joint("damping"))[order]
