"""Base velocity from legs and inertial unit: a Kalman filter that the standing feet correct.

After Bloesch et al., "State estimation for legged robots: consistent fusion of leg kinematics and IMU" (RSS 2012),
with two changes that suit what policies read. Orientation is the robot's own, so that the state is the velocity in
the base's frame and the accelerometer's bias, and yaw, which no sensor of these robots observes, plays no part. And a
standing foot is a measurement of velocity, as in Bledt et al., "MIT Cheetah 3" (IROS 2018), instead of a state;
its matter is at rest where it *touches*, not at its centre, which rolls: for a ball of 22 mm under a shank that turns
at 5 rad/s that is 0.1 m/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.errors import UserError
from numpy.typing import NDArray

from ..bundle.contract import Contract
from ..interface import Array, Signals
from .contacts import GRAVITY, ContactDetector
from .kinematics import FootKinematics
from .legs import LegError, LeggedBody, read_legs

Matrix = NDArray[np.float64]

GATE = 11.3
"""Squared Mahalanobis distance beyond which a foot counts less: 99 % of a chi-squared with 3 degrees of freedom."""
FAR = 400.0
"""Squared distance of the vertical velocity beyond which a foot counts less. Rubber and ground give way at touch-down
and come back slowly: a gate that shut out the one and not the other would leave a mean."""
UNIT = np.eye(3)


@dataclass(frozen=True, kw_only=True)
class FilterNoise:
    """Standard deviations that the filter assumes."""

    accelerometer: float = 0.5
    """One reading of the accelerometer, vibration and a wrong attitude included [m/s^2]."""
    bias: float = 0.3
    """Bias of the accelerometer at the start [m/s^2]."""
    bias_walk: float = 0.01
    """Change of that bias in one second [m/s^2]."""
    joint_vel: float = 0.1
    """Velocity of a joint [rad/s]."""
    gyro: float = 0.02
    """Angular velocity, its bias included [rad/s]."""
    slip: float = 0.02
    """Velocity of a standing foot [m/s]."""
    sink: float = 0.3
    """Vertical velocity of a standing foot, whose rubber gives way [m/s]."""
    start: float = 0.3
    """Velocity at a reset [m/s]."""
    drift: float = 2.0
    """Velocity after a second without contact [m/s]."""


class LegInertialEstimator:
    """Implements :class:`gaitway_onboard.estimation.estimator.Estimator`: fills in ``base_lin_vel``.

    Feet count by how surely they stand (:class:`ContactDetector`), and less beyond a Mahalanobis distance from the
    prediction: one that slips is outvoted, and all together can still correct a wrong prediction. Without contact the
    velocity is the accelerometer's, and fades.

    A bias of the gyro of 0.01 rad/s moves the estimate by its lever arm, 3 mm/s for a leg of 0.3 m; it is part of the
    noise. An error of the robot's attitude acts as a bias of the accelerometer and is estimated with it.
    """

    provides: tuple[str, ...] = ("base_lin_vel",)
    noise = FilterNoise()

    def __init__(self, body: LeggedBody, joint_names: Sequence[str], period: float = 0.002, feet: Sequence[str] = ()):
        """``joint_names`` is the robot's own order; ``period`` the usual time between two states [s].

        ``feet`` are the foot bodies under the sensors of ``Signals.foot_force``, in its order, as
        :attr:`gaitway_files.hardware.Hardware.feet`; without, those sensors are not used.
        """
        known = [leg.foot for leg in body.legs]
        if feet and sorted(feet) != sorted(known):
            raise LegError(f"the sensors are under {', '.join(feet)}, and the feet are {', '.join(known)}")
        self.period, self._imu = period, body.imu
        self._kinematics = FootKinematics(body.legs, joint_names)
        self._contacts = ContactDetector(self._kinematics, body.mass, [known.index(foot) for foot in feet])
        self.reset()

    @classmethod
    def of_bundle(cls, bundle: str | Path, *settings: Any) -> LegInertialEstimator:
        """Estimator with the robot.xml of ``bundle``; raises :class:`.legs.LegError` if that cannot be read."""
        contract = Contract.load(bundle)
        return cls(read_legs(Path(bundle) / "robot.xml", contract.base_body, contract.foot_bodies), *settings)

    def reset(self) -> None:
        noise = self.noise
        self._state = np.zeros(6)
        self._velocity, self._bias = self._state[:3], self._state[3:]  # views
        self._covariance = np.diag([noise.start**2] * 3 + [noise.bias**2] * 3)
        self._walk = np.array([self.period * noise.accelerometer**2] * 3 + [noise.bias_walk**2] * 3)
        self._step = np.eye(6)
        self._standing = np.zeros(len(self._kinematics.contact))
        self._stamp: float | None = None
        self._contacts.reset()

    @property
    def contact(self) -> Matrix:
        """Confidence that each foot stood in the last state, from 0 to 1, (F,)."""
        return self._standing

    def update(self, signals: Signals) -> None:
        """Raises ValueError if the robot has no accelerometer: legs alone do not say what happens between steps."""
        if signals.accelerometer is None:
            raise UserError(
                "the estimator of base_lin_vel needs an accelerometer, and this robot reports none: "
                "use a policy that does not read its velocity"
            )
        dt = self.period if self._stamp is None else signals.stamp - self._stamp
        if dt <= 0.0:  # a state that was seen before
            signals.base_lin_vel = self._velocity - self._imu @ _spin(signals.turning)
            return
        if not math.isfinite(float(np.sum(signals.accelerometer))):
            signals.base_lin_vel = np.full(3, np.nan)  # which no policy takes; the filter stays whole
            return
        self._stamp = signals.stamp
        up = _up(signals.orientation)
        spin = _spin(signals.turning)
        self._predict(np.asarray(signals.accelerometer, dtype=float), spin, up, dt)
        self._kinematics.update(np.asarray(signals.joint_pos, dtype=float), up)
        self._standing = self._contacts.update(signals, up, dt)
        self._correct(np.asarray(signals.joint_vel, dtype=float), spin, up, dt)
        signals.base_lin_vel = self._velocity - self._imu @ spin

    def _predict(self, force: Matrix, spin: Matrix, up: Matrix, dt: float) -> None:
        """Velocity of the inertial unit in its own turning frame, and the covariance."""
        v, step = self._velocity, self._step
        v += dt * (force - self._bias - GRAVITY * up - v @ spin)
        step[:3, :3] = UNIT + dt * spin
        step[0, 3] = step[1, 4] = step[2, 5] = -dt
        covariance = step @ self._covariance @ step.T
        covariance.ravel()[::7] += self._walk * dt
        self._covariance = covariance

    def _correct(self, joint_vel: Matrix, spin: Matrix, up: Matrix, dt: float) -> None:
        """Correct the velocity by all standing feet as one measurement; level and upright, they err differently."""
        covariance = self._covariance
        prior = float(covariance[0, 0] + covariance[1, 1] + covariance[2, 2]) / 3.0
        fade = dt / self.noise.drift**2  # a measurement of zero, so that no drift lasts
        level_sum, upright_sum, rise = fade, fade, 0.0
        sums = [0.0, 0.0, 0.0]
        ux, uy, uz = up.tolist()
        vx, vy, vz = self._velocity.tolist()
        # Plain numbers: for four feet they take a third of the time that arrays do.
        for standing, variance, (mx, my, mz) in self._measurements(joint_vel, spin):
            sunk = variance + self.noise.sink**2
            dx, dy, dz = mx - vx, my - vy, mz - vz
            upward = (dx * ux + dy * uy + dz * uz) ** 2
            doubt = (dx * dx + dy * dy + dz * dz - upward) / (prior + variance) + upward / (prior + sunk)
            level = standing / variance * (GATE / max(GATE, doubt)) ** 2
            upright = standing / sunk * (FAR / max(FAR, doubt)) ** 2
            level_sum += level
            upright_sum += upright
            sums = [sums[0] + level * mx, sums[1] + level * my, sums[2] + level * mz]
            rise += upright * (mx * ux + my * uy + mz * uz)
        mean = np.array(sums) / level_sum
        mean += (rise / upright_sum - float(mean @ up)) * up
        spread = UNIT / level_sum + (1.0 / upright_sum - 1.0 / level_sum) * up[:, None] * up
        gain = covariance[:, :3] @ np.linalg.inv(covariance[:3, :3] + spread)
        self._state += gain @ (mean - self._velocity)
        self._covariance = covariance - gain @ covariance[:3]

    def _measurements(self, joint_vel: Matrix, spin: Matrix) -> Iterator[tuple[float, float, list[float]]]:
        """Confidence that each foot stands, variance of its level velocity, and the velocity it measures."""
        noise, kinematics = self.noise, self._kinematics
        arm = kinematics.contact - self._imu
        velocity = -kinematics.velocity(joint_vel) - arm @ spin
        variance = noise.joint_vel**2 / 3.0 * _squares(kinematics.jacobian.reshape(len(arm), -1))
        variance += noise.gyro**2 * _squares(arm)
        variance += noise.slip**2
        rows = zip(self._standing.tolist(), variance.tolist(), velocity.tolist(), strict=True)
        return (row for row in rows if row[0] > 0.0)


def _up(quat_wxyz: Array) -> Matrix:
    """The world's z axis in the base's frame, (3,)."""
    w, x, y, z = (float(value) for value in quat_wxyz)
    scale = 2.0 / (w * w + x * x + y * y + z * z)
    return np.array([scale * (x * z - w * y), scale * (y * z + w * x), 1.0 - scale * (x * x + y * y)])


def _spin(gyro: Array) -> Matrix:
    """The matrix S for which r @ S is the angular velocity's cross product with r, (3, 3)."""
    x, y, z = (float(value) for value in gyro)
    return np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])


def _squares(rows: Matrix) -> Matrix:
    """Squared length of each row."""
    return np.einsum("ij,ij->i", rows, rows)
