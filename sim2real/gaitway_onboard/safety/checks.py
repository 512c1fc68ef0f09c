"""Checks, each with a name, that keep a policy from harming the robot. They depend on no transport."""

from __future__ import annotations

import math

import numpy as np
from gaitway_files.hardware import Hardware

from ..bundle.contract import Contract
from ..interface import Array, Health, Signals
from .clamp import Clamp, Command
from .consistency import Consistency
from .fault import Fault
from .limits import SafetyLimits
from .support import Support

JUMP = 0.1
"""Largest apparent motion of a joint between two states [rad] beyond what its limit of speed allows in the time between
them: noise and resolution of encoders, and the millisecond to which that time is known."""
CLOCK_WINDOW = 2.0
"""Time over which the robot's clock is compared with this computer's [s]."""
CLOCK_ERROR = 0.1
"""Share of that window by which they may disagree, besides ``max_state_age``. Quartz is off by 0.0001; a state may come
late, and a simulator run slowly."""
DRIFT = 0.001
"""Largest lag of the robot's clock behind ours, of 1, before its states count as coming later and later."""
JUMP_BACK = 1.0
"""Largest decrease of a state's lag [s]; more is another clock."""
REORDER = 0.05
"""Largest age of a state relative to one before it [s], as a network may reorder them. It is never used; one that is
older still is no accident of the network."""
TRIPS = (
    "second_writer", "second_state_writer", "taken_back", "checksum", "tick_back", "state_age", "frozen_tick", "clock",
    "imu", "not_finite", "tilt", "falling", "joint_limit", "joint_velocity", "joint_jump", "temperature", "battery",
    "motor_lost", "frozen_sensor", "joint_inconsistent", "imu_inconsistent", "not_following", "not_ready",
    "policy_output", "policy_overrun", "loop_overrun", "hung", "guardian", "exception", "damping",
)  # fmt: skip
"""Names of everything that trips; :meth:`SafetyFilter.fault` makes those up to ``not_following``."""
ALWAYS_FATAL = ("second_writer", "second_state_writer", "taken_back", "tick_back")
"""Faults that waiting does not cure."""


class SafetyFilter:
    """Judges signals and clamps targets; every joint array is in the robot's own order.

    It remembers: call :meth:`fault` once per period, with rising times.
    """

    def __init__(
        self,
        contract: Contract,
        joint_names: tuple[str, ...],
        limits: SafetyLimits,
        hardware: Hardware | None = None,
        support: Support | None = None,
    ):
        """The stricter of the contract's, the hardware's and the given limits hold."""
        order = [contract.joint_names.index(name) for name in joint_names]
        self.limits, self.joint_names, self.period = limits, joint_names, contract.control_dt
        self._fixed_base = contract.fixed_base
        low, high = np.array(contract.joint_pos_limits)[order].T
        self.default = np.array(contract.default_joint_pos)[order]
        self.effort_limit = np.array(contract.per_joint("effort_limit"))[order]
        self.max_vel = np.full(len(order), limits.max_joint_vel)
        self.max_temperature, self.min_battery = limits.max_temperature, limits.min_battery
        # Without the hardware's speeds, drives give what those of the training do.
        speeds = np.array(contract.per_joint("velocity_limit"), float)[order]
        top_speed = np.where(np.isnan(speeds), np.inf, speeds)
        if hardware is not None:
            effort, speed = ([table[name] for name in joint_names] for table in (hardware.effort_limit,
                             hardware.velocity_limit))  # fmt: skip
            self.effort_limit = np.minimum(self.effort_limit, effort)
            top_speed = np.array(speed, float)
            self.max_vel = np.minimum(self.max_vel, 1.2 * top_speed)
            self.max_temperature = min(self.max_temperature, hardware.max_motor_temperature)
            self.min_battery = max(self.min_battery, hardware.min_battery)
        self.clamp = Clamp(self.effort_limit, low, high)
        self._lowest, self._highest = low - limits.joint_pos_margin, high + limits.joint_pos_margin
        self._corrupt, self._lost = _Leaky(limits.max_corrupt), _Leaky(limits.max_lost)
        self._clock, self._imu_clock = _Clock(limits.max_state_age), _Clock(limits.max_state_age)
        self._consistency = Consistency(joint_names, self.effort_limit, limits, top_speed, support)
        self._slack = self.max_vel * limits.max_state_age + JUMP
        self._seen: tuple[float, int, Array] | None = None

    def fault(self, signals: Signals, now: float) -> Fault | None:
        """Fault because of which the robot must not be driven on these signals, or None."""
        health = signals.health
        if health is not None and (fault := self._writers(health) or self._checksums(health, now)) is not None:
            return fault
        if not now - signals.stamp <= self.limits.max_state_age:
            return Fault("state_age", f"the newest signals are {now - signals.stamp:.3f} s old")
        fault = self._clocks(signals, now) or self._motion(signals) or self._jump(signals)
        if fault is None and health is not None:
            fault = self._motors(health, now)
        return fault or self._consistency.fault(signals)

    def sent(self, command: Command | None) -> None:
        """Record the command that the drives got after these signals; None is the robot's own damping."""
        self._consistency.sent(None if command is None else (command.targets, command.stiffness, command.damping))

    def _writers(self, health: Health) -> Fault | None:
        if health.other_writers:
            return Fault("second_writer", f"another program commands this robot: {', '.join(health.other_writers)}")
        if health.other_sources:
            robot, others = health.source or "this robot", " and ".join(health.other_sources)
            return Fault("second_state_writer", f"states come from {robot}, and also from {others}")
        if health.taken_by:
            return Fault("taken_back", f"the robot's own controller {health.taken_by!r} drives it again")
        if health.behind > REORDER:
            return Fault("tick_back", f"the robot's clock went back by {health.behind:.3f} s: it started anew, or old "
                                      "states are being repeated")  # fmt: skip
        return None

    def _checksums(self, health: Health, now: float) -> Fault | None:
        if self._corrupt.count(health.corrupt, now):
            return None
        return Fault("checksum", f"{health.corrupt} states so far had a wrong checksum, many of them just now")

    def _clocks(self, signals: Signals, now: float) -> Fault | None:
        """Fault of the robot's clocks: they stand still, or run at another rate than ours; or None."""
        health = signals.health
        if health is None:
            return None
        return self._clock.fault(health.tick, health.tick_rate, signals.stamp, now) or self._imu_clock.fault(
            health.imu_tick, health.tick_rate, signals.stamp, now
        )

    def _motion(self, signals: Signals) -> Fault | None:
        if (fault := None if self._fixed_base else self._orientation(signals)) is not None:
            return fault
        pos, vel = signals.joint_pos, signals.joint_vel
        if not ((pos >= self._lowest) & (pos <= self._highest)).all():
            return self._position_fault(pos)
        speed = np.abs(vel)
        if not (speed <= self.max_vel).all():
            return self._velocity_fault(vel, speed)
        return None

    def _orientation(self, signals: Signals) -> Fault | None:
        if signals.imu_quat_wxyz is None or signals.gyro is None:
            return Fault("imu", "the robot tells nothing of its IMU")
        w, x, y, z = (float(value) for value in signals.imu_quat_wxyz)
        norm = w * w + x * x + y * y + z * z
        if not 0.8 < norm < 1.2:  # also true of NaN
            return Fault("imu", f"the IMU's quaternion {[w, x, y, z]} has squared norm {norm:.3g}")
        if not math.isfinite(sum(float(value) for value in signals.gyro)):
            return Fault("imu", f"gyro is not finite: {np.asarray(signals.gyro).tolist()}")
        tilt = math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y) / norm)))
        if tilt > self.limits.max_tilt:
            return Fault("tilt", f"the base is tilted by {tilt:.2f} rad (limit {self.limits.max_tilt:g})")
        return None

    def _position_fault(self, pos: Array) -> Fault:
        if not np.isfinite(pos).all():
            return Fault("not_finite", f"the position of {self._not_finite(pos)} is not finite")
        margin = self.limits.joint_pos_margin
        beyond = np.maximum(self._lowest - pos, pos - self._highest) + margin
        worst = int(beyond.argmax())
        return Fault("joint_limit", f"{self.joint_names[worst]} is {beyond[worst]:.2f} rad beyond its range")

    def _not_finite(self, values: Array) -> str:
        return ", ".join(self.joint_names[joint] for joint in np.flatnonzero(~np.isfinite(values)))

    def _velocity_fault(self, vel: Array, speed: Array) -> Fault:
        if not np.isfinite(vel).all():
            return Fault("not_finite", f"the velocity of {self._not_finite(vel)} is not finite")
        worst = int((speed - self.max_vel).argmax())
        name, limit = self.joint_names[worst], self.max_vel[worst]
        return Fault("joint_velocity", f"{name} turns at {speed[worst]:.1f} rad/s (limit {limit:g})")

    def _jump(self, signals: Signals) -> Fault | None:
        """A joint that cannot have gone so far since the last state: by the robot's clock, or as long as it may be."""
        pos, health = signals.joint_pos, signals.health
        tick, rate = (health.tick, health.tick_rate) if health is not None else (None, None)
        before = self._seen
        if before is not None and before[0] == signals.stamp:
            return None
        self._seen = signals.stamp, tick or 0, pos.copy()
        if before is None:
            return None
        moved = np.abs(pos - before[2])
        if moved.max() <= JUMP:
            return None
        timed = rate and tick and before[1]
        passed = (tick - before[1]) / rate if rate and tick and timed else signals.stamp - before[0]
        allowed = self.max_vel * max(0.0, passed) + (JUMP if timed else self._slack)
        if (moved <= allowed).all():
            return None
        worst = int((moved - allowed).argmax())
        name, text = self.joint_names[worst], f"{1e3 * passed:.0f} ms later: it can move {allowed[worst]:.2f} rad"
        return Fault("joint_jump", f"{name} jumped by {moved[worst]:.2f} rad from one state to the next, {text}")

    def _motors(self, health: Health, now: float) -> Fault | None:
        temperature = health.motor_temperature
        if temperature is not None and not np.max(temperature) <= self.max_temperature:
            worst = int(np.argmax(temperature))
            return Fault("temperature", f"the motor of {self.joint_names[worst]} is at {temperature[worst]:.0f} "
                                        f"degrees C (limit {self.max_temperature:g})")  # fmt: skip
        if health.battery is not None and not health.battery >= self.min_battery:
            charge = f"{100 * health.battery:.0f} % (limit {100 * self.min_battery:g} %)"
            return Fault("battery", f"the battery is at {charge}")
        lost = health.motor_lost
        if lost is not None and not self._lost.count(float(np.sum(lost)), now):
            name = self.joint_names[int(np.argmax(lost))]
            return Fault("motor_lost", f"motors lose messages; most so far, {np.max(lost):g}, that of {name}")
        return None

    def not_ready(self, signals: Signals) -> Fault | None:
        """Fault because of which the policy must not take over from the default pose, or None."""
        error = np.abs(signals.joint_pos - self.default)
        if error.max() > self.limits.max_ready_error:
            worst = int(error.argmax())
            return Fault(
                "not_ready",
                f"{self.joint_names[worst]} is {error[worst]:.2f} rad from the default pose "
                f"(limit {self.limits.max_ready_error:g}): does the robot stand on its feet?",
            )
        return None

    def nonsense(self, targets: Array) -> Fault | None:
        """Fault of a policy's targets that must not be followed even clamped, or None."""
        error = np.abs(targets - self.default)
        if not error.max() <= self.limits.max_target:
            worst = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
            return Fault("policy_output", f"the policy wants {self.joint_names[worst]} at {targets[worst]:g} rad")
        return None

    def limit_rate(self, targets: Array, previous: Array) -> tuple[Array, bool]:
        """Targets no further from the previous policy period's than ``max_target_rate`` allows; True if it cut some."""
        step = self.limits.max_target_rate * self.period
        limited = np.clip(targets, previous - step, previous + step)
        return limited, bool((limited != targets).any())


class _Clock:
    """A clock of the robot's, beside ours: it must go on, and neither jump nor run at another rate."""

    def __init__(self, max_still: float):
        """``max_still`` is how long it may stand still [s]."""
        self.max_still = max_still
        self._tick: int | None = None
        self._time = -math.inf
        self._begun: tuple[int, float] | None = None
        self._behind: tuple[float, float] | None = None

    def fault(self, tick: int | None, rate: float | None, stamp: float, now: float) -> Fault | None:
        """``tick`` of the newest state, which came at ``stamp``; None, and zero until it counts, say nothing."""
        if tick is None or not (tick or self._tick):
            return None
        if tick == self._tick:
            if now - self._time <= self.max_still:
                return None
            return Fault("frozen_tick", f"states arrive, but the robot's tick has stood at {tick} for "
                                        f"{now - self._time:.3f} s")  # fmt: skip
        self._tick, self._time = tick, now
        if rate is None:
            return None
        if (fault := self._age(tick / rate, stamp)) is not None:
            return fault
        if self._begun is None or not tick - self._begun[0] >= 0:  # at the start, and where 32 bits begin anew
            self._begun = tick, stamp
            return None
        theirs, ours = (tick - self._begun[0]) / rate, stamp - self._begun[1]
        if abs(theirs - ours) > CLOCK_ERROR * CLOCK_WINDOW + self.max_still:
            self._begun = tick, stamp
            return Fault("clock", f"the robot's clock went on by {theirs:.3f} s while {ours:.3f} s passed here")
        if ours > CLOCK_WINDOW:
            self._begun = tick, stamp
        return None

    def _age(self, theirs: float, stamp: float) -> Fault | None:
        """Fault of states that arrive later and later: a growing delay leaves each state as fresh as the last."""
        behind = stamp - theirs
        if self._behind is not None and not -JUMP_BACK < behind - self._behind[0] < math.inf:
            self._behind = None  # the robot's clock begins anew, or was set
        if self._behind is None:
            self._behind = behind, stamp
        quickest = min(behind, self._behind[0] + DRIFT * (stamp - self._behind[1]))
        self._behind = quickest, stamp
        if behind - quickest <= self.max_still:
            return None
        return Fault("state_age", f"states come {behind - quickest:.3f} s later than the quickest did, by the robot's "
                                  "own clock")  # fmt: skip


class _Leaky:
    """A counter that forgets ``rate`` events per second, and is full at the ``rate`` of one second."""

    def __init__(self, rate: float):
        self.rate, self.level = rate, 0.0
        self.last: tuple[float, float] | None = None

    def count(self, total: float, now: float) -> bool:
        """Take in how many there have been in all; False if that is too many in too short a time."""
        if self.last is not None:
            before, time = self.last
            self.level = max(0.0, self.level - self.rate * (now - time)) + max(0.0, total - before)
        self.last = total, now
        return self.level <= self.rate
