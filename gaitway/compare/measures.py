"""What is compared between groups: a robot's falls and tracking errors, then the metric; and how clear each result is.

The literature's advice is in docs/compare.md. Nothing is ranked that chance alone explains: between two groups the
order of their runs decides (:class:`~gaitway.compare.statistics.Pairs`), and no number of few runs is an interval.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from . import statistics
from .comparison import Comparison
from .gather import Run
from .numbers import interval, number
from .series import Evaluation
from .statistics import Estimate, Pairs, Scores

ERRORS = {"linear": ("off command", "m/s"), "yaw": ("turning off command", "rad/s")}
"""Measures of walking in words, with their units."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Something that is compared between groups, on the tasks where all of them have it."""

    name: str
    scores: Mapping[str, Scores]
    """Group to its runs' values, one array for each task."""
    values: Mapping[str, float]
    """Group to its value over all runs."""
    said: Mapping[str, str]
    """Group to its value in words."""
    lower: bool = True
    """True if less is better."""

    def of(self, group: str) -> Scores:
        """The group's values, of which more is better."""
        return [-values if self.lower else values for values in self.scores[group]]


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """Runs of one group against runs of another by one measure; the interval is that of the probability."""

    measure: Measure
    group: str
    other: str
    pairs: Pairs
    estimate: Estimate


def measures(comparison: Comparison) -> list[Measure]:
    """All measures, the most telling first."""
    return [*walking_measures(comparison), *_metric(comparison)]


def pairings(comparison: Comparison) -> list[Pairing]:
    """Every measure for every pair of groups once; a baseline stands second."""
    return [
        pair(one, a, b, comparison.reps)
        for one in measures(comparison)
        for a, b in itertools.combinations(comparison.groups, 2)
    ]


def pair(measure: Measure, group: str, other: str, reps: int) -> Pairing:
    """``group`` against ``other``; ``reps`` resamples."""
    x, y = measure.of(group), measure.of(other)
    estimate = statistics.estimate(statistics.probability_of_improvement, x, y, reps=reps)
    return Pairing(measure=measure, group=group, other=other, pairs=statistics.pairs(x, y), estimate=estimate)


def walking_measures(comparison: Comparison) -> list[Measure]:
    """Falls and tracking errors in the last evaluations, on the tasks where every group has them."""
    groups = comparison.groups
    shared = [task for task in comparison.shared_tasks if task not in comparison.walking_obstacles]
    tasks = [task for task in shared if all(walked(comparison.of(group, task)) for group in groups)]
    if not tasks:
        return []
    last = {group: [last_of(walked(comparison.of(group, task))) for task in tasks] for group in groups}
    everything = [one for by_task in last.values() for task in by_task for one in task]
    names = [name for name in everything[0].errors if all(name in one.errors for one in everything)]
    return [_falls(last), *(_error(name, last) for name in names)]


def walked(runs: Sequence[Run]) -> list[Run]:
    """The runs whose last evaluation has falls."""
    return [run for run in runs if run.evaluations and run.evaluations[-1].falls is not None]


def last_of(runs: Sequence[Run]) -> list[Evaluation]:
    """Last evaluation of each run."""
    return [run.evaluations[-1] for run in runs]


def fallen(evaluations: Sequence[Evaluation]) -> str:
    """Episodes that ended by a fall, in words."""
    return f"{sum(one.falls or 0 for one in evaluations)} of {sum(len(one.returns) for one in evaluations)}"


def error_name(measure: str) -> tuple[str, str]:
    """Name of a tracking error and its unit."""
    return ERRORS.get(measure, (f"off command, {measure}", ""))


def headline(comparison: Comparison) -> list[str]:
    """The result in a few sentences, the most telling first."""
    sentences = [*_suite(comparison), *(_sentence(one, comparison) for one in measures(comparison))]
    walking = {
        task: reason
        for task, reason in comparison.walking_obstacles.items()
        if walked([run for run in comparison.runs if run.task == task])
    }
    for name, obstacles in (("Falls and errors", walking), (f"The {comparison.metric}", comparison.obstacles)):
        for task, reason in obstacles.items():
            verb = "are" if name.startswith("Falls") else "is"
            sentences.append(f"{name} {verb} not compared on {task}, because {reason}.")
    if len(comparison.groups) > 1 and not comparison.shared_tasks:
        sentences.append("No task was run by every group, so there is no overall result.")
    return sentences


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100.0 * share:.{0 if share >= 0.1 else 1}f} %" if share >= 0.001 else "less than 0.1 %"


def _falls(last: Mapping[str, list[list[Evaluation]]]) -> Measure:
    shares = {
        group: [np.array([(one.falls or 0) / len(one.returns) for one in task]) for task in by_task]
        for group, by_task in last.items()
    }
    everything = {group: [one for task in by_task for one in task] for group, by_task in last.items()}
    return Measure(
        name="falls",
        scores=shares,
        values={group: float(statistics.mean(scores)) for group, scores in shares.items()},
        said={group: f"{fallen(found)} episodes" for group, found in everything.items()},
    )


def _error(name: str, last: Mapping[str, list[list[Evaluation]]]) -> Measure:
    scores = {group: [np.array([one.errors[name] for one in task]) for task in tasks] for group, tasks in last.items()}
    values = {group: float(statistics.mean(found)) for group, found in scores.items()}
    title, unit = error_name(name)
    said = {group: f"{number(value)} {unit}".strip() for group, value in values.items()}
    return Measure(name=title, scores=scores, values=values, said=said)


def _metric(comparison: Comparison) -> list[Measure]:
    """The metric, if its scores are comparable on some task."""
    found = {group: by_name["IQM"] for group, by_name in comparison.aggregates.items()}
    if not found:
        return []
    return [
        Measure(
            name=f"IQM of the {comparison.metric}",
            scores={group: comparison.scores(group) for group in found},
            values={group: float(estimate.value) for group, estimate in found.items()},
            said={group: interval(estimate, comparison.normalisation.places) for group, estimate in found.items()},
            lower=comparison.sign < 0,
        )
    ]


def _suite(comparison: Comparison) -> list[str]:
    """How many runs have a policy that passed the suite, if some were judged."""
    said = []
    for group in comparison.groups:
        tried = [run.judged.suite for run in comparison.runs if run.group == group and run.judged.suite is not None]
        runs = f"run{'' if len(tried) == 1 else 's'}"
        said.append(f"{group}: {sum(tried)} of {len(tried)} judged {runs}" if tried else f"{group}: none judged")
    judged = any(run.judged.suite is not None for run in comparison.runs)
    return [f"Passed the suite — {', '.join(said)}."] if judged else []


def _sentence(measure: Measure, comparison: Comparison) -> str:
    """Values of all groups, and how clearly the best two differ."""
    groups = comparison.groups
    told = f"{measure.name[0].upper()}{measure.name[1:]} — "
    told += ", ".join(f"{group}: {measure.said[group]}" for group in groups)
    if len(groups) == 1:
        return f"{told}."
    sign = 1.0 if measure.lower else -1.0
    best, second = sorted(groups, key=lambda group: sign * measure.values[group])[:2]
    pairs = statistics.pairs(measure.of(best), measure.of(second))
    if pairs.count == 1:
        return f"{told}; one run each gives no ranking."
    if pairs.equal == pairs.count:
        return f"{told}; no difference in any of {pairs.count} pairs of seeds."
    if pairs.worse > pairs.better:
        best, second, pairs = second, best, pairs.turned()
    over = f"{best} is {pairs}" + (f" with {second}" if len(groups) > 2 else "")
    if pairs.different:
        return f"{told}; {over} (chance alone: {percent(pairs.chance)})."
    return f"{told}; no ranking: {over}, and chance alone does as much in {percent(pairs.chance)} of cases."
