"""Whether what sensors and drives say fits together: signals that are possible each by itself may lie together.

A robot whose motors have lost their power, or whose sensor has hung, sends states that are fresh, sealed and within all
ranges. So these are compared: the torque that the drives report with the one that the law of their drive and the last
command give; the speed of each joint with the way that it went; the gyroscope with how the orientation changes; the
accelerometer with where the orientation says down is; and every reading with the ones before, which noise keeps from
being the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..interface import Array, Signals
from ..rotation import quat_mul
from .fault import Fault

if TYPE_CHECKING:
    from .limits import SafetyLimits

TORQUE_TIME, SPEED_TIME, TURN_TIME, TURN_SPREAD, GRAVITY_TIME = 0.1, 0.05, 0.05, 0.3, 1.0
"""Time constants of the filters that both sides of a comparison go through [s]."""
TORQUE_SHARE = 0.3
"""Share by which a drive's strength, and what it says of it, may be off."""
TURN_SHARE = 0.5
"""Share by which gyroscope and orientation may differ, besides ``max_gyro_error``."""
BELIEVED = 0.8
"""Share of the way from ``max_load`` to the whole effort up to which a drive that gives what it is told is believed."""
GRAVITY = 9.81
GAP = 0.1
"""Between two states, after which the comparisons begin anew [s]."""
LEARN = 100
"""States in which a reading must have been noisy, for one that repeats itself to mean that its sensor hangs."""
NOISY = 0.4
"""Share of these states in which a noisy reading goes back on its way at least; of white noise two thirds do, and of a
smooth motion hardly any."""


class Consistency:
    """Give it every state and every command, in turn. Joint arrays are in the robot's own order, (J,)."""

    def __init__(
        self, joint_names: tuple[str, ...], effort_limit: Array, limits: SafetyLimits, top_speed: Array | float = np.inf
    ):
        """``effort_limit`` [N m], and ``top_speed`` [rad/s] at which a motor gives no torque any more, (J,) each."""
        self.joint_names, self.effort_limit, self.limits = joint_names, effort_limit, limits
        self.top_speed = top_speed
        self._told: tuple[Array, Array, Array] | None = None
        self._last: tuple[float, int | None, Signals] | None = None
        joints = len(joint_names)
        self._repeats = {"gyro": _Repeats(3), "joint_pos": _Repeats(joints), "joint_vel": _Repeats(joints)}
        self._reported = False
        self._begin()

    def _begin(self) -> None:
        joints, zero = np.zeros(len(self.joint_names)), np.zeros(3)
        self._torque, self._law, self._load, self._speed = (joints.copy() for _ in range(4))
        self._gyro, self._turn, self._down = zero.copy(), zero.copy(), zero.copy()
        self._force: Array | None = None
        self._off = self._size = 0.0

    def sent(self, told: tuple[Array, Array, Array] | None) -> None:
        """The drives were told targets [rad], kp and kd; None is a damping of the robot's own, which nobody knows."""
        self._told = told

    def fault(self, signals: Signals) -> Fault | None:
        """Why what a new state says cannot be true, or None. A state that was seen before says nothing new."""
        health = signals.health
        tick = health.tick if health is not None else None
        last = self._last
        if last is not None and last[0] == signals.stamp:
            return None
        self._last = signals.stamp, tick, _copy(signals)
        if last is None:
            return None
        rate = health.tick_rate if health is not None else None
        passed = signals.stamp - last[0] if not rate or tick is None or last[1] is None else (tick - last[1]) / rate
        if not 0.0 < passed < GAP:
            self._begin()
            return None
        before = last[2]
        return (
            self._frozen(signals)
            or self._joints(signals, before, passed)
            or self._turning(signals, before, passed)
            or self._gravity(signals, passed)
            or self._following(signals, passed)
        )

    def _frozen(self, signals: Signals) -> Fault | None:
        """A noisy reading that repeats itself to the bit, in states whose clock goes on."""
        for name, repeats in self._repeats.items():
            count = repeats.count(getattr(signals, name))
            worst = int(count.argmax())
            if count[worst] > self.limits.max_repeats:
                what = "the gyroscope" if name == "gyro" else f"{name} of {self.joint_names[worst]}"
                return Fault("frozen_sensor", f"{what} keeps saying the same to the last digit, state after state")
        return None

    def _joints(self, signals: Signals, before: Signals, passed: float) -> Fault | None:
        """Speeds and ways of the joints."""
        share = passed / (SPEED_TIME + passed)
        went = (signals.joint_pos - before.joint_pos) / passed
        self._speed += share * (signals.joint_vel - went - self._speed)
        off = np.abs(self._speed)
        worst = int(off.argmax())
        if off[worst] <= self.limits.max_speed_error:
            return None
        return Fault(
            "joint_inconsistent", f"{self.joint_names[worst]} says {signals.joint_vel[worst]:+.1f} rad/s, and went at "
                                  f"{went[worst]:+.1f} rad/s"
        )  # fmt: skip

    def _turning(self, signals: Signals, before: Signals, passed: float) -> Fault | None:
        """Gyroscope and orientation."""
        w, x, y, z = before.imu_quat_wxyz
        turned = quat_mul(np.array([w, -x, -y, -z]), signals.imu_quat_wxyz)
        rate = math.copysign(2.0 / passed, turned[0]) * turned[1:]
        share = passed / (TURN_TIME + passed)
        self._gyro += share * (signals.gyro - self._gyro)
        self._turn += share * (rate - self._turn)
        share = passed / (TURN_SPREAD + passed)
        off = self._gyro - self._turn
        self._off += share * (float(off @ off) - self._off)
        self._size += share * (float(self._gyro @ self._gyro) - self._size)
        most = self.limits.max_gyro_error + TURN_SHARE * math.sqrt(self._size)
        if self._off <= most * most:
            return None
        said = f"the gyroscope and the orientation differ by {math.sqrt(self._off):.2f} rad/s (limit {most:.2f})"
        return Fault("imu_inconsistent", said)

    def _gravity(self, signals: Signals, passed: float) -> Fault | None:
        """Accelerometer and orientation; over a second, in which a robot that stays where it is gains no speed."""
        force = signals.accelerometer
        if force is None or not math.isfinite(size := float(np.abs(force).sum())) or size == 0.0:  # it has none
            self._force = None
            return None
        w, x, y, z = signals.imu_quat_wxyz
        down = GRAVITY * np.array([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)])
        if self._force is None:
            self._force, self._down = down.copy(), down.copy()
        share = passed / (GRAVITY_TIME + passed)
        self._force += share * (force - self._force)
        self._down += share * (down - self._down)
        cosine = float(self._force @ self._down) / max(1e-9, math.sqrt(
            float(self._force @ self._force) * float(self._down @ self._down)
        ))  # fmt: skip
        angle = math.acos(max(-1.0, min(1.0, cosine)))
        if angle <= self.limits.max_gravity_error:
            return None
        return Fault("imu_inconsistent", f"the accelerometer and the orientation differ by {angle:.2f} rad about where "
                                         f"down is (limit {self.limits.max_gravity_error:g})")  # fmt: skip

    def _following(self, signals: Signals, passed: float) -> Fault | None:
        """What the drives report, and what they were told."""
        if self._told is None:
            for filtered in (self._torque, self._law, self._load):
                filtered[:] = 0.0
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
        spent = self.effort_limit * signals.joint_vel / self.top_speed
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


class _Repeats:
    """Counts how often each of several readings has said the same in a row, once they are known to be noisy."""

    def __init__(self, width: int):
        self._count, self._turns, self._states = np.zeros(width, int), np.zeros(width, int), 0
        self._value, self._way = np.full(width, np.nan), np.zeros(width)

    def count(self, value: Array) -> Array:
        """Repeats in a row until now, as ``value`` (width,); 0 for a reading that is not known to be noisy."""
        way = value - self._value
        self._count = np.where(way == 0.0, self._count + 1, 0)
        if self._states < LEARN:
            self._turns += way * self._way < 0.0
            self._way = way
            self._states += 1
        self._value = np.array(value, float)
        return np.where(self._turns >= NOISY * LEARN, self._count, 0)


def _copy(signals: Signals) -> Signals:
    """What is compared with the next state; a transport may reuse its arrays."""
    return Signals(
        joint_pos=np.array(signals.joint_pos, float),
        joint_vel=np.array(signals.joint_vel, float),
        imu_quat_wxyz=np.array(signals.imu_quat_wxyz, float),
        gyro=np.array(signals.gyro, float),
        stamp=signals.stamp,
    )
