"""``gaitway validate NEW --baseline OLD``: the same twins for both, one word, its reasons and its files."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.population import population
from gaitway_sim2real.population.survey import Tours, survey
from gaitway_sim2real.population.twin import Kind
from gaitway_sim2real.population.walk import Blow, walk
from gaitway_sim2real.trial import gate as rules
from gaitway_sim2real.trial import judging
from gaitway_sim2real.trial.gate import BETTER, NO_DIFFERENCE, WORSE, Gate, decide, rivals
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.junit import write_junit
from gaitway_sim2real.trial.paired import ERROR, Pairs, quantile
from gaitway_sim2real.trial.result import LimitCheck, ScenarioResult
from gaitway_sim2real.trial.verdict import Verdict
from gaitway_tasks.robots.go2 import GO2
from gaitway_velocity.metrics import METRICS
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from gaitway_velocity.tour import tour
from stand_bundle import make_stand_bundle

from gaitway.cli import main


@dataclass(frozen=True, kw_only=True)
class Short:
    command: np.ndarray
    blows: tuple[Blow, ...]


def shortly(contract: Contract, height: float, number: int, seed: int) -> Short:
    """The start of a tour."""
    whole = tour(contract, height, number, seed)
    return Short(command=whole.command[:60], blows=whole.blows)


SHORT = Tours(draw=shortly, survived=lambda walk: ~walk.fell, tracking={"lin_vel_error": 0.01})


@pytest.fixture(scope="module")
def stiff(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stiff"))


@pytest.fixture(scope="module")
def soft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gains that do not hold the robot up."""
    return make_stand_bundle(tmp_path_factory.mktemp("soft"), stiffness=10.0)


def test_a_survey_is_the_walk_of_its_twins_bit_for_bit(stiff: Path) -> None:
    found = survey(stiff, SHORT, range(4))
    contract = Contract.load(stiff)
    kind = Kind(stiff, contract)
    twins = [population.twin(kind, number) for number in range(4)]
    tours = [shortly(contract, kind.plant.stand_height, number, population.SEED) for number in range(4)]
    command, blows = np.stack([each.command for each in tours], 1), [each.blows for each in tours]
    policy = BatchedPolicy(stiff / "policy.onnx", contract, 4)
    same = walk(kind, policy, twins, command, blows, (population.SEED,), threads=1)
    for name in ("command", "lin_vel", "ang_vel", "base_pos", "alive"):
        assert np.array_equal(getattr(found, name), getattr(same, name)), name
    assert found.fall_cause == same.fall_cause
    later = survey(stiff, SHORT, range(2, 4))
    for name in ("command", "lin_vel", "base_pos"):
        assert np.array_equal(getattr(later, name), getattr(found, name)[:, 2:]), name


def refusal(new: Path, old: Path) -> str:
    with pytest.raises(UserError) as error:
        rivals(new, old)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_cannot_be_compared_is_refused(
    stiff: Path, soft: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "same policy" in refusal(stiff, stiff)
    assert "another robot, go2" in refusal(stiff, make_stand_bundle(tmp_path / "go2", GO2))
    slow = make_stand_bundle(tmp_path / "slow", stiffness=100.0, speed=0.5)
    assert "-0.5 to 0.5, -0.5 to 0.5, -0.5 to 0.5, and those of" in refusal(stiff, slow)
    heavy = (stiff / "robot.xml").read_text().replace('mass="', 'mass="1', 1)
    other = make_stand_bundle(tmp_path / "heavy", stiffness=100.0)
    (other / "robot.xml").write_text(heavy)
    assert " kg" in refusal(stiff, other)
    assert rivals(stiff, soft)[0] is SUITE
    bare = replace(SUITE, tour=None)
    monkeypatch.setattr(rules, "suite_of", lambda contract: bare)
    assert "no tour" in refusal(stiff, soft)


def verdict(*passed: bool, error: float = 0.1, robots: int = 50) -> Verdict:
    """Scenarios a, b, ... whose robots have errors about ``error``."""
    values = error + 0.01 * np.random.default_rng(0).standard_normal(robots)
    samples = {name: Samples(values=values, kind="mean") for name in ("lin_vel_error", "yaw_vel_error")}
    samples["falls"] = Samples(values=np.zeros(robots), kind="share")
    results = [
        ScenarioResult(
            name=name, title=name.upper(), about="", required=True, envs=robots, seconds=8.0, metrics={},
            checks=(LimitCheck(metric=METRICS["falls"], value=0.02, limit=0.01 + ok, at_least=False, passed=ok),),
            fall_causes={}, samples=samples,
        )
        for name, ok in zip("abc", passed, strict=False)
    ]  # fmt: skip
    return Verdict(
        suite_version="3", seed=0, task="t", robot="r", policy_sha256="", contract_sha256="", model="bundle",
        model_sha256="", notes=(), software={}, scenarios=tuple(results), metrics=METRICS,
    )  # fmt: skip


def pairs(wins: int = 0, losses: int = 0, count: int = 2000) -> Pairs:
    new = np.arange(count) < wins
    old = (np.arange(count) >= wins) & (np.arange(count) < wins + losses)
    return Pairs(new=new, old=old, z=quantile(ERROR))


def judged(new: Verdict, old: Verdict, survived: Pairs) -> Gate:
    suite = replace(SUITE, key_metrics=("lin_vel_error",))
    return decide(new, old, suite, survived, pairs())


SAME = verdict(True, False)


@pytest.mark.parametrize(
    ("new", "survived", "word", "why"),
    [
        (SAME, pairs(20, 20), NO_DIFFERENCE, "survival of twins +0.0 points"),
        (SAME, pairs(60, 10), BETTER, "survival of twins +2.5 points"),
        (SAME, pairs(10, 60), WORSE, "survival of twins -2.5 points"),
        (verdict(False, False), pairs(20, 20), WORSE, "the baseline passes: A"),
        (verdict(False, False), pairs(60, 10), WORSE, "the baseline passes: A"),
        (verdict(True, True), pairs(20, 20), NO_DIFFERENCE, "survival"),
        (verdict(True, False, error=0.13), pairs(20, 20), WORSE, "linear velocity error +0.030 m/s"),
        (verdict(True, False, error=0.07), pairs(20, 20), BETTER, "linear velocity error -0.030 m/s"),
        (verdict(True, False, error=0.108), pairs(20, 20), NO_DIFFERENCE, "survival"),
        (verdict(True, False, error=0.13), pairs(60, 10), BETTER, "survival of twins"),
    ],
)
def test_survival_decides_before_tracking_and_nothing_required_may_be_lost(
    new: Verdict, survived: Pairs, word: str, why: str
) -> None:
    gate = judged(new, SAME, survived)
    assert gate.word == word
    assert gate.passed == (word != WORSE)
    assert why in gate.why[0]


def test_robots_are_compared_one_by_one() -> None:
    gate = judged(verdict(True, True, error=0.12), SAME, pairs())
    row = next(each for each in gate.rows if each.metric.name == "lin_vel_error")
    assert row.where == "100 robots of the suite"
    assert row.change == pytest.approx(0.02)
    assert row.high - row.low == pytest.approx(0.0, abs=1e-6), "each robot differs by the same"
    falls = next(each for each in gate.rows if each.metric.name == "falls")
    assert falls.low < 0.0 < falls.high, "robots of which none fell are not certainty"
    repeated = judged(verdict(True, True, robots=100), SAME, pairs())
    assert any(r.where == "100 robots of the suite" for r in repeated.rows), "repetitions of one policy are left out"


def test_the_gate_says_whether_the_pairs_were_enough() -> None:
    assert "2,000 pairs of twins, 40 of them ended differently; 2 points" in judged(SAME, SAME, pairs(20, 20)).power()
    few = judged(SAME, SAME, pairs(5, 5, 100))
    assert not few.enough
    assert few.pairs.needed < int(few.power().rpartition(" ")[2]) < 1.1 * few.pairs.needed + 100
    assert "beyond doubt" in judged(SAME, SAME, pairs(40, 0, 100)).power()


def test_junit_fails_what_makes_the_policy_worse_and_skips_what_failed_before(tmp_path: Path) -> None:
    gate = judged(verdict(False, False, True), verdict(True, False, True), pairs(20, 20))
    suite = ElementTree.parse(write_junit(tmp_path / "gate.xml", gate.new, gate)).getroot()[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "4", "failures": "2", "skipped": "1",
    }  # fmt: skip
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {
        "A": ["failure"],
        "B": ["skipped"],
        "C": [],
        "Compared with the baseline": ["failure", "system-out"],
    }
    alone = ElementTree.parse(write_junit(tmp_path / "alone.xml", gate.new)).getroot()[0]
    assert [case.get("name") for case in alone if case.find("failure") is not None] == ["A", "B"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite of one short scenario, and short tours."""
    standing = next(each for each in SCENARIOS if each.name == "standing")
    limits = tuple(limit for limit in standing.limits if limit.metric == "falls")
    tiny = replace(SUITE, scenarios=(replace(standing, envs=6, seconds=2.0, limits=limits),), tour=SHORT)
    for module in (rules, judging):
        monkeypatch.setattr(module, "suite_of", lambda contract: tiny)


@pytest.mark.slow
def test_a_policy_that_falls_is_worse_than_one_that_stands(
    stiff: Path, soft: Path, small: None, tmp_path: Path, capsys: Any
) -> None:
    def gate(new: Path, old: Path) -> tuple[int, str, dict[str, Any]]:
        files = [
            "--junit",
            str(tmp_path / "g.xml"),
            "--json",
            str(tmp_path / "g.json"),
            "--report",
            str(tmp_path / "r"),
        ]
        code = main(["validate", str(new), "--baseline", str(old), "--twins", "12", "--no-video", *files])
        return code, capsys.readouterr().out, json.loads((tmp_path / "g.json").read_text())

    code, said, data = gate(soft, stiff)
    assert (code, data["result"]) == (1, WORSE)
    assert "not enough" not in said.splitlines()[-1]
    assert said.splitlines()[-1].startswith("worse: survival of twins -")
    assert data["pairs"]["count"] == 12
    assert not (stiff / "validation.json").exists(), "nothing is written about a baseline"
    code, said, data = gate(stiff, soft)
    assert (code, data["result"]) == (0, BETTER)
    assert ElementTree.parse(tmp_path / "g.xml").getroot()[0].get("failures") == "0"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--twins", "100"], "--twins 100"),
        (["--baseline", "{old}", "--model", "x.xml"], "--model is not for a comparison"),
        (["--baseline", "{old}", "--rough"], "--rough is not"),
        (["--baseline", "{new}"], "same policy"),
        (["--baseline", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_message(stiff: Path, soft: Path, words: list[str], message: str, capsys: Any) -> None:
    given = [word.format(new=stiff, old=soft) for word in words]
    assert main(["validate", str(stiff), *given]) == 2
    assert message in capsys.readouterr().err
