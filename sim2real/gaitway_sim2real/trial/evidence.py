"""The little that is kept of the recordings for the report's plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .showcase import Showcase
from .simulate import Trajectory

SCATTER_POINTS = 2500
Strip = Sequence[tuple[str, bytes]] | str
"""Captions and JPEG pictures, or why there are none."""


@dataclass
class Evidence:
    """Data for the plots; None for parts that were not run."""

    speed: np.ndarray | None = None  # (P,) [rad/s], of joints
    torque: np.ndarray | None = None  # (P,) [N m]
    own: dict[str, Any] = field(default_factory=dict)  # what :meth:`.Suite.evidence` keeps, by names of its own
    showcase: Showcase | None = None
    strip: Strip = "not asked for"

    def add(self, other: Evidence | None) -> None:
        """Take over what another recording has."""
        if other is None:
            return
        if other.speed is not None:
            self.speed, self.torque = other.speed, other.torque
        self.own |= other.own


def joints_of(rec: Trajectory) -> Evidence:
    """A sample of speeds and torques, extremes included."""
    speed, torque = rec.joint_vel[rec.alive].ravel(), rec.torque[rec.alive].ravel()
    chosen = np.random.default_rng(0).choice(len(speed), min(SCATTER_POINTS, len(speed)), replace=False)
    extreme = np.argsort(np.abs(torque))[-SCATTER_POINTS // 10 :]  # the corners are what an owner asks about
    chosen = np.union1d(chosen, extreme)
    return Evidence(speed=speed[chosen], torque=torque[chosen])
