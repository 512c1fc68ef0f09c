"""Spaces of vectors, by their sizes."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces


def boxes(**sizes: int) -> spaces.Dict:
    """Observations of so many numbers each, by name."""
    return spaces.Dict({name: box(size) for name, size in sizes.items()})


def box(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)
