"""Faults that can be provoked on the twin's wire, one at a time or together, at any moment."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from gaitway_onboard.rotation import quat_conjugate

from .sensors import Reading, glitch, rotated

TILT = 1.3  # [rad]
BEYOND = 0.5  # [rad] over the end of a joint's range
SLIPPED = 0.7  # [rad]
RUSH = 1.5  # times the true rate, of a clock
FAST = 2.0  # times the speed limit of the fastest motor
HOT = 15.0  # [K] over the limit
EMPTY = 0.02  # state of charge
SPIN = 50.0  # [rad/s] that a gyroscope is off by
DRIFT = 0.1  # [rad/s] at which an orientation drifts
LATER = 0.09  # [s] that a state takes longer with each second
STOP_BUTTONS = ("L2", "B")


IMU = ("quat_wxyz", "gyro", "accelerometer")
JOINTS = ("joint_pos", "joint_vel", "joint_torque")


class FaultError(ValueError):
    """A fault that this twin cannot have, with what it can."""


class Fault(StrEnum):
    SILENCE = "silence"  # no state comes any more
    FROZEN = "frozen"  # the same state comes again and again
    REWIND = "rewind"  # the robot repeats its old states, as they were
    CLOCK = "clock"  # its clock runs too fast
    CHECKSUM = "checksum"  # states come with a wrong checksum
    IMU_NAN = "imu-nan"
    IMU_ZERO = "imu-zero"  # a quaternion of zeros
    TILT = "tilt"  # the IMU says that the robot lies on its side
    FALL = "fall"  # the robot is tipped over
    JOINT_NAN = "joint-nan"
    JOINT_RANGE = "joint-range"  # an encoder reads beyond the end of its joint
    JOINT_JUMP = "joint-jump"  # an encoder slips, within its joint's range
    JOINT_SPEED = "joint-speed"
    TEMPERATURE = "temperature"  # of a motor
    BATTERY = "battery"  # nearly empty
    LOST = "lost"  # a motor's counter of lost frames rises with every state
    GYRO_SIGN = "gyro-sign"  # the gyroscope turns the wrong way round
    GYRO_OFF = "gyro-off"  # it is off by more than a robot can turn
    IMU_SIGN = "imu-sign"  # the orientation is that of the world in the base, not of the base in the world
    IMU_DRIFT = "imu-drift"  # the orientation tips over, slowly
    IMU_FROZEN = "imu-frozen"  # the IMU repeats itself, in states that do not
    JOINT_FROZEN = "joint-frozen"  # a joint does
    ENCODERS_FROZEN = "encoders-frozen"  # the positions of all joints do
    SENSORS_FROZEN = "sensors-frozen"  # everything does, but the clock
    SPEEDS_ZERO = "speeds-zero"  # all joints say that they stand still
    LATER = "later"  # states take longer and longer
    POWER = "power"  # the motors lose their power
    MOTOR = "motor"  # one of them does
    WRITER = "writer"  # somebody else offers commands
    TAKEN = "taken-back"  # an app switches the robot's own controller on again, which stands up
    REPLAY = "replay"  # somebody else repeats old states, as they were
    SECOND_ROBOT = "second-robot"  # another robot, which stands, is on the same topics
    STOP = "stop"  # the operator presses the stop buttons

    @property
    def of_a_joint(self) -> bool:
        return self.name.startswith("JOINT") or self in (Fault.TEMPERATURE, Fault.LOST, Fault.MOTOR)


HELD: dict[Fault, tuple[str, ...]] = {
    Fault.IMU_FROZEN: IMU,
    Fault.JOINT_FROZEN: JOINTS,
    Fault.ENCODERS_FROZEN: ("joint_pos",),
    Fault.SENSORS_FROZEN: (*IMU, *JOINTS, "foot_force"),
}
"""What a sensor that hangs says again and again."""


@dataclass(frozen=True, kw_only=True)
class Injection:
    fault: Fault
    start: float
    """[s]"""
    end: float
    """[s]; infinite unless the fault was given a duration."""
    joint: int

    def at(self, now: float) -> bool:
        return self.start <= now < self.end


class FaultBoard:
    """Which faults are on, and what they do to a reading."""

    def __init__(self, joint_ranges: np.ndarray, fastest: float, hottest: float):
        """``joint_ranges`` are their ends [rad] (J, 2); limits of speed [rad/s] and temperature [degrees C]."""
        self.injections: list[Injection] = []
        self._begun: set[Injection] = set()
        self._high, self._middle = joint_ranges[:, 1], joint_ranges.mean(1)
        self._fastest, self._hottest = fastest, hottest
        self._frozen: Reading | None = None
        self._held: dict[Injection, Reading] = {}
        self._missed = 0

    def active(self, fault: Fault, now: float) -> bool:
        return any(injection.fault is fault and injection.at(now) for injection in self.injections)

    def postpone(self, now: float, seconds: float) -> None:
        """Let those that did not begin by ``now`` begin so much later."""
        self.injections = [
            replace(injection, start=injection.start + seconds, end=injection.end + seconds)
            if injection.start > now
            else injection
            for injection in self.injections
        ]

    def clock(self, now: float) -> float:
        """What the robot's own clock says at ``now`` [s]."""
        begun = [each.start for each in self.injections if each.fault is Fault.CLOCK and each.at(now)]
        return now + (RUSH - 1.0) * max(0.0, now - min(begun, default=now))

    def delay(self, now: float) -> float:
        """How much later than else a state of ``now`` arrives [s]."""
        begun = [each.start for each in self.injections if each.fault is Fault.LATER and each.at(now)]
        return LATER * max(0.0, now - min(begun, default=now))

    def powerless(self, now: float, joints: int) -> np.ndarray:
        """Motors without power, (J,) bool."""
        out = np.zeros(joints, bool)
        for injection in self.injections:
            if injection.at(now) and injection.fault in (Fault.POWER, Fault.MOTOR):
                out[slice(None) if injection.fault is Fault.POWER else injection.joint] = True
        return out

    def starting(self, now: float) -> list[Injection]:
        """What has begun since this was last asked."""
        begun = [each for each in self.injections if each.start <= now and each not in self._begun]
        self._begun.update(begun)
        return begun

    def spoil(self, reading: Reading, now: float) -> Reading:
        """The reading with every active fault."""
        if not self.injections:
            return reading
        if self.active(Fault.FROZEN, now):
            self._frozen = self._frozen or reading
            return self._frozen
        self._frozen = None
        for injection in self.injections:
            if injection.at(now):
                self._spoil(reading, injection.fault, injection.joint)
                self._lie(reading, injection, now - injection.start)
        return reading

    def _lie(self, reading: Reading, injection: Injection, elapsed: float) -> None:
        """Sensors that say what could be true, and is not."""
        fault, joint = injection.fault, injection.joint
        if fault in HELD:
            held = self._held.setdefault(injection, replace(reading))
            for name in HELD[fault]:
                value = getattr(reading, name).copy()
                rows = joint if fault is Fault.JOINT_FROZEN else slice(None)
                value[rows] = getattr(held, name)[rows]
                setattr(reading, name, value)
        match fault:
            case Fault.GYRO_SIGN:
                reading.gyro = -reading.gyro
            case Fault.GYRO_OFF:
                reading.gyro = reading.gyro + np.array([SPIN, 0.0, 0.0])
            case Fault.IMU_SIGN:
                reading.quat_wxyz = quat_conjugate(reading.quat_wxyz)
            case Fault.IMU_DRIFT:
                reading.quat_wxyz = rotated(reading.quat_wxyz, np.array([0.0, DRIFT * elapsed, 0.0]))
            case Fault.SPEEDS_ZERO:
                reading.joint_vel = np.zeros_like(reading.joint_vel)

    def _spoil(self, reading: Reading, fault: Fault, joint: int) -> None:
        match fault:
            case Fault.IMU_NAN:
                glitch(reading, "nan")
            case Fault.IMU_ZERO:
                glitch(reading, "zero")
            case Fault.TILT:
                reading.quat_wxyz = rotated(reading.quat_wxyz, np.array([TILT, 0.0, 0.0]))
            case Fault.JOINT_NAN:
                reading.joint_pos[joint] = math.nan
            case Fault.JOINT_RANGE:
                reading.joint_pos[joint] = self._high[joint] + BEYOND
            case Fault.JOINT_JUMP:
                reading.joint_pos[joint] += SLIPPED if reading.joint_pos[joint] < self._middle[joint] else -SLIPPED
            case Fault.JOINT_SPEED:
                reading.joint_vel[joint] = FAST * self._fastest
            case Fault.TEMPERATURE:
                reading.temperature = reading.temperature.copy()
                reading.temperature[joint] = self._hottest + HOT
            case Fault.BATTERY:
                reading.battery = EMPTY
            case Fault.LOST:
                self._missed += 1
                reading.lost = reading.lost.copy()
                reading.lost[joint] += self._missed
