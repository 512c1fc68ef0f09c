"""Likely cause and next command from the settings of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gaitway_sim2real.trial import Verdict
from gaitway_tasks.registry import get_task

import gaitway
from gaitway.advice import advise
from gaitway.runs.folder import RunFolder
from gaitway.train_config import resolve

BUNDLE = Path(gaitway.__file__).parent / "demo/bundles/anymal-c"
TASK = "velocity-flat-anymal-c-blind"


def run_of(folder: Path, *settings: str) -> Path:
    run = RunFolder.create(folder, resolve(TASK, preset="cpu", overrides=settings))
    run.update(steps=1_000_000)
    return folder


@pytest.fixture(scope="module")
def failing() -> Verdict:
    """The demo's verdict, with feet that slide and drag."""
    verdict = Verdict.load(BUNDLE / "validation.json")
    scenarios = [
        replace(
            result,
            checks=tuple(
                replace(check, passed=check.metric.name not in ("slip", "clearance"), value=2 * check.limit)
                for check in result.checks
            ),
        )
        for result in verdict.scenarios
    ]
    return replace(verdict, scenarios=tuple(scenarios))


def test_a_harmful_setting_is_named_and_the_next_command_leaves_it_out(tmp_path, failing):
    run = run_of(tmp_path / "run", "task.rewards.feet_slide.weight=0", "num_envs=128")
    found = advise(BUNDLE, run, failing)
    assert found.cause.startswith("task.rewards.feet_slide.weight is 0, and the recipe has -0.25: it is the price of")
    assert found.command == f"gaitway train {TASK} --preset cpu --until good num_envs=128"


def test_a_removed_term_is_named(tmp_path, failing):
    found = advise(BUNDLE, run_of(tmp_path / "run", "task.rewards.feet_phase=null"), failing)
    assert "task.rewards.feet_phase" in found.cause and "is removed" in found.cause


def test_the_recipe_needs_more_steps(tmp_path, failing):
    run = run_of(tmp_path / "run", "seed=3")
    found = advise(BUNDLE, run, failing)
    assert found.cause == "the settings are the recipe's, so it may need more than its 1,000,000 steps"
    assert found.command == f"gaitway train {TASK} --out {run} --resume --until good total_steps=4500000"


def test_a_task_that_has_no_name_here_has_no_recipe(tmp_path, failing):
    task = replace(get_task(TASK), name="reach-mine")
    run = RunFolder.create(tmp_path / "run", resolve(task, preset=None))
    run.update(steps=1_000_000)
    found = advise(BUNDLE, tmp_path / "run", failing)
    assert found.cause == "" and found.command.startswith("gaitway train reach-mine --out")


def test_settings_that_explain_nothing_are_listed_and_not_accused(tmp_path, failing):
    found = advise(BUNDLE, run_of(tmp_path / "run", "task.rewards.stand_still.weight=-0.01"), failing)
    assert found.cause.startswith("none is known of the settings that differ from the recipe (task.rewards.stand_still")
