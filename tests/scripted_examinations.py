"""Examinations whose outcome a test chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from gaitway_sim2real.validate.examiner import EXAMINATION, Check, Examination
from gaitway_sim2real.validate.scenario import Limit

from gaitway.domains.robots import Robots

STEPS = 128
SMALL = [
    "num_envs=16", "agent.num_steps=8", "num_threads=1", "evaluation_episodes=0", "agent.optimizer.epochs=1",
    "total_steps=1280", "examination_interval=128", "checkpoint_interval=2",
    "task.commands.base_velocity.margin=0",
]  # fmt: skip
"""Ten iterations of :data:`STEPS`, each with an examination; without a margin nothing is calibrated for an export."""


def outcomes(monkeypatch: pytest.MonkeyPatch, good: set[int]) -> None:
    """Examinations after ``good`` iterations hold, all others do not."""
    standing = next(scenario for scenario in EXAMINATION if scenario.name == "standing")

    def examiner(self: Robots, config: object) -> Callable[[Any], Examination]:
        def examine(learner: Any) -> Examination:
            drift = 0.01 if learner.steps // STEPS in good else 0.2
            return Examination(seed=0, checks=(Check.of(standing, Limit(metric="drift", value=0.045), drift),))

        return examine

    monkeypatch.setattr(Robots, "examiner", examiner)
