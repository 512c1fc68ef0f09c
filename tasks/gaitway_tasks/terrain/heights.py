"""Heights between the points of a grid, as MuJoCo's height fields have them; for numpy and for torch."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def interpolate(heights: Array, first: Array, u: Array, v: Array, width: int) -> Array:
    """Height at ``u`` and ``v`` points from the first point of each map, in whole and broken points.

    ``heights`` is flat, ``first`` the index of each map in it, ``width`` the points along y. Each cell is two triangles
    that meet in the diagonal from its first corner to its last, as in MuJoCo.
    """
    second: Array  # how far the second corner of the triangle is from the first
    if isinstance(u, np.ndarray | np.floating):
        i, j = np.floor(u).astype(np.int64), np.floor(v).astype(np.int64)
        x, y = u - i, v - j
        along = x >= y
        more, less = np.maximum(x, y), np.minimum(x, y)
        second = np.where(along, width, 1)
    else:
        import torch

        i, j = u.long(), v.long()  # both are positive
        x, y = u - i, v - j
        along = x >= y
        more, less = torch.maximum(x, y), torch.minimum(x, y)
        second = torch.where(along, width, 1)
    corner = first + i * width + j
    start, end = heights[corner], heights[corner + width + 1]
    middle = heights[corner + second]
    return start + more * (middle - start) + less * (end - middle)
