"""Runs of different lengths, cut to the number of steps that all of a task share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import RunError
from ..runs.folder import METRICS
from .gather import LeftOut, Run
from .series import (
    EVALUATION,
    EVALUATION_MAX,
    Evaluation,
    NothingToCompare,
    Series,
    evaluation_series,
    read_judged,
    read_rows,
)
from .statistics import Array

AT_THE_END = "final evaluations, verdicts of the suite, shares of the time"


def cut(runs: Sequence[Run], metric: str) -> tuple[list[Run], list[LeftOut], list[str]]:
    """The runs as they were after the steps that all runs of their task have done, the others, and what to say."""
    kept: list[Run] = []
    left_out: list[LeftOut] = []
    said = []
    for task in dict.fromkeys(run.task for run in runs):
        times = []
        for run in runs:
            if run.task == task:
                try:
                    times.append((run, _times(run)))
                except RunError as error:
                    left_out.append(LeftOut(run.header.path, str(error), run.header))
        if not times:
            continue
        lengths = [int(steps[-1]) for _, (steps, _) in times]
        if len(set(lengths)) == 1 and all(run.record["status"] == "finished" for run, _ in times):
            kept += [run for run, _ in times]
            continue
        shared = min(lengths)
        evaluations = _shared([run for run, _ in times if run.header.log is None], shared)
        for run, (steps, wall) in times:
            try:
                kept.append(_cut(run, shared, float(np.interp(shared, steps, wall)), metric, evaluations))
            except NothingToCompare as error:
                left_out.append(LeftOut(run.header.path, str(error), run.header))
        said.append(_sentence(task, [run for run, _ in times], lengths, evaluations))
    return kept, left_out, said


def _times(run: Run) -> tuple[Array, Array]:
    """Steps and wall time [s] at the iterations of a run, or at the rows of its log, (n,) each."""
    path = run.header.path / METRICS
    rows = read_rows(path) if run.header.log is None and path.exists() else []
    found = [(row["steps"], row["wall_s"]) for row in rows if {"steps", "wall_s"} <= row.keys()]
    try:
        steps, wall = np.array(found, float).T if found else (run.series.steps, run.series.wall_s)
    except (TypeError, ValueError) as error:
        raise RunError(f"{METRICS} is damaged: {error}") from None
    return steps, wall


def _shared(runs: Sequence[Run], steps: int) -> set[tuple[int, bool, int]]:
    """Kinds of the evaluations that all runs made, none of them after ``steps``."""
    kinds = [{one.kind for one in run.evaluations if one.steps <= steps} for run in runs]
    return set.intersection(*kinds) if kinds else set()


def _cut(run: Run, steps: int, wall: float, metric: str, shared: set[tuple[int, bool, int]]) -> Run:
    evaluations = tuple(one for one in run.evaluations if one.kind in shared)
    record = {**run.record, "steps": steps, "wall_time_s": wall, "time_s": {}}
    return replace(
        run,
        header=replace(run.header, record=record),
        series=_series(run.series, steps, metric, evaluations),
        evaluations=evaluations,
        judged=run.judged if run.header.log else read_judged(run.header.path, steps),
    )


def _series(series: Series, steps: int, metric: str, evaluations: tuple[Evaluation, ...]) -> Series:
    if metric not in (EVALUATION, EVALUATION_MAX):
        return series.until(steps)
    if not evaluations:
        raise NothingToCompare(f"no evaluation in the first {steps:,} steps was made by all runs")
    return evaluation_series(evaluations, best=metric == EVALUATION_MAX)


def _sentence(task: str, runs: Sequence[Run], lengths: Sequence[int], evaluations: set[tuple[int, bool, int]]) -> str:
    steps, shortest = min(lengths), runs[lengths.index(min(lengths))]
    state = {"running": "running, or killed"}.get(shortest.record["status"], shortest.record["status"])
    last = max((kind[0] for kind in evaluations), default=None)
    told = "no evaluation was made by all, so there are none"
    if last is not None:
        told = f"evaluations are those that all made, the last at {last:,} steps"
    planned = {run.record["total_steps"] for run in runs if "total_steps" in run.record}
    schedules = "; their total_steps differ, so schedules may too" if len(planned) > 1 else ""
    return (
        f"runs of {task} are compared at {steps:,} steps, the end of the shortest, {shortest.header.path} ({state}); "
        f"{told}; what exists only at the end is left out: {AT_THE_END}{schedules}"
    )
