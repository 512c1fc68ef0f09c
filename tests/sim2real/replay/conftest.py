"""One flight of two seconds for the whole session."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.flight.reading import Flight, read_flight

from .leaning import lean_bundle, record


@pytest.fixture(scope="session")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lean_bundle(tmp_path_factory.mktemp("lean") / "bundle")


@pytest.fixture(scope="session")
def flown(lean: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """The file, and the true velocity of the base."""
    path = tmp_path_factory.mktemp("flown") / "flight.mcap"
    return path, record(path, lean, 2.0)


@pytest.fixture
def flight(flown: tuple[Path, np.ndarray]) -> Flight:
    return read_flight(flown[0])
