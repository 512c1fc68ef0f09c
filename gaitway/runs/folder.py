"""A run folder: configuration, record, metrics and checkpoints of one training.

``config.yaml`` resolved, ``run.json`` the record, ``metrics.jsonl`` one row per iteration, ``episodes.jsonl`` and
``evaluations.jsonl`` raw returns, ``examinations.jsonl`` what was missing, ``tensorboard/``,
``checkpoints/``; later ``bundle/``, ``validation/``, ``videos/``.
``.lock`` says which process trains it.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gaitway_files.checkpoints import load_checkpoint
from gaitway_files.json_files import read_json
from gaitway_files.reading import DamagedFile, FileError, MissingFile, one_line
from gaitway_files.writing import open_to_append

from ..config.moved import as_now
from ..config.overrides import CONFIG_FILE, changes, read_tree
from ..errors import RunError
from ..train_config import TrainConfig, dump, load
from . import provenance
from .files import NoSpace, disk_error, make_folder, write_tensors_atomically, write_text_atomically
from .lock import LOCK, RunLock
from .private import typed
from .rows import RunWarning, parse_rows

RUN_FORMAT = 3
RECORD = "run.json"
METRICS = "metrics.jsonl"
EPISODES = "episodes.jsonl"
EVALUATIONS = "evaluations.jsonl"
EXAMINATIONS = "examinations.jsonl"
ROWS = (METRICS, EPISODES, EVALUATIONS, EXAMINATIONS)
CHECKPOINTS = "checkpoints"
PARTS = ".parts"
"""Ending of the folder beside a checkpoint with what its processes wrote."""
MIN_FREE_BYTES = 64 * 2**20  # a run writes a few checkpoints of some MiB each


class DamagedCheckpoint(RunError):
    """A checkpoint that was cut short or altered; the one before it may be whole."""


class RunFolder:
    """One run on disk. ``record`` mirrors ``run.json``; ``lock`` is held by who writes the run."""

    def __init__(self, path: Path, record: dict[str, Any]):
        self.path, self.record = path, record
        self.lock = RunLock(path)
        self.listeners: list[Callable[[str, dict[str, Any]], None]] = []
        """Called with the file's name and the row after each evaluation and examination."""

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> RunFolder:
        """Start a run in ``path``, which must be new or empty."""
        if is_run(path):
            raise RunError(f"{path} already holds a run: add --resume to continue it, or choose another --out")
        _check_empty(path)
        text = dump(config)
        make_folder(path / CHECKPOINTS)
        free = shutil.disk_usage(path).free
        if free < MIN_FREE_BYTES:
            raise RunError(
                f"only {free / 2**20:.0f} MiB free at {path}, a run needs {MIN_FREE_BYTES // 2**20}: free some"
            )
        run = cls(path, _first_record(config))
        with run.lock:
            if is_run(path):
                raise RunError(f"{path} was started by another process just now: choose another --out")
            write_text_atomically(path / CONFIG_FILE, text)
            run.update(config=read_tree(path / CONFIG_FILE))
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run; refuses a folder that is none, or one of another format."""
        if not path.is_dir():
            raise RunError(f"no run folder at {path}")
        record = _read_record(path)
        if (version := record["gaitway_run"]) != RUN_FORMAT:
            raise RunError(
                f"{path} has run format {version!r}, this version of Gaitway reads format {RUN_FORMAT}: use the "
                f"Gaitway that made it ({_made_by(record)}), or train anew"
            )
        _check_record(path, record)
        return cls(path, record)

    def config(self) -> TrainConfig:
        """Configuration of the run, from its ``config.yaml``."""
        return load(self.path / CONFIG_FILE)

    def set_config(self, config: TrainConfig) -> None:
        """Replace ``config.yaml``, for a run that goes on with another length or other threads."""
        write_text_atomically(self.path / CONFIG_FILE, dump(config))
        self.update(config=read_tree(self.path / CONFIG_FILE))

    def edited(self) -> dict[str, tuple[Any, Any]]:
        """Edits of ``config.yaml`` since the training: dotted keys, old and new values."""
        now = read_tree(self.path / CONFIG_FILE)
        copies = {name: (self.record.get(name), now.get(name)) for name in _COPIED if name in self.record}
        then = as_now(self.record.get("config", now), str(self.path / RECORD))
        changed = changes(then, now)
        return changed | {name: pair for name, pair in copies.items() if pair[0] != pair[1]}

    def update(self, **fields: Any) -> None:
        """Change the record and write it."""
        self.lock.check()
        self.record.update(fields, updated=_now())
        write_text_atomically(self.path / RECORD, json.dumps(self.record, indent=2) + "\n")

    # ---- metrics ---------------------------------------------------------------------------------------------------

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Append one row to ``metrics.jsonl``."""
        self._append(METRICS, [row])

    def append_episodes(self, rows: list[dict[str, Any]]) -> None:
        """``steps``, ``wall_s``, raw ``return`` and ``length`` of episodes that ended."""
        if rows:
            self._append(EPISODES, rows)

    def append_evaluation(self, row: dict[str, Any]) -> None:
        """``steps``, ``wall_s``, ``deterministic``, ``seed``, ``returns`` and ``lengths`` of an evaluation."""
        self._tell(EVALUATIONS, row)

    def append_examination(self, row: dict[str, Any]) -> None:
        """``steps``, ``wall_s``, ``cpu_s``, and what :meth:`Examination.to_dict` has."""
        self._tell(EXAMINATIONS, row)

    def _tell(self, name: str, row: dict[str, Any]) -> None:
        self._append(name, [row])
        for listener in list(self.listeners):
            listener(name, row)

    def _append(self, name: str, rows: list[dict[str, Any]]) -> None:
        path = self.path / name
        self.lock.check()
        try:
            with open_to_append(path) as file:
                file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        except OSError as error:
            raise disk_error(path, error) from None

    def forget_after(self, steps: int) -> None:
        """Drop the rows of what came after ``steps``: they belong to work that the checkpoint does not contain.

        Lines that are no rows are set aside in ``<name>.damaged``, with a warning.
        """
        self.lock.check()
        for name in ROWS:
            path = self.path / name
            if not path.exists():
                continue
            found = parse_rows(path, "steps")
            if found.damaged:
                aside = path.with_name(f"{name}.damaged")
                try:
                    with open_to_append(aside) as file:
                        file.writelines(line + b"\n" for line in found.damaged.values())
                except OSError as error:
                    raise disk_error(aside, error) from None
                warnings.warn(
                    f"{path} was damaged: {found.damage}; the other rows are kept, what was there is in {aside}",
                    RunWarning,
                    stacklevel=2,
                )
            kept = [row for row in found.rows if row["steps"] <= steps]
            write_text_atomically(path, "".join(json.dumps(row) + "\n" for row in kept))
        self._tell_missing_metrics(steps)

    def _tell_missing_metrics(self, steps: int) -> None:
        """Warn if ``metrics.jsonl`` ends before the checkpoint of ``steps``, as after a power loss."""
        path = self.path / METRICS
        last = max((row["steps"] for row in parse_rows(path, "steps").rows), default=0) if path.exists() else 0
        if last < steps:
            warnings.warn(
                f"{path} {f'ends after {last:,} steps' if last else 'is gone or empty'}, and the checkpoint has "
                f"{steps:,}: the rows between are lost, and curves have a gap there",
                RunWarning,
                stacklevel=3,
            )

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def save_checkpoint(self, state: dict[str, Any], keep: int, spared: Collection[int] = ()) -> Path:
        """Write ``state`` (with its ``steps``); keep the newest ``keep`` checkpoints, and those after ``spared`` steps.

        On a full disk, those give way to the new one, the oldest first, with a warning.
        """
        path = self.path / CHECKPOINTS / f"step_{state['steps']:012d}.pt"
        self.lock.check()
        while True:
            try:
                write_tensors_atomically(path, {"gaitway_run": RUN_FORMAT, **state})
                break
            except NoSpace as error:
                spare = self.checkpoints()[:-1]
                if not spare:
                    raise
                _remove(spare[0])
                warnings.warn(f"{error.reason}: {spare[0]} gives way to it", RunWarning, stacklevel=2)
        for steps, old in list(self.kept().items())[:-keep]:
            if steps not in spared:
                _remove(old)
        for parts in path.parent.glob(f"*{PARTS}*"):  # of a checkpoint that was never finished
            if not parts.with_suffix(".pt").exists():
                shutil.rmtree(parts, ignore_errors=True)
        return path

    def parts(self, steps: int) -> Path:
        """Folder of what several processes write of the checkpoint after ``steps``."""
        return self.path / CHECKPOINTS / f"step_{steps:012d}{PARTS}"

    def set_aside_after(self, path: Path) -> None:
        """Rename the checkpoints after ``path``, which could not be read: they stand for steps that are done again."""
        for later in self.checkpoints():
            if later > path:
                aside = later.with_name(f"{later.name}.unread")
                later.rename(aside)
                warnings.warn(f"{later} could not be read, and is kept as {aside.name}", RunWarning, stacklevel=2)

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, oldest first."""
        return sorted((self.path / CHECKPOINTS).glob("step_*.pt"))

    def kept(self) -> dict[int, Path]:
        """Checkpoint files by their steps, oldest first."""
        names = {path: path.stem.removeprefix("step_") for path in self.checkpoints()}
        return {int(name): path for path, name in names.items() if name.isdecimal()}

    def load_checkpoint(self) -> tuple[dict[str, Any], Path] | None:
        """The newest checkpoint that is whole; warns of damaged ones. None if the run has none at all."""
        while True:
            files = self.checkpoints()
            for path in reversed(files):
                try:
                    return read_checkpoint(path), path
                except RunError as error:
                    if not os.path.lexists(path):
                        break  # the process that trains the run has a newer one by now
                    if not isinstance(error, DamagedCheckpoint):
                        raise
                    if path == files[0]:
                        where = self.path / CHECKPOINTS
                        raise RunError(
                            f"none of the {len(files)} checkpoints in {where} can be read: train anew; the oldest: "
                            f"{error}"
                        ) from None
                    warnings.warn(f"{error}; falling back to the checkpoint before it", RunWarning, stacklevel=2)
            else:
                return None


def _remove(checkpoint: Path) -> None:
    checkpoint.unlink(missing_ok=True)
    shutil.rmtree(checkpoint.with_suffix(PARTS), ignore_errors=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint after checking every byte of it against the archive's checksums.

    Raises :class:`DamagedCheckpoint` for one that was cut short or altered, :class:`RunError` for any other reason.
    """
    try:
        state = load_checkpoint(path)
    except DamagedFile as error:
        raise DamagedCheckpoint(f"checkpoint {path} is damaged: {error.reason}") from None
    except FileError as error:
        raise RunError(f"checkpoint {path} {error.reason}") from None
    version = state.get("gaitway_run") if isinstance(state, dict) else None
    if version is None:
        raise RunError(f"{path} is a file of PyTorch, but no checkpoint of Gaitway: it names no run format")
    if version != RUN_FORMAT:
        raise RunError(
            f"checkpoint {path} has run format {version!r}, this version of Gaitway reads format {RUN_FORMAT}: use the "
            "Gaitway that made it"
        )
    return state


@contextmanager
def fitting(checkpoint: Path, run: Path) -> Iterator[None]:
    """Raise :class:`RunError` where what is done with a checkpoint's state does not fit it."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise RunError(f"{checkpoint} does not fit {run}/config.yaml: {one_line(error)}") from error


def is_run(path: Path) -> bool:
    """True if the folder has the record of a run; :meth:`RunFolder.open` says whether it can be read."""
    return (path / RECORD).is_file()


def family(task: str, agent: str) -> str:
    """The folder of all runs of a task by an agent, under ``runs``."""
    name = task if agent == "ppo" else f"{task}-{agent}"
    return name.replace(":", "-").replace("/", "-")


def default_folder(task: str, agent: str, seed: int, root: Path = Path("runs")) -> Path:
    """``runs/<task>/<time>-seed<k>``, or ``runs/<task>-<agent>/...`` for agents other than PPO."""
    return root / family(task, agent) / f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S}-seed{seed}"


def newest_run(task: str, agent: str, root: Path = Path("runs")) -> Path | None:
    """The run of ``task`` by ``agent`` under ``root`` that was started last."""
    folders = [path for path in (root / family(task, agent)).glob("*") if is_run(path)]
    return max(folders, key=lambda path: path.name, default=None)


def _check_empty(path: Path) -> None:
    """Refuse a folder with anything in it but what a start that was killed leaves: no record, and nothing learnt."""
    if not path.exists():
        return
    if not path.is_dir():
        raise RunError(f"{path} exists and is not an empty folder: choose another --out")
    there = {entry.name for entry in path.iterdir()}
    if CHECKPOINTS in there and any((path / CHECKPOINTS).glob("*.pt")):
        missing = " and ".join(name for name in (RECORD, CONFIG_FILE) if name not in there)
        raise RunError(
            f"{path} has {CHECKPOINTS}/ but no {missing}, which say{'' if ' and ' in missing else 's'} what was "
            "trained: put back what is missing to continue it, or choose another --out"
        )
    begun = {LOCK, CHECKPOINTS, CONFIG_FILE}
    unfinished = LOCK in there or there <= {CHECKPOINTS}
    others = {name for name in there - begun if not (name.startswith(".") and name.endswith(".partial"))}
    if others or (there and not unfinished) or _holds_something(path / CHECKPOINTS):
        raise RunError(f"{path} exists and is not an empty folder: choose another --out")


def _holds_something(path: Path) -> bool:
    return path.exists() and (not path.is_dir() or any(path.iterdir()))


def _read_record(path: Path) -> dict[str, Any]:
    """``run.json`` of a folder, of whatever format."""
    file = path / RECORD
    try:
        record = read_json(file, nan=True)
        if not isinstance(record, dict) or "gaitway_run" not in record:
            raise FileError(file, "it has no gaitway_run")
    except MissingFile:
        there = f" and {CHECKPOINTS}/ alone does not say what was trained" if (path / CHECKPOINTS).is_dir() else ""
        raise RunError(f"{path} is not a run folder: it has no {RECORD}{there}") from None
    except FileError as error:
        raise RunError(f"{file} is damaged: it is not the record of a run ({error.reason})") from None
    return record


_KINDS = {
    "status": str, "reason": str, "steps": int, "total_steps": int, "iterations": int, "wall_time_s": float,
    "cpu_time_s": float, "time_s": dict, "task": str, "algorithm": str, "world": str, "seed": int, "config": dict,
    "isaaclab": dict, "loggers": dict, "chosen": int,
}  # fmt: skip
"""Fields of the record that are read, where it has them."""
_ALWAYS = ("status", "steps", "wall_time_s", "task", "algorithm", "world", "seed")
"""Fields that every record has."""
_COPIED = ("preset", "world", "algorithm", "seed")
"""Fields of the record that say again what the configuration says."""


def _check_record(path: Path, record: dict[str, Any]) -> None:
    """Refuse a record with fields that no run writes."""
    for name, kind in _KINDS.items():
        value: Any = record.get(name, None if name in _ALWAYS else kind())
        good = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not good or isinstance(value, bool) or (kind in (int, float) and not value >= 0):
            raise RunError(f"{path / RECORD} is damaged or was edited: {name} is {value!r}")


def _made_by(record: dict[str, Any]) -> str:
    versions = record.get("versions")
    version = versions.get("gaitway") if isinstance(versions, dict) else None
    return f"version {version}" if isinstance(version, str) else "version unknown"


def _first_record(config: TrainConfig) -> dict[str, Any]:
    return {
        "gaitway_run": RUN_FORMAT,
        "task": config.task.name,
        "preset": config.preset,
        "world": config.world,
        "algorithm": config.algorithm,
        "seed": config.seed,
        "status": "running",
        "steps": 0,
        "total_steps": config.total_steps,
        "iterations": 0,
        "wall_time_s": 0.0,
        "cpu_time_s": 0.0,
        "time_s": {},
        "started": _now(),
        "updated": _now(),
        "command": [Path(sys.argv[0]).name, *typed()],
        "git": provenance.git_state(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
