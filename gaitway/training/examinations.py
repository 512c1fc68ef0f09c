"""Examinations of a policy in training, which may end it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..runs.folder import EXAMINATIONS, RunFolder
from ..runs.rows import read_rows
from .evaluator import Every

if TYPE_CHECKING:
    from gaitway_agents.trainer import Learner

    from ..config.train_config import TrainConfig

GOOD = "good"
"""Recorded reason of a training that ended by a passed examination; others end by ``total_steps``."""


class Examinations:
    """The examinations of one training; none unless its configuration says ``until`` "good"."""

    def __init__(self, config: TrainConfig, run: RunFolder, learner: Learner):
        self.config, self.run, self.learner = config, run, learner
        self.wanted = config.until == "good"
        self.every = Every(config.examination_interval, learner.steps)
        self.newest = "the policy was never examined"
        """Outcome of the newest examination."""
        if self.wanted:
            self.examine = config.domain.examiner(config)
            path = run.path / EXAMINATIONS
            earlier = read_rows(path) if path.exists() else []
            self.held = bool(earlier) and earlier[-1].get("passed") is True
            """True if all checks of the newest examination held."""

    def watch(self, wall: float, say: Callable[[str], None]) -> bool:
        """After an iteration, ``wall`` seconds into the training; whether the training is good and over."""
        steps = self.learner.steps
        if not self.wanted or not self.every.is_due(steps):
            return False
        began = time.process_time()
        found = self.examine(self.learner)
        cpu = time.process_time() - began
        self.run.append_examination({"steps": steps, "wall_s": wall, "cpu_s": round(cpu, 3), **found.to_dict()})
        twice, self.held = self.held and found.passed, found.passed
        self.newest = f"examination after {steps:,} steps {found.words()}{', twice in a row' if twice else ''}"
        say(self.newest)
        return twice and steps >= self.config.least_steps
