"""The training loop: iterate, log, checkpoint, stop well."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from gaitway_agents.core import distributed
from gaitway_agents.core.together import LostProcess, OtherFailed
from gaitway_files.errors import NotDone
from gaitway_tasks.registry import called

from ..errors import RunError
from ..runs.files import write_tensors_atomically
from ..runs.folder import PARTS, RunFolder, fitting
from ..runs.parts import read_parts, write_parts
from .callbacks import Callbacks
from .events import EventWriter
from .examinations import GOOD, Examinations
from .interrupt import StopRequest, stop_requests
from .progress import make_progress

if TYPE_CHECKING:
    from gaitway_agents.trainer import Learner

    from ..callback import Callback
    from ..train_config import TrainConfig
    from .evaluator import Evaluator


@runtime_checkable
class Shared(Protocol):
    """A learner of several processes that learn as one."""

    def own_state(self) -> dict[str, Any]:
        """Part of its state that each process has for itself."""


@runtime_checkable
class InParts(Protocol):
    """A learner of which a part of the state lies in each process."""

    def parts(self) -> dict[str, Any]:
        """That state, for torch.distributed.checkpoint; empty if there is none."""

    def take_parts(self, parts: Mapping[str, Any]) -> None: ...


class TrainingFailed(NotDone):
    """Training cannot go on; the message says what happened and where the evidence lies."""


@dataclass
class Effort:
    """Progress and time of a training so far, including the parts before it was continued."""

    iteration: int = 0
    wall: float = 0.0
    """Seconds, at the end of the newest iteration."""
    times: dict[str, float] = field(default_factory=dict)
    """Seconds spent in each part of the iterations."""
    cpu: float = 0.0
    """Seconds of all cores before this process began."""

    def begin(self) -> None:
        self._start, self._busy = time.perf_counter() - self.wall, _cpu_seconds() - self.cpu

    def add(self, metrics: dict[str, float]) -> None:
        """Count an iteration."""
        self.iteration += 1
        self.wall = time.perf_counter() - self._start
        for name in metrics:
            if name.startswith("time/") and name != "time/total":
                self.times[name[5:]] = self.times.get(name[5:], 0.0) + metrics[name]

    def cpu_now(self) -> float:
        return _cpu_seconds() - self._busy


def train(config: TrainConfig, run: RunFolder, *, quiet: bool = False, callbacks: Sequence[Callback] = ()) -> int:
    """Train until ``total_steps``, a good examination, a callback's or a user's stop; returns the exit code.

    Continues from the newest checkpoint. Raises :class:`RunError` at once where another process trains the run.
    """
    with run.lock, tensor_cores(config):
        return _train(config.domain.as_begun(config, run.record), run, callbacks, quiet=quiet)


@contextlib.contextmanager
def tensor_cores(config: TrainConfig) -> Iterator[None]:
    """The precision of a GPU's float32 products that the configuration asks for; then what was set before."""
    flags: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [flag.allow_tf32 for flag in flags]
    try:
        for flag in flags:
            flag.allow_tf32 = config.tf32
        yield
    finally:
        for flag, was in zip(flags, before, strict=True):
            flag.allow_tf32 = was


def _train(config: TrainConfig, run: RunFolder, callbacks: Sequence[Callback], *, quiet: bool) -> int:
    try:
        learner, evaluator = config.domain.build(config, run)
    except BaseException as error:
        _mark_failed(run, error)
        raise
    effort = _restore(run, learner)
    for ending in ("error", "reason", "chosen"):
        run.record.pop(ending, None)
    run.update(status="running", total_steps=config.total_steps, processes=distributed.size())
    with (
        contextlib.closing(evaluator),
        EventWriter(config, run, effort.iteration) as events,
        Callbacks(callbacks, run) as heard,
    ):
        return _learn(config, run, learner, evaluator, effort, events, heard, quiet=quiet)


def _learn(
    config: TrainConfig,
    run: RunFolder,
    learner: Learner,
    evaluator: Evaluator,
    effort: Effort,
    events: EventWriter,
    heard: Callbacks,
    *,
    quiet: bool,
) -> int:
    progress = make_progress(config, learner.steps, quiet=quiet)
    saved = run.checkpoints()[-1] if effort.iteration else None
    evaluator.begin()
    examinations, good = Examinations(config, run, learner), False
    effort.begin()
    with stop_requests() as stop, progress:
        try:
            heard.call("on_training_start")
            if effort.iteration and examinations.is_due():
                good = examinations.hold(effort.wall, progress.say, lambda: stop.signal)
            while not _is_done(learner, config) and not _asked_to_stop(stop, good or heard.stopped is not None):
                metrics = _iterate(learner, run)
                effort.add(metrics)
                metrics |= evaluator.watch(effort.wall)
                row = {"iteration": effort.iteration, "steps": learner.steps, "wall_s": effort.wall, **metrics}
                run.append_metrics(row)
                heard.call("on_iteration", learner.steps, row)
                due = examinations.is_due()
                parts = _gathered(learner, run, wanted=due or effort.iteration % config.checkpoint_interval == 0)
                if parts is not None:
                    saved = _save(run, learner, config, effort, parts, examinations.spared())
                    heard.call("on_checkpoint", learner.steps, saved)
                good = due and examinations.hold(effort.wall, progress.say, lambda: stop.signal)
                last = good or _is_done(learner, config) or stop.signal is not None or heard.stopped is not None
                events.add(row, last=last)
                progress.show(learner.steps, metrics, last=last)
            parts = _gathered(learner, run, wanted=saved is None or run.record["steps"] != learner.steps)
            if parts is not None:
                saved = _save(run, learner, config, effort, parts, examinations.spared())
                heard.call("on_checkpoint", learner.steps, saved)
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, TrainingFailed):
                saved = _rescued(error, run, learner, config, effort, examinations.spared()) or saved
            _mark_failed(run, error)
            if saved is not None and saved.exists() and not isinstance(error, TrainingFailed):
                _print_ending(run, config, saved, "failed")
            raise
    reason = GOOD if good else "total_steps" if _is_done(learner, config) else heard.stopped
    finished = reason is not None
    if finished:
        try:
            evaluator.finish(effort.wall)
        except Exception as error:
            _mark_failed(run, error)
            _print_ending(run, config, saved, "evaluation failed")
            raise
        run.update(status="finished", reason=reason, **_chosen(examinations))
    else:
        run.update(status="interrupted")
    told = stop.signal.name if stop.signal else "another process"
    _print_ending(run, config, saved, "" if finished else f"interrupted by {told}")
    if finished and examinations.wanted and not good:
        print(f"not good after {learner.steps:,} steps: {examinations.lacks()}")
    return 0 if finished else stop.exit_code


def _chosen(examinations: Examinations) -> dict[str, int]:
    """Entry of the record with the steps of the best policy examined, which is what is exported."""
    best = examinations.best()
    return {} if best is None else {"chosen": best}


def train_along(config: TrainConfig, run: RunFolder | None) -> int:
    """Work of every process but the first in :func:`train`: the same iterations, without records."""
    trainer = config.domain.learner_along(config, run)
    found = None if run is None else run.load_checkpoint()
    if found is not None:
        trainer.load_state_dict(_of_this_process(found[0]["trainer"]))
        _take_parts(trainer, found[1])
    with stop_requests() as stop, tensor_cores(config):
        while not _is_done(trainer, config) and not _asked_to_stop(stop):
            trainer.iterate()
            trainer.pop_episodes()
            _gathered(trainer, run, wanted=False)
        _gathered(trainer, run, wanted=False)
    return 0 if _is_done(trainer, config) else stop.exit_code


def _gathered(learner: Learner, run: RunFolder | None, *, wanted: bool) -> list[dict[str, Any]] | None:
    """What a checkpoint has of each process, for the first, which ``wanted`` one; every process calls this.

    What lies in parts in the processes they write themselves.
    """
    if not distributed.any_of(wanted, torch.device("cpu")):
        return None
    if isinstance(learner, InParts) and (parts := learner.parts()):
        assert run is not None
        write_parts(parts, run.parts(learner.steps))
    state = learner.own_state() if isinstance(learner, Shared) else {}
    return distributed.gathered({"trainer": state, "cpu_s": _cpu_seconds()})


def _take_parts(learner: Learner, checkpoint: Path) -> None:
    """Let a learner of which a part lies in each process have what they wrote beside ``checkpoint``."""
    if isinstance(learner, InParts) and (parts := learner.parts()):
        read_parts(parts, checkpoint.with_suffix(PARTS))
        learner.take_parts(parts)


def _of_this_process(state: dict[str, Any]) -> dict[str, Any]:
    """State of a learner with the part of this process; one that was not there starts with new episodes."""
    if (rank := distributed.rank()) == 0:
        return state
    others = state.get("others", [])
    own = others[rank - 1] if rank <= len(others) else dict.fromkeys(("generator", "observations")) | {"envs": []}
    return state | own


def _asked_to_stop(stop: StopRequest, good: bool = False) -> bool:
    """True if any process was asked to stop or found the policy ``good``; all stop before the same iteration."""
    return distributed.any_of(good or stop.signal is not None, torch.device("cpu"))


def _is_done(learner: Learner, config: TrainConfig) -> bool:
    return learner.steps >= config.total_steps or getattr(learner, "finished", False)


def _iterate(learner: Learner, run: RunFolder) -> dict[str, float]:
    from gaitway_agents.core.optimizer import NonFiniteError

    try:
        metrics = learner.iterate()
        bad = next((name for name, value in metrics.items() if not math.isfinite(value)), None)
        if bad is not None:
            raise NonFiniteError(f"metric {bad} is not finite")
    except NonFiniteError as error:
        path = run.path / "nan_dump.pt"
        run.lock.check()
        write_tensors_atomically(path, {"steps": learner.steps, "trainer": learner.state_dict()})
        raise TrainingFailed(
            f"training stopped after {learner.steps:,} steps: {error}. The whole state is in {path}; {error.advice}"
        ) from error
    return metrics


def _restore(run: RunFolder, learner: Learner) -> Effort:
    """Load the newest checkpoint if there is one."""
    found = run.load_checkpoint()
    if found is None:
        if steps := run.record.get("steps"):
            raise RunError(
                f"{run.path} did {steps:,} steps, and its checkpoints are gone: put them back into "
                f"{run.path}/checkpoints, or start a new run with another --out"
            )
        run.forget_after(-1)
        return Effort()
    state, path = found
    with fitting(path, run.path):
        steps = state["steps"]
        effort = Effort(
            state["iteration"], state["wall_s"], dict(state["time_s"]), cpu=run.record.get("cpu_time_s", 0.0)
        )
        learner.load_state_dict(state["trainer"])
        _take_parts(learner, path)
        torch.set_rng_state(state["torch_rng"])
    run.set_aside_after(path)
    run.forget_after(steps)
    return effort


def _save(
    run: RunFolder,
    learner: Learner,
    config: TrainConfig,
    effort: Effort,
    parts: list[dict[str, Any]],
    spared: Collection[int],
) -> Path:
    """Write a checkpoint, with the ``parts`` of all processes; those after ``spared`` steps stay beside the newest."""
    state = {
        "steps": learner.steps,
        "iteration": effort.iteration,
        "wall_s": effort.wall,
        "time_s": effort.times,
        "torch_rng": torch.get_rng_state(),
        "trainer": learner.state_dict() | {"others": [part["trainer"] for part in parts[1:]]},
    }
    path = run.save_checkpoint(state, config.keep_checkpoints, spared)
    run.update(
        steps=learner.steps,
        iterations=effort.iteration,
        wall_time_s=round(effort.wall, 3),
        cpu_time_s=round(effort.cpu_now() + sum(part["cpu_s"] for part in parts[1:]), 3),
        time_s=effort.times,
    )
    return path


def _cpu_seconds() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _rescued(
    error: Exception, run: RunFolder, learner: Learner, config: TrainConfig, effort: Effort, spared: Collection[int]
) -> Path | None:
    """A checkpoint of what was learnt before an iteration that failed, unless there is one, or the update was begun.

    Other processes are gone by then: they will start with new episodes, and what lies in parts in them is lost.
    """
    if isinstance(learner, InParts) and learner.parts():
        return None
    begun = isinstance(error, LostProcess) and not isinstance(error, OtherFailed)
    if not effort.iteration or run.record.get("steps") == learner.steps or begun:
        return None
    with contextlib.suppress(Exception):  # the disk or the environment that failed may fail this too
        return _save(run, learner, config, effort, [], spared)
    return None


def _mark_failed(run: RunFolder, error: BaseException) -> None:
    # The disk or memory that failed the run may fail this record too; the first error is the one to report.
    with contextlib.suppress(RunError, MemoryError):
        run.update(status="failed", error=f"{type(error).__name__}: {error}")


def _print_ending(run: RunFolder, config: TrainConfig, checkpoint: Path | None, ending: str) -> None:
    """``ending`` says what stopped the training early; empty if it finished."""
    steps, wall = run.record["steps"], run.record["wall_time_s"]
    if not ending:
        reason = run.record["reason"]
        why = "" if reason == "total_steps" else "good after " if reason == GOOD else f"stopped by {reason}, after "
        print(f"finished: {why}{steps:,} steps in {wall:.0f} s; checkpoint {checkpoint}")
    else:
        print(
            f"{ending} after {steps:,} of {config.total_steps:,} steps; checkpoint {checkpoint}; "
            f"continue with: gaitway train {called(config.task.name)}{_agent_option(config)} --out {run.path} --resume"
        )


def _agent_option(config: TrainConfig) -> str:
    return "" if config.algorithm == config.domain.usual_agent else f" --agent {config.algorithm}"
