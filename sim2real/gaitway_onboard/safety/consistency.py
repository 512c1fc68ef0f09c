"""Consistency of sensors and drives: signals that are possible each by itself may still contradict each other.

A robot whose motors have lost their power, or whose sensor has hung, sends states that are fresh, sealed and within all
ranges. So these are compared: the torque that the drives report with the one that the law of their drive and the last
command give; the speed of each joint with the way that it went; the gyroscope with how the orientation changes; the
accelerometer, and the legs that carry the robot, with where the orientation says down is; and every reading with the
ones before, which noise keeps from being the same.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..interface import Array, Signals
from .fault import Fault
from .limits import SafetyLimits
from .support import Support

TORQUE_TIME, SPEED_TIME, TURN_TIME, TURN_SPREAD, GRAVITY_TIME = 0.1, 0.05, 0.05, 0.3, 1.0
"""Time constants of the filters that both sides of a comparison go through [s]."""
TORQUE_SHARE = 0.3
"""Share by which a drive's strength, and what it says of it, may be off."""
TURN_SHARE = 0.5
"""Share by which gyroscope and orientation may differ, besides ``max_gyro_error``."""
BELIEVED = 0.8
"""Share of the way from ``max_load`` to the whole effort up to which a drive that gives what it is told is believed."""
GRAVITY = 9.81
UNFELT = 0.05
"""Longest time without a reading of an accelerometer that had some [s]."""
FALL_TIME, WEIGHTLESS, FALLING = 0.05, 0.4, 0.25
"""A robot falls whose accelerometer, filtered with a time constant [s], feels less than a share of its weight for so
long [s]. A leap of so long a flight would be 8 cm high."""
GAP = 0.1
"""Time between two states after which the comparisons begin anew [s]."""
LEARN = 100
"""States in which a reading must have been noisy, for one that repeats itself to mean that its sensor hangs."""
NOISY = 0.4
"""Share of these states in which a noisy reading goes back on its way at least; of white noise two thirds do, and of a
smooth motion hardly any."""

Vector = tuple[float, float, float]
Quat = tuple[float, ...]
"""w, x, y, z."""
ORIGIN: Vector = (0.0, 0.0, 0.0)


class Consistency:
    """Give it every state and every command, in turn. Joint arrays are in the robot's own order, (J,)."""

    def __init__(
        self,
        joint_names: tuple[str, ...],
        effort_limit: Array,
        limits: SafetyLimits,
        top_speed: Array | float = np.inf,
        support: Support | None = None,
    ):
        """``effort_limit`` [N m], and ``top_speed`` [rad/s] at which a motor gives no torque any more, (J,) each."""
        self._support = support
        self.joint_names, self.effort_limit, self.limits = joint_names, effort_limit, limits
        self._told: tuple[Array, Array, Array] | None = None
        self._last: _State | None = None
        self._repeats = _Repeats(2 * len(joint_names) + 3)
        self._slowed = effort_limit / top_speed
        self._reported = self._felt = False
        self._unfelt = 0.0
        self._begin()

    def _begin(self) -> None:
        self._torque, self._law, self._load, self._speed = np.zeros((4, len(self.joint_names)))
        self._gyro = self._turn = self._down = ORIGIN
        self._force: Vector | None = None
        self._off = self._size = 0.0
        self._feeling, self._falling = (0.0, 0.0, GRAVITY), 0.0
        if self._support is not None:
            self._support.begin()

    def sent(self, told: tuple[Array, Array, Array] | None) -> None:
        """The drives were told targets [rad], kp and kd; None is a damping of the robot's own, which nobody knows."""
        self._told = told

    def fault(self, signals: Signals) -> Fault | None:
        """Fault of a new state that cannot be true, or None. A repeated state is not checked again."""
        last, health = self._last, signals.health
        if last is not None and last.stamp == signals.stamp:
            return None
        readings = np.concatenate((signals.turning, signals.joint_pos, signals.joint_vel))
        quat: Quat = tuple(signals.orientation.tolist())
        self._last = state = _State(signals.stamp, health.tick if health is not None else None, readings, quat)
        if last is None:
            return None
        rate = health.tick_rate if health is not None else None
        passed = state.stamp - last.stamp
        if rate and state.tick is not None and last.tick is not None:
            passed = (state.tick - last.tick) / rate
        if not 0.0 < passed < GAP:
            self._begin()
            return None
        return (
            self._frozen(readings)
            or self._joints(signals, readings - last.readings, passed)
            or self._turning(readings, last.quat, quat, passed)
            or self._gravity(signals.accelerometer, quat, passed)
            or self._carrying(signals, quat, passed)
            or self._following(signals, passed)
        )

    def _frozen(self, readings: Array) -> Fault | None:
        """A noisy reading that repeats itself to the bit, in states whose clock goes on."""
        count = self._repeats.count(readings)
        worst = int(count.argmax())
        if count[worst] <= self.limits.max_repeats:
            return None
        joints = len(self.joint_names)
        joint = (worst - 3) % joints
        what = (
            "the gyroscope" if worst < 3
            else f"{'joint_pos' if worst < 3 + joints else 'joint_vel'} of {self.joint_names[joint]}"
        )  # fmt: skip
        return Fault("frozen_sensor", f"{what} keeps saying the same to the last digit, state after state")

    def _joints(self, signals: Signals, change: Array, passed: float) -> Fault | None:
        """Speeds and ways of the joints."""
        share = passed / (SPEED_TIME + passed)
        went = change[3 : 3 + len(self.joint_names)] / passed
        self._speed += share * (signals.joint_vel - went - self._speed)
        off = np.abs(self._speed)
        worst = int(off.argmax())
        if off[worst] <= self.limits.max_speed_error:
            return None
        return Fault(
            "joint_inconsistent", f"{self.joint_names[worst]} says {signals.joint_vel[worst]:+.1f} rad/s, and went at "
                                  f"{went[worst]:+.1f} rad/s"
        )  # fmt: skip

    def _turning(self, readings: Array, before: Quat, quat: Quat, passed: float) -> Fault | None:
        """Gyroscope and orientation."""
        share = passed / (TURN_TIME + passed)
        self._gyro = _nearer(self._gyro, readings[:3].tolist(), share)
        self._turn = _nearer(self._turn, _turn_rate(before, quat, passed), share)
        share = passed / (TURN_SPREAD + passed)
        self._off += share * (math.dist(self._gyro, self._turn) ** 2 - self._off)
        self._size += share * (math.dist(self._gyro, ORIGIN) ** 2 - self._size)
        most = self.limits.max_gyro_error + TURN_SHARE * math.sqrt(self._size)
        if self._off <= most * most:
            return None
        said = f"the gyroscope and the orientation differ by {math.sqrt(self._off):.2f} rad/s (limit {most:.2f})"
        return Fault("imu_inconsistent", said)

    def _gravity(self, felt: Array | None, quat: Quat, passed: float) -> Fault | None:
        """Accelerometer and orientation; over a second, in which a robot that stays where it is gains no speed."""
        force = ORIGIN if felt is None else felt.tolist()
        if not math.isfinite(sum(force)) or not any(force):  # it has none
            self._force = None
            self._unfelt += passed
            if not self._felt or self._unfelt <= UNFELT:
                return None
            return Fault("imu", "the accelerometer says nothing any more, or what is no number")
        self._felt, self._unfelt = True, 0.0
        self._feeling = _nearer(self._feeling, force, passed / (FALL_TIME + passed))
        light = math.dist(self._feeling, ORIGIN) < WEIGHTLESS * GRAVITY
        self._falling = self._falling + passed if light else 0.0
        if self._falling > FALLING:
            return Fault("falling", f"the accelerometer has felt no weight for {self._falling:.2f} s")
        x, y, z = _up(quat)
        down = GRAVITY * x, GRAVITY * y, GRAVITY * z
        if self._force is None:
            self._force = self._down = down
        share = passed / (GRAVITY_TIME + passed)
        self._force, self._down = _nearer(self._force, force, share), _nearer(self._down, down, share)
        lengths = math.dist(self._force, ORIGIN) * math.dist(self._down, ORIGIN)
        cosine = sum(map(operator.mul, self._force, self._down)) / max(1e-9, lengths)
        angle = math.acos(max(-1.0, min(1.0, cosine)))
        if angle <= self.limits.max_gravity_error:
            return None
        return Fault("imu_inconsistent", f"the accelerometer and the orientation differ by {angle:.2f} rad about where "
                                         f"down is (limit {self.limits.max_gravity_error:g})")  # fmt: skip

    def _carrying(self, signals: Signals, quat: Quat, passed: float) -> Fault | None:
        """The legs that carry the robot, and the orientation."""
        if self._support is None:
            return None
        self._support.update(signals, _up(quat), passed)
        if self._support.angle <= self.limits.max_support_error:
            return None
        return Fault("imu_inconsistent", f"the torques of the legs and the orientation differ by "
                                         f"{self._support.angle:.2f} rad about where down is (limit "
                                         f"{self.limits.max_support_error:g})")  # fmt: skip

    def _following(self, signals: Signals, passed: float) -> Fault | None:
        """Fault of drives whose reported torque does not follow their commands, or None."""
        if self._told is None:
            self._torque[:] = self._law[:] = self._load[:] = 0.0
            return None
        targets, stiffness, damping = self._told
        law = stiffness * (targets - signals.joint_pos) - damping * signals.joint_vel
        law = np.minimum(np.maximum(law, -self.effort_limit), self.effort_limit)
        share = passed / (TORQUE_TIME + passed)
        self._load += share * (law - self._load)
        load, torque = np.abs(self._load) / self.effort_limit, signals.joint_torque
        known = torque is not None and math.isfinite(float(torque.sum()))  # not every robot tells it
        if not known and self._reported:
            return Fault("not_finite", "the drives do not say any more what torque they give, or what is no number")
        self._reported |= known
        if load.max() > (BELIEVED + (1.0 - BELIEVED) * self.limits.max_load if known else self.limits.max_load):
            worst = int(load.argmax())
            return Fault("not_following", f"{self.joint_names[worst]} is told {100 * load[worst]:.0f} % of its effort "
                                          f"for {TORQUE_TIME:g} s, and does not get where it should")  # fmt: skip
        if torque is None or not known:
            self._torque[:] = 0.0
            return None
        # A motor that turns gives less, the faster the less; how much less depends on a line that is not known here.
        spent = self._slowed * signals.joint_vel
        least = np.minimum(np.maximum(law, -self.effort_limit - spent), self.effort_limit - spent)
        given = np.minimum(np.maximum(torque, np.minimum(law, least)), np.maximum(law, least))
        self._torque += share * (given - torque - self._torque)
        self._law += share * (np.abs(law) - self._law)
        over = np.abs(self._torque) - TORQUE_SHARE * self._law - self.limits.max_torque_error * self.effort_limit
        worst = int(over.argmax())
        if not over[worst] > 0.0:
            return None
        return Fault("not_following", f"the drive of {self.joint_names[worst]} was told {law[worst]:+.1f} N m, and "
                                      f"gives {torque[worst]:+.1f} N m")  # fmt: skip


def _nearer(value: Vector, to: Sequence[float], share: float) -> Vector:
    """``share`` of the way; with three numbers, numpy's calls would take longer than the sums."""
    (x, y, z), (a, b, c) = value, to
    return x + share * (a - x), y + share * (b - y), z + share * (c - z)


def _up(quat: Quat) -> Vector:
    """The world's z axis in the base's frame."""
    w, x, y, z = quat
    return 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


def _turn_rate(before: Quat, quat: Quat, passed: float) -> Vector:
    """Mean angular velocity in the body frame [rad/s] that turns one orientation into the other, if it is small."""
    (a, b, c, d), (w, x, y, z) = before, quat
    twice = math.copysign(2.0 / passed, a * w + b * x + c * y + d * z)
    return (
        twice * (a * x - b * w - c * z + d * y), twice * (a * y + b * z - c * w - d * x),
        twice * (a * z - b * y + c * x - d * w),
    )  # fmt: skip


class _Repeats:
    """Counts how often each of several readings has said the same in a row, once they are known to be noisy."""

    def __init__(self, width: int):
        self._count, self._turns, self._states = np.zeros(width, int), np.zeros(width, int), 0
        self._value, self._way = np.full(width, np.nan), np.zeros(width)
        self._noisy = np.zeros(width, bool)

    def count(self, value: Array) -> Array:
        """Repeats in a row until now, as ``value`` (width,), which is kept; 0 of a reading not known to be noisy."""
        way = value - self._value
        self._count = (self._count + 1) * (way == 0.0)
        if self._states < LEARN:
            self._turns += way * self._way < 0.0
            self._way = way
            self._states += 1
            self._noisy = self._turns >= NOISY * LEARN
        self._value = value
        return self._count * self._noisy


class _State(NamedTuple):
    stamp: float
    tick: int | None
    readings: Array
    """Gyroscope, joint positions and joint speeds, (3 + 2J,)."""
    quat: Quat
