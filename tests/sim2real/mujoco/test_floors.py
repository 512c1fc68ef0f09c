"""The one table of floors: suite, viewer and page of the documentation say the same."""

from __future__ import annotations

from gaitway_sim2real.mujoco.floors import FIRM, FLOORS, GAIT_FLOORS, NOMINAL
from gaitway_velocity.scenarios import SCENARIOS
from tree import ROOT

from gaitway.view.steering import floors

DOCS = ROOT / "docs"
SUITE_PAGE, GAIT_PAGE = ((DOCS / page).read_text("utf-8") for page in ("suite.md", "gait_metrics.md"))


def test_the_suite_walks_on_every_floor():
    walked = {scenario.name: scenario for scenario in SCENARIOS}
    for name, floor in FLOORS.items():
        assert (walked[name].title, walked[name].physics) == (floor.title, floor.physics)
        assert walked[name].required == floor.required
    assert {scenario.physics for scenario in SCENARIOS if scenario.name.startswith("gait_")} == {
        floor.physics for floor in GAIT_FLOORS.values()
    }


def test_the_viewer_offers_every_floor():
    assert list(floors().values()) == [floor.physics for floor in FLOORS.values()]


def test_the_documentation_has_the_numbers():
    for floor in FLOORS.values():
        if floor.factor == "softness" and floor.required:
            row = next(line for line in SUITE_PAGE.splitlines() if line.startswith(f"| {floor.title} |"))
            first, deep, _ = floor.physics.solimp
            assert f"`solimp` {first:g} {deep:g}" in row and f"{floor.number:g} mm" in row
    assert f"sink by {FLOORS[NOMINAL].number:g} mm" in SUITE_PAGE
    assert f"sink by {FLOORS['floor_soft'].number:g} mm" in GAIT_PAGE
    assert f"steps of {1000 * FIRM.timestep:g} ms" in GAIT_PAGE


def test_a_carpet_is_the_soft_floor_without_creep():
    carpet, soft = GAIT_FLOORS["_carpet"].physics, FLOORS["floor_soft"].physics
    assert (carpet.solref, carpet.solimp) == (soft.solref, soft.solimp)
    assert (carpet.cone, carpet.impratio, carpet.timestep) == (FIRM.cone, FIRM.impratio, FIRM.timestep)
