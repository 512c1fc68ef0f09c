"""The tables of a comparison, once, for the terminal, Markdown and the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .comparison import Comparison
from .differences import ABSENT, config_differences, origin
from .gather import Run
from .measures import error_name, fallen, last_of, pairings, percent, walked
from .numbers import interval, number, spread
from .published import reached
from .series import evaluation_kind
from .statistics import FEWEST, UNLIKELY


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
    """Tables of the results; what robots do stands first."""
    tables = [
        judged(comparison),
        walking(comparison),
        scores(comparison),
        published(comparison),
        evaluations(comparison),
        aggregates(comparison),
        pairs(comparison),
    ]
    return [table for table in [*tables, runtime(comparison)] if table is not None]


def circumstances(comparison: Comparison) -> list[Table]:
    """Tables of other differences between the runs."""
    return [*settings(comparison), *origins(comparison)]


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
    if comparison.obstacles:
        note += f" Not comparable between groups on {', '.join(comparison.obstacles)}."
    columns = ["task", "group", "runs", "mean ± std", *(f"seed {seed}" for seed in seeds)]
    return Table(f"Scores: {comparison.metric}", note, columns, rows, ["task", "group"])


def published(comparison: Comparison) -> Table | None:
    """Table of the groups beside published scores."""
    rows = []
    for one in comparison.published:
        for steps, score in one.points:
            after = "at their ends" if steps is None else f"{steps:,.0f}"
            for group in comparison.groups:
                if not (found := [reached(run, steps) for run in comparison.of(group, one.task)]):
                    continue
                there = [value for value in found if math.isfinite(value)]
                least = sum(comparison.sign * (value - score) >= 0.0 for value in there)
                told = [group, spread(there), f"{least} of {len(there)}"] if there else [group, "—", "—"]
                rows.append([one.task, one.source, after, number(score), *told])
    note = (
        "Scores of others beside those of runs after as many steps. Mean ± sample standard deviation over runs. How "
        "they were measured is not known here, and may differ."
    )
    columns = ["task", "published by", "steps", "published", "group", "mean ± std", "reached by"]
    return Table("Published scores", note, columns, rows, ["task", "published by", "group"]) if rows else None


def walking(comparison: Comparison) -> Table | None:
    """Table of falls and tracking errors in the last evaluation, whatever the rewards."""
    having = [(task, group, last_of(walked(runs))) for task, group, runs in _cells(comparison)]
    having = [(task, group, last) for task, group, last in having if last]
    errors = list(dict.fromkeys(name for _, _, last in having for one in last for name in one.errors))
    rows = []
    for task, group, last in having:
        shares = [100.0 * (one.falls or 0) / len(one.returns) for one in last]
        values = [[one.errors.get(name) for one in last] for name in errors]
        rows.append([task, group, str(len(last)), fallen(last), spread(shares), *map(_spread, values)])
    note = (
        "Of the last evaluation of each run: episodes that ended by a fall, their share, and the mean distance from "
        "the commands. Lower is better. Unlike returns they do not depend on the weights of rewards. Mean ± sample "
        "standard deviation over runs."
    )
    if comparison.walking_obstacles:
        note += f" Not comparable between groups on {', '.join(comparison.walking_obstacles)}."
    titles = [f"{name} [{unit}]" if unit else name for name, unit in map(error_name, errors)]
    columns = ["task", "group", "runs", "fell", "falls [% of episodes]", *titles]
    return Table("Walking", note, columns, rows, ["task", "group"]) if rows else None


def judged(comparison: Comparison) -> Table | None:
    """Table of examinations and verdicts."""
    rows = []
    for task, group, runs in _cells(comparison):
        kinds = [[run.judged.examined for run in runs], [run.judged.suite for run in runs]]
        if any(one is not None for found in kinds for one in found):
            rows.append([task, group, str(len(runs)), *map(_passed, kinds)])
    note = (
        "Runs that passed their last examination, and runs with a policy that passed the whole suite, of those that "
        "were examined or judged. The more policies of a run are judged, the likelier one passes."
    )
    columns = ["task", "group", "runs", "passed examination", "passed suite"]
    return Table("Examinations and verdicts", note, columns, rows, ["task", "group"]) if rows else None


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
    tasks = comparison.ranked_tasks
    where = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks"
    note = f"Over {where}; {comparison.protocol}; {comparison.normalisation.about}. " + (
        f"95 % intervals from {comparison.reps:,} stratified bootstrap resamples of the runs."
        if comparison.intervals
        else f"Min and max are those of the runs: a 95 % interval needs {FEWEST} of each group and task."
    )
    if len(tasks) == 1:
        note += " With one task, median and mean over tasks are both its mean."
    if comparison.normalisation.scales:
        note += " Optimality gap: how far below 1 on average, smaller is better."
    places = comparison.normalisation.places
    rows = [[group, *(interval(one, places) for one in by_name.values())] for group, by_name in found.items()]
    return Table("Aggregates", note, ["group", *names], rows, ["group"])


def pairs(comparison: Comparison) -> Table | None:
    """Table of all pairs of groups by all measures."""
    found = pairings(comparison)
    certain = any(math.isfinite(one.estimate.low) for one in found)
    rows = []
    for one in found:
        counts = one.pairs.better, one.pairs.equal, one.pairs.worse
        chance = interval(one.estimate, 3) if math.isfinite(one.estimate.low) else "—"
        rows.append([
            f"{one.group} against {one.other}", one.measure.name, *map(str, counts), percent(one.pairs.chance),
            *([chance] if certain else []),
        ])  # fmt: skip
    note = (
        "Each run of the first against each of the second on the same task: in how many pairs the first is better. By "
        "chance: how often runs without a difference give so clear a result, in either direction (rank-sum test). "
        f"Above {percent(UNLIKELY)} nothing is ranked."
    )
    if certain:
        note += f" Probability: ties counted half, and only with {FEWEST} runs or more of each."
    columns = ["comparison", "by", "better", "equal", "worse", "by chance", *(["probability"] if certain else [])]
    return Table("Pairs of seeds", note, columns, rows, columns[:2]) if rows else None


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


def _last_protocol(runs: Sequence[Run]) -> str:
    kinds = dict.fromkeys(evaluation_kind(run.evaluations[-1:]) for run in runs)
    return f"{' or '.join(kinds)}, at step {_range(sorted({run.evaluations[-1].steps for run in runs}))}"


def _all_protocol(runs: Sequence[Run]) -> str:
    kinds = dict.fromkeys(evaluation_kind(run.evaluations) for run in runs)
    counts = sorted({len(run.evaluations) for run in runs})
    return f"{_range(counts)} evaluation{'' if counts == [1] else 's'}, {' or '.join(kinds)}"


def _cells(comparison: Comparison) -> Iterable[tuple[str, str, list[Run]]]:
    for task in comparison.tasks:
        for group in comparison.groups:
            if runs := comparison.of(group, task):
                yield task, group, runs


def _range(values: Sequence[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return spread(known) if len(known) == len(values) else "—"


def _passed(found: Sequence[bool | None]) -> str:
    known = [one for one in found if one is not None]
    return f"{sum(known)} of {len(known)}" if known else "—"


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
