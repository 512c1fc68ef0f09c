"""Levels beside PASS and FAIL, from verdicts of which single checks are made to fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gaitway_sim2real.trial import Verdict
from gaitway_sim2real.trial.levels import level_of
from gaitway_velocity.suite import SUITE

import gaitway

DEMO = Path(gaitway.__file__).parent / "demo/bundles/anymal-c/validation.json"


def failing(scenario: str, metric: str) -> Verdict:
    """The demo's verdict with one failed check."""
    verdict, hits = Verdict.load(DEMO), 0
    scenarios = []
    for result in verdict.scenarios:
        checks = []
        for check in result.checks:
            hit = (result.name, check.metric.name) == (scenario, metric)
            hits += hit
            checks.append(replace(check, passed=check.passed and not hit))
        scenarios.append(replace(result, checks=tuple(checks)))
    assert hits == 1
    return replace(verdict, scenarios=tuple(scenarios))


@pytest.mark.parametrize(
    ("scenario", "metric", "level"),
    [
        ("friction_0.4", "slip", "walks clean"),
        ("gait_forward_slow", "clearance", "walks"),
        ("standing", "rest_joint_speed", "walks"),
        ("command_grid", "lin_vel_bias", "walks"),
        ("command_grid", "lin_vel_error", "stands"),
        ("pushes", "pushes_survived", "stands"),
        ("standing_slope", "falls", ""),
    ],
)
def test_the_level_is_the_highest_of_which_all_checks_hold(scenario, metric, level):
    verdict = failing(scenario, metric)
    assert not verdict.passed and level_of(SUITE.levels, verdict.scenarios) == level


def test_a_fail_says_its_level_and_keeps_it(tmp_path):
    verdict = replace(failing("command_grid", "lin_vel_bias"), level="walks")
    assert verdict.summary().startswith("FAIL: 44 of 45 required scenarios passed; level: walks\n")
    assert Verdict.load(verdict.save(tmp_path / "verdict.json")).level == "walks"
    assert "level" not in Verdict.load(DEMO).summary().partition("\n")[0]


def test_nothing_was_judged_has_no_level():
    assert level_of(SUITE.levels, ()) == ""
