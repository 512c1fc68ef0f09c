"""The late and noisy heights around a twin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.parts import HeightScan
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.quirks import Quirks
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_sim2real.rehearse.depth_map import DepthMap
from gaitway_tasks.robots import GO2
from gaitway_tasks.terrain import read_ground

SCAN = HeightScan(resolution=0.4, size=(1.6, 0.8))


def twin_on(text: str, **settings: Any) -> Twin:
    return Twin(GO2, MemoryBus().join("twin"), ground=read_ground(text), **settings)


def test_heights_come_late_and_noisy() -> None:
    twin = twin_on("stairs-up:0.1", standing=True, quirks=Quirks(scan_delay=0.1))
    noisy = twin_on("stairs-up:0.1", standing=True, quirks=Quirks(scan_noise=0.02))
    contract: Any = SimpleNamespace(height_scan=SCAN, control_dt=0.02)
    late, rough = DepthMap(twin, contract), DepthMap(noisy, contract)
    assert late.provides == ("height_scan",)
    truth, seen = [], []
    for _ in range(100):
        signals: Any = SimpleNamespace(height_scan=None)
        twin.body.push((0.0, 0.0, 0.02))
        truth.append(twin.truth().base_pos[2])
        late.update(signals)
        seen.append(signals.height_scan)
        twin.advance(twin.time + 0.002)
    rows = np.array(seen)
    assert rows.shape == (100, SCAN.num_points)
    middle = SCAN.points().index((0.0, 0.0))
    pit = twin.body.ground.origin(np.zeros(1))[0, 2]
    np.testing.assert_allclose(rows[60:100:10, middle], np.array(truth)[10:50:10] - pit, atol=1e-9)
    draws = []
    for _ in range(100):
        noisy.advance(noisy.time + 0.02)
        rough.update(signals)
        draws.append(signals.height_scan - rough._scan())
    assert np.std(draws) == pytest.approx(0.02, rel=0.05) and abs(np.mean(draws)) < 2e-3


def test_another_estimator_goes_on_beside_the_map() -> None:
    told: list[str] = []
    other: Any = SimpleNamespace(
        provides=("base_lin_vel",), reset=lambda: told.append("reset"), update=lambda signals: told.append("update")
    )
    contract: Any = SimpleNamespace(height_scan=SCAN, control_dt=0.02)
    both = DepthMap(twin_on("grid:0.1"), contract, other)
    both.update(SimpleNamespace())
    both.reset()
    assert both.provides == ("height_scan", "base_lin_vel") and told == ["update", "reset"]
