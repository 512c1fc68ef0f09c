"""Reasons for a FAIL: what failures share, the likely cause, and the walk that a report shows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gaitway_sim2real.trial import Verdict, validate_bundle
from gaitway_sim2real.trial.causes import likely
from gaitway_sim2real.trial.why import Advice, Why, in_common
from gaitway_velocity.causes import CAUSES
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.themes import THEMES
from stand_bundle import make_stand_bundle

CHOSEN = tuple(
    replace(s, envs=8, seconds=4.0) for s in SCENARIOS if s.name in ("gait_forward_slow", "gait_backward", "standing")
)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdict, Path]:
    """The verdict on a robot that stands for every command, and the folder of its report."""
    folder = tmp_path_factory.mktemp("why")
    bundle = make_stand_bundle(folder / "bundle")
    advice = Advice(cause="feet are not paid", command="gaitway train it")
    verdict = validate_bundle(
        bundle, scenarios=CHOSEN, report_dir=folder / "report", video=False, advise=lambda verdict: advice,
        called=Path("runs/mine/bundle"),
    )  # fmt: skip
    return verdict, folder / "report"


def test_a_fail_says_what_was_seen_what_is_shared_and_what_to_do(failed: tuple[Verdict, Path]) -> None:
    verdict, folder = failed
    assert verdict.why is not None and verdict.why.scenario.startswith("Gait: ")
    assert "no foot is lifted" in verdict.why.seen[0]
    for line in ("seen: robot ", "in common: ", "likely cause: feet are not paid", "next: gaitway train it"):
        assert line in verdict.summary()
    assert Verdict.load(folder / "validation.json").why == replace(verdict.why, command="")
    assert "gaitway train it" not in (folder / "validation.json").read_text("utf-8")


def test_the_page_shows_the_failure_first_and_folds_the_rest(failed: tuple[Verdict, Path]) -> None:
    _, folder = failed
    page = (folder / "report.html").read_text("utf-8")
    places = [
        page.index(text) for text in ("feet are not paid", "<nav>", "The worst failure: Gait", "What failed</h2>")
    ]
    assert places == sorted(places) and page.index("<details class") > places[-1]
    links = re.findall(r'<a href="#([^"]+)"', page)
    assert len(links) > 5 and all(f'id="{link}"' in page for link in links)
    assert "gaitway validate runs/mine/bundle" in page


def test_every_drawing_is_a_file_of_its_own(failed: tuple[Verdict, Path]) -> None:
    drawings = sorted((failed[1] / "figures").glob("*.svg"))
    assert any(path.name.startswith("the-worst-failure") for path in drawings)
    for path in drawings:
        text = path.read_text("utf-8")
        assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"') and "--ink: #1d2229" in text
        assert "prefers-color-scheme" not in text


def pair(metric: str, scenario: str, factor: str = "", title: str = "") -> Any:
    check = SimpleNamespace(metric=SimpleNamespace(name=metric), title=metric)
    return SimpleNamespace(name=scenario, title=title or scenario, factor=factor), check


def test_failures_of_one_kind_are_said_as_one() -> None:
    pairs = [pair("clearance", "gait_a"), pair("dragging_feet", "gait_b"), pair("slip", "carpet", "softness")]
    said = in_common(pairs, THEMES)
    assert said.startswith("3 limits fail in 3 scenarios; 2 are about lifting the feet (clearance, dragging_feet)")
    assert "undisturbed as well (gait_a)" in said
    soft = [pair("falls", "carpet", "softness"), pair("falls", "mat", "softness")]
    assert in_common(soft, THEMES).endswith("all are about falling (falls), only with changes: carpet, mat")
    assert in_common(soft[:1], THEMES) == ""
    assert "several things" in in_common([pair("falls", "a"), pair("slip", "b"), pair("drift", "c")], THEMES)


REWARD, EVENT = "task.rewards.", "task.events."
FRICTION = EVENT + "physics_material.params.friction_range"


@pytest.mark.parametrize(
    ("changes", "failures", "named"),
    [
        ({REWARD + "feet_phase.weight": (6.0, 0.5)}, [("clearance", "gait_a", "")], "feet_phase.weight is 0.5"),
        ({REWARD + "feet_slide.weight": (-0.25, 0)}, [("slip", "gait_a", "")], "price of feet that slide"),
        ({FRICTION: ([0.35, 1.6], [0.9, 1.1])}, [("falls", "friction_0.4", "friction")], "0.9 to 1.1, and the recipe"),
        ({FRICTION: ([0.35, 1.6], [0.1, 2.0])}, [("falls", "friction_0.4", "friction")], None),
        ({EVENT + "push_robot.params.velocity_range.x": ([-0.5, 0.5], None)}, [("pushes_survived", "pushes", "")],
         "is removed"),
        ({REWARD + "feet_slide.weight": (-0.25, -0.5)}, [("slip", "gait_a", "")], None),
        ({REWARD + "feet_slide.weight": (-0.25, 0)}, [("yaw_vel_error", "command_grid", "")], None),
        ({}, [("slip", "gait_a", "")], None),
    ],
)  # fmt: skip
def test_a_setting_is_a_cause_if_it_differs_harmfully_and_its_symptoms_failed(changes, failures, named) -> None:
    found = likely(CAUSES, [pair(*each) for each in failures], THEMES, changes)
    assert named in found.sentence() if named is not None else found is None


def test_of_two_changes_that_with_more_symptoms_is_named() -> None:
    changes = {REWARD + "feet_slide.weight": (-0.25, 0), REWARD + "stand_still.weight": (-0.1, 0)}
    rest = [pair("rest_speed", "standing"), pair("steps_at_rest", "standing"), pair("slip", "gait_a")]
    found = likely(CAUSES, rest, THEMES, changes)
    assert found is not None and found.key.endswith("stand_still.weight") and found.share == pytest.approx(2 / 3)


def test_too_little_time_is_named_only_where_nothing_explains_half_of_the_failures() -> None:
    less, slide = {"total_steps": (4_500_000, 1_000_000)}, {REWARD + "feet_slide.weight": (-0.25, 0)}
    failures = [pair("slip", "gait_a"), pair("rest_speed", "standing")]
    named = [likely(CAUSES, failures, THEMES, changes) for changes in (less, less | slide)]
    assert [found and found.key for found in named] == ["total_steps", REWARD + "feet_slide.weight"]


def test_a_reason_without_a_cause_has_no_empty_lines() -> None:
    assert Why(scenario="a", robot=1, seen=("it falls",)).lines() == ["seen: it falls"]
