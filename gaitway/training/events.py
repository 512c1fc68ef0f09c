"""Copies of a run's numbers for TensorBoard, and for Weights & Biases and MLflow where a run asks for them."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import queue
import re
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self

from gaitway_files.reading import one_line
from gaitway_files.writing import open_to_append

from ..runs.files import make_folder
from ..runs.folder import RunFolder
from ..runs.rows import RunWarning
from .numbers import Row, numbers

if TYPE_CHECKING:
    from ..train_config import TrainConfig

LOGGERS = "loggers"
"""Field of ``run.json``: the id that each service knows the run by."""
PROJECT = "gaitway"
"""Project of W&B and experiment of MLflow, where their own variables name none."""
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s\"]+@")


class Copy(Protocol):
    """One place that rows are copied to."""

    where: str
    """Its name in a warning."""

    def write(self, row: Row) -> None:
        """Copy the numbers of ``row`` at step ``row["iteration"]``."""
        ...

    def close(self, status: str) -> None:
        """End the copy of a run that is "finished", "interrupted" or "failed"."""
        ...


class EventWriter:
    """All copies of a run's rows: at most four rows a second, for writing one takes ten milliseconds.

    They repeat ``metrics.jsonl``, and get the numbers of every evaluation and examination with the row of its
    iteration. If one of them fails, the training says so once and goes on without it.
    """

    INTERVAL_S = 0.25

    def __init__(self, config: TrainConfig, run: RunFolder, iteration: int):
        self.run, self.copies, self.written = run, list[Copy](), -math.inf
        self.iteration, self.found = iteration, dict[str, float]()
        """The newest iteration, and numbers of evaluations and examinations that no copy has yet."""
        makers: dict[str, Callable[[], Copy]] = {
            str(run.path / "tensorboard"): lambda: TensorBoard(run, iteration),
            **{f"logger {name}": functools.partial(_MAKERS[name], config, run) for name in config.logger},
        }
        make_folder(run.path / "tensorboard")
        for where, make in makers.items():
            try:
                self.copies.append(make())
            except Exception as error:  # a service that cannot be reached, for example
                _warn(where, error)

    def __enter__(self) -> Self:
        self.run.listeners.append(self.hear)
        return self

    def __exit__(self, *error: object) -> None:
        self.run.listeners.remove(self.hear)
        if self.found:
            self._write({})
        status = self.run.record["status"]
        self._each(lambda copy: copy.close("failed" if error[0] is not None else status))

    def add(self, row: Row, *, last: bool) -> None:
        self.iteration = row["iteration"]
        if last or self.found or time.monotonic() - self.written >= self.INTERVAL_S:
            self._write(row)

    def hear(self, file: str, row: Row) -> None:
        """Keep the numbers of a row of ``evaluations.jsonl`` or ``examinations.jsonl`` for the next :meth:`add`."""
        self.found |= numbers(file, row)

    def _write(self, row: Row) -> None:
        whole, self.found, self.written = {"iteration": self.iteration, **row, **self.found}, {}, time.monotonic()
        self._each(lambda copy: copy.write(whole))

    def _each(self, act: Callable[[Copy], None]) -> None:
        for copy in list(self.copies):
            try:
                act(copy)
            except Exception as error:  # whatever ended its thread is raised here
                self.copies.remove(copy)
                _warn(copy.where, error)


class TensorBoard:
    """Events in the run folder."""

    def __init__(self, run: RunFolder, iteration: int):
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder = run.path / "tensorboard"
        self.where = str(folder)
        name = f"events.out.tfevents.{time.time():.6f}"  # torch's SummaryWriter adds the host's name
        self.file = RecordWriter(open_to_append(folder / name))
        self._add(file_version="brain.Event:2")
        # What an interrupted training wrote from this step on is hidden.
        self._add(step=iteration + 1, session_log=SessionLog(status=SessionLog.START))
        self.file.flush()

    def write(self, row: Row) -> None:
        from torch.utils.tensorboard.summary import scalar

        for name, value in _numbers(row):
            self._add(step=row["iteration"], summary=scalar(name, value))
        self.file.flush()

    def close(self, status: str) -> None:
        self.file.close()

    def _add(self, **event: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self.file.write(Event(wall_time=time.time(), **event).SerializeToString())


class WeightsAndBiases:
    """A run of Weights & Biases, under ``wandb/`` in the run folder until it is uploaded.

    Project, entity, server and mode are those of wandb's own variables (``WANDB_PROJECT``, ``WANDB_MODE=offline``).
    Nothing of the machine is uploaded but its load: no source, no output, no user, no command line.
    """

    where = "logger wandb"

    def __init__(self, config: TrainConfig, run: RunFolder):
        import wandb

        known = run.record.get(LOGGERS, {}).get("wandb") or secrets.token_hex(4)
        self.wandb = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=known,
            name=_name(config, run),
            config=_settings(config),
            resume="allow",
            reinit="create_new",  # whatever else this process logs
            dir=str(run.path),
            settings=wandb.Settings(
                silent=True,
                console="off",
                host="",
                symlink=False,
                save_code=False,
                disable_git=True,
                disable_code=True,
                disable_job_creation=True,
                x_disable_meta=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
            ),
        )
        _remember(run, "wandb", known)
        offline = self.wandb.settings.mode == "offline"
        print(f"wandb: {f'later: wandb sync {self.wandb.settings.sync_dir}' if offline else self.wandb.url}")

    def write(self, row: Row) -> None:
        if row["iteration"] >= self.wandb.step:  # it has what is done again after a crash
            self.wandb.log(dict(_numbers(row)), step=row["iteration"])

    def close(self, status: str) -> None:
        self.wandb.finish(exit_code=int(status == "failed"))


class MLflow:
    """A run of MLflow, at ``MLFLOW_TRACKING_URI`` in the experiment ``MLFLOW_EXPERIMENT_NAME``.

    A thread of its own writes, so that a slow server does not hold up the training. It gets names, settings and
    numbers alone: neither user nor source file.
    """

    where = "logger mlflow"
    PARAMS, METRICS = 100, 1000
    """Most of a request."""
    VALUE = 6000
    """Longest value of a parameter."""
    WAIT_S = 30.0
    """Longest wait for what is still to be written when the training ends."""
    _ENDS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}  # noqa: RUF012

    def __init__(self, config: TrainConfig, run: RunFolder):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        self.client = MlflowClient()
        with _few_retries():
            self.id, self.done = self._begin(config, run)
        """Id of the run, and the last iteration that it has."""
        self.error: Exception | None = None
        self.rows: queue.SimpleQueue[tuple[int, Row] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self.thread.start()
        print(f"mlflow: run {self.id} at {_CREDENTIALS.sub('', self.client.tracking_uri)}")

    def _begin(self, config: TrainConfig, run: RunFolder) -> tuple[str, int]:
        from mlflow.entities import Param

        known = run.record.get(LOGGERS, {}).get("mlflow")
        if known is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
            experiment = self.client.get_experiment_by_name(name)
            number = self.client.create_experiment(name) if experiment is None else experiment.experiment_id
            known = self.client.create_run(number, run_name=_name(config, run)).info.run_id
            params = [Param(_key(name), str(value)[: self.VALUE]) for name, value in _flat(_settings(config))]
            for first in range(0, len(params), self.PARAMS):
                self.client.log_batch(known, params=params[first : first + self.PARAMS])
            _remember(run, "mlflow", known)
            return known, 0
        self.client.update_run(known, status="RUNNING")
        return known, max((found.step for found in self.client.get_metric_history(known, "steps")), default=0)

    def write(self, row: Row) -> None:
        if self.error is not None:
            raise self.error
        if row["iteration"] > self.done:
            self.rows.put((int(time.time() * 1000), row))

    def close(self, status: str) -> None:
        self.rows.put(None)
        self.thread.join(self.WAIT_S)
        if self.error is not None:
            raise self.error
        if self.thread.is_alive():
            raise TimeoutError(f"it did not take the last rows within {self.WAIT_S:.0f} s")
        self.client.set_terminated(self.id, self._ENDS[status])

    def _work(self) -> None:
        from mlflow.entities import Metric

        try:
            while (item := self.rows.get()) is not None:
                at, row = item
                metrics = [Metric(_key(name), value, at, row["iteration"]) for name, value in _numbers(row)]
                for first in range(0, len(metrics), self.METRICS):
                    self.client.log_batch(self.id, metrics=metrics[first : first + self.METRICS])
        except Exception as error:
            self.error = error


_MAKERS: dict[str, Callable[[TrainConfig, RunFolder], Copy]] = {"wandb": WeightsAndBiases, "mlflow": MLflow}


@contextlib.contextmanager
def _few_retries() -> Iterator[None]:
    """Give MLflow a quarter of a minute to reach its server, not minutes, unless the user says how often it tries."""
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    if name in os.environ:
        yield
        return
    os.environ[name] = "3"
    try:
        yield
    finally:
        del os.environ[name]


def _remember(run: RunFolder, name: str, known: str) -> None:
    run.update(**{LOGGERS: {**run.record.get(LOGGERS, {}), name: known}})


def _name(config: TrainConfig, run: RunFolder) -> str:
    return f"{config.task.name} {run.path.resolve().name}"


def _settings(config: TrainConfig) -> dict[str, Any]:
    """The configuration as plain data, without user names and passwords in addresses."""
    from ..config.tree import to_tree

    text = json.dumps(to_tree(config), default=str)
    tree = json.loads(_CREDENTIALS.sub("", text))
    assert isinstance(tree, dict)
    return tree


def _numbers(row: Row) -> Iterator[tuple[str, float]]:
    return ((name, float(value)) for name, value in row.items() if name != "iteration")


def _flat(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of a tree by dotted names."""
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, tree


def _key(name: str) -> str:
    """A name in the letters that MLflow allows."""
    return re.sub(r"[^\w./ -]", "_", name)[:250]


def _warn(where: str, error: BaseException) -> None:
    said = _CREDENTIALS.sub("", one_line(error)) if str(error) else ""
    what = f"{type(error).__name__}: {said}".rstrip(": ")
    warnings.warn(
        f"{where} gets no more events ({what}); the training goes on, and metrics.jsonl has all of them",
        RunWarning,
        stacklevel=3,
    )
