"""Metrics against values worked out by hand, and the verdict built on them."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.metric import action_rate, joint_use
from gaitway_sim2real.trial.result import LimitCheck, ScenarioResult
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_sim2real.trial.verdict import Verdict, VerdictError
from gaitway_velocity import metrics
from recording import recording
from stand_bundle import make_stand_bundle
from tree import ROOT


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    return Contract.load(make_stand_bundle(tmp_path_factory.mktemp("stand")))


def test_the_page_defines_every_metric() -> None:
    page = (ROOT / "docs" / "gait_metrics.md").read_text("utf-8")
    assert [name for name in metrics.METRICS if f"`{name}`" not in page] == []


def test_tracking_errors_stop_at_the_fall_and_weigh_robots_alike() -> None:
    command, alive = np.zeros((4, 2, 3)), np.ones((4, 2), bool)
    command[:, 0] = [3.0, 4.0, 2.0]  # robot 0 stands still: 5 m/s and 2 rad/s off
    alive[1:, 1] = False  # robot 1 falls in its first step; its later error must not count
    lin_vel = np.zeros((4, 2, 3))
    lin_vel[0, 1, 0], lin_vel[1:, 1, 0] = 1.0, 100.0
    rec = recording(command=command, alive=alive, lin_vel=lin_vel)
    assert metrics.lin_vel_error(rec) == pytest.approx((5.0 + 1.0) / 2)
    assert metrics.yaw_vel_error(rec) == pytest.approx((2.0 + 0.0) / 2)


def test_vertical_velocity_is_no_tracking_error() -> None:
    lin_vel = np.zeros((4, 2, 3))
    lin_vel[..., 2] = 7.0
    assert metrics.lin_vel_error(recording(lin_vel=lin_vel)) == 0.0


def test_drift_is_net_distance_over_time() -> None:
    base_pos = np.zeros((4, 2, 3))
    base_pos[:, 0, 0] = [0.5, 1.0, 0.2, 0.08]  # there and back: 0.08 m in 0.08 s
    base_pos[:, 1, 2] = 3.0  # height is not drift
    assert metrics.drift(recording(base_pos=base_pos)) == pytest.approx((1.0 + 0.0) / 2)


def test_pushes_survived_counts_pushes_not_robots() -> None:
    push = np.zeros((10, 3, 2))
    push[[1, 5], 0, 0] = 0.5  # two pushes, no fall
    push[[1, 5], 1, 1] = 0.5  # two pushes, falls after the second
    fall_step = np.array([-1, 7, 2])  # robot 2 falls without any push: not the push's fault
    assert metrics.pushes_survived(push, fall_step) == pytest.approx(3 / 4)
    assert math.isnan(metrics.pushes_survived(np.zeros((10, 3, 2)), fall_step))


def test_cost_of_transport() -> None:
    """40 W against 10 kg x 9.81 x 0.5 m/s."""
    command, lin_vel = np.zeros((4, 2, 3)), np.zeros((4, 2, 3))
    command[:, 0, 0] = 0.5
    lin_vel[:, 0, 0] = 0.5
    torque, joint_vel = np.zeros((4, 2, 12)), np.zeros((4, 2, 12))
    torque[:, :, :2], joint_vel[:, :, 0], joint_vel[:, :, 1] = 10.0, 3.0, -1.0  # braking costs too
    rec = recording(command=command, lin_vel=lin_vel, torque=torque, joint_vel=joint_vel)
    assert metrics.cost_of_transport(rec) == pytest.approx(40 / (10 * 9.81 * 0.5))


def test_joint_use(contract: Contract) -> None:
    torque, pos = np.zeros((4, 2, 12)), np.zeros((4, 2, 12))
    torque[0, 0, 0], torque[1, 1, 3] = -80.0, 60.0
    pos[2, 1, 0] = 0.48  # soft limits of LF_HAA: -0.115 +- 0.605 x 0.95, so up to 0.45975
    use = joint_use(recording(torque=torque, joint_pos=pos), contract)
    assert use["torque_rms"] == pytest.approx(math.sqrt((80**2 + 60**2) / 96))
    assert use["torque_peak"] == 1.0
    assert use["torque_saturation"] == pytest.approx(1 / 96)
    assert use["joint_limit_use"] == pytest.approx(1 / 96)


def test_action_rate() -> None:
    target = np.zeros((3, 1, 12))
    target[1:, 0, 0] = 0.1  # one jump of 0.1 rad in one of 12 joints, in one of two intervals of 20 ms
    assert action_rate(recording(steps=3, robots=1, target=target)) == pytest.approx(5.0 / math.sqrt(24))


def test_air_time_counts_whole_swings_only() -> None:
    contact = np.array([0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 0, 0], bool)[:, None, None]  # whole swings: 3 and 1 steps
    alive = np.ones((12, 1), bool)
    assert metrics.air_time(contact, alive, 0.02) == pytest.approx(0.04)
    alive[5:] = False  # it fell in the first whole swing
    assert math.isnan(metrics.air_time(contact, alive, 0.02))


def test_foot_slip_counts_feet_on_the_ground() -> None:
    contact = np.zeros((4, 2, 2), bool)
    contact[0, 0], contact[1, 1, 0] = True, True
    slip = np.zeros((4, 2, 2))
    slip[0, 0], slip[1, 1, 0] = [0.1, 0.2], 0.6
    assert metrics.foot_slip(recording(foot_contact=contact, foot_slip=slip)) == pytest.approx(0.3)


def scenario(*limits: Limit, name: str = "a", required: bool = True) -> Scenario:
    return Scenario(name=name, title=name.upper(), about="", limits=limits, required=required)


def verdict(*results: ScenarioResult) -> Verdict:
    return Verdict(
        suite_version="3.0", seed=0, task="t", robot="r", policy_sha256="ab" * 32, contract_sha256="cd" * 32,
        model="bundle", model_sha256="ef" * 32, notes=("note",), software={"mujoco": "4"}, scenarios=results,
        metrics=metrics.METRICS,
    )  # fmt: skip


def level(value: float) -> Samples:
    return Samples(values=np.array([value]), kind="level")


VALUES: dict[str, Samples] = dict.fromkeys(metrics.METRICS, level(math.nan))


def test_verdict_is_decided_by_required_scenarios() -> None:
    falls = Limit(metric="falls", value=0.05)
    good = ScenarioResult.of(scenario(falls), {**VALUES, "falls": level(0.05)}, {}, metrics.METRICS)
    bad = ScenarioResult.of(
        scenario(falls, name="b"), {**VALUES, "falls": level(0.08)}, {"base tilt": 4}, metrics.METRICS
    )
    shown = ScenarioResult.of(
        scenario(falls, name="c", required=False), {**VALUES, "falls": level(1.0)}, {}, metrics.METRICS
    )
    assert verdict(good, shown).passed and verdict(good).summary().splitlines() == [
        "PASS: 1 of 1 required scenarios passed",
        "  note: note",
    ]
    failed = verdict(good, bad, shown)
    assert not failed.passed
    assert [(r.name, c.margin) for r, c in failed.failures()] == [("b", pytest.approx(-0.03))]
    assert "B: falls 8.0 %, allowed at most 5.0 %, 3.0 % beyond it" in failed.summary()


def test_what_was_not_measured_does_not_pass() -> None:
    result = ScenarioResult.of(scenario(Limit(metric="drift", value=1.0)), VALUES, {}, metrics.METRICS)
    assert not verdict(result).passed
    assert "not measured" in verdict(result).summary()


def test_allowance_used() -> None:
    falls = LimitCheck(metric=metrics.METRICS["falls"], value=0.02, limit=0.05, at_least=False, passed=True)
    assert falls.used == pytest.approx(0.4)
    survival = LimitCheck(metric=metrics.METRICS["pushes_survived"], value=0.9, limit=0.95, at_least=True, passed=False)
    assert survival.used == pytest.approx(2.0)
    assert survival.margin == pytest.approx(-0.05)


def test_json_round_trip_and_seal(tmp_path: Path) -> None:
    limits = (Limit(metric="pushes_survived", value=0.95, at_least=True), Limit(metric="falls", value=0.05))
    values = {**VALUES, "pushes_survived": level(1 / 3), "falls": level(0.1)}
    original = verdict(ScenarioResult.of(scenario(*limits), values, {"base tilt": 2}, metrics.METRICS))
    path = original.save(tmp_path / "validation.json")
    loaded = Verdict.load(path)
    assert loaded.to_dict() == original.to_dict()
    assert [check.sentence() for check in loaded.scenarios[0].checks] == [
        check.sentence() for check in original.scenarios[0].checks
    ]
    data = json.loads(path.read_text())
    assert data["verdict"] == "FAIL" and data["scenarios"][0]["metrics"]["drift"] is None
    data["scenarios"][0]["metrics"]["falls"] = 0.0
    path.write_text(json.dumps(data))
    with pytest.raises(VerdictError, match="edited"):
        Verdict.load(path)
    path.write_text(path.read_text()[:100])
    with pytest.raises(VerdictError, match="cut off"):
        Verdict.load(path)
    with pytest.raises(VerdictError, match="no verdict"):
        Verdict.load(tmp_path / "none.json")
    other = tmp_path / "policy.onnx"
    other.write_bytes(b"another policy")
    original.save(path)
    with pytest.raises(VerdictError, match="another policy"):
        Verdict.load(path, policy=other)


def test_no_metric_without_a_name(contract: Contract) -> None:
    rec = recording()
    assert list(metrics.compute_metrics(rec, contract)) == list(metrics.METRICS)
    fallen = dataclasses.replace(rec, alive=np.zeros((4, 2), bool), fall_step=np.zeros(2, int))
    values = metrics.compute_metrics(fallen, contract)
    assert values["falls"] == 1.0 and math.isnan(values["lin_vel_error"])
