"""The verdict on ground: who crossed, how far up a ladder that is, and what verdict and page say of it."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.camera import RenderingError
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.trial import Verdict, schedule, validate_bundle
from gaitway_sim2real.trial.intervals import Samples, wilson
from gaitway_sim2real.trial.ladders import another_tile, classes_of, hopeless, on_tiles
from gaitway_sim2real.trial.needs import unmet
from gaitway_sim2real.trial.result import ScenarioResult
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import Trajectory, simulate
from gaitway_sim2real.trial.video import PICTURES, climb_strip
from gaitway_tasks.ground import Plane, Slope
from gaitway_tasks.terrain.course import read_ground
from gaitway_velocity.commands import KINDS, STEERING, steered
from gaitway_velocity.metrics import METRICS, measure
from gaitway_velocity.needs import NEEDS, Subject
from gaitway_velocity.rough import (
    CROSSED,
    LADDERS,
    ROUGH,
    TILES,
    ladder,
    pictured,
)
from gaitway_velocity.scenarios import SCENARIOS, SUITE_VERSION, not_tested
from gaitway_velocity.suite import SUITE
from stand_bundle import make_stand_bundle

from gaitway.demo import BUNDLES

DEMO = BUNDLES / "anymal-c"


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


def rung(level: float, hits: int, robots: int = 32, name: str = "stairs-up", **changes: Any) -> ScenarioResult:
    scenario = replace(ladder(name, [level])[0], **changes)
    values = np.repeat([1.0, 0.0], [hits, robots - hits])
    return ScenarioResult.of(scenario, {"crossed": Samples(values=values, kind="share")}, {}, METRICS, robots)


# ---- the class ------------------------------------------------------------------------------------------------------


def test_a_class_is_the_highest_rung_that_holds_as_all_below_do() -> None:
    (found,) = classes_of([rung(0.025, 32), rung(0.05, 32), rung(0.075, 10), rung(0.1, 32)])
    assert (found.ladder, found.level, found.number) == ("stairs-up", "5 cm", 5.0)
    assert found.said.startswith("100.0 % of 32") and "7.5 cm: 31.2 % of 32" in found.said and "10 cm" not in found.said


def test_a_rung_counts_with_its_whole_interval() -> None:
    low, _ = wilson(31, 32)
    assert low < CROSSED.value < 31 / 32
    (found,) = classes_of([rung(0.025, 31)])
    assert (found.level, found.number) == ("", None) and "undecided" in found.said
    (more,) = classes_of([rung(0.025, 124, 128)])
    assert more.level == "2.5 cm" and "nothing harder was tried" in more.said


def test_each_ladder_has_a_class_and_flat_scenarios_have_none() -> None:
    flat = replace(rung(0.1, 0), ladder="")
    found = classes_of([flat, rung(5.0, 32, name="slope"), rung(0.03, 0, name="kerbs")])
    assert [(one.ladder, one.level) for one in found] == [("slope", "5°"), ("kerbs", "")]
    assert found[1].sentence().startswith("kerbs: none (3 cm: 0.0 % of 32")


def test_a_variant_beside_a_ladder_is_no_rung() -> None:
    ten, narrow = ladder("stairs-up", [0.1])
    assert (narrow.number, narrow.level, narrow.name) == (None, "10 cm, tread 0.25 m", "stairs-up:0.1,tread=0.25")
    beside = replace(rung(0.1, 0), number=None, level=narrow.level)
    (found,) = classes_of([rung(0.1, 32), beside])
    assert found.level == ten.level == "10 cm"


@pytest.mark.parametrize(
    ("hits", "stop"), [((), False), ((0,), False), ((15, 15), True), ((15, 16), False), ((0, 16, 3), False)]
)
def test_climbing_stops_after_two_rungs_in_a_row_that_few_cross(hits: tuple[int, ...], stop: bool) -> None:
    results = [rung(height, hit) for height, hit in zip(LADDERS["stairs-up"], hits, strict=False)]
    assert hopeless(results) == stop
    if results:
        assert hopeless([*results, replace(results[-1], number=None)]) == stop  # beside the ladder


def test_ladders_climb_and_each_rung_is_a_ground_by_its_own_name() -> None:
    assert all(list(rungs) == sorted(set(rungs)) for rungs in LADDERS.values())
    assert len({scenario.name for scenario in (*SCENARIOS, *ROUGH)}) == len(SCENARIOS) + len(ROUGH)
    for scenario in ROUGH:
        assert scenario.ground == read_ground(scenario.name) and not scenario.required and not scenario.gait


def test_robots_on_random_courses_are_divided_among_tiles() -> None:
    (rubble,) = ladder("rubble", [0.1])
    parts = on_tiles(replace(rubble, envs=6))
    assert [part.envs for part in parts] == [2, 2, 1, 1]
    assert len({part.draws for part in parts}) == len({part.ground for part in parts}) == TILES
    assert [part.envs for part in on_tiles(replace(rubble, envs=2))] == [1, 1]
    (kerbs,) = ladder("kerbs", [0.1])
    assert on_tiles(kerbs) == [kerbs]


def test_each_repetition_has_a_tile_of_its_own() -> None:
    rubble = read_ground("rubble:0.1")
    assert (another_tile(rubble, 0).tile.heights != another_tile(rubble, 1).tile.heights).any()
    assert another_tile(rubble, 0) == rubble and another_tile(read_ground("rubble:0.1,seed=2"), 1).seed == 3
    assert another_tile(Slope(angle=0.1), 3) == Slope(angle=0.1)


def test_courses_need_no_torch() -> None:
    code = (
        "import sys\nfrom gaitway_velocity.rough import ROUGH\n"
        "for scenario in ROUGH:\n    scenario.ground.height(__import__('numpy').zeros((1, 2)))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(p for p in sys.path if p)})


# ---- who crossed ----------------------------------------------------------------------------------------------------


def pushed(bundle: Path, way: float, speeds: list[float], seconds: float = 1.0) -> Trajectory:
    """Robots that stand on a level floor and start with ``speeds`` [m/s] along x."""
    contract = Contract.load(bundle)
    scenario = Scenario(
        name="s", title="", about="", limits=(), commands="standing", envs=len(speeds), seconds=seconds, way=way
    )
    conditions = SUITE.draw(scenario, contract, 0)
    velocity = np.stack([speeds, np.zeros(len(speeds))], 1)
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml")
    policy = BatchedPolicy(bundle / "policy.onnx", contract, len(speeds))
    return simulate(plant, contract, policy, replace(conditions, velocity=velocity))


def test_crossing_is_to_get_there_before_a_fall(stand: Path) -> None:
    near, far = (pushed(stand, way, [0.0, 5.0]) for way in (0.2, 50.0))
    assert far.crossed is not None and not far.crossed.any()
    assert list(far.fall_step >= 0) == [False, True]  # stands; never got there and fell
    assert near.crossed is not None and list(near.crossed) == [False, True]
    assert list(near.fall_step) == [-1, -1]  # its later fall does not count
    assert near.alive[:, 1].sum() < near.alive[:, 0].sum() == 50


def test_the_share_that_crossed_is_a_metric(stand: Path) -> None:
    contract = Contract.load(stand)
    crossed = measure(pushed(stand, 0.2, [0.0, 5.0], 0.3), contract)["crossed"]
    assert crossed.kind == "share" and list(crossed.values) == [0.0, 1.0]
    assert math.isnan(measure(pushed(stand, math.inf, [0.0], 0.1), contract)["crossed"].value)


def test_robots_are_steered_back_within_the_contracts_range() -> None:
    command = np.tile([0.5, 0.0, 0.0], (4, 1))
    found = steered(command, np.array([0.0, 0.2, -3.0, 2 * np.pi - 0.2]), (-1.0, 0.4))
    assert found[:, 2] == pytest.approx([0.0, -0.2 * STEERING, 0.4, 0.2 * STEERING])
    assert (found[:, :2] == command[:, :2]).all() and not command[:, 2].any()


@pytest.mark.parametrize(
    ("ranges", "can"),
    [
        ([[-1, 1], [-1, 1], [-1, 1]], True),
        ([[0, 0.5], [0, 0], [0, 0]], True),
        ([[0, 0.4], [0, 0], [0, 0]], False),
        ([[0.6, 1], [0, 0], [0, 0]], False),
        ([[0, 1], [0, 0], [0.2, 1]], False),
    ],
)
def test_a_policy_must_go_ahead_to_be_judged(ranges: list[list[float]], can: bool) -> None:
    why = unmet(KINDS["ahead"].needs, Subject(ranges=np.array(ranges, float), feet=4), NEEDS)
    assert (why == "") == can and (can or "ahead at 0.5 m/s" in why)


# ---- falls on ground ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stairs-up:0.2", "stairs-down:0.2", "grid:0.1", "gap:0.3", "kerbs:0.13"])
@pytest.mark.parametrize(("stance", "height", "start"), [((0.35, 0.25), 0.549, 0.6), ((0.2, 0.14), 0.29, 0.4)])
def test_a_robot_that_stands_has_not_fallen(
    name: str, stance: tuple[float, float], height: float, start: float
) -> None:
    """A base ``height`` above the mean of its feet, anywhere on the course, is not below half its initial height."""
    ground, line = read_ground(name), np.linspace(-3.2, 3.2, 81)
    xy = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    feet = np.stack([ground.height(xy + np.array([x, y]) * stance) for x in (-1, 1) for y in (-1, 1)])
    placed = feet.min(0) > feet.max(0) - 0.9  # no foot at the bottom of a gap
    pos = np.column_stack([xy, feet.mean(0) + height])[placed]
    assert (ground.base_height(pos) >= 0.5 * start).all()


def test_the_height_of_a_base_is_square_to_a_slope() -> None:
    pos = np.array([[1.0, 0.0, np.tan(0.3) + 0.5]])
    assert Slope(angle=0.3).base_height(pos) == pytest.approx(0.5 * np.cos(0.3))
    assert Plane().base_height(pos) == pos[:, 2]


def test_a_height_scan_sees_the_steps() -> None:
    stairs = read_ground("stairs-up:0.1")
    points = np.array([[0.0, 0.0], [1.05, 0.0], [1.35, 0.0], [0.0, -1.05]])  # the first riser is 0.9 m from the middle
    pos = np.array([[0.0, 0.0, stairs.tile.origin + 0.5]] * 2)
    assert stairs.scan(points, pos, np.array([0.0, np.pi / 2])) == pytest.approx(np.tile([0.5, 0.4, 0.3, 0.4], (2, 1)))


# ---- the verdict ----------------------------------------------------------------------------------------------------


def test_a_robot_that_stands_crosses_nothing(stand: Path, tmp_path: Path) -> None:
    kerbs = [replace(scenario, envs=4, seconds=0.3) for scenario in ROUGH if scenario.ladder == "kerbs"]
    flat = (replace(next(s for s in SCENARIOS if s.name == "standing"), envs=4, seconds=2.1),)
    alone = validate_bundle(stand, scenarios=flat)
    verdict = validate_bundle(stand, scenarios=flat, courses=kerbs, report_dir=tmp_path, video=False)
    assert verdict.passed == alone.passed and verdict.suite_version == alone.suite_version
    assert verdict.flat == alone.scenarios and alone.ground_version == "" and alone.ground == ()
    assert [result.number for result in verdict.scenarios if result.ladder] == [3.0, 5.0]  # the rest is hopeless
    assert [row.what for row in verdict.left_out if row.kind == "rung"] == [f"Kerbs, {n} cm" for n in (8, 10, 13)]
    (found,) = verdict.ground
    assert found.level == "" and "kerbs: none (3 cm: 0.0 % of 4 robots crossed" in verdict.summary()
    loaded = Verdict.load(tmp_path / "validation.json", policy=stand / "policy.onnx")
    assert loaded.to_dict() == verdict.to_dict() and loaded.ground == verdict.ground
    page = (tmp_path / "report.html").read_text()
    for text in (
        "On rough ground",
        "share of robots that crossed: Kerbs",
        "Kerbs, 13 cm",
        f"validate {stand} --rough",
    ):
        assert text in page
    assert all(escape(text) in page for text in not_tested(True))


def test_a_policy_that_cannot_go_ahead_is_left_out(tmp_path: Path) -> None:
    bundle = make_stand_bundle(tmp_path / "slow", speed=0.4)
    flat = (replace(next(s for s in SCENARIOS if s.name == "standing"), envs=4, seconds=2.1),)
    verdict = validate_bundle(bundle, scenarios=flat, courses=ROUGH)
    left = [row.what for row in verdict.left_out if "ahead" in row.why]
    assert left[:3] == ["Stairs up", "Stairs down", "Slope"] and len(left) == len(LADDERS)
    assert not verdict.ground and "cannot be told to go straight ahead at 0.5 m/s" in verdict.summary()


def test_a_robot_that_walks_crosses_a_kerb_of_nothing_and_no_high_stairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOST_REPETITIONS", 1)
    courses = [*ladder("kerbs", [0.0]), *ladder("stairs-up", [0.2])]
    verdict = validate_bundle(DEMO, scenarios=(), courses=[replace(course, envs=4) for course in courses])
    kerbs, stairs = verdict.scenarios
    assert kerbs.metrics["crossed"] == 1.0 and kerbs.metrics["falls"] == 0.0
    assert stairs.metrics["crossed"] == 0.0 and sum(stairs.fall_causes.values()) == 4


def test_undecided_rungs_are_repeated_with_other_robots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOST_REPETITIONS", 2)
    (course,) = ladder("rough", [0.0])
    verdict = validate_bundle(DEMO, scenarios=(), courses=[replace(course, envs=2)])
    (result,) = verdict.scenarios
    assert result.envs == 4 and result.metrics["crossed"] == 1.0 and not result.passed
    assert "undecided" in verdict.ground[0].said


def test_a_strip_shows_how_a_climb_ends() -> None:
    (rung,) = (replace(rung, seconds=0.4) for rung in ROUGH if rung.name == "stairs-down:0.15")
    contract = Contract.load(DEMO)
    try:
        strip = climb_strip(
            SUITE, rung, contract, BatchedPolicy(DEMO / "policy.onnx", contract, 1), *[DEMO / "robot.xml"] * 2
        )
    except RenderingError as error:
        pytest.skip(str(error))
    assert len(strip) == PICTURES and strip[-1][0] == "0.4 s: not across in time"


def test_pictures_are_of_the_class_or_the_lowest_stairs() -> None:
    results = [
        rung(0.025, 32),
        rung(0.05, 32),
        rung(0.075, 0),
        rung(0.025, 0, name="stairs-down"),
        rung(0.03, 32, name="kerbs"),
    ]
    assert pictured(results) == {"stairs-up:0.05", "stairs-down:0.025"}


def test_the_suite_is_as_old_as_it_was() -> None:
    assert SUITE_VERSION == "3.0" and not any(scenario.ladder or math.isfinite(scenario.way) for scenario in SCENARIOS)
