"""The tables of a comparison, once, for the terminal, Markdown and the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .comparison import Comparison
from .differences import ABSENT, config_differences, origin
from .gather import Run
from .series import evaluation_kind
from .statistics import Estimate


@dataclass(frozen=True)
class Table:
    """Cells are text as shown; ``words`` are the columns that hold no numbers; ``note`` says the protocol."""

    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[str]
    folded: bool = False
    """Long and rarely asked for: the page opens it on demand, the terminal leaves it out."""
    details: Sequence[str] = ()
    """Columns that the terminal leaves out too."""


def results(comparison: Comparison) -> list[Table]:
    """Tables of the results."""
    tables = [
        scores(comparison),
        walking(comparison),
        evaluations(comparison),
        aggregates(comparison),
        improvements(comparison),
    ]
    return [table for table in [*tables, runtime(comparison)] if table is not None]


def circumstances(comparison: Comparison) -> list[Table]:
    """Tables of other differences between the runs."""
    return [*settings(comparison), *origins(comparison)]


def headline(comparison: Comparison) -> str:
    """The result in a sentence or two."""
    found = comparison.aggregates
    if not found:
        return "No task was run by every group, so there is no overall result."
    order = sorted(found, key=lambda group: -comparison.sign * float(found[group]["IQM"].value))
    most = "highest" if comparison.sign > 0 else "lowest"
    best = interval(found[order[0]]["IQM"], _places(comparison))
    if len(order) == 1:
        return f"{order[0]} has an IQM of {best}."
    pair = next(one for one in comparison.improvements if {one.better, one.than} == set(order[:2]))
    value, low, high = (float(x) for x in (pair.estimate.value, pair.estimate.low, pair.estimate.high))
    if not all(math.isfinite(found[group]["IQM"].low) for group in order[:2]):
        return f"{order[0]} has the {most} IQM: {best}."
    if pair.better != order[0]:
        value, low, high = 1.0 - value, 1.0 - high, 1.0 - low
    chance = f"{value:.2f} [{low:.2f}, {high:.2f}]" if math.isfinite(low) else f"{value:.2f}"
    return f"{order[0]} has the {most} IQM: {best}. One of its runs beats one of {order[1]} with probability {chance}."


def scores(comparison: Comparison) -> Table:
    seeds = sorted({run.header.seed for run in comparison.runs})
    rows = []
    for task, group, runs in _cells(comparison):
        per_seed = [
            ", ".join(number(run.series.score) for run in runs if run.header.seed == seed) or "—" for seed in seeds
        ]
        rows.append([task, group, str(len(runs)), spread([run.series.score for run in runs]), *per_seed])
    note = f"Each number: {comparison.protocol}. Mean ± sample standard deviation over runs."
    note += " Lower is better." if comparison.sign < 0 else ""
    columns = ["task", "group", "runs", "mean ± std", *(f"seed {seed}" for seed in seeds)]
    return Table(f"Scores: {comparison.metric}", note, columns, rows, ["task", "group"])


def walking(comparison: Comparison) -> Table | None:
    """Table of tracking errors and falls in the last evaluation, whatever the rewards."""
    measures = {
        "falls [% of episodes]": ("falls", 100.0),
        "off command [m/s]": ("linear", 1.0),
        "turning [rad/s]": ("yaw", 1.0),
    }
    rows = []
    for task, group, runs in _cells(comparison):
        last = [run.evaluations[-1] for run in runs if run.evaluations and run.evaluations[-1].falls is not None]
        if last:
            found = ([getattr(one, name) for one in last] for name, _ in measures.values())
            cells = [
                spread([scale * value for value in values]) if None not in values else "—"
                for values, (_, scale) in zip(found, measures.values(), strict=True)
            ]
            rows.append([task, group, str(len(last)), *cells])
    note = (
        "Of the last evaluation of each run: falls, and the mean distance from the commanded velocity. Lower is "
        "better. Unlike returns they do not depend on the weights of rewards. Mean ± sample standard "
        "deviation over runs."
    )
    return Table("Walking", note, ["task", "group", "runs", *measures], rows, ["task", "group"]) if rows else None


def evaluations(comparison: Comparison) -> Table | None:
    rows = []
    for task, group, runs in _cells(comparison):
        having = [run for run in runs if run.evaluations]
        if having:
            last = spread([run.evaluations[-1].mean for run in having])
            best = spread([max(e.mean for e in run.evaluations) for run in having])
            protocols = _last_protocol(having), _all_protocol(having)
            rows.append([task, group, str(len(having)), last, protocols[0], best, protocols[1]])
    note = (
        "Last: mean return of a run's last evaluation. Max over run: that of its best evaluation, which flatters and "
        "grows with their number. Mean ± sample standard deviation over runs."
    )
    columns = ["task", "group", "runs", "last", "which is", "max over run", "which is over"]
    words = ["task", "group", "which is", "which is over"]
    return Table("Evaluation", note, columns, rows, words, details=["runs"]) if rows else None


def aggregates(comparison: Comparison) -> Table | None:
    found = comparison.aggregates
    if not found:
        return None
    names = list(next(iter(found.values())))
    tasks = comparison.shared_tasks
    where = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
    note = (
        f"Over {where}; {comparison.protocol}; {comparison.normalisation.about}. 95 % intervals "
        f"from {comparison.reps:,} stratified bootstrap resamples of the runs."
    )
    if len(tasks) == 1:
        note += " With one task, median and mean over tasks are both its mean."
    if comparison.normalisation.scales:
        note += " Optimality gap: how far below 1 on average, smaller is better."
    places = _places(comparison)
    rows = [[group, *(interval(one, places) for one in by_name.values())] for group, by_name in found.items()]
    return Table("Aggregates", note, ["group", *names], rows, ["group"])


def improvements(comparison: Comparison) -> Table | None:
    rows = [[f"{one.better} over {one.than}", interval(one.estimate, 3)] for one in comparison.improvements]
    note = (
        "Chance that a random run of the first beats a random run of the second on the same task, ties counted half, "
        "mean over tasks. 0.5: no difference."
    )
    return (
        Table("Probability of improvement", note, ["comparison", "probability"], rows, ["comparison"]) if rows else None
    )


def runtime(comparison: Comparison) -> Table:
    rows = []
    for task, group, runs in _cells(comparison):
        wall = [float(run.record["wall_time_s"]) for run in runs]
        speed = [speed_of(run) for run in runs]
        steps = sorted({int(run.record["steps"]) for run in runs})
        rows.append([task, group, _time_shares(runs), str(len(runs)), _range(steps), spread(wall), spread(speed)])
    note = (
        "Wall time of training, mean ± sample standard deviation over runs. It depends on the machine and on what ran "
        "beside."
    )
    columns = ["task", "group", "time spent in", "runs", "steps", "wall time [s]", "steps/s"]
    return Table("Runtime", note, columns, rows, columns[:3], details=["time spent in", "runs"])


def settings(comparison: Comparison) -> list[Table]:
    """Settings with different values and, in a separate table, settings that only some groups have."""
    found = config_differences(comparison.runs, comparison.groups)
    partial = [key for key, values in found.items() if ABSENT in values.values()]
    columns = ["setting", *comparison.groups]
    if len(comparison.groups) == 1:
        note = "There is one group only."
    elif len(found) == len(partial):
        note = "None on the tasks that groups share, the seed aside."
    else:
        note = "From config.yaml, on the tasks that groups share; the seed is left out."
    differ = [[key, *values.values()] for key, values in found.items() if key not in partial]
    rest = [[key, *found[key].values()] for key in partial]
    return [
        Table("Settings that differ between groups", note, columns, differ, columns),
        Table("Settings that not every group has", "", columns, rest, columns, folded=True),
    ]


def origins(comparison: Comparison) -> list[Table]:
    """Versions, machines and commits that differ, and those all runs share."""
    found = origin(comparison.runs, comparison.groups)
    everywhere = {key: sorted({v for values in by_group.values() for v in values}) for key, by_group in found.items()}
    differ = [key for key, values in everywhere.items() if len(values) > 1]
    note = "" if differ else "None: every run comes from the same versions, machine and commit."
    columns, shared = ["from run.json", *comparison.groups], ["from run.json", "all groups"]
    rows = [[key, *(", ".join(values) for values in found[key].values())] for key in differ]
    same = [[key, values[0]] for key, values in everywhere.items() if key not in differ]
    return [
        Table("Versions, machines and commits that differ", note, columns, rows, columns),
        Table("Versions, machine and commit of all runs", "", shared, same, shared, folded=True),
    ]


def speed_of(run: Run) -> float:
    """Environment steps for each second of wall time."""
    return float(run.record["steps"]) / max(float(run.record["wall_time_s"]), 1e-9)


def number(value: float, places: int | None = None) -> str:
    """Four significant digits, or so many decimal places; thousands separated, a true minus sign."""
    if not math.isfinite(value):
        return "—"
    if places is None:
        places = min(max(3 - math.floor(math.log10(abs(value))), 0), 6) if value else 1
    text = f"{value:,.{places}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.removeprefix("-")


def spread(values: Sequence[float]) -> str:
    """Mean ± sample standard deviation, which a single value does not have."""
    center = number(float(np.mean(values)))
    return f"{center} ± {number(float(np.std(values, ddof=1)))}" if len(values) > 1 else center


def interval(estimate: Estimate, places: int | None = None) -> str:
    value = number(float(estimate.value), places)
    if not math.isfinite(float(estimate.low)):
        return value
    low, high = (number(float(end), places) for end in (estimate.low, estimate.high))
    return f"{value} (min {low}, max {high})" if estimate.extremes else f"{value} [{low}, {high}]"


def _last_protocol(runs: Sequence[Run]) -> str:
    kinds = dict.fromkeys(evaluation_kind(run.evaluations[-1:]) for run in runs)
    return f"{' or '.join(kinds)}, at step {_range(sorted({run.evaluations[-1].steps for run in runs}))}"


def _all_protocol(runs: Sequence[Run]) -> str:
    kinds = dict.fromkeys(evaluation_kind(run.evaluations) for run in runs)
    counts = sorted({len(run.evaluations) for run in runs})
    return f"{_range(counts)} evaluation{'' if counts == [1] else 's'}, {' or '.join(kinds)}"


def _places(comparison: Comparison) -> int | None:
    return 3 if comparison.normalisation.scales else None


def _cells(comparison: Comparison) -> Iterable[tuple[str, str, list[Run]]]:
    for task in comparison.tasks:
        for group in comparison.groups:
            if runs := comparison.of(group, task):
                yield task, group, runs


def _range(values: Sequence[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _time_shares(runs: Sequence[Run]) -> str:
    """Shares of the time by part, largest first."""
    parts: dict[str, float] = {}
    for run in runs:
        for name, seconds in (run.record.get("time_s") or {}).items():
            if name != "total":
                parts[name] = parts.get(name, 0.0) + float(seconds)
    whole = sum(parts.values())
    if whole <= 0.0:
        return "—"
    return ", ".join(f"{name} {parts[name] / whole:.0%}" for name in sorted(parts, key=lambda n: -parts[n]))
