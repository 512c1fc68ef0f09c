"""Sensors of the twin: readings with noise and faults."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.interface import Array
from gaitway_onboard.transports.imu import base_in_imu
from numpy.typing import NDArray

from ..mujoco.body import Body
from .drives import Drives
from .quirks import Quirks


@dataclass(slots=True)
class Reading:
    """Everything that one state message tells; joints in the body's order, J.

    Faults change it before it is sent. ``temperature`` and ``lost`` are shared between readings until they change.
    """

    joint_pos: Array
    """[rad], (J,)"""
    joint_vel: Array
    """[rad/s], (J,)"""
    joint_torque: Array
    """[N m], (J,)"""
    quat_wxyz: Array
    """(4,)"""
    gyro: Array
    """[rad/s], (3,)"""
    accelerometer: Array
    """Specific force [m/s^2], (3,)"""
    foot_force: Array
    """[N], (F,)"""
    temperature: Array
    """Temperatures of the motors [degrees C], (J,)"""
    lost: NDArray[np.uint32]
    """Frames that each motor missed, (J,), integers."""
    battery: float
    """State of charge, of 1."""
    tick: int


class Sensors:
    def __init__(
        self, body: Body, drives: Drives, quirks: Quirks, seed: np.random.SeedSequence, *, imu_joint: str | None = None
    ):
        """``imu_joint`` carries the IMU away from the base, as :attr:`Hardware.imu_joint` has it."""
        self._body, self._drives, self._quirks = body, drives, quirks
        self._imu_joint = None if imu_joint is None else body.joint_names.index(imu_joint)
        noise_seed, bias_seed, glitch_seed, lost_seed = seed.spawn(4)
        self._noise, self._glitches, self._losses = map(np.random.default_rng, (noise_seed, glitch_seed, lost_seed))
        self._gyro_bias = quirks.gyro_bias * np.random.default_rng(bias_seed).standard_normal(3)
        self._lost: NDArray[np.uint32] = np.zeros(len(body.joint_names), np.uint32)
        sizes = {
            "joint_pos": quirks.encoder_noise,
            "joint_vel": quirks.velocity_noise,
            "joint_torque": quirks.torque_noise,
            "gyro": quirks.gyro_noise,
            "accelerometer": quirks.accelerometer_noise,
        }
        self._noises = [(name, size) for name, size in sizes.items() if size]

    def read(self, tick: int, dt: float) -> Reading:
        """The newest reading; ``dt`` [s] is the time since the one before."""
        body, quirks, noise = self._body, self._quirks, self._noise
        quat, gyro, accelerometer = body.imu()
        if (joint := self._imu_joint) is not None:
            base_in_imu(quat, gyro, accelerometer, float(body.joint_pos[joint]), float(body.joint_vel[joint]))
        reading = Reading(
            joint_pos=body.joint_pos + self._drives.encoder_bias,
            joint_vel=body.joint_vel.copy(),
            joint_torque=self._drives.believed(body.joint_torque),
            quat_wxyz=quat,
            gyro=gyro,
            accelerometer=accelerometer,
            foot_force=body.foot_force(),
            temperature=self._drives.temperature,
            lost=self._lost,
            battery=self._drives.battery,
            tick=tick,
        )
        if quirks.gyro_bias:
            reading.gyro += self._gyro_bias
        for name, size in self._noises:
            values = getattr(reading, name)
            values += size * noise.standard_normal(len(values))
        if quirks.orientation_noise:
            reading.quat_wxyz = rotated(quat, quirks.orientation_noise * noise.standard_normal(3))
        if quirks.imu_glitch_rate and self._glitches.random() < quirks.imu_glitch_rate * dt:
            glitch(reading, quirks.imu_glitch)
        if quirks.lost_rate:
            self._lost = self._lost + (self._losses.random(len(self._lost)) < quirks.lost_rate * dt).astype(np.uint32)
            reading.lost = self._lost
        return reading


def glitch(reading: Reading, how: str) -> None:
    """Spoil the IMU of a reading; ``how`` is one of :data:`gaitway_sim2real.digital_twin.quirks.GLITCHES`."""
    if how == "nan":
        reading.quat_wxyz = np.full(4, np.nan)
        reading.gyro = np.full(3, np.nan)
        reading.accelerometer = np.full(3, np.nan)
    elif how == "zero":
        reading.quat_wxyz = np.zeros(4)
    else:
        reading.quat_wxyz = rotated(reading.quat_wxyz, np.array([np.pi, 0.0, 0.0]))


def rotated(quat: Array, angles: Array) -> Array:
    """``quat`` (w, x, y, z), then turned by a rotation vector [rad], (3,), in its own frame.

    In plain numbers, which take a thirtieth of the time of arrays of four: every reading of a noisy IMU is turned.
    """
    aw, ax, ay, az = quat.tolist()
    x, y, z = angles.tolist()
    half = math.sqrt(x * x + y * y + z * z) / 2
    scale = math.sin(half) / half / 2 if half else 0.5
    bw, bx, by, bz = math.cos(half), scale * x, scale * y, scale * z
    return np.array(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        )
    )
