"""Examinations of a policy in training; the whole suite judges a policy that passes one, and may end the training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..runs.folder import EXAMINATIONS, RunFolder
from ..runs.rows import read_rows
from .evaluator import Every

if TYPE_CHECKING:
    from gaitway_agents.trainer import Learner

    from ..config.train_config import TrainConfig

GOOD = "good"
"""Recorded reason of a training that ended by a policy that passed the suite; others end by ``total_steps``."""


class Examinations:
    """The examinations of one training; none unless its configuration says ``until`` "good"."""

    def __init__(self, config: TrainConfig, run: RunFolder, learner: Learner):
        self.config, self.run, self.learner = config, run, learner
        self.wanted = config.until == "good"
        self.rows: list[dict[str, Any]] = []
        """Rows of ``examinations.jsonl``, oldest first."""
        if self.wanted:
            self.examine, self.judge = config.domain.examiner(config), config.domain.judge(config)
            path = run.path / EXAMINATIONS
            self.rows = read_rows(path) if path.exists() else []
        # A training that was stopped between a checkpoint and its examination is examined when it goes on.
        examined = self.rows[-1]["steps"] if self.rows else 0
        self.every = Every(config.examination_interval, examined)

    def is_due(self) -> bool:
        """True once for each ``examination_interval`` that has passed."""
        return self.wanted and self.every.is_due(self.learner.steps)

    def hold(self, wall: float, say: Callable[[str], None]) -> bool:
        """Examine the policy, ``wall`` seconds into the training; True if it is good and the training over.

        If it passes, the whole suite judges it, the scenarios that the one before failed first.
        """
        steps = self.learner.steps
        began = time.process_time()
        found = self.examine(self.learner)
        row = {"steps": steps, "wall_s": wall, "cpu_s": round(time.process_time() - began, 3), **found.to_dict()}
        say(f"examination after {steps:,} steps {found.words()}")
        if found.passed and steps >= self.config.least_steps:
            say("trying this policy on the whole suite, which takes a minute or more")
            tries = [earlier["suite"] for earlier in self.rows if "suite" in earlier]
            suspects = list(dict.fromkeys(name for each in reversed(tries) for name in each["scenarios"]))
            verdict = self.judge(self.learner, len(tries), suspects)
            row["suite"] = verdict.to_dict()
            say(f"the suite on the policy of {steps:,} steps: {verdict.words()}")
        self.rows.append(row)
        self.run.append_examination(row)
        return "suite" in row and row["suite"]["passed"]

    def kept(self) -> set[int]:
        """Steps of the checkpoints that outlive newer ones: those that passed an examination, and the best."""
        best = self.best()
        return {row["steps"] for row in self.rows if row["passed"] or row is best}

    def best(self) -> dict[str, Any] | None:
        """Row of the best policy examined; None if none was."""
        return max(self.rows, key=merit, default=None)

    def newest(self) -> str:
        """What the best policy lacked, in words."""
        if (best := self.best()) is None:
            return "the policy was never examined"
        lacks = [*best["missing"], *best.get("suite", {}).get("failed", ())]
        return f"the best policy examined, of {best['steps']:,} steps, lacks {'; '.join(lacks[:3])}"


def merit(row: dict[str, Any]) -> tuple[float, ...]:
    """Sort key of examined policies, the best last: by the suite, the examination, failed checks, and margins."""
    suite, closest = row.get("suite", {}).get("passed", False), row.get("closest")
    margin = -math.inf if closest is None else -closest
    return suite, row["passed"], not row.get("left_out"), -len(row["missing"]), margin, row["steps"]
