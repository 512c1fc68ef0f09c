"""Traces of the feet of simulated robots at every physics step: the raw material of the gait metrics.

Any simulator can fill it in. MuJoCo's comes from :meth:`gaitway_sim2real.mujoco.robots.RobotBatch.measure_feet`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class FootTrace:
    """S physics steps of N robots with F feet. A control step of the trajectory beside it has ``decimation`` of them.

    What is recorded after a robot's fall is not read.
    """

    dt: float
    """Physics step [s]."""
    decimation: int
    stand_height: float
    """Height of the base origin above the ground in the default pose [m]; gaits of robots are compared by it."""
    names: tuple[str, ...]
    """Bodies of the feet, F."""
    places: np.ndarray
    """Positions of the feet in the default pose [m], (F, 2): x forward and y left of the base."""
    soles: np.ndarray
    """Length of each sole from heel to toe [m], (F,); 0 for feet that have neither."""
    contact: np.ndarray
    """Foot presses on the ground with more than 1 N, (S, N, F) bool."""
    clearance: np.ndarray
    """Height of the lowest point of the foot's collision shapes above the ground [m], (S, N, F); no body's origin."""
    slip: np.ndarray
    """Mean tangential speed of the loaded contact points at the start of the step [m/s], (S, N, F); 0 without any."""
    normal_force: np.ndarray
    """Force of the ground on the foot along the ground's normal [N], (S, N, F)."""
    horizontal_force: np.ndarray
    """Size of the force across the normal [N], (S, N, F)."""
    heel: np.ndarray
    """The rear half of the sole presses on the ground, (S, N, F) bool."""
    toe: np.ndarray
    """The front half of the sole presses on the ground, (S, N, F) bool."""
    left: np.ndarray
    """Distance of the sole's middle to the left of the base, in the base's frame [m], (S, N, F)."""

    @classmethod
    def empty(cls, steps: int, robots: int, **about: Any) -> FootTrace:
        """Zeros to :meth:`record` into; ``about`` are the other fields."""
        shape = (steps, robots, len(about["names"]))
        arrays: dict[str, Any] = {n: np.zeros(shape, bool if n in TOUCHES else np.float32) for n in RECORDED}
        return cls(**about, **arrays)

    def record(self, steps: slice, measured: Mapping[str, np.ndarray]) -> None:
        """Write what was measured in so many physics steps, (K, N, F) each."""
        for name in RECORDED:
            getattr(self, name)[steps] = measured[name]

    def of(self, robots: slice) -> FootTrace:
        """Foot traces of some of the robots."""
        return replace(self, **{name: getattr(self, name)[:, robots] for name in RECORDED})


TOUCHES = ("contact", "heel", "toe")
RECORDED = (*TOUCHES, "clearance", "slip", "normal_force", "horizontal_force", "left")
