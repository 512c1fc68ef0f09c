"""Commands of failing cases that are searched for, and their words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from .command_classes import SLOWEST
from .tour import STRONGEST

STILL = 0.05
"""Speed below which a command says nothing of an axis [m/s, rad/s]."""
WAYS = (("ahead", "back", "m/s"), ("to the left", "to the right", "m/s"), ("turning left", "turning right", "rad/s"))


class Knots:
    """Constant velocities, one after the other."""

    strongest = STRONGEST
    """Bound of a blow's impulse over the robot's mass, in sqrt(g L)."""

    def told(self, shares: np.ndarray, contract: Contract) -> np.ndarray:
        """Commands (K, 3) from shares (K, 3) of the ends of the contract's ranges, in [-1, 1]; 0 is rest.

        Along axes whose range ends below :data:`SLOWEST` they are rest.
        """
        ranges = np.array(contract.command_ranges)
        rest = np.clip(0.0, *ranges.T)
        reach = np.where(shares > 0.0, ranges[:, 1] - rest, rest - ranges[:, 0])
        return np.asarray(rest + shares * np.where(reach < SLOWEST, 0.0, reach))

    def says(self, command: Sequence[float]) -> str:
        """Words for a command, such as "walking ahead at 0.5 m/s"."""
        parts = [
            f"{ways[int(value < 0)]} at {abs(value):.2g} {ways[2]}"
            for value, ways in zip(command, WAYS, strict=True)
            if abs(value) >= STILL
        ]
        if not parts:
            return "standing"
        return ("walking " if abs(command[0]) >= STILL or abs(command[1]) >= STILL else "") + " and ".join(parts)


KNOTS = Knots()
