"""The twin starts on a course, in its middle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gaitway_onboard.wire.memory import MemoryBus
from gaitway_sim2real.digital_twin.twin import Twin
from gaitway_tasks.robots import GO2, ROBOTS
from gaitway_tasks.terrain import read_ground


def twin_on(text: str, robot=GO2, **settings: Any) -> Twin:
    return Twin(robot, MemoryBus().join("twin"), ground=read_ground(text), **settings)


@pytest.mark.parametrize("text", ["stairs-up:0.2", "stairs-down:0.2", "waves:0.2", "slope:10"])
@pytest.mark.parametrize("standing", [False, True])
def test_it_starts_on_the_ground_in_the_middle(text: str, standing: bool) -> None:
    twin = twin_on(text, standing=standing)
    flat = Twin(GO2, MemoryBus().join("twin"), standing=standing)
    first = twin.truth().height
    assert first == pytest.approx(flat.truth().height, abs=0.06)
    twin.advance(twin.time + 0.3)
    assert twin.truth().foot_contact.all() and abs(twin.truth().height - first) < 0.06


def test_a_robot_on_a_stand_hangs_above_the_ground() -> None:
    twin, flat = twin_on("stairs-up:0.2", ROBOTS["h1"]), Twin(ROBOTS["h1"], MemoryBus().join("twin"))
    low = twin.body.ground.origin(np.zeros(1))[0, 2]
    assert twin.truth().base_pos[2] - low == pytest.approx(flat.truth().base_pos[2], abs=1e-6)
    twin.body.let_down()
    assert twin.truth().height == pytest.approx(flat.truth().height - 0.3, abs=1e-6)
