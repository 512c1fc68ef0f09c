"""Gains that the robot stands and walks with."""

from __future__ import annotations

import numpy as np
from gaitway_files.hardware import Hardware

from ..bundle.contract import Contract
from ..interface import Array

STANDING_REACH = 0.4
"""Position error at which standing uses the whole effort limit [rad]."""


def standing_gains(
    contract: Contract, joint_names: tuple[str, ...], hardware: Hardware | None = None
) -> tuple[Array, Array]:
    """kp and kd of each joint for the ramp and the hold, at least the policy's, (J,) each.

    A policy's gains are often too soft to stand on without feedback: the robot would sink to where the policy has
    never been. These reach the effort limit at ``STANDING_REACH``, with the policy's damping ratio; on hardware within
    what it allows, and damped at least as at the end of everything.
    """
    stiffness, damping = walking_gains(contract, joint_names)
    order = [contract.joint_names.index(name) for name in joint_names]
    effort = np.array(contract.per_joint("effort_limit"))[order]
    factor = np.maximum(1.0, effort / (STANDING_REACH * np.maximum(stiffness, 1e-9)))
    stiff, damped = factor * stiffness, np.sqrt(factor) * damping
    if hardware is not None:
        tables = hardware.max_stiffness, hardware.max_damping, hardware.damping
        max_stiff, max_damped, soft = (np.array([table[name] for name in joint_names]) for table in tables)
        stiff, damped = np.minimum(stiff, max_stiff), np.minimum(np.maximum(damped, soft), max_damped)
    return stiff, damped


def walking_gains(contract: Contract, joint_names: tuple[str, ...]) -> tuple[Array, Array]:
    """kp and kd that the policy was trained with, in the order of ``joint_names``, (J,) each."""
    order = [contract.joint_names.index(name) for name in joint_names]
    return np.array(contract.per_joint("stiffness"))[order], np.array(contract.per_joint("damping"))[order]
