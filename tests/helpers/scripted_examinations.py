"""Examinations and trials whose outcome a test chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from gaitway_sim2real.trial.candidate import Trial
from gaitway_sim2real.trial.examination import Check, Examination
from gaitway_sim2real.trial.scenario import Limit
from gaitway_sim2real.trial.schedule import Progress
from gaitway_velocity.metrics import METRICS
from gaitway_velocity.suite import SUITE

from gaitway.domains.robots import Robots

STEPS = 128
SMALL = [
    "num_envs=16", "agent.num_steps=8", "num_threads=1", "evaluation_episodes=0", "agent.optimizer.epochs=1",
    "total_steps=1280", "examination_interval=128", "checkpoint_interval=2",
    "task.commands.base_velocity.margin=0",
]  # fmt: skip
"""Ten iterations of :data:`STEPS`, each with an examination; without a margin nothing is calibrated for an export."""


def outcomes(
    monkeypatch: pytest.MonkeyPatch, good: set[int], suite: set[int] | None = None
) -> list[tuple[int, int, list[str]]]:
    """Examinations after ``good`` iterations hold, and trials after those of ``suite``, by default all.

    The list that is returned gets the iteration of each trial, its number, and the scenarios to run first.
    """
    standing = next(scenario for scenario in SUITE.examination if scenario.name == "standing")
    trials: list[tuple[int, int, list[str]]] = []

    def examiner(self: Robots, config: object) -> Callable[[Any], Examination]:
        def examine(learner: Any) -> Examination:
            drift = 0.01 if learner.steps // STEPS in good else 0.2
            return Examination(
                seed=0, checks=(Check.of(standing, Limit(metric="drift", value=0.045), METRICS["drift"], drift),)
            )

        return examine

    def judge(self: Robots, config: object) -> Callable[[Any, int, Sequence[str], Progress], Trial]:
        def tried(learner: Any, number: int, first: Sequence[str], progress: Progress) -> Trial:
            iteration = learner.steps // STEPS
            progress(1, 2, "Standing still", 30.0)
            trials.append((iteration, number, list(first)))
            if suite is None or iteration in suite:
                return Trial(seed=number, passed=True, scenarios=(), failed=())
            name = f"slope-{iteration}"
            return Trial(seed=number, passed=False, scenarios=(name,), failed=(f"{name}, falls 5.0 %",))

        return tried

    monkeypatch.setattr(Robots, "examiner", examiner)
    monkeypatch.setattr(Robots, "judge", judge)
    return trials
