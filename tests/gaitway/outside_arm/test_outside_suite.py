"""A family of another package with a suite of its own: three scenarios for the arm of docs/examples/reacher."""

import json
from dataclasses import dataclass, replace

import mujoco
import numpy as np
import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_files.trust import trust
from gaitway_onboard.bundle.contract import BundleError, Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.bundle.in_memory import contract_before_training
from gaitway_sim2real.trial import Verdict, validate_bundle
from gaitway_sim2real.trial.examination import Examiner
from gaitway_sim2real.trial.metric import Metric
from gaitway_sim2real.trial.running import Plants
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_sim2real.trial.simulate import simulate
from gaitway_sim2real.trial.stressors import Load
from gaitway_sim2real.trial.suite import Suite
from gaitway_sim2real.trial.suites import NoSuite, suite_of
from torch import nn

import gaitway
from gaitway.cli import main
from gaitway.train_config import ConfigError, resolve

TASK = "reacher.tasks:REACH"


@pytest.fixture
def suite(here):
    trust("reacher")
    from reacher.suite import SUITE

    return SUITE


@pytest.fixture
def short(suite):
    return tuple(replace(scenario, envs=6, seconds=2.0) for scenario in suite.scenarios)


def test_it_judges_with_any_number_of_processes(bundle, short, tmp_path):
    verdict, again = (validate_bundle(bundle, scenarios=short, processes=count) for count in (1, 2))
    assert verdict.to_dict() == again.to_dict() and not verdict.passed
    assert [result.name for result in verdict.scenarios] == ["points", "late", "load"]
    assert verdict.suite_version == "reach 1.0 (part)" and not verdict.left_out
    assert verdict.summary().splitlines()[0] == "FAIL: 0 of 3 required scenarios passed"
    assert "tip off point" in verdict.summary()


def test_its_verdict_is_read_without_its_code(bundle, short, tmp_path):
    verdict = validate_bundle(bundle, scenarios=short[:1], processes=1)
    loaded = Verdict.load(verdict.save(tmp_path / "validation.json"))
    assert loaded == verdict and loaded.summary() == verdict.summary()
    rows = json.loads((tmp_path / "validation.json").read_text())
    assert rows["metrics"]["tip_error"] == {"title": "Tip off point", "unit": "m", "percent": False, "places": ""}
    assert rows["scenarios"][0]["checks"][0]["metric"] == "tip_error"


def test_its_page_has_no_word_of_walking(bundle, short, tmp_path):
    validate_bundle(bundle, scenarios=short[:1], report_dir=tmp_path, video=False, processes=1)
    page = (tmp_path / "report.html").read_text()
    assert "Tip off point" in page and "contacts: the tip touches nothing" in page and "suite reach 1.0" in page
    assert not [word for word in ("gyro", "Gait", "stride", "velocity", "upright") if word in page]


@pytest.mark.slow
def test_the_command_asks_for_trust_and_writes_all(bundle, here, capsys, tmp_path):
    assert main(["validate", str(bundle)]) == 2
    assert "contract.yaml names code of the module 'reacher.suite'" in capsys.readouterr().err
    assert main(["validate", str(bundle), "--trust", "reacher", "--report", str(tmp_path / "report")]) == 1
    assert "of 3 required scenarios passed" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "report").iterdir()} >= {"report.html", "validation.json"}
    assert main(["validate", str(bundle), "--trust", "reacher", "--rough"]) == 2
    assert "suite reach 1.0 has no ladders of ground: leave out --rough" in capsys.readouterr().err


def test_a_training_is_examined_by_it(suite, task):
    assert resolve(TASK, overrides=["until=good"]).until == "good"
    few = tuple(replace(scenario, envs=3, seconds=2.0) for scenario in suite.scenarios)
    found = Examiner(task, scenarios=few)(Still())
    assert [(row.scenario, row.check.metric.name) for row in found.checks][:2] == [
        ("points", "tip_error"), ("points", "torque_saturation"),
    ]  # fmt: skip
    assert not found.passed and found.words().startswith("failed: tip off point in ")
    whole = Examiner(task).scenarios
    assert {scenario.envs for scenario in whole} == {16} and whole[0].limits[0].value == pytest.approx(0.95 * 0.05)


class Still(nn.Module):
    def forward(self, observation):
        return torch.zeros(len(observation), 2)


def test_bodies_are_where_kinematics_put_them(bundle, suite):
    contract = Contract.load(bundle)
    plant = Plants(contract, bundle / "robot.xml", bundle / "robot.xml").get()
    scenario = replace(suite.scenarios[0], envs=3, seconds=0.5)
    policy = BatchedPolicy(bundle / "policy.onnx", contract, 3)
    drawn = suite.draw(scenario, contract, 0)
    rec = simulate(plant, contract, policy, drawn, keep_qpos=True, bodies=suite.bodies)
    data = mujoco.MjData(plant.model)
    for robot in range(3):
        data.qpos[:] = rec.qpos[-1, robot]
        mujoco.mj_kinematics(plant.model, data)
        np.testing.assert_allclose(rec.bodies["tip"][-1, robot], data.body("tip").xpos, atol=1e-6)
    assert rec.alive.all() and np.ptp(rec.bodies["tip"][:, 0], axis=0).max() > 0.01
    np.testing.assert_array_equal(rec.of(slice(1, 2)).bodies["tip"], rec.bodies["tip"][:, 1:2])
    np.testing.assert_allclose(rec.base_pos, np.broadcast_to([0.0, 0.0, 1.0], rec.base_pos.shape))


def test_a_load_pulls_the_arm_down(bundle, suite):
    contract = Contract.load(bundle)
    plant = Plants(contract, bundle / "robot.xml", bundle / "robot.xml").get()
    still = replace(suite.scenarios[0], commands="still", stressors=(), envs=2, seconds=0.5, draws="same")
    heavy = replace(still, stressors=(Load("tip", 2.0),))
    light, low = (
        simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, 2), suite.draw(each, contract, 0),
                 bodies=("tip",)).bodies["tip"][-1, :, 2]
        for each in (still, heavy)
    )  # fmt: skip
    assert (low < light - 0.01).all()
    with pytest.raises(UserError, match=r"load on body 'hand': the robot has post, .*tip"):
        wrong = replace(heavy, stressors=(Load("hand", 0.2),))
        simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, 2), suite.draw(wrong, contract, 0))


def test_what_a_body_does_not_allow_is_left_out(bundle, short):
    wanted = (
        replace(short[0], name="push", title="Pushed", push=0.5),
        replace(short[0], name="walk", title="Walks", gait=True),
        short[0],
    )
    verdict = validate_bundle(bundle, scenarios=wanted, processes=1)
    assert [result.name for result in verdict.scenarios] == ["points"]
    assert {row.what: row.why.partition(":")[0] for row in verdict.left_out} == {
        "Pushed": "its base is fixed", "Walks": "it has no feet",
    }  # fmt: skip


def test_a_family_without_a_suite_is_not_judged(task):
    from reacher.tasks import Point

    class Aimless(Point):
        suite = ""

    aimless = replace(task, commands={"point": Aimless()})
    with pytest.raises(NoSuite, match=r"reach-reacher follows x, z, and no suite judges it: give its command a suite"):
        Examiner(aimless)
    with pytest.raises(NoSuite, match="no suite judges it"):
        suite_of(contract_before_training(aimless))


def test_a_suite_that_is_none_is_named(bundle, suite):
    contract = replace(Contract.load(bundle), suite="reacher.suite:LATE")
    with pytest.raises(NoSuite, match=r"reacher\.suite:LATE is a float, no Suite"):
        suite_of(contract)


def test_a_training_without_a_suite_is_refused_before_it_starts(suite, monkeypatch):
    from reacher.tasks import Point

    monkeypatch.setattr(Point, "suite", "")
    with pytest.raises(ConfigError, match="until=good: reach-reacher follows x, z, and no suite judges it"):
        resolve(TASK, overrides=["until=good"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"limits": (Limit(metric="tip_eror", value=1.0),)}, "limits 'tip_eror', which .* did you mean"),
        ({"commands": "grid"}, "gives commands 'grid', which the suite has not; it knows still, random, steps"),
        ({"needs": ("two feet",)}, "needs 'two feet', which the suite has not; it knows none"),
        ({"required": False}, "no scenario is required and has a limit"),
        ({"name": "late"}, "two scenarios are named 'late'"),
    ],
)  # fmt: skip
def test_a_suite_that_does_not_fit_together_is_refused_at_once(suite, changes, said):
    first, second, _ = suite.scenarios
    others = (replace(second, required=changes.get("required", True)),)
    with pytest.raises(UserError, match=f"suite reach 1.0: .*{said}"):
        replace(suite, scenarios=(replace(first, **changes), *others))


def test_scenarios_of_one_validation_are_checked_too(bundle, short):
    with pytest.raises(UserError, match="gives commands 'grid'"):
        validate_bundle(bundle, scenarios=[replace(short[0], commands="grid")], processes=1)


def test_a_metric_needs_a_measure():
    scenario = Scenario(name="s", title="S", about="", limits=(Limit(metric="off", value=1.0),))
    with pytest.raises(UserError, match="metric 'off' has no measure"):
        Suite(version="mine 1", scenarios=(scenario,), metrics=(Metric(name="off", title="Off"),))


def test_a_contract_names_a_module(bundle, tmp_path):
    contract = Contract.load(bundle)
    assert contract.suite == "reacher.suite:SUITE"
    with pytest.raises(BundleError, match="suite is 'no module'; expected module:OBJECT"):
        replace(contract, suite="no module").save(tmp_path)


def broken(rec, contract):
    return rec.bodies["elbow"].max()


@pytest.mark.parametrize(
    ("measure", "kind", "said"),
    [
        (lambda rec, contract: np.abs(rec.joint_pos).mean(-1), "mean", r"has shape \(100, 6\): expected \(6,\)"),
        (lambda rec, contract: 0.1, "mean", r"has shape \(\): expected \(6,\)"),
        (lambda rec, contract: np.where(np.arange(6) < 4, np.nan, 0.0), "mean", "no finite value for 4 of the 6"),
        (lambda rec, contract: np.full(6, 0.5), "share", "is a share, of which each robot's value must be 0 or 1"),
        (broken, "mean", r"test_outside_suite:broken\) failed: KeyError: 'elbow', in .*line \d+: return rec"),
    ],
)
def test_a_metric_must_give_a_value_of_each_robot(bundle, suite, monkeypatch, measure, kind, said):
    """Else a verdict would be of some robots only, or of more than there are."""
    odd = Metric("odd", "Odd", measure=measure, kind=kind)
    scenario = replace(suite.scenarios[0], envs=6, seconds=2.0, limits=(Limit(metric="odd", value=1.0),))
    changed = replace(suite, metrics=(*suite.metrics, odd), scenarios=(scenario,))
    monkeypatch.setattr("gaitway_sim2real.trial.judging.suite_of", lambda contract: changed)
    with pytest.raises(UserError, match=rf"metric 'odd' in scenario 'points'.*{said}"):
        validate_bundle(bundle, processes=1)


def test_a_metric_of_no_robot_never_passes(bundle, suite, monkeypatch):
    odd = Metric("odd", "Odd", measure=lambda rec, contract: np.full(6, np.nan))
    scenario = replace(suite.scenarios[0], envs=6, seconds=2.0, limits=(Limit(metric="odd", value=1.0),))
    changed = replace(suite, metrics=(*suite.metrics, odd), scenarios=(scenario,))
    monkeypatch.setattr("gaitway_sim2real.trial.judging.suite_of", lambda contract: changed)
    verdict = validate_bundle(bundle, processes=1)
    assert not verdict.passed and "odd not measured" in verdict.summary().lower()


def test_a_suite_of_which_nothing_is_left_judges_nothing(bundle, suite, short, task):
    pushed = replace(short[0], push=0.5)
    said = r"no required scenario of suite reach 1\.0 is left for reacher: .*its base is fixed"
    with pytest.raises(UserError, match=said):
        validate_bundle(bundle, scenarios=(pushed,), processes=1)
    with pytest.raises(UserError, match=said):
        Examiner(task, scenarios=(pushed,))


def test_a_verdict_without_required_scenarios_is_no_pass(bundle, short):
    verdict = validate_bundle(bundle, scenarios=(replace(short[0], required=False),), processes=1)
    assert not verdict.passed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seconds": -1.0}, "-1.0 s with 64 robots"),
        ({"envs": 0}, "with 0 robots"),
        ({"strength": (-1.0, -1.0)}, "strength is .* must not be below 0"),
        ({"delay": 0.02}, r"delay is 0\.02: expected \(lowest, highest\)"),
        ({"delay": (0.02, 0.0)}, r"expected \(lowest, highest\)"),
        ({"stressors": (Load,)}, "stressors are .* a tuple of Stressor"),
        ({"limits": Limit(metric="falls", value=0.0)}, "limits are .* a tuple of Limit"),
    ],
)
def test_a_scenario_that_nobody_can_run_is_refused(suite, change, said):
    with pytest.raises(UserError, match=f"scenario 'points': .*{said}"):
        replace(suite.scenarios[0], **change)


def test_metrics_and_limits_that_would_judge_something_else(suite):
    zeros = Metric("torque_saturation", "Mine", measure=lambda rec, contract: np.zeros(1))
    with pytest.raises(UserError, match="'torque_saturation' is one of every suite's: give yours another name"):
        replace(suite, metrics=(*suite.metrics, zeros))
    with pytest.raises(UserError, match=f"{suite.metrics[0].name!r} is there twice"):
        replace(suite, metrics=(*suite.metrics, suite.metrics[0]))
    with pytest.raises(UserError, match="not a number, and nothing would hold it"):
        Limit(metric="falls", value=float("nan"))
    with pytest.raises(UserError, match="its bodies are 'tip': expected a tuple"):
        replace(suite, bodies="tip")


def test_a_body_that_the_robot_has_not(bundle, suite, monkeypatch):
    changed = replace(suite, bodies=("tip", "hand"))
    monkeypatch.setattr("gaitway_sim2real.trial.judging.suite_of", lambda contract: changed)
    with pytest.raises(UserError, match=r"the suite records the body 'hand': the robot has post, .*tip"):
        validate_bundle(bundle, processes=1)


def test_a_suite_that_is_not_there_is_told_before_training(task, monkeypatch, tmp_path):
    from reacher import tasks

    changes = {"suite": "reacher.suite:NONE", "__module__": "reacher.tasks", "__annotations__": {}}
    lost = dataclass(frozen=True, kw_only=True)(type("Lost", (tasks.Point,), changes))
    monkeypatch.setattr(tasks, "Lost", lost, raising=False)
    with pytest.raises(UserError, match=r"reacher\.suite has no 'NONE'"):
        gaitway.train(replace(task, commands={"point": lost()}), out=tmp_path / "run", num_envs=4)
    assert not (tmp_path / "run").exists()
