"""A suite that ends at the first required failure, scenarios that go first, and robots that walk in one batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.floors import FIRM
from gaitway_sim2real.trial import Verdict, judging, validate_bundle
from gaitway_sim2real.trial.judging import STOPPED
from gaitway_sim2real.trial.running import Plants, run_scenario, run_scenarios
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.schedule import LOT, Order, Task, lots
from gaitway_sim2real.trial.stressors import SensorNoise
from gaitway_velocity.limits import FALLS_5
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from recording import recording
from stand_bundle import make_stand_bundle

PLAIN = Scenario(name="plain", title="Plain", about="", limits=(FALLS_5,), envs=60, seconds=8.0)


def named(name: str, **changes: object) -> Scenario:
    return replace(PLAIN, name=name, title=name.upper(), **changes)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


def test_only_robots_on_the_same_floor_that_are_changed_alike_walk_in_one_batch() -> None:
    chosen = [
        named("a"),
        named("rough", friction=(0.4, 0.4)),  # friction and delay are each robot's own
        named("late", delay=(0.02, 0.02)),
        named("firm", physics=FIRM),
        named("longer", seconds=9.0),
        named("heavy", payload=(5.0, 5.0)),
        named("noisy", stressors=(SensorNoise(),)),
        named("ladder", ladder="stairs-up"),
        named("b"),
        named("many", envs=LOT - 239),  # one too many for the others
        named("asked"),
    ]
    found = [[scenario.name for scenario in lot] for lot in lots(chosen, apart=("asked",))]
    assert found == [
        ["a", "rough", "late", "b"], ["firm"], ["longer"], ["heavy"], ["noisy"], ["ladder"], ["many"], ["asked"]
    ]  # fmt: skip


def test_numbers_do_not_depend_on_who_walks_beside(bundle: Path) -> None:
    contract = Contract.load(bundle)
    plants = Plants(contract, bundle / "robot.xml", bundle / "robot.xml")
    chosen = [
        named("a", envs=3, seconds=0.5, gait=True, push=1.0),
        named("b", envs=5, seconds=0.5, gait=True, friction=(0.2, 0.4), delay=(0.0, 0.03)),
    ]
    policy = BatchedPolicy(bundle / "policy.onnx", contract, 1)
    together = run_scenarios(SUITE, policy, contract, plants, chosen, seed=3)
    for scenario, found in zip(chosen, together, strict=True):
        alone = run_scenario(SUITE, bundle, contract, plants, scenario, seed=3)
        assert found.feet is not None and alone.feet is not None
        for name in ("base_pos", "joint_vel", "torque", "target", "alive", "foot_slip"):
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name), err_msg=name)
        np.testing.assert_array_equal(found.feet.slip, alone.feet.slip)
        np.testing.assert_array_equal(found.feet.clearance, alone.feet.clearance)


def test_the_longest_go_first_unless_a_failure_ends_the_suite() -> None:
    chosen = [named("short", envs=10), named("long", envs=90), named("extra", envs=20, required=False), named("mid")]
    tasks = [Task(scenarios=(scenario,), seed=0) for scenario in chosen]

    def sequence(**order: object) -> list[str]:
        return [task.scenarios[0].name for task in sorted(tasks, key=Order(**order).key)]

    assert sequence() == ["long", "mid", "extra", "short"]
    assert sequence(stop_at_failure=True) == ["short", "mid", "long", "extra"]
    assert sequence(first=("mid", "gone", "extra")) == ["mid", "extra", "long", "short"]
    assert sequence(stop_at_failure=True, first=("long",)) == ["long", "short", "mid", "extra"]


class FallIn:
    """A simulation in which so many robots of each of the named scenarios fall; keeps the names of what was run."""

    def __init__(self, **falls: int):
        self.falls, self.ran = falls, list[str]()

    def __call__(
        self, suite: object, policy: object, contract: object, plants: object, scenarios: object, *_: object
    ) -> list:
        found = []
        for scenario in scenarios:
            self.ran.append(scenario.name)
            fell = np.full(scenario.envs, -1)
            fell[: self.falls.get(scenario.name, 0)] = 3
            found.append(recording(robots=scenario.envs, fall_step=fell, fall_cause=("",) * scenario.envs))
        return found


CHOSEN = (
    named("a", envs=70, seconds=1.0),
    named("b", envs=64, seconds=2.0),
    named("c", envs=64, seconds=3.0),
    named("d", envs=64, seconds=1.0, required=False, friction=(0.3, 0.3), gait=True),
)


def judged(bundle: Path, monkeypatch: pytest.MonkeyPatch, falls: dict[str, int], **asked: object) -> tuple:
    simulation = FallIn(**falls)
    monkeypatch.setattr(judging, "run_scenarios", simulation)
    verdict = validate_bundle(bundle, scenarios=CHOSEN, processes=1, **asked)
    return verdict, simulation.ran


def names(verdict: Verdict) -> list[str]:
    return [result.name for result in verdict.scenarios]


def left(verdict: Verdict) -> list[str]:
    return [row.what for row in verdict.left_out if row.why == STOPPED]


def test_the_suite_ends_at_the_first_required_failure(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    falls = {"b": 20, "d": 20}
    whole, ran = judged(bundle, monkeypatch, falls)
    assert not whole.passed and names(whole) == ["a", "b", "c", "d"] and sorted(ran) == ["a", "b", "c", "d"]
    assert left(whole) == []

    part, ran = judged(bundle, monkeypatch, falls, stop_at_failure=True)
    assert not part.passed and ran == names(part) == ["a", "b"] and left(part) == ["C", "D"]
    assert "left out, since a required scenario failed" in part.summary()

    part, ran = judged(bundle, monkeypatch, falls, stop_at_failure=True, first=("b", "no such scenario"))
    assert ran == names(part) == ["b"] and left(part) == ["A", "C", "D"]


def test_what_is_not_required_or_undecided_ends_nothing(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, ran = judged(bundle, monkeypatch, {"d": 20}, stop_at_failure=True, first=("d",))
    assert verdict.passed and ran[0] == "d" and names(verdict) == ["a", "b", "c", "d"] and left(verdict) == []
    # 1 of 70 may be more than 5 %, with 95 % certainty, and 2 of 140 are not: A is repeated after the others.
    verdict, ran = judged(bundle, monkeypatch, {"a": 1}, stop_at_failure=True)
    assert ran == ["a", "b", "c", "d", "a"] and verdict.passed and left(verdict) == []


def test_a_verdict_of_a_part_of_the_suite_says_so(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "run_scenarios", FallIn(command_grid=288))
    verdict = validate_bundle(bundle, processes=1, stop_at_failure=True, first=("command_grid",))
    assert names(verdict) == ["command_grid"] and not verdict.passed
    assert verdict.suite_version == f"{SUITE.version} (part)"
    assert len(left(verdict)) > 40 and {*left(verdict)} <= {scenario.title for scenario in SCENARIOS}


def test_processes_end_when_the_suite_does(bundle: Path) -> None:
    short = [replace(s, envs=114, seconds=3.1) for s in SCENARIOS if s.name == "command_grid"]
    endless = [named(f"endless_{k}", envs=200, seconds=600.0) for k in range(3)]
    verdict = validate_bundle(
        bundle, scenarios=[*endless, *short], processes=2, stop_at_failure=True, first=("command_grid",)
    )  # a standing robot fails the grid; minutes of walking would follow
    assert names(verdict) == ["command_grid"] and left(verdict) == [scenario.title for scenario in endless]
