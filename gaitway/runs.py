"""A run folder: configuration, record, metrics and checkpoints of one training.

``config.yaml`` resolved, ``run.json`` the record, ``metrics.jsonl`` one row per iteration, ``episodes.jsonl`` and
``evaluations.jsonl`` raw returns, ``tensorboard/``, ``checkpoints/``; later ``bundle/``, ``validation/``, ``videos/``.
"""

from __future__ import annotations

import datetime
import json
import pickle
import shutil
import sys
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.writing import open_to_append

from . import provenance
from .errors import RunError
from .files import disk_error, make_folder, write_tensors_atomically, write_text_atomically

if TYPE_CHECKING:
    from .config import TrainConfig

RUN_FORMAT = 3
RECORD = "run.json"
METRICS = "metrics.jsonl"
EPISODES = "episodes.jsonl"
EVALUATIONS = "evaluations.jsonl"
CHECKPOINTS = "checkpoints"
MIN_FREE_BYTES = 64 * 2**20  # a run writes a few checkpoints of some MiB each; less than this ends in tears


class RunWarning(UserWarning):
    """Something about a run that the user should know and that does not stop the work."""


class RunFolder:
    """One run on disk. ``record`` mirrors ``run.json``."""

    def __init__(self, path: Path, record: dict[str, Any]):
        self.path, self.record = path, record

    @classmethod
    def create(cls, path: Path, config: TrainConfig) -> RunFolder:
        """Start a run in ``path``, which must be new or empty."""
        from .config import CONFIG_FILE, dump

        if is_run(path):
            raise RunError(f"{path} already holds a run: add --resume to continue it, or choose another --out")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f"{path} exists and is not an empty folder: choose another --out")
        text = dump(config)
        make_folder(path / CHECKPOINTS)
        free = shutil.disk_usage(path).free
        if free < MIN_FREE_BYTES:
            raise RunError(
                f"only {free / 2**20:.0f} MiB free at {path}, a run needs {MIN_FREE_BYTES // 2**20}: free some"
            )
        write_text_atomically(path / CONFIG_FILE, text)
        run = cls(path, _first_record(config))
        run.update()
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run; refuses a folder that is none, or one of another format."""
        file = path / RECORD
        if not path.is_dir():
            raise RunError(f"no run folder at {path}")
        try:
            record = json.loads(file.read_text("utf-8"))
            version = record["gaitway_run"]
        except FileNotFoundError:
            raise RunError(f"{path} is not a run folder: it has no {RECORD}") from None
        except OSError as error:
            raise RunError(f"cannot read {file}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{file} is damaged: it is not the record of a run") from None
        if version != RUN_FORMAT:
            raise RunError(
                f"{path} has run format {version}, this version of Gaitway reads format {RUN_FORMAT}: use the Gaitway "
                f"that made it (version {record.get('versions', {}).get('gaitway', 'unknown')}), or train anew"
            )
        return cls(path, record)

    def config(self) -> TrainConfig:
        from .config import CONFIG_FILE, load

        return load(self.path / CONFIG_FILE)

    def set_config(self, config: TrainConfig) -> None:
        """Replace ``config.yaml``, for a run that goes on with another length or other threads."""
        from .config import CONFIG_FILE, dump

        write_text_atomically(self.path / CONFIG_FILE, dump(config))

    def update(self, **fields: Any) -> None:
        """Change the record and write it."""
        self.record.update(fields, updated=_now())
        write_text_atomically(self.path / RECORD, json.dumps(self.record, indent=2) + "\n")

    # ---- metrics ---------------------------------------------------------------------------------------------------

    def append_metrics(self, row: dict[str, Any]) -> None:
        self._append(METRICS, [row])

    def append_episodes(self, rows: list[dict[str, Any]]) -> None:
        """``steps``, ``wall_s``, raw ``return`` and ``length`` of episodes that ended."""
        if rows:
            self._append(EPISODES, rows)

    def append_evaluation(self, row: dict[str, Any]) -> None:
        """``steps``, ``wall_s``, ``deterministic``, ``seed``, ``returns`` and ``lengths`` of an evaluation."""
        self._append(EVALUATIONS, [row])

    def _append(self, name: str, rows: list[dict[str, Any]]) -> None:
        path = self.path / name
        try:
            with open_to_append(path) as file:
                file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        except OSError as error:
            raise disk_error(path, error) from None

    def forget_after(self, steps: int) -> None:
        """Drop the rows of what came after ``steps``: they belong to work that the checkpoint does not contain."""
        for name in (METRICS, EPISODES, EVALUATIONS):
            path = self.path / name
            if path.exists():
                kept = [row for row in read_rows(path) if row["steps"] <= steps]
                write_text_atomically(path, "".join(json.dumps(row) + "\n" for row in kept))

    # ---- checkpoints -----------------------------------------------------------------------------------------------

    def save_checkpoint(self, state: dict[str, Any], keep: int) -> Path:
        """Write ``state`` (with its ``steps``) and keep the newest ``keep`` checkpoints."""
        path = self.path / CHECKPOINTS / f"step_{state['steps']:012d}.pt"
        write_tensors_atomically(path, {"gaitway_run": RUN_FORMAT, **state})
        for old in self.checkpoints()[:-keep]:
            old.unlink(missing_ok=True)
        return path

    def checkpoints(self) -> list[Path]:
        """Checkpoint files, oldest first."""
        return sorted((self.path / CHECKPOINTS).glob("step_*.pt"))

    def load_checkpoint(self) -> tuple[dict[str, Any], Path] | None:
        """The newest checkpoint that is whole; warns of damaged ones. None if the run has none at all."""
        files = self.checkpoints()
        for path in reversed(files):
            try:
                return read_checkpoint(path), path
            except RunError as error:
                if path != files[0]:
                    warnings.warn(f"{error}; falling back to the checkpoint before it", RunWarning, stacklevel=2)
        if files:
            raise RunError(f"none of the {len(files)} checkpoints in {self.path / CHECKPOINTS} can be read: train anew")
        return None


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint after checking every byte of it against the archive's checksums."""
    import torch

    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
        if bad is not None:
            raise RunError(f"checkpoint {path} is damaged: {bad} does not match its checksum")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, zipfile.BadZipFile, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise RunError(f"checkpoint {path} is damaged: {str(error).splitlines()[0]}") from None
    if not isinstance(state, dict) or state.get("gaitway_run") != RUN_FORMAT:
        raise RunError(f"{path} is not a checkpoint of run format {RUN_FORMAT}")
    return state


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of a ``.jsonl`` file of a run; a last row cut short by a crash is left out."""
    rows = []
    for line in path.read_text("utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def is_run(path: Path) -> bool:
    return (path / RECORD).is_file()


def family(task: str, agent: str) -> str:
    """The folder of all runs of a task by an agent, under ``runs``."""
    name = task.replace(":", "-").replace("/", "-")
    return name if agent == "ppo" else f"{name}-{agent}"


def default_folder(task: str, agent: str, seed: int, root: Path = Path("runs")) -> Path:
    """``runs/<task>/<time>-seed<k>``, or ``runs/<task>-<agent>/...`` for agents other than PPO."""
    return root / family(task, agent) / f"{datetime.datetime.now():%Y-%m-%d_%H-%M-%S}-seed{seed}"


def newest_run(task: str, agent: str, root: Path = Path("runs")) -> Path | None:
    """The run of ``task`` by ``agent`` under ``root`` that was started last."""
    folders = [path for path in (root / family(task, agent)).glob("*") if is_run(path)]
    return max(folders, key=lambda path: path.name, default=None)


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
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "git": provenance.git_state(),
        "versions": provenance.versions(),
        "machine": provenance.machine(),
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
