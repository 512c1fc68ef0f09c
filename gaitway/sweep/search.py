"""The trials of a sweep: proposed by Optuna, begun as jobs, pruned by what their run folders hold, and told."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from gaitway_files.reading import FileError, read_lines
from gaitway_tasks.registry import UnknownNameError
from optuna.trial import FrozenTrial, TrialState

from ..compare.series import read_rows
from ..errors import RunError
from ..jobs import Job
from ..runs.folder import METRICS
from .journal import open_study
from .metric import ERROR
from .plan import GRACE, RUNGS, Plan

RECORD, WALL, ROOM = "sweep", "wall_s", "workers_s"
"""Attributes of the study: what it searches, and the seconds that its commands took."""
SECONDS, REASON = "seconds", "reason"
"""Attributes of a trial: the seconds that its processes took, and why it failed."""
LOOK_S = 1.0
"""Time between looks at a run's files."""
DEAR = 20.0
"""A look at them waits for so many times as long as the look before took."""


@dataclass(eq=False)
class Run:
    """A trial that runs."""

    trial: optuna.Trial
    rung: int = 1
    """Next point at which it is compared."""
    next_look: float = 0.0
    pruned: bool = False
    params: dict[str, Any] = field(default_factory=dict)


class Search:
    """The trials of a sweep in ``folder``, whose lock the caller holds."""

    def __init__(self, plan: Plan, folder: Path):
        self.plan, self.folder = plan, folder
        self.study = open_study(folder, lower=plan.metric.lower, pruner=_pruner(plan.prune))
        self.runs: dict[Job, Run] = {}
        self._has_values = False
        record = self.study.user_attrs.get(RECORD)
        if record is None:
            self.study.set_user_attr(RECORD, plan.record())
        elif record != plan.record():
            raise RunError(_differs(folder, record, plan.record()))

    def trials(self) -> list[FrozenTrial]:
        """All trials that were begun, in their order."""
        return [trial for trial in self.study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]

    def folder_of(self, number: int) -> Path:
        """Run folder of a trial."""
        return self.folder / f"trial-{number:04d}"

    def unfinished(self) -> list[Job]:
        """Jobs of the trials that an earlier command left running."""
        running = [trial for trial in self.trials() if trial.state == TrialState.RUNNING]
        return [self._begin(optuna.Trial(self.study, trial._trial_id)) for trial in running]

    def ask(self) -> Job:
        """Job of a new trial. The first has the settings as they are, if they lie in the space.

        A proposal follows from the seed, the number of the trial and the trials before it.
        """
        trials = self.trials()
        if not trials and self.plan.begun:
            self.study.enqueue_trial(dict(self.plan.begun), skip_if_exists=True)
        self.study.sampler = optuna.samplers.TPESampler(seed=(self.plan.seed * 1_000_003 + len(trials)) % 2**32)
        return self._begin(self.study.ask())

    def _begin(self, trial: optuna.Trial) -> Job:
        for each in self.plan.space:  # asks for those that a process that was killed had not yet written
            each.suggest(trial)
        frozen = self.study.get_trials(deepcopy=False)[trial.number]
        chosen = " ".join(f"{each.key}={each.short(trial.params[each.key])}" for each in self.plan.space)
        job = self.plan.job(trial.params, self.folder_of(trial.number), name=f"trial {trial.number} ({chosen})")
        job.seconds = float(trial.user_attrs.get(SECONDS, 0.0))
        self.runs[job] = Run(trial, rung=max(frozen.intermediate_values, default=0) + 1, params=trial.params)
        return job

    def prunes(self, job: Job) -> bool:
        """True once, when a running trial is so far behind others at the same step that it is to end.

        Raises :class:`RunError` if it trained so long without the metric that there is no such metric.
        """
        run, now = self.runs[job], time.monotonic()
        if (self.plan.prune == "none" and self.has_values) or run.pruned or run.rung >= RUNGS or now < run.next_look:
            return False
        run.pruned = self._is_behind(job, run)
        run.next_look = time.monotonic() + max(LOOK_S, DEAR * (time.monotonic() - now))
        return run.pruned

    def _is_behind(self, job: Job, run: Run) -> bool:
        try:
            series = self.plan.metric.series(job.folder)
        except RunError:  # it has no value yet
            self._check_metric(job)
            return False
        done = series.end("steps")
        while run.rung < RUNGS and (steps := run.rung * self.plan.total_steps / RUNGS) <= done:
            try:
                run.trial.report(series.until(steps).score, run.rung)
            except RunError:  # its first value came later
                run.rung += 1
                continue
            run.rung += 1
            if run.trial.should_prune():
                return True
        return False

    def _check_metric(self, job: Job) -> None:
        """Raise :class:`RunError` if the rows of a trial have no such key at :data:`GRACE`, nor had those of others."""
        name = self.plan.metric.name
        if "/" not in name or name.startswith(ERROR) or self.has_values:
            return
        try:
            rows = read_rows(job.folder / METRICS)
        except RunError:
            return
        keys = sorted({key for row in rows for key in row if "/" in key})
        if rows and name not in keys and rows[-1]["steps"] * RUNGS >= GRACE * self.plan.total_steps:
            unknown = UnknownNameError("key of metrics.jsonl", name, keys)
            raise RunError(f"--metric {name}: {unknown}. Name one of them, and another --out")

    def tell(self, job: Job, code: int) -> str:
        """Enter the end of a trial, whose process had the exit ``code``; what became of it, in words.

        Raises :class:`RunError` if it was completed without the metric, and there is no such metric.
        """
        run = self.runs.pop(job)
        run.trial.set_user_attr(SECONDS, round(job.seconds, 3))
        if run.pruned and not job.is_finished():
            self.study.tell(run.trial, state=TrialState.PRUNED)
            return f"pruned after {_steps(job):,} of {self.plan.total_steps:,} steps"
        try:
            if not job.is_finished() or (code and not run.pruned):  # one pruned at its very end is complete
                raise RunError(_why(job, code))
            value = self.plan.metric.series(job.folder).score
        except RunError as error:
            run.trial.set_user_attr(REASON, str(error))
            self.study.tell(run.trial, state=TrialState.FAIL)
            if job.is_finished():
                self._check_metric(job)
            return f"failed: {error}; see {job.log}"
        self.study.tell(run.trial, value)
        return f"{self.plan.metric.name} {value:.4g}"

    def leave(self, job: Job) -> None:
        """Keep what a trial that goes on later has cost."""
        self.runs.pop(job).trial.set_user_attr(SECONDS, round(job.seconds, 3))

    def spend(self, seconds: float, workers: int) -> None:
        """Add to the seconds of all commands, and to those of their ``workers``."""
        self.study.set_user_attr(WALL, round(self.wall + seconds, 3))
        self.study.set_user_attr(ROOM, round(self.room + workers * seconds, 3))

    @property
    def wall(self) -> float:
        """Seconds of all commands."""
        return float(self.study.user_attrs.get(WALL, 0.0))

    @property
    def room(self) -> float:
        """Seconds of all workers of all commands, busy or not."""
        return float(self.study.user_attrs.get(ROOM, 0.0))

    @property
    def has_values(self) -> bool:
        """True once a trial has had the metric."""
        self._has_values = self._has_values or any(
            trial.intermediate_values or trial.value is not None for trial in self.trials()
        )
        return self._has_values

    def ranked(self) -> list[FrozenTrial]:
        """Trials with a value, the best first; of equal ones the earlier."""
        sign = 1.0 if self.plan.metric.lower else -1.0
        done = [trial for trial in self.trials() if trial.state == TrialState.COMPLETE]
        return sorted(done, key=lambda trial: (sign * value_of(trial), trial.number))

    def importance(self) -> dict[str, float]:
        """Share of each setting in what separates the best trials from the others, by PED-ANOVA; empty if unknown."""
        if len(self.ranked()) < 2:
            return {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(optuna.importance.get_param_importances(self.study))


def value_of(trial: FrozenTrial) -> float:
    """Value of a trial that was completed."""
    assert trial.value is not None
    return float(trial.value)


def _pruner(name: str) -> Any:
    if name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=GRACE)
    if name == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=GRACE, reduction_factor=3)
    return optuna.pruners.NopPruner()


def _differs(folder: Path, had: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    key = next(key for key in {**had, **asked} if had.get(key) != asked.get(key))
    return (
        f"{folder} has a sweep with {key} {_words(had.get(key))}, not {_words(asked.get(key))}: repeat its command to "
        "continue it, or choose another --out"
    )


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={text}" for key, text in value.items())
    return " ".join(value) or "none" if isinstance(value, list) else str(value)


def _steps(job: Job) -> int:
    return int(job.record().get("steps", 0))


def _why(job: Job, code: int) -> str:
    """The reason why a training failed: its record's, or the last line that it printed."""
    record = job.record()
    if record.get("status") == "failed" and record.get("error"):
        return str(record["error"])
    try:
        lines = [line.decode(errors="replace").strip() for line in read_lines(job.log)]
    except FileError:
        lines = []
    said = next((line for line in reversed(lines) if line), "it printed nothing")
    return f"exit code {code}: {said}"
