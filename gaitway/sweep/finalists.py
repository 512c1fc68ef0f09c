"""The best trials again with other seeds: the value that chose a trial is partly luck, and does not count for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from optuna.trial import FrozenTrial

from ..compare.statistics import Pairs, pairs
from ..errors import RunError
from ..jobs import Job
from .search import Search

FOLDER = "confirm"


@dataclass(eq=False)
class Finalist:
    """A trial and its trainings with other seeds."""

    trial: FrozenTrial
    jobs: list[Job] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Trainings without a value, and why."""

    @property
    def number(self) -> int:
        return int(self.trial.number)

    @property
    def mean(self) -> float:
        """Mean of the values; there is at least one."""
        return float(np.mean(self.values))


def finalists(search: Search, count: int, seeds: int) -> list[Finalist]:
    """The ``count`` best trials, and the one with the settings as they were, each with ``seeds`` further seeds."""
    ranked = search.ranked()
    chosen = ranked[:count]
    if count and search.plan.begun:
        chosen += [trial for trial in ranked[count:] if trial.number == 0]
    found = []
    for trial in chosen:
        folder = search.folder / FOLDER / search.folder_of(trial.number).name
        jobs = []
        for seed in range(search.plan.seed + 1, search.plan.seed + 1 + seeds):
            name = f"trial {trial.number} with seed {seed}"
            jobs.append(search.plan.job(trial.params, folder / f"seed{seed}", seed=seed, name=name))
        found.append(Finalist(trial, jobs))
    return found


def read_values(search: Search, found: list[Finalist]) -> list[Finalist]:
    """``found`` with the values of the trainings that are finished, those with the best mean first."""
    for each in found:
        each.values, each.failed = [], []
        for job in each.jobs:
            try:
                if not job.is_finished():
                    raise RunError(f"{job.folder} is not finished")
                each.values.append(search.plan.metric.series(job.folder).score)
            except RunError as error:
                each.failed.append(f"{job}: {error}")
    sign = 1.0 if search.plan.metric.lower else -1.0
    return sorted(found, key=lambda each: sign * each.mean if each.values else np.inf)


def against(search: Search, best: Finalist, other: Finalist) -> Pairs:
    """The seeds of two finalists against each other."""
    sign = -1.0 if search.plan.metric.lower else 1.0
    return pairs([sign * np.array(best.values)], [sign * np.array(other.values)])
