"""Terrain of Isaac Lab 3.0, from the same seeds."""

import pytest
from isaac_terrains import *  # noqa: F403

pytestmark = pytest.mark.quick


@pytest.fixture
def origin_of():
    """Height at which robots start on a tile [m]."""
    return lambda tile: tile.origin
