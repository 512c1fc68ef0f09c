"""The corners of the command box: full speed in every direction at once, where a policy falls first.

A corner at which at least half of the robots fall is a fact about a command, and is said as one: "falls at (1, 1, 1)".
More robots would not make it rarer, so that it decides a scenario at once, and its robots and those of its mirror
images are not counted in the share of falls. Other falls at corners count there like everybody's. A single fall, with
none at a mirror image, may be chance and is one of them: the repetition tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STARTS = 2
"""Robots at each corner in scenarios of many robots; there is one in others, whose means are not to be the corners'."""
FEWEST = 2
"""Falls at a corner and its mirror images that are no chance."""
MIRRORS = np.array([[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
"""Left-right, front-back, and both: what they make of vx, vy and yaw rate."""


def corner_commands(ranges: np.ndarray) -> np.ndarray:
    """The corners, (C, 3): eight, fewer where a range has one value; never zero. ``ranges`` (3, 2)."""
    corners = np.unique([(x, y, z) for x in ranges[0] for y in ranges[1] for z in ranges[2]], axis=0)
    return corners[corners.any(1)] + 0.0


def corner_of(command: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Index in :func:`corner_commands` of each ``command`` (N, 3), (N,); -1 for the others."""
    same = (command[:, None] == corner_commands(ranges)).all(-1)
    return np.where(same.any(1), same.argmax(1), -1) if same.size else np.full(len(command), -1)


def fallen_corners(corner: np.ndarray, fell: np.ndarray, ranges: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names of the corners that robots fall at, mirror images named once, and the robots that are set aside, (N,) bool.

    ``corner`` (N,) is that of each robot and ``fell`` (N,) whether it fell.
    """
    corners = corner_commands(ranges)
    robots = corner[:, None] == np.arange(len(corners))
    falls = (robots & fell.astype(bool)[:, None]).sum(0)
    often = {k for k, count in enumerate(robots.sum(0)) if falls[k] and falls[k] >= count / 2}
    names, aside = [], np.zeros(len(corner), bool)
    for images in mirror_images(corners):
        found = sorted(often & set(images), key=lambda k: tuple(corners[k]), reverse=True)
        if falls[found].sum() >= FEWEST:
            more = len(found) - 1
            names.append(_name(corners[found[0]]) + (f" and {more} mirror image{'s' * (more > 1)}" if more else ""))
            aside |= np.isin(corner, images)
    return names, aside


def mirror_images(corners: np.ndarray) -> list[tuple[int, ...]]:
    """Groups of ``corners`` (C, 3) that are mirror images of each other."""
    groups: dict[tuple[int, ...], None] = {}
    for command in corners:
        images = np.vstack([command, command * MIRRORS])
        groups[tuple(np.flatnonzero(np.isclose(corners[:, None], images).all(-1).any(1)).tolist())] = None
    return list(groups)


def _name(command: Sequence[float] | np.ndarray) -> str:
    return f"({', '.join(f'{value:g}' for value in command)})"
