"""Faults that can be provoked on the twin's wire, one at a time or together, at any moment."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.rotation import quat_apply, quat_conjugate

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
LATER = 0.09  # [s] that a message takes longer with each second
GIVE = 0.1  # [rad/s] at which a mounting creeps
SLIP = 0.4  # [rad] by which a mounting gives way
CREEP = 0.5  # [rad/s] at which an encoder drifts
FLICKER = 0.2  # [rad] to either side, of an encoder that flickers
AHEAD = 10.0  # [s] by which a clock jumps
SPARSE = 0.04  # [s] between states that come too rarely
WEAK = 0.3  # share of their torque that weak drives give
STOP_BUTTONS = ("L2", "B")


IMU = ("quat_wxyz", "gyro", "accelerometer")
JOINTS = ("joint_pos", "joint_vel", "joint_torque")


class FaultError(UserError):
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
    GYRO_NAN = "gyro-nan"
    GYRO_ZERO = "gyro-zero"  # the gyroscope says that nothing turns
    GYRO_FROZEN = "gyro-frozen"  # the gyroscope alone repeats itself
    GYRO_AXES = "gyro-axes"  # its x and y are taken for each other
    IMU_ORDER = "imu-order"  # the quaternion comes as (x, y, z, w)
    IMU_NORM = "imu-norm"  # it is twice as long as it should be
    IMU_SLIP = "imu-slip"  # the IMU's mounting gives way
    IMU_CREEP = "imu-creep"  # it creeps, and all that the IMU says with it
    ACCELEROMETER_ZERO = "accelerometer-zero"  # the accelerometer is dead
    FLOOR = "floor"  # the floor vanishes
    ACCELEROMETER_SIGN = "accelerometer-sign"  # it says what it feels from the other side
    JOINT_INF = "joint-inf"
    JOINT_SPEED_NAN = "joint-speed-nan"
    JOINT_TORQUE_NAN = "joint-torque-nan"
    JOINT_SIGN = "joint-sign"  # an encoder counts the wrong way round
    JOINT_DRIFT = "joint-drift"  # an encoder drifts away
    JOINT_FLICKER = "joint-flicker"  # an encoder goes to and fro
    SPEEDS_SIGN = "speeds-sign"  # all speeds have the wrong sign
    SPEEDS_DEGREES = "speeds-degrees"  # all speeds are in degrees
    TORQUES_FROZEN = "torques-frozen"  # what the drives report of their torque repeats itself
    CLOCK_SLOW = "clock-slow"  # the robot's clock runs half as fast
    CLOCK_STANDS = "clock-stands"  # it stands still, in states that go on
    CLOCK_JUMP = "clock-jump"  # it jumps ahead
    RESTART = "restart"  # it begins anew
    SPARSE = "sparse"  # states come too rarely
    CORRUPT = "corrupt"  # every tenth state has a wrong checksum
    CUT = "cut"  # states come cut in half
    DEAF = "deaf"  # the robot hears no commands any more
    HEARD_LATER = "heard-later"  # commands take longer and longer
    WEAK = "weak"  # all drives give less than they are told
    RUNAWAY = "runaway"  # a motor gives all that it can
    MOTOR_SIGN = "motor-sign"  # a motor turns the wrong way round
    MOTOR_STUCK = "motor-stuck"  # a motor goes on with the torque that it has
    SELECT = "select"  # the operator presses the other stop button
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
        return self.name.startswith(("JOINT", "MOTOR")) or self in (
            Fault.TEMPERATURE, Fault.LOST, Fault.RUNAWAY,
        )  # fmt: skip


HELD: dict[Fault, tuple[str, ...]] = {
    Fault.IMU_FROZEN: IMU,
    Fault.JOINT_FROZEN: JOINTS,
    Fault.ENCODERS_FROZEN: ("joint_pos",),
    Fault.SENSORS_FROZEN: (*IMU, *JOINTS, "foot_force"),
    Fault.GYRO_FROZEN: ("gyro",),
    Fault.TORQUES_FROZEN: ("joint_torque",),
}
"""Readings that a hung sensor repeats."""
STRENGTH = {Fault.POWER: 0.0, Fault.MOTOR: 0.0, Fault.WEAK: WEAK, Fault.MOTOR_SIGN: -1.0}
"""Factors on the torque of drives."""


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
    """Active faults, and their effect on a reading."""

    def __init__(self, joint_ranges: np.ndarray, fastest: float, hottest: float):
        """``joint_ranges`` are their ends [rad] (J, 2); limits of speed [rad/s] and temperature [degrees C]."""
        self.injections: list[Injection] = []
        self._begun: set[Injection] = set()
        self._high, self._middle = joint_ranges[:, 1], joint_ranges.mean(1)
        self._fastest, self._hottest = fastest, hottest
        self._frozen: Reading | None = None
        self._held: dict[Injection, Reading] = {}
        self._missed = self._states = 0
        self._next_sparse = -math.inf

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
        """Reading of the robot's own clock at ``now`` [s]."""
        said = now
        for each in self.injections:
            if each.at(now):
                elapsed = now - each.start
                match each.fault:
                    case Fault.CLOCK:
                        said += (RUSH - 1.0) * elapsed
                    case Fault.CLOCK_SLOW:
                        said -= 0.5 * elapsed
                    case Fault.CLOCK_STANDS:
                        said -= elapsed
                    case Fault.CLOCK_JUMP:
                        said += AHEAD
                    case Fault.RESTART:
                        said = elapsed
        return said

    def delay(self, fault: Fault, now: float) -> float:
        """Extra delay of a message of ``now``, by ``LATER`` or ``HEARD_LATER`` [s]."""
        begun = [each.start for each in self.injections if each.fault is fault and each.at(now)]
        return LATER * max(0.0, now - min(begun, default=now))

    def silent(self, now: float) -> bool:
        """True if the state of ``now`` is not sent."""
        if self.active(Fault.SILENCE, now):
            return True
        if not self.active(Fault.SPARSE, now):
            return False
        if silent := now < self._next_sparse:
            return silent
        self._next_sparse = now + SPARSE
        return False

    def corrupt(self, now: float) -> bool:
        """True if the state of ``now`` has a wrong checksum."""
        self._states += 1
        return self.active(Fault.CHECKSUM, now) or (self.active(Fault.CORRUPT, now) and self._states % 10 == 0)

    def strength(self, now: float, joints: int) -> np.ndarray:
        """Factors on what the drives give, (J,): 0 without power, below 0 for one that turns the wrong way round."""
        out = np.ones(joints)
        for each in self.injections:
            if each.at(now) and each.fault in STRENGTH:
                out[each.joint if each.fault.of_a_joint else slice(None)] *= STRENGTH[each.fault]
        return out

    def joints(self, fault: Fault, now: float) -> list[int]:
        """Joints that have it."""
        return [each.joint for each in self.injections if each.fault is fault and each.at(now)]

    def starting(self, now: float) -> list[Injection]:
        """Injections that began since the last call."""
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
                self._spoil(reading, injection, now - injection.start)
        return reading

    def _spoil(self, reading: Reading, injection: Injection, elapsed: float) -> None:
        fault, joint = injection.fault, injection.joint
        if fault in HELD:
            held = self._held.setdefault(injection, replace(reading))
            for name in HELD[fault]:
                value = getattr(reading, name).copy()
                rows = joint if fault.of_a_joint else slice(None)
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
            case Fault.SPEEDS_SIGN:
                reading.joint_vel = -reading.joint_vel
            case Fault.SPEEDS_DEGREES:
                reading.joint_vel = np.degrees(reading.joint_vel)
            case Fault.GYRO_ZERO:
                reading.gyro = np.zeros(3)
            case Fault.GYRO_AXES:
                reading.gyro = reading.gyro[[1, 0, 2]]
            case Fault.IMU_ORDER:
                reading.quat_wxyz = np.roll(reading.quat_wxyz, -1)
            case Fault.IMU_SLIP:
                reading.quat_wxyz = rotated(reading.quat_wxyz, np.array([SLIP, 0.0, 0.0]))
            case Fault.IMU_CREEP:
                creep = np.array([0.0, GIVE * elapsed, 0.0])
                turned = rotated(np.array([1.0, 0.0, 0.0, 0.0]), -creep)
                reading.quat_wxyz = rotated(reading.quat_wxyz, creep)
                reading.gyro = quat_apply(turned, reading.gyro) + np.array([0.0, GIVE, 0.0])
                reading.accelerometer = quat_apply(turned, reading.accelerometer)
            case Fault.ACCELEROMETER_ZERO:
                reading.accelerometer = np.zeros(3)
            case Fault.ACCELEROMETER_SIGN:
                reading.accelerometer = -reading.accelerometer
            case Fault.JOINT_SIGN:
                reading.joint_pos[joint] *= -1.0
            case Fault.JOINT_DRIFT:
                reading.joint_pos[joint] += CREEP * elapsed
            case Fault.JOINT_FLICKER:
                reading.joint_pos[joint] += FLICKER * (1.0 if self._states % 2 else -1.0)
            case Fault.IMU_NAN:
                glitch(reading, "nan")
            case Fault.IMU_ZERO:
                glitch(reading, "zero")
            case Fault.TILT:
                reading.quat_wxyz = rotated(reading.quat_wxyz, np.array([TILT, 0.0, 0.0]))
            case Fault.IMU_NORM:
                reading.quat_wxyz = 2.0 * reading.quat_wxyz
            case Fault.GYRO_NAN:
                reading.gyro = np.full(3, math.nan)
            case Fault.JOINT_NAN:
                reading.joint_pos[joint] = math.nan
            case Fault.JOINT_INF:
                reading.joint_pos[joint] = math.inf
            case Fault.JOINT_SPEED_NAN:
                reading.joint_vel[joint] = math.nan
            case Fault.JOINT_TORQUE_NAN:
                reading.joint_torque[joint] = math.nan
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
