"""Runs side by side: scores, aggregates and curves of groups. Pure computation; tables and figures only show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from gaitway_files.errors import UserError

from . import statistics
from .differences import mixed_settings, obstacle
from .gather import STOPPED, LeftOut, Run
from .normalise import POINTS, Normalisation, make_normalisation
from .published import Published, read_published
from .series import Axis
from .statistics import FEWEST, Array, Estimate, Scores

AGGREGATES = {
    "IQM": statistics.iqm,
    "Median": statistics.median,
    "Mean": statistics.mean,
    "Optimality gap": statistics.optimality_gap,
}


LOWER_IS_BETTER = ("tracking/", "rollout/termination/")
"""Metrics of which less is better."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One group: each run's own curve, and the interquartile mean over runs as far as all of them go."""

    group: str
    runs: list[tuple[Array, Array]]
    x: Array
    estimate: Estimate


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that is compared. Order of groups and tasks is that of the runs."""

    runs: Sequence[Run]
    left_out: Sequence[LeftOut]
    grouped_by: str
    normalisation: Normalisation
    reps: int
    cut: Sequence[str] = ()
    """What was said where runs were cut to the steps that all share."""
    published: Sequence[Published] = ()

    @cached_property
    def groups(self) -> list[str]:
        """Names of the groups."""
        return list(dict.fromkeys(run.group for run in self.runs))

    @cached_property
    def tasks(self) -> list[str]:
        """Names of the tasks."""
        return list(dict.fromkeys(run.task for run in self.runs))

    @cached_property
    def shared_tasks(self) -> list[str]:
        """Tasks on which every group has runs."""
        return [task for task in self.tasks if all(self.of(group, task) for group in self.groups)]

    @cached_property
    def ranked_tasks(self) -> list[str]:
        """Shared tasks whose scores are comparable; aggregates use only these."""
        return [task for task in self.shared_tasks if task not in self.obstacles]

    @cached_property
    def obstacles(self) -> dict[str, str]:
        """Tasks whose scores are not comparable, and the reason in words."""
        names = dict.fromkeys(run.series.name for run in self.runs)
        found = {task: next(filter(None, (self._obstacle(task, name) for name in names)), None) for task in self.tasks}
        return {task: reason for task, reason in found.items() if reason}

    @cached_property
    def walking_obstacles(self) -> dict[str, str]:
        """Tasks whose falls and tracking errors are not comparable, and the reason in words."""
        return {task: reason for task in self.tasks if (reason := self._obstacle(task, "falls"))}

    def _obstacle(self, task: str, metric: str) -> str | None:
        return obstacle([run for run in self.runs if run.task == task], metric)

    def of(self, group: str, task: str) -> list[Run]:
        """Runs of a group on a task."""
        return [run for run in self.runs if (run.group, run.task) == (group, task)]

    @property
    def metric(self) -> str:
        """Names of what was measured, separated by commas."""
        return ", ".join(dict.fromkeys(run.series.name for run in self.runs))

    @property
    def protocol(self) -> str:
        """Protocol of the measurement; different ones are separated by semicolons."""
        return "; ".join(dict.fromkeys(run.series.protocol for run in self.runs))

    @property
    def sign(self) -> float:
        """1 if more of the metric is better, -1 for errors of tracking and for terminations."""
        return -1.0 if all(run.series.name.startswith(LOWER_IS_BETTER) for run in self.runs) else 1.0

    def scores(self, group: str) -> Scores:
        """Normalised scores of a group, one array for each ranked task."""
        return [
            self.normalisation(task, np.array([run.series.score for run in self.of(group, task)]))
            for task in self.ranked_tasks
        ]

    @cached_property
    def aggregates(self) -> dict[str, dict[str, Estimate]]:
        """Group to name of aggregate to estimate. The optimality gap needs a scale on which 1 is the goal."""
        names = [name for name in AGGREGATES if self.normalisation.scales or name != "Optimality gap"]
        if not self.ranked_tasks:
            return {}
        return {
            group: {name: statistics.estimate(AGGREGATES[name], self.scores(group), reps=self.reps) for name in names}
            for group in self.groups
        }

    @property
    def intervals(self) -> bool:
        """True if every group has enough runs of every ranked task for intervals."""
        return all(len(self.of(group, task)) >= FEWEST for group in self.groups for task in self.ranked_tasks)

    def profiles(self) -> tuple[Array, dict[str, Estimate]]:
        """Thresholds, and for each group the share of runs above them."""
        if not self.ranked_tasks:
            return np.zeros(0), {}
        scores = {group: self.scores(group) for group in self.groups}
        everything = np.concatenate([x for tasks in scores.values() for x in tasks])
        low, high = everything.min(), everything.max()
        margin = 0.05 * (high - low) or 1.0
        thresholds = np.linspace(low - margin, high + margin, POINTS + 1)
        return thresholds, {
            group: statistics.estimate(
                lambda x: statistics.performance_profile(x, thresholds), scores[group], reps=self.reps
            )
            for group in self.groups
        }

    def curves(self, task: str, axis: Axis) -> list[Curve]:
        """Curves of each group that ran the task; ``x`` in environment steps or seconds."""
        return [self._curve(group, task, axis) for group in self.groups if self.of(group, task)]

    def _curve(self, group: str, task: str, axis: Axis) -> Curve:
        series = [run.series for run in self.of(group, task)]
        grids = [_grid(one.end(axis)) for one in series]
        x = _grid(min(one.end(axis) for one in series))
        values = np.stack([one.curve(x, axis) for one in series], -1)
        x, values = x[known := np.isfinite(values).all(-1)], values[known]
        own = [(grid, one.curve(grid, axis)) for grid, one in zip(grids, series, strict=True)]
        estimate = statistics.estimate(statistics.iqm, [values], reps=self.reps)
        return Curve(group=group, runs=own, x=x, estimate=estimate)

    def efficiency(self) -> list[Curve]:
        """Interquartile mean of the normalised curves of all shared tasks over the share of each run's steps."""
        return [self._efficiency(group) for group in self.groups]

    def _efficiency(self, group: str) -> Curve:
        share = _grid(1.0)
        scores = []
        for task in self.ranked_tasks:
            series = [run.series for run in self.of(group, task)]
            curves = [self.normalisation(task, one.curve(share * one.end("steps"), "steps")) for one in series]
            scores.append(np.stack(curves, -1))
        known = np.isfinite(np.concatenate(scores, -1)).all(-1)
        estimate = statistics.estimate(statistics.iqm, [x[known] for x in scores], reps=self.reps)
        return Curve(group=group, runs=[], x=100.0 * share[known], estimate=estimate)

    @cached_property
    def warnings(self) -> list[str]:
        """Caveats of the comparison, one sentence each."""
        return [
            *(str(one) for one in self.left_out),
            *self.cut,
            *self._warn_of_tasks(),
            *self._warn_of_obstacles(),
            *self._warn_of_runs(),
            *self._warn_of_few(),
            *mixed_settings(self.runs),
        ]

    def _warn_of_tasks(self) -> list[str]:
        found = []
        if len(self.groups) > 1 and not self.shared_tasks:
            found.append("no task was run by every group: there are no aggregates, only tables for each task")
        elif outside := [task for task in self.tasks if task not in self.shared_tasks]:
            found.append(f"aggregates leave out {', '.join(outside)}, which not every group has run")
        return found

    def _warn_of_obstacles(self) -> list[str]:
        found = []
        for task, reason in self.obstacles.items():
            if task in self.walking_obstacles:
                hint = "gaitway validate NEW --baseline OLD tests policies under the same conditions"
            else:
                hint = (
                    "falls and tracking errors are compared, where they were evaluated (their curves: --metric "
                    "tracking/COMMAND/MEASURE)"
                )
            found.append(f"the {self.metric} is not compared on {task}, because {reason}; {hint}")
        return found

    def _warn_of_few(self) -> list[str]:
        few: dict[int, list[str]] = {}
        for task in self.tasks:
            for group in self.groups:
                if 1 < (count := len(self.of(group, task))) < FEWEST:
                    few.setdefault(count, []).append(f"{group} on {task}")
        found = "; ".join(f"{count} of {', '.join(names)}" for count, names in few.items())
        return [f"too few runs for 95 % intervals, which need {FEWEST}: {found}"] if few else []

    def _warn_of_runs(self) -> list[str]:
        found = []
        for task in self.tasks:
            lengths = {group: {run.record["steps"] for run in self.of(group, task)} for group in self.groups}
            if len(set().union(*lengths.values())) > 1:
                said = ", ".join(f"{group} {_span(steps)}" for group, steps in lengths.items() if steps)
                found.append(
                    f"runs of {task} differ in length: {said} steps; each score is from its run's own end, and "
                    "--unfinished compares all at the end of the shortest"
                )
            for group in self.groups:
                runs = self.of(group, task)
                seeds = Counter(run.header.seed for run in runs)
                if twice := [str(seed) for seed, count in seeds.items() if count > 1]:
                    found.append(f"{group} on {task} has seed {', '.join(twice)} more than once")
                if len(runs) == 1:
                    found.append(f"{group} on {task} is a single run: nothing can be said about chance")
        return found


def compare(
    runs: Sequence[Run],
    left_out: Sequence[LeftOut],
    *,
    grouped_by: str,
    normalise: str | None,
    reps: int,
    cut: Sequence[str] = (),
    published: Sequence[str] = (),
) -> Comparison:
    """Compare runs; raises an error without runs. ``cut`` says how they were cut, ``published`` has scores of others
    as :func:`.published.read_published` takes them."""
    if not runs:
        reasons = "".join(f"\n  {one}" for one in left_out)
        stopped = any(one.header and one.header.record["status"] in STOPPED for one in left_out)
        hint = "; --unfinished compares those that were stopped" if stopped else ""
        raise UserError(f"there is no finished run to compare{hint}{reasons}")
    return Comparison(
        runs=runs,
        left_out=left_out,
        grouped_by=grouped_by,
        normalisation=make_normalisation(normalise, runs),
        reps=reps,
        cut=cut,
        published=read_published(published, list(dict.fromkeys(run.task for run in runs))),
    )


def _grid(end: float) -> Array:
    return np.linspace(0.0, end, POINTS + 1)[1:]


def _span(steps: set[int]) -> str:
    low, high = min(steps), max(steps)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
