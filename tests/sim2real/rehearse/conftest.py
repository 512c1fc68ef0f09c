"""A Go2 that stands, whatever it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from gaitway_onboard.transports import motion_switcher, on_bus
from gaitway_tasks.robots import GO2
from stand_bundle import make_stand_bundle


@pytest.fixture(scope="session")
def go2_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its command range is nothing but zero, so that standing is following. Read-only."""
    return make_stand_bundle(tmp_path_factory.mktemp("go2") / "bundle", GO2, stiffness=60.0, damping=2.0, speed=0.0)


@pytest.fixture
def lies_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """The robot lies from the start, so it is given 0.1 s to lie down in place of 3, and discovery the same."""
    monkeypatch.setattr(motion_switcher, "LYING_DOWN", 0.1)
    monkeypatch.setattr(on_bus, "DISCOVERY", 0.1)
