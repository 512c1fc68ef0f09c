"""An IMU that a waist turns away from the base: what it would measure in the base, and back again."""

from __future__ import annotations

import math

from ..interface import Array


def imu_in_base(quat_wxyz: Array, gyro: Array, accelerometer: Array, angle: float, rate: float) -> None:
    """Change the readings of an IMU behind a joint about z, at ``angle`` [rad], ``rate`` [rad/s], to the base's.

    In place. The base is taken to be where the IMU is: the lever between them adds accelerations that are left out.
    """
    _turn(quat_wxyz, gyro, accelerometer, angle)
    gyro[2] -= rate


def base_in_imu(quat_wxyz: Array, gyro: Array, accelerometer: Array, angle: float, rate: float) -> None:
    """The inverse: what the IMU behind the joint measures."""
    gyro[2] += rate
    _turn(quat_wxyz, gyro, accelerometer, -angle)


def _turn(quat_wxyz: Array, gyro: Array, accelerometer: Array, angle: float) -> None:
    """Into a frame that is turned by ``-angle`` about z."""
    cosine, sine = math.cos(angle), math.sin(angle)
    for vector in (gyro, accelerometer):
        x, y = float(vector[0]), float(vector[1])
        vector[:2] = cosine * x - sine * y, sine * x + cosine * y
    half_cosine, half_sine = math.cos(0.5 * angle), math.sin(0.5 * angle)
    w, x, y, z = (float(value) for value in quat_wxyz)
    quat_wxyz[:] = (
        w * half_cosine + z * half_sine,
        x * half_cosine - y * half_sine,
        y * half_cosine + x * half_sine,
        z * half_cosine - w * half_sine,
    )
