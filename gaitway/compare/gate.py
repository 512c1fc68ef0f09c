"""Gate: decides whether new runs may replace the baseline. One answer for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gaitway_files.errors import UserError

from . import statistics
from .comparison import Comparison
from .differences import obstacle
from .gather import BASELINE
from .measures import percent
from .numbers import interval
from .statistics import Estimate, Pairs, chance_of_fewer


@dataclass(frozen=True, kw_only=True)
class Check:
    """One group on one task against its baseline."""

    group: str
    task: str
    estimate: Estimate
    pairs: Pairs
    failed: int
    """Number of new runs that failed; they count as worse than any other."""

    def sentence(self) -> str:
        new, old = self.pairs.runs
        failed = f" ({self.failed} failed)" if self.failed else ""
        return (
            f"{self.group} on {self.task}: {self.pairs} with the baseline ({interval(self.estimate, 3)}), "
            f"{new} run{'' if new == 1 else 's'}{failed} against {old}"
        )

    def false_alarms(self, bound: float) -> float:
        """Probability that a new version without a difference misses ``bound`` with these numbers of runs."""
        return chance_of_fewer([self.pairs.runs], round(bound * self.pairs.count, 6))


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Passed if the probability of improvement reaches ``bound`` on every task."""

    bound: float
    checks: Sequence[Check]

    @property
    def failures(self) -> list[Check]:
        return [check for check in self.checks if not float(check.estimate.value) >= self.bound]

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def word(self) -> str:
        return "PASS" if self.passed else "FAIL"

    def line(self) -> str:
        """The verdict in one line; of several tasks the worst is told."""
        worst = min(self.checks, key=lambda check: float(check.estimate.value))
        count = len(self.failures)
        relation = "below" if count else "not below"
        others = f" (the worst of {len(self.checks)}; {count} below)" if len(self.checks) > 1 else ""
        alarms = f"{percent(worst.false_alarms(self.bound))} of unchanged versions would be below"
        return f"{self.word}: {worst.sentence()}; {relation} {self.bound:g}{others}; {alarms}"


def judge(comparison: Comparison, bound: float) -> Gate:
    """Each group of the new runs against the group of the same name in the baseline, task by task."""
    checks = []
    failed = [one.header for one in comparison.left_out if one.failed and one.header and not one.header.baseline]
    fresh = [run.group for run in comparison.runs if not run.header.baseline]
    for group in dict.fromkeys([*fresh, *(header.group for header in failed)]):
        for task in dict.fromkeys([*comparison.tasks, *(header.task for header in failed)]):
            old = [comparison.sign * run.series.score for run in comparison.of(group + BASELINE, task)]
            lost = sum((header.group, header.task) == (group, task) for header in failed)
            new = [comparison.sign * run.series.score for run in comparison.of(group, task)] + lost * [-np.inf]
            if old and new:
                _check_comparable(comparison, group, task)
                sides = [np.array(new)], [np.array(old)]
                chance = statistics.estimate(statistics.probability_of_improvement, *sides, reps=comparison.reps)
                pairs = statistics.pairs(*sides)
                checks.append(Check(group=group, task=task, estimate=chance, pairs=pairs, failed=lost))
    if not checks:
        raise UserError(
            f"no new run has a counterpart in the baseline: groups are {', '.join(comparison.groups)}; they meet by "
            "task and by the name of their group, which --group and --label change"
        )
    return Gate(bound=bound, checks=checks)


def _check_comparable(comparison: Comparison, group: str, task: str) -> None:
    """Refuse to judge returns of different rewards, or what was measured under different conditions."""
    runs = [*comparison.of(group, task), *comparison.of(group + BASELINE, task)]
    if reason := obstacle(runs, runs[0].series.name):
        raise UserError(
            f"the gate cannot judge {group} on {task} by its {comparison.metric}, because {reason}; --metric "
            "tracking/COMMAND/MEASURE and length do not depend on rewards, and gaitway validate NEW --baseline OLD "
            "tests policies under the same conditions"
        )
