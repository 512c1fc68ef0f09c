"""Actuator laws as pure functions. They take numpy arrays and torch tensors alike."""

from __future__ import annotations

from typing import Any

from .robots.robot import DCMotor, ImplicitPD


def pd_torque(target: Any, pos: Any, vel: Any, stiffness: Any, damping: Any) -> Any:
    """kp (target - q) - kd qd [N m]."""
    return stiffness * (target - pos) - damping * vel


def implicit_pd_torque(law: ImplicitPD, target: Any, pos: Any, vel: Any) -> Any:
    """PD torque clipped to the effort limit [N m]."""
    return pd_torque(target, pos, vel, law.stiffness, law.damping).clip(-law.effort_limit, law.effort_limit)


def dc_motor_torque(law: DCMotor, target: Any, pos: Any, vel: Any) -> Any:
    """PD torque clipped by the motor's torque-speed line and the effort limit [N m].

    Isaac Lab's ``DCMotor``: tau_max = min(effort, saturation (1 - qd / v)), tau_min = max(-effort,
    saturation (-1 - qd / v)). Hazard: beyond the no-load speed the two bounds have the same sign, so the motor
    brakes for every target.
    """
    return motor_clip(law, pd_torque(target, pos, vel, law.stiffness, law.damping), vel)


def motor_clip(law: DCMotor, torque: Any, vel: Any) -> Any:
    """``torque`` [N m] clipped to the motor's torque-speed line at ``vel`` [rad/s] and to its effort limit."""
    line = law.saturation_effort / law.velocity_limit * vel
    high = (law.saturation_effort - line).clip(-law.effort_limit, law.effort_limit)
    low = (-law.saturation_effort - line).clip(-law.effort_limit, law.effort_limit)
    return torque.clip(low, high)
