"""Terrain of Isaac Lab 2.3.2, from the same seeds: the heights of 3.0, and other heights to start at."""

import pytest
from isaac_terrains import *  # noqa: F403


@pytest.fixture
def origin_of():
    """Height at which robots start on a tile [m]: on all height fields the highest within a metre of the middle."""

    def highest(tile):
        if tile.boxes is not None:
            return tile.origin
        (x, y), scale = tile.grid.size, tile.grid.horizontal_scale
        rows, columns = (slice(int((n / 2 - 1) / scale), int((n / 2 + 1) / scale)) for n in (x, y))
        return tile.heights[rows, columns].max()

    return highest
