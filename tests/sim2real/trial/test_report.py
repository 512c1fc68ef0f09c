"""The parts of the page, from recordings and verdicts made by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco import camera
from gaitway_sim2real.mujoco.camera import RenderingError
from gaitway_sim2real.pages.model import Cell, Section
from gaitway_sim2real.trial import plots, report
from gaitway_sim2real.trial.evidence import Evidence
from gaitway_sim2real.trial.feet import FootTrace
from gaitway_sim2real.trial.result import LimitCheck, ScenarioResult
from gaitway_sim2real.trial.sensitivity import sensitivity
from gaitway_sim2real.trial.verdict import Verdict
from gaitway_sim2real.trial.video import film_strip
from gaitway_velocity import gait, gait_plots, sections
from gaitway_velocity.metrics import METRICS
from gaitway_velocity.showcase import WINDOW, Showcase
from gaitway_velocity.suite import SUITE
from recording import recording
from stand_bundle import make_stand_bundle

DT, CONTROL_DT, STEPS = 0.005, 0.02, 200


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


def check(metric: str, value: float, limit: float, *, at_least: bool = False, **interval: Any) -> LimitCheck:
    passed = value >= limit if at_least else value <= limit
    return LimitCheck(metric=METRICS[metric], value=value, limit=limit, at_least=at_least, passed=passed, **interval)


def result(name: str, *checks: LimitCheck, title: str = "", **about: Any) -> ScenarioResult:
    return ScenarioResult(
        name=name, title=title or name, about="", required=True, envs=4, seconds=8.0, checks=checks,
        metrics={c.metric.name: c.value for c in checks}, fall_causes={},
        intervals={c.metric.name: (c.low, c.high) for c in checks}, **about,
    )  # fmt: skip


def verdict(*results: ScenarioResult, suite: str = "2.1") -> Verdict:
    return Verdict(
        suite_version=suite, seed=0, task="t", robot="r", policy_sha256="", contract_sha256="", model="bundle",
        model_sha256="", notes=(), software={}, scenarios=results, metrics=METRICS,
        sensitivity=sensitivity(results, SUITE),
    )  # fmt: skip


LOW = check("clearance", 0.009, 0.033, at_least=True, low=0.008, high=0.010)
SURE = check("clearance", 0.07, 0.033, at_least=True, low=0.06, high=0.08)
TIGHT = check("falls", 0.008, 0.01, low=0.0, high=0.0099)


def test_the_head_says_in_one_sentence_what_decides() -> None:
    failing = verdict(result("a", TIGHT), result("gait_forward_slow", LOW, title="Gait: forward, slow"))
    assert report.decisive(failing).startswith("Gait: forward, slow: clearance 0.009 m, allowed at least 0.033 m")
    passing = verdict(result("a", TIGHT, title="Grid"), result("b", SURE))
    assert report.decisive(passing).startswith("Closest to its limit: Grid: falls 0.8 %")


def test_a_page_of_an_older_suite_says_so(bundle: Path) -> None:
    contract = Contract.load(bundle)
    for suite, walks, stands in (("1.0", True, True), ("2.0", False, True), ("2.1", False, False)):
        page = report.report(
            SUITE,
            verdict(result("a", TIGHT), suite=suite),
            Evidence(),
            contract,
            bundle,
            bundle / "robot.xml",
            None,
            "no",
        ).html()
        assert f"suite {suite}" in page and ("did not judge the gait" in page) == walks
        assert ("how the robot stands, stops" in page) == stands


def test_intervals_are_drawn_where_limits_are() -> None:
    assert "<b style=" in report._bar(TIGHT, True).drawing
    assert "<b style=" not in report._bar(check("falls", 0.0, 0.01), True).drawing


def test_gaits_have_a_table_for_each_floor() -> None:
    _, hard, title, carpet, _ = sections._gait_tables(
        verdict(result("gait_forward_slow", LOW), result("gait_turning_carpet", SURE))
    )
    assert "on carpet" in title.text
    row = next(row for row in hard.rows if row[0].startswith(METRICS["clearance"].title))
    assert row[0].endswith("≥\xa00.033\xa0m") and row[1] == Cell("0.009\xa0m\n0.008 to 0.010", "bad")
    assert next(row for row in carpet.rows if row[0] == row[0])[1].css == ""


def test_sensitivity_names_the_worst_and_the_best_and_draws_every_level() -> None:
    rows = (
        result("nominal", SURE, title="Nominal floor"),
        result("floor_soft", LOW, title="Soft floor", factor="softness", level="soft"),
    )
    section = report._sensitivity(SUITE, verdict(*rows)).html()
    assert "Worst: <b>Soft floor</b>" in section and "Best: <b>Nominal floor</b>" in section
    assert section.count('class="dot fine"') == section.count('class="dot bad"') == 1
    assert section.count("whisker") == 2 and section.count('class="limit"') == 2
    assert report._sensitivity(SUITE, verdict(result("a", TIGHT))) is None


def pattering(swing: float, period: float) -> Showcase:
    """One robot whose first foot swings for ``swing`` of every ``period`` [s] and whose torques shake at 10 Hz."""
    time = np.arange(STEPS * 4) * DT
    air = (time % period) < swing
    shape = (STEPS * 4, 1, 2)
    trace = FootTrace.empty(
        STEPS * 4, 1, dt=DT, decimation=4, stand_height=0.5, names=("L", "R"), soles=np.zeros(2),
        places=np.array([[0, 0.1], [0, -0.1]]),
    )  # fmt: skip
    trace.contact[:] = np.broadcast_to(~air[:, None, None], shape)
    trace.clearance[:] = np.broadcast_to(0.05 * air[:, None, None], shape)
    trace.slip[:, :, 1] = 0.5
    shake = np.sin(2 * np.pi * 10 * np.arange(STEPS) * CONTROL_DT)[:, None, None] * np.array([4.0, 0.1])
    qpos = np.zeros((STEPS, 1, 19), np.float32)
    rec = replace(recording(steps=STEPS, robots=1, torque=shake.astype(np.float32), qpos=qpos), feet=trace)
    return Showcase(recording=rec, labels=("forward",) * STEPS, foot_x=np.zeros((STEPS, 2)))


def test_feet_over_time_at_physics_steps() -> None:
    svg = gait_plots.feet_over_time(pattering(0.05, 0.25), 0.0, 2.0, clearance=0.033, slip=0.1)
    assert svg.count('class="stance"') == 2 * 8  # each step of both feet, though a swing is 2.5 control steps long
    assert svg.count('class="slide"') == 8  # of the foot that slips
    assert svg.count("limit dashed") == 2 and "80 %" in svg


def test_heels_and_toes_have_halves_of_a_bar() -> None:
    show = pattering(0.05, 0.25)
    show.feet.soles[:], show.feet.heel[:] = 0.2, show.feet.contact
    svg = gait_plots.feet_over_time(show, 0.0, 2.0, clearance=0.033, slip=None)
    assert svg.count('class="stance"') == 2 * 8  # heels; toes never touch
    show.feet.toe[:] = show.feet.contact
    assert gait_plots.feet_over_time(show, 0.0, 2.0, clearance=0.033, slip=None).count('class="stance"') == 4 * 8


def test_long_names_of_feet_are_shortened() -> None:
    assert gait_plots.short_names(("left_ankle_link", "right_ankle_link")) == ["left", "right"]
    assert gait_plots.short_names(("LF_FOOT", "RF_FOOT")) == ["LF_FOOT", "RF_FOOT"]
    assert gait_plots.short_names(("a_very_long_foot",)) == ["a"]
    assert gait_plots.short_names(("averylongfoot", "anotherlongfoot")) == ["averylongfoot", "anotherlongfoot"]


def test_a_stride_goes_from_touch_down_to_touch_down() -> None:
    start, end = gait.one_stride(pattering(0.05, 0.25).feet, 1.0, 3.0)
    assert end - start == pytest.approx(0.25)
    dragging = gait.one_stride(pattering(0.0, 0.25).feet, 1.0, 3.0)
    assert dragging == pytest.approx((2.0, 3.0))


def test_joint_types_are_those_of_all_legs() -> None:
    assert gait_plots.joint_types(("LF_HAA", "RF_HAA", "LF_KFE")) == {"HAA": [0, 1], "KFE": [2]}
    assert gait_plots.joint_types(("left_hip_pitch_joint", "right_hip_pitch_joint")) == {"hip pitch": [0, 1]}


def test_spectrum_has_its_peak_where_the_torques_shake(monkeypatch: pytest.MonkeyPatch) -> None:
    show = pattering(0.05, 0.25)
    monkeypatch.setattr(Showcase, "windows", lambda self: [("forward", 2.0, 2.0 + WINDOW)])
    figure = gait_plots.torque_spectrum(show, ("L_HIP", "L_KNEE"), step_rate=2.6)
    assert [name for _, name in figure.legend] == ["HIP", "KNEE"]
    curve = re.search(r'points="([^"]*)" class="series s0"', figure.body)
    assert curve
    points = np.array([[float(v) for v in pair.split(",")] for pair in curve[1].split()])
    highest = points[points[:, 1].argmin(), 0]
    assert (highest - 56) / (720 - 12 - 56) * 25 == pytest.approx(10.0, abs=0.3)


def test_without_rendering_the_page_says_why(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contract, show = Contract.load(bundle), pattering(0.05, 0.25)

    def broken(*_: object) -> None:
        raise RuntimeError("no EGL here")

    monkeypatch.setattr(Showcase, "windows", lambda self: [("forward", 1.0, 1.0 + WINDOW)])
    monkeypatch.setattr(camera, "_gl_context", broken)
    with pytest.raises(RenderingError, match="no EGL here"):
        film_strip(show, {0: "start"}, contract, bundle / "robot.xml", bundle / "robot.xml")
    assert plots.pictures("Stride", "cannot render")[1].text == "No pictures: cannot render."
    assert Section("", *plots.pictures("Stride", [("0.00 s", b"jpeg")])).html().count("<img") == 1
