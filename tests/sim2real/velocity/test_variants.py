"""Floors, bodies, seeds and repetitions: what is drawn, what is pooled, and what the verdict says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drawing import drawn
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.pages.verdict import write_verdict
from gaitway_sim2real.trial import Verdict, judging, schedule, validate_bundle
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.result import ScenarioResult
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.sensitivity import sensitivity
from gaitway_sim2real.trial.simulate import simulate
from gaitway_velocity.command_classes import CLASSES
from gaitway_velocity.commands import walks_a_class
from gaitway_velocity.limits import FALLS_5, LINEAR
from gaitway_velocity.metrics import METRICS
from gaitway_velocity.scenarios import SCENARIOS, SUITE_VERSION
from gaitway_velocity.suite import SUITE
from gaitway_velocity.variants import CONTACT, FACTORS, NOMINAL, spreads
from recording import recording
from stand_bundle import make_stand_bundle

RANGES = ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
VARIANTS = {scenario.name: scenario for scenario in SCENARIOS if scenario.factor or scenario.name == NOMINAL}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


def of(name: str, **values: float) -> ScenarioResult:
    samples = {m: Samples(values=np.array([values.get(m, np.nan)]), kind="level") for m in METRICS}
    return ScenarioResult.of(VARIANTS[name], samples, {}, METRICS)


def test_variants_differ_from_the_nominal_in_one_thing() -> None:
    nominal = VARIANTS[NOMINAL]
    for scenario in VARIANTS.values():
        changed = {
            name
            for name in ("physics", "friction", "payload", "strength", "delay", "stressors", "ground", "push")
            if getattr(scenario, name) != getattr(nominal, name)
        }
        assert len(changed) == (scenario.name != NOMINAL), scenario.name
        assert (scenario.commands, scenario.draws, scenario.envs) == (nominal.commands, nominal.draws, nominal.envs)
        assert scenario.factor in FACTORS or scenario.name == NOMINAL
    required = {scenario.factor for scenario in VARIANTS.values() if scenario.required}
    assert required >= {*CONTACT} - {"engine"}
    assert "engine" not in {scenario.factor for scenario in VARIANTS.values()}  # only --engine adds it
    tracking = {limit.metric for limit in VARIANTS["floor_soft"].limits}
    assert tracking >= {"lin_vel_error", "yaw_vel_error", "falls", "swing_time", "clearance", "slip"}


def test_mixed_commands_are_the_corners_draws_and_all_classes() -> None:
    scenario = VARIANTS[NOMINAL]
    conditions = drawn(scenario, RANGES, 12, 0.02, 0)
    command, walks = conditions.command[0], walks_a_class(scenario)
    assert walks.sum() == 36 and 36 % len(CLASSES) == 0
    corners = [(x, y, z) for x in (-1.0, 1.0) for y in (-0.5, 0.5) for z in (-1.0, 1.0)]
    assert [tuple(row) for row in command[:8]] == corners
    assert (command[8:11] == 0).all() and len(np.unique(np.abs(command[11:24]), axis=0)) == 13
    assert not (command[walks] == 0).all(1).any()
    assert {*np.sign(command[walks][3::6, 1])} == {*np.sign(command[walks][4::6, 2])} == {-1.0, 1.0}  # both sides
    other = drawn(VARIANTS["floor_soft"], RANGES, 12, 0.02, 0)
    np.testing.assert_array_equal(other.command, conditions.command)  # the same robots on another floor
    np.testing.assert_array_equal(other.yaw, conditions.yaw)


def test_links_are_up_to_five_percent_off(bundle: Path) -> None:
    contract = Contract.load(bundle)
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml")
    scenario = replace(VARIANTS["links_5"], envs=6, seconds=0.1, commands="standing")
    conditions = drawn(scenario, RANGES, 12, 0.02, 0)
    [stressor] = conditions.stressors
    links = stressor.start(RobotBatch(plant, contract, 6), stressor.generator(conditions.seed))
    assert links.shape == (2, 6, plant.model.nbody)
    assert 0.95 <= links.min() < 0.96 and 1.04 < links.max() <= 1.05
    assert len(np.unique(links)) == links.size  # mass and inertia of every link by themselves
    seen = simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, 6), conditions)
    np.testing.assert_allclose(seen.mass, (links[0] * plant.model.body_mass).sum(1))


def test_sensitivity_is_a_table_of_one_change_at_a_time() -> None:
    results = [
        of(NOMINAL, slip=0.04, falls=0.0),
        of("friction_1.2", slip=0.05),
        of("friction_0.4", slip=0.1, falls=0.5),
    ]
    results.append(of("foot_worn", slip=0.03))
    assert sensitivity(results[1:], SUITE) == ()
    shape, friction = sensitivity(results, SUITE)
    assert (shape.name, [level.label for level in shape.levels]) == ("foot_shape", ["as modelled", "worn flat"])
    assert [level.number for level in friction.levels] == [0.4, 0.8, 1.2]  # the nominal one among them
    assert friction.levels[0].change["slip"] == pytest.approx(0.06)
    assert friction.levels[0].change["falls"] == 0.5 and friction.levels[1].change["slip"] == 0.0
    assert spreads([shape, friction]) == ["this gait depends on friction: slip 0.040 m/s (0.8) and 0.100 m/s (0.4)"]
    assert spreads([shape])[0].startswith("this gait hardly depends on contacts, most on shape of the feet")


class Falls:
    """A simulation in which so many robots of each run fall; keeps the runs."""

    def __init__(self, *falls: int):
        self.falls, self.runs = list(falls), []

    def __call__(self, *args: object) -> object:
        _, _, _, _, (scenario,), seed, _, repetition = args
        self.runs.append((seed, repetition))
        fell = np.full(scenario.envs, -1)
        fell[: self.falls[len(self.runs) - 1]] = 3
        return [recording(robots=scenario.envs, fall_step=fell, fall_cause=("",) * scenario.envs)]


@pytest.fixture
def fall(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Verdict, list]]:
    def run(*falls: int, seeds: int = 1, required: bool = True) -> tuple[Verdict, list]:
        simulation = Falls(*falls)
        monkeypatch.setattr(judging, "run_scenarios", simulation)
        scenario = Scenario(name="s", title="S", about="", limits=(FALLS_5, LINEAR), envs=64, required=required)
        return validate_bundle(bundle, scenarios=[scenario], seed=5, seeds=seeds, processes=1), simulation.runs

    return run


def test_what_is_undecided_is_repeated_with_fresh_robots(fall) -> None:
    verdict, runs = fall(1, 0)
    assert verdict.passed and runs == [(5, 0), (5, 1)]
    assert verdict.scenarios[0].envs == 128 and verdict.scenarios[0].metrics["falls"] == 1 / 128
    verdict, runs = fall(5)
    assert not verdict.passed and runs == [(5, 0)]  # it fails whatever comes
    verdict, runs = fall(1, required=False)
    assert runs == [(5, 0)]
    verdict, runs = fall(2, 2, 3, 3)
    assert not verdict.passed and len(runs) == schedule.MOST_REPETITIONS
    assert "undecided, 95 % certain is at most" in verdict.summary() and "robots would decide it" in verdict.summary()


class FallsAt:
    """A simulation in which the robots fall whose first command ``falls`` says; keeps the commands of each run."""

    def __init__(self, falls: Callable[[np.ndarray], np.ndarray]):
        self.falls, self.commands = falls, []

    def __call__(self, suite: object, bundle: object, contract: Contract, *args: object) -> object:
        _, (scenario,), seed, _, repetition = args
        command = judging.conditions_of(SUITE, contract, scenario, seed, repetition).command
        self.commands.append(command[0])
        fell = np.where(self.falls(command[0]), 3, -1)
        return [recording(steps=len(command), robots=scenario.envs, command=command, fall_step=fell,
                          fall_cause=("",) * scenario.envs)]  # fmt: skip


def examined(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, falls: Callable[[np.ndarray], np.ndarray], *names: str
) -> tuple[Verdict, list[np.ndarray]]:
    simulation = FallsAt(falls)
    monkeypatch.setattr(judging, "run_scenarios", simulation)
    chosen = [
        replace(scenario, limits=tuple(limit for limit in scenario.limits if "falls" in limit.metric), seconds=0.1)
        for scenario in SCENARIOS
        if scenario.name in names
    ]
    return validate_bundle(bundle, scenarios=chosen, processes=1), simulation.commands


def test_a_symmetric_policy_that_falls_at_a_corner_is_told_so_at_once(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It falls at full speed in all components, where their product is positive: at one corner and its images."""

    def at_a_corner(command: np.ndarray) -> np.ndarray:
        return (np.abs(command) >= 0.999).all(1) & (command.prod(1) > 0)

    names = ("strength_90", "nominal", "command_grid", "stops")
    verdict, commands = examined(bundle, monkeypatch, at_a_corner, *names)
    assert len(commands) == len(names)  # no repetition would change it
    assert "undecided" not in verdict.summary()
    assert "Motor strength 90 %: falls at (1, 1, 1) and 3 mirror images" in verdict.summary()
    for result in verdict.scenarios:
        checks = {check.metric.name: check for check in result.checks}
        assert not checks["corner_falls"].passed and checks["corner_falls"].where == ("(1, 1, 1) and 3 mirror images",)
        assert checks["falls"].passed and checks["falls"].value == 0.0
    loaded = Verdict.load(verdict.save(tmp_path / "validation.json"))
    assert loaded.to_dict() == verdict.to_dict() and loaded.summary() == verdict.summary()


def test_falls_elsewhere_count_and_are_repeated_with_fresh_commands(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[np.ndarray] = []

    def one_of_the_first_run(command: np.ndarray) -> np.ndarray:
        first.append(command)
        fell = np.zeros(len(command), bool)
        fell[[0, 30]] = len(first) == 1  # one robot at a corner, and one within
        return fell

    verdict, commands = examined(bundle, monkeypatch, one_of_the_first_run, "strength_90")
    assert verdict.passed and len(commands) > 1
    one, other = commands[:2]
    np.testing.assert_array_equal(one[:11], other[:11])  # corners and robots that stand
    assert not (one[11:, None] == other[None, 11:]).all(-1).any()
    falls = next(check for check in verdict.scenarios[0].checks if check.metric.name == "falls")
    assert falls.value == 2 / (60 * len(commands))


def test_seeds_are_judged_together_and_the_worst_is_named(fall) -> None:
    verdict, runs = fall(0, 2, 0, seeds=3)
    assert runs == [(5, 0), (6, 0), (7, 0)] and verdict.passed
    assert verdict.scenarios[0].metrics["falls"] == 2 / 192
    assert [row.seed for row in verdict.seeds] == [5, 6, 7]
    assert "worst of 3 seeds: seed 6, S: falls 3.1 % of 5.0 %" in verdict.summary()
    assert fall(0)[0].seeds == ()


def test_verdicts_keep_intervals_seeds_and_the_table(fall, tmp_path: Path) -> None:
    verdict, _ = fall(0, 2, seeds=2)
    loaded = Verdict.load(verdict.save(tmp_path / "validation.json"))
    assert loaded.to_dict() == verdict.to_dict() and loaded.seeds == verdict.seeds
    low, high = loaded.scenarios[0].intervals["falls"]
    assert 0.0 < low < 2 / 128 < high < 0.05


def test_a_verdict_of_suite_2_0_stays_readable_and_says_what_it_lacks(fall, tmp_path: Path) -> None:
    verdict, _ = fall(0)
    data = replace(verdict, suite_version="2.0").to_dict()
    for check in data["scenarios"][0]["checks"]:
        del check["where"]
    path = write_verdict(tmp_path / "validation.json", data)
    old = Verdict.load(path)
    assert old.passed and old.scenarios[0].checks == verdict.scenarios[0].checks
    assert "WARNING: this verdict is of suite 2.0, which did not judge how the robot stands, stops" in old.summary()
    assert "WARNING" not in replace(verdict, suite_version=SUITE_VERSION).summary()


def test_a_verdict_of_the_first_suite_says_so() -> None:
    old = Verdict.load(Path(__file__).parent / "pattering" / "bundle" / "validation.json")
    assert old.passed and old.sensitivity == () and not old.scenarios[0].intervals
    assert "WARNING: this verdict is of suite 1.0, which did not judge the gait" in old.summary()
