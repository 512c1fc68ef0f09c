"""Examinations of a policy in training; the whole suite judges a policy that passes one, and may end the training."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gaitway_agents.core import distributed

from ..runs.choice import best as best_of
from ..runs.folder import EXAMINATIONS, RunFolder
from ..runs.rows import read_rows
from .evaluator import Every
from .progress import about

if TYPE_CHECKING:
    from gaitway_agents.trainer import Learner

    from ..train_config import TrainConfig

GOOD = "good"
"""Recorded reason of a training that ended by a policy that passed the suite; others end by ``total_steps``."""
SHOWN = 3
"""Failed checks that a line names."""
TRIAL = 14.0
"""Time of a trial, in that of an examination that passes."""
TOLD_S = 20.0
"""Time between lines about a trial."""


class Halted(Exception):
    """A trial that was stopped."""


class Watch:
    """Watcher of a trial: says now and then how far it is, and halts it once ``stopped()``."""

    def __init__(self, say: Callable[[str], None], stopped: Callable[[], object]):
        self.say, self.stopped, self.told = say, stopped, time.monotonic()

    def __call__(self, done: int, total: int, title: str, left: float | None) -> None:
        if self.stopped():
            raise Halted
        if left is not None and time.monotonic() - self.told > TOLD_S:
            self.told = time.monotonic()
            self.say(f"  {done} of {total} scenarios done; {about(left)} left")


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

    @distributed.alone()
    def hold(self, wall: float, say: Callable[[str], None], stopped: Callable[[], object]) -> bool:
        """Examine the policy, ``wall`` seconds into the training; True if it is good and the training over.

        If it passes, the whole suite judges it, the scenarios that the one before failed first. Once ``stopped()``, the
        examination is dropped; a training that goes on holds it again.
        """
        steps = self.learner.steps
        busy, began = time.process_time(), time.monotonic()
        found = self.examine(self.learner)
        took = time.monotonic() - began
        row = {"steps": steps, "wall_s": wall, "cpu_s": round(time.process_time() - busy, 3), **found.to_dict()}
        say(f"examination after {steps:,} steps {found.words()}")
        if found.passed and steps >= self.config.least_steps:
            say(f"trying this policy on the whole suite; {about(TRIAL * took)}")
            began = time.monotonic()
            tries = [earlier["suite"] for earlier in self.rows if "suite" in earlier]
            suspects = list(dict.fromkeys(name for each in reversed(tries) for name in each["scenarios"]))
            try:
                verdict = self.judge(self.learner, len(tries), suspects, Watch(say, stopped))
            except Halted:
                return False
            row["suite"] = {**verdict.to_dict(), "wall_s": round(time.monotonic() - began, 1)}
            say(f"the suite on the policy of {steps:,} steps: {verdict.words()}")
        self.rows.append(row)
        self.run.append_examination(row)
        return "suite" in row and row["suite"]["passed"]

    def spared(self) -> set[int]:
        """Steps of the checkpoints that outlive newer ones: those that passed an examination, and the best."""
        best = self.best()
        return {row["steps"] for row in self.rows if row["passed"] or row["steps"] == best}

    def best(self) -> int | None:
        """Steps of the best policy examined; None if none was."""
        return best_of(self.rows, {row["steps"] for row in self.rows})

    def lacks(self) -> str:
        """What the best policy lacked, in words."""
        if (steps := self.best()) is None:
            return "the policy was never examined"
        (row,) = [row for row in self.rows if row["steps"] == steps]
        lacks = [*row["missing"], *row.get("suite", {}).get("failed", ())]
        return f"the best policy examined, of {steps:,} steps, lacks {'; '.join(lacks[:SHOWN])}"
