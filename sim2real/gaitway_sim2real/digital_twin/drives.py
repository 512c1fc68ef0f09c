"""The twin's drives: commands as they came over the wire, late and in order, turned into torque.

The law is ``tau + kp (q* - q) + kd (dq* - dq)``, clipped to the drive's effort limit and, where the robot's definition
has one, to the torque-speed line of its motor. ``kp``, ``kd`` and the sum of what does not depend on the joint's
motion are linear in the law, so a command that falls within a physics step counts for its share of the step: delays
are not rounded to steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.interface import Array
from gaitway_tasks.robots import DCMotor, Robot
from gaitway_tasks.robots.parameters import JointParameters

from .command import Command
from .quirks import Quirks

COOLING = 120.0  # [s], time constant of a motor that loses its heat
AMBIENT = 30.0  # [degrees C]
ROUNDING = 1e-9  # [s]


@dataclass(frozen=True, kw_only=True)
class DriveLimits:
    """Limits of the drives, in the order of the body's joints, (J,) each."""

    effort: Array
    """[N m]"""
    stall: Array
    """Torque at standstill of the torque-speed line [N m]; infinite without a line."""
    no_load: Array
    """Speed at which that line reaches 0 N m [rad/s]; infinite without a line."""
    damping: Array
    """kd of a drive that damps by itself [N m s/rad]."""


def drive_limits(
    robot: Robot,
    joint_names: tuple[str, ...],
    effort: Mapping[str, float],
    velocity: Mapping[str, float],
    damping: Mapping[str, float],
) -> DriveLimits:
    """Limits of the hardware, by joint name; the torque-speed line has the shape that the robot's actuator law gives.

    The law's line was drawn for the law's effort limit; here it is stretched to what the hardware's drive can bear.
    """
    laws = [robot.joint_actuators[robot.joint_names.index(name)] for name in joint_names]
    lines = [law if isinstance(law, DCMotor) else None for law in laws]
    limits = np.array([effort[name] for name in joint_names])
    return DriveLimits(
        effort=limits,
        stall=limits * [np.inf if line is None else line.saturation_effort / line.effort_limit for line in lines],
        no_load=np.array(
            [np.inf if line is None else velocity[name] for name, line in zip(joint_names, lines, strict=True)]
        ),
        damping=np.array([damping[name] for name in joint_names]),
    )


class Drives:
    """Joint arrays are in the body's order, J."""

    def __init__(self, joint_names: tuple[str, ...], limits: DriveLimits, quirks: Quirks, seed: np.random.SeedSequence):
        self.limits, self.quirks = limits, quirks
        encoder_seed, latch_seed = seed.spawn(2)
        count = len(joint_names)
        known = quirks.parameters.joints if quirks.parameters is not None else {}
        joints = [known.get(name, JointParameters()) for name in joint_names]
        self._kp_scale = np.array([joint.stiffness_scale for joint in joints])
        self._kd_scale = np.array([joint.damping_scale for joint in joints])
        self._strength = np.array([joint.strength for joint in joints])
        self._strength[[name == quirks.dead_motor for name in joint_names]] = 0.0
        self.encoder_bias = quirks.encoder_bias * np.random.default_rng(encoder_seed).standard_normal(count)
        """What each encoder reads too much [rad], (J,)."""
        self._rng = np.random.default_rng(latch_seed)
        self._latched_until = np.full(count, -np.inf)
        self._held = np.zeros(count)
        self._law: Array = np.zeros((3, count))  # constant, kp, kd
        lined = np.isfinite(limits.stall)
        self._has_line = bool(lined.any())
        self._slope = np.divide(limits.stall, limits.no_load, out=np.zeros(count), where=lined)
        self._is_plain = not quirks.battery_sag and bool((self._strength == 1.0).all())
        self._coming: deque[tuple[float, Array]] = deque()
        self._last_command = -np.inf
        self.faulty: Array = np.ones(count)
        """Factors on the torque of motors that have a fault, and report what they give, (J,)."""
        self.stuck: dict[int, float] = {}
        """Motors that give one torque whatever they are told, by their joint [N m]."""
        self.temperature = np.full(count, AMBIENT)
        """[degrees C], (J,)"""
        self.battery = quirks.battery
        """State of charge, of 1."""

    def command(self, due: float, command: Command) -> None:
        """Follow this from ``due`` [s] on, which grows from call to call."""
        law = np.empty((3, len(command.kp)))
        constant, stiffness, damping = law
        np.multiply(self._kp_scale, command.kp, out=stiffness)
        np.multiply(self._kd_scale, command.kd, out=damping)
        np.multiply(stiffness, command.q - self.encoder_bias, out=constant)
        constant += damping * command.dq
        constant += command.tau
        law *= command.enabled
        self._coming.append((due, law))

    def damp(self, due: float) -> None:
        """Forget the command: resist motion with the hardware's own damping."""
        kd = self._kd_scale * self.limits.damping
        self._coming.append((due, np.stack((np.zeros_like(kd), np.zeros_like(kd), kd))))

    def release(self) -> None:
        """Give no torque, and forget what was commanded."""
        self._coming.clear()
        self._law = np.zeros_like(self._law)

    def believed(self, torque: Array) -> Array:
        """Torques that the drives report for ``torque`` [N m], (J,): they measure current and do not know their
        strength."""
        return torque / np.where(self._strength > 0.0, self._strength, 1.0)

    def drive(self, now: float, dt: float, joint_vel: Array, torque: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Constant, kp, kd, lowest and highest torque of the step from ``now`` to ``now + dt`` [s].

        ``joint_vel`` [rad/s] is that of now, ``torque`` [N m] that of the last step, (J,) each.
        """
        constant, kp, kd = self._mean_law(now, dt)
        effort, low, high = self.limits.effort, -self.limits.effort, self.limits.effort
        if self._has_line:
            missing = self._slope * joint_vel
            low = np.minimum(np.maximum(low, -self.limits.stall - missing), effort)
            high = np.maximum(np.minimum(high, self.limits.stall - missing), -effort)
        if not self._is_plain:
            strength = self._strength * (1.0 - self.quirks.battery_sag * (1.0 - self.battery))
            constant, kp, kd = strength * constant, strength * kp, strength * kd
            low, high = strength * low, strength * high
        if self.quirks.latch_rate:
            self._latch(now, dt, torque)
            stuck = now < self._latched_until
            constant = np.where(stuck, self._held, constant)
            kp, kd = np.where(stuck, 0.0, kp), np.where(stuck, 0.0, kd)
        if (self.faulty != 1.0).any():
            constant, kp, kd = self.faulty * constant, self.faulty * kp, self.faulty * kd
        if self.stuck:
            constant, kp, kd = constant.copy(), kp.copy(), kd.copy()
            for joint, held in self.stuck.items():
                constant[joint], kp[joint], kd[joint] = held, 0.0, 0.0
        self._age(dt, torque)
        return constant, kp, kd, low, high

    def _mean_law(self, now: float, dt: float) -> Array:
        coming, timeout = self._coming, self.quirks.command_timeout
        if timeout and now - self._last_command > timeout and not coming:
            self.damp(now)
        while coming and coming[0][0] <= now + ROUNDING:
            self._last_command, self._law = coming.popleft()
        if not coming or coming[0][0] >= now + dt:
            return self._law
        mean, at = np.zeros_like(self._law), now
        while coming and coming[0][0] < now + dt:
            due, law = coming.popleft()
            mean += (due - at) / dt * self._law
            self._law, at = law, due
            self._last_command = due
        return mean + (now + dt - at) / dt * self._law

    def _latch(self, now: float, dt: float, torque: Array) -> None:
        strikes = self._rng.random(len(torque)) < self.quirks.latch_rate * dt
        strikes &= now >= self._latched_until
        self._held[strikes] = torque[strikes]
        self._latched_until[strikes] = now + self.quirks.latch_duration

    def _age(self, dt: float, torque: Array) -> None:
        if self.quirks.battery_drain:
            self.battery = max(0.0, self.battery - self.quirks.battery_drain * dt)
        if self.quirks.heating:
            load = torque / self.limits.effort
            heat = self.quirks.heating * load * load - (self.temperature - AMBIENT) / COOLING
            self.temperature = self.temperature + dt * heat
