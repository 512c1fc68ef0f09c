"""Kinds of walking that a gait is measured at, and commands of each within a contract's ranges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_files.errors import UserError

SLOWEST = 0.2  # [m/s, rad/s]; a contract whose range ends below this does not have the class

AHEAD_SPEED = 0.5
"""Forward speed of ``ahead`` commands [m/s]."""


@dataclass(frozen=True, kw_only=True)
class CommandClass:
    """Commands as shares of the ends of the contract's ranges, uniform between the two; 1 is the upper end."""

    title: str
    vx: tuple[float, float] = (0.0, 0.0)
    vy: tuple[float, float] = (0.0, 0.0)
    yaw: tuple[float, float] = (0.0, 0.0)
    straight: bool = False
    """True if left and right have the same to do."""

    @property
    def shares(self) -> np.ndarray:
        """(3, 2)"""
        return np.array([self.vx, self.vy, self.yaw])


CLASSES: dict[str, CommandClass] = {
    "forward_slow": CommandClass(title="forward, slow", vx=(0.4, 0.6), straight=True),
    "forward_fast": CommandClass(title="forward, fast", vx=(0.9, 1.0), straight=True),
    "backward": CommandClass(title="backward", vx=(-0.6, -0.4), straight=True),
    "sideways": CommandClass(title="sideways", vy=(0.4, 0.6)),
    "turning": CommandClass(title="turning", yaw=(0.7, 0.9)),
    "combined": CommandClass(title="forward, turning", vx=(0.4, 0.6), yaw=(0.5, 0.7)),
}


def has_class(name: str, ranges: np.ndarray) -> bool:
    """True if a contract with ``ranges`` (3, 2) can be told to walk like this."""
    return all(
        _reachable(axis, share, ends)
        for axis, (share, ends) in enumerate(zip(CLASSES[name].shares, ranges, strict=True))
        if share.any()
    )


def draw_class(name: str, ranges: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Commands of a class, (n, 3); ``ranges`` (3, 2). Robots take turns to go left and right where both are allowed.

    Raises ``ValueError`` unless the contract :func:`has_class`.
    """
    command = np.tile(np.clip(0.0, *ranges.T), (n, 1))
    for axis, (share, ends) in enumerate(zip(CLASSES[name].shares, ranges, strict=True)):
        if not share.any():
            continue
        reachable = _reachable(axis, share, ends)
        if not reachable:
            raise UserError(f"command class {name!r}: the contract's range {ends.tolist()} does not have it")
        small, large = np.sort(np.abs(share))
        size = rng.uniform(small, large, n)
        command[:, axis] = np.clip(size * np.resize(reachable, n), *ends)
    return command


def _reachable(axis: int, share: np.ndarray, ends: np.ndarray) -> list[float]:
    """The ends of a range that ``share`` may go towards: one side of vx, both sides of vy and yaw rate."""
    sides = [float(np.sign(share.sum()))]
    sides += [-sides[0]] if axis else []
    chosen = [float(ends[1] if side > 0 else ends[0]) for side in sides]
    return [end for end, side in zip(chosen, sides, strict=True) if end * side >= SLOWEST]
