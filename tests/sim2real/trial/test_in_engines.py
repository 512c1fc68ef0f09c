"""Verdicts of several engines: what is repeated, what decides, and the engines beside each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.floors import FIRM
from gaitway_sim2real.trial import Verdict, validate_bundle
from gaitway_sim2real.trial.engine_section import engine_section
from gaitway_sim2real.trial.engines import Walk
from gaitway_sim2real.trial.in_engines import comparisons, engine_scenarios, side_by_side
from gaitway_sim2real.trial.scenario import Limit
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from gaitway_velocity.variants import NOMINAL
from stand_bundle import make_stand_bundle

SHOWN = [SUITE.table[name] for name in SUITE.compared]
(MIXED,) = (scenario for scenario in SCENARIOS if scenario.name == NOMINAL)


class Statues:
    """An engine in which robots stand in the air like statues, or lie on the ground from the second step on."""

    name, title = "stone", "Stone"

    def __init__(self, lying: bool = False):
        self.lying, self.software, self.walks = lying, {"stone": "1.0"}, []

    def record(self, walk: Walk) -> dict[str, np.ndarray]:
        self.walks.append(walk)
        steps, robots = walk.command.shape[:2]
        physics = steps * walk.decimation
        pose = np.broadcast_to(walk.start["joint_pos"], (steps, *walk.start["joint_pos"].shape))
        three, upright = np.zeros((steps, robots, 3)), np.array([1.0, 0.0, 0.0, 0.0])
        press = np.zeros((steps, robots, len(walk.fall_bodies)))
        press[1:, :, 0] = 9.0 * self.lying
        place = np.ones((physics, robots, len(walk.feet), 3))
        feet = {f"foot_{name}": 0 * place for name in ("lin_vel", "ang_vel", "force")}
        return {
            "base_pos": np.broadcast_to(walk.start["base_pos"], three.shape),
            "base_quat": np.broadcast_to(walk.start["base_quat"], (steps, robots, 4)),
            "lin_vel": three, "ang_vel": three, "joint_pos": pose, "joint_vel": 0 * pose, "torque": 0 * pose,
            "target": pose, "press": press, **feet, "foot_pos": place,
            "foot_quat": np.broadcast_to(upright, (physics, robots, len(walk.feet), 4)),
        }  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


def verdict_of(bundle: Path, *engines: Statues) -> Verdict:
    limits = (Limit(metric="falls", value=0.3),)
    short = replace(MIXED, envs=16, seconds=0.1, limits=limits)
    return validate_bundle(bundle, scenarios=[short], engines=engines, processes=1)


def test_the_nominal_scenario_and_the_command_classes_are_repeated():
    repeated = engine_scenarios(Statues(), SCENARIOS, NOMINAL)
    assert {s.same_as for s in repeated} == {
        s.name for s in SCENARIOS if s.name == NOMINAL or (s.name.startswith("gait_") and s.physics == FIRM)
    }
    assert len(repeated) == 7 and len({s.name for s in repeated} | {s.name for s in SCENARIOS}) == 7 + len(SCENARIOS)
    for scenario in repeated:
        (own,) = (s for s in SCENARIOS if s.name == scenario.same_as)
        assert (scenario.limits, scenario.required, scenario.envs) == (own.limits, True, own.envs)
        assert scenario.draws == (own.draws or own.name) and scenario.engine == "Stone"


def test_another_engine_decides_too(bundle, tmp_path):
    stone = Statues()
    good, bad, alone = verdict_of(bundle, stone), verdict_of(bundle, Statues(lying=True)), verdict_of(bundle)
    assert (good.word, bad.word, alone.word) == ("PASS", "FAIL", "PASS")
    assert good.engines == ("MuJoCo", "Stone") and alone.engines == ("MuJoCo",)
    assert good.software["stone"] == "1.0" and "stone" not in alone.software
    assert [(result.engine, result.passed) for result in bad.scenarios] == [("", True), ("Stone", False)]
    assert bad.scenarios[1].fall_causes == {"contact: base": 16}
    own, theirs = good.scenarios
    assert theirs.title == "Stone" and theirs.same_as == own.name and own.title == MIXED.title
    (walk,) = stone.walks
    contract = Contract.load(bundle)
    assert walk.command.shape == (5, 16, 3) and walk.contract == contract
    assert Verdict.load(good.save(tmp_path / "v.json")) == good


def test_undecided_engines_get_fresh_robots_like_mujoco(bundle):
    stone = Statues()
    limits = (Limit(metric="falls", value=0.05),)
    validate_bundle(
        bundle, scenarios=[replace(MIXED, envs=16, seconds=0.1, limits=limits)], engines=[stone], processes=1
    )
    assert len(stone.walks) == 4  # 0 of 64 robots decide it
    assert not np.array_equal(stone.walks[0].start["joint_pos"], stone.walks[1].start["joint_pos"])


def test_seeds_walk_side_by_side(bundle):
    stone = Statues()
    short = replace(MIXED, envs=16, seconds=0.1, limits=(Limit(metric="falls", value=0.3),))
    verdict = validate_bundle(bundle, scenarios=[short], engines=[stone], seeds=3, processes=1)
    assert [walk.command.shape for walk in stone.walks] == [(5, 48, 3)] and verdict.scenarios[1].envs == 48
    assert len(verdict.seeds) == 3


def test_the_report_has_a_column_for_each_engine(bundle):
    table = engine_section(verdict_of(bundle, Statues())).parts[0]
    assert table.columns[1:] == ["MuJoCo", "Stone", "difference"]
    row = next(row for row in table.rows if row[0] == "Torque RMS")
    assert row[2] == "0.000 N m" and row[3].startswith("-")
    assert engine_section(verdict_of(bundle)) is None


def test_engines_stand_beside_each_other(bundle):
    verdict = verdict_of(bundle, Statues())
    rows = {row.metric.name: row for row in comparisons(verdict.scenarios, SHOWN)}
    row = rows["torque_rms"]
    assert row.scenario == MIXED.title and list(row.values) == ["MuJoCo", "Stone"] and row.values["Stone"] == 0.0
    assert row.difference("Stone") == -row.values["MuJoCo"] < 0
    assert row.sentence().startswith("torque rms: MuJoCo ") and row.sentence().endswith(", Stone 0.000 N m")
    assert "engines: MuJoCo, Stone" in verdict.summary() and row.sentence() in verdict.summary()
    assert side_by_side(verdict_of(bundle).scenarios, SHOWN) == []
