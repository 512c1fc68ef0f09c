"""Trainings of other programs: Stable-Baselines3's ``monitor.csv`` and event files of TensorBoard."""

from __future__ import annotations

import csv
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.json_files import parse_json
from gaitway_files.reading import NAME, FileError, as_text, printable, read_bytes, read_lines

from ..errors import RunError
from ..runs.folder import is_run
from .series import LAST_EPISODES, LAST_SHARE, NothingToCompare, Series, share_of

MONITOR = re.compile(r"(?:.*\.)?monitor\.csv")
EVENTS = "events.out.tfevents."
RETURNS = (
    "rollout/ep_rew_mean", "charts/episodic_return", "Train/mean_reward", "Reward / Total reward (mean)",
    "rewards/step",
)  # fmt: skip
"""Tags of the return by Stable-Baselines3, CleanRL, rsl_rl, skrl and rl_games."""
LENGTHS = (
    "rollout/ep_len_mean", "charts/episodic_length", "Train/mean_episode_length",
    "Episode / Total timesteps (mean)", "episode_lengths/step",
)  # fmt: skip
"""Tags of the length of episodes, in the same order."""
NUMBERED = re.compile(r"(.*?)(?:^|[-_ ]|seed)(?:seed)?[-_=]?(\d{1,9})", re.IGNORECASE | re.DOTALL)
"""Names such as ``PPO_3``, ``seed3`` and ``3``."""
DATED = re.compile(r"\d{4}-\d\d|[A-Z][a-z]{2}\d\d_")
FLOAT = 1
"""Type of a tensor of TensorFlow."""
UNTOLD = "not told"
"""Task of a log that does not name it."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """Numbers of a training by another program, by name: steps, seconds since the start and values, (n,) each."""

    record: Mapping[str, Any]
    columns: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = field(repr=False)

    def series(self, metric: str) -> Series:
        """The rows of ``metric``; raises :class:`RunError`."""
        for key in {"return": ("return", *RETURNS), "length": ("length", *LENGTHS)}.get(metric, (metric,)):
            if key in self.columns:
                return self._series(key)
        known = ", ".join(sorted(self.columns)[:8]) + (", ..." if len(self.columns) > 8 else "")
        raise NothingToCompare(f"it has no {metric}; --metric can be {known}")

    def _series(self, key: str) -> Series:
        steps, wall, values = self.columns[key]
        if not np.isfinite(values).all():
            raise RunError(f"{key} is not finite in {int((~np.isfinite(values)).sum())} of {len(values)} rows")
        of_episodes = key in ("return", "length")
        return Series(
            steps=steps,
            wall_s=wall,
            values=values,
            window=LAST_EPISODES if of_episodes else share_of(len(values)),
            share=not of_episodes,
            name={"return": "training return", "length": "training episode length"}.get(key, key),
            protocol=f"mean of the last {LAST_EPISODES} training episodes"
            if of_episodes
            else f"mean of {key} over the last {LAST_SHARE:.0%} of its rows",
        )


def find_logs(path: Path) -> list[Path]:
    """Folders with logs at and below ``path``, outside run folders and other folders with logs."""
    found = []
    for place, folders, files in os.walk(path.parent if path.is_file() else path):
        if is_run(Path(place)):
            folders.clear()
        elif any(MONITOR.fullmatch(name) or name.startswith(EVENTS) for name in files):
            folders.clear()
            found.append(Path(place))
        folders.sort()
    return found


def read_log(folder: Path) -> Log:
    """The log in ``folder``; episodes of monitors if there are any. Raises :class:`RunError`."""
    names = sorted(os.listdir(folder))
    monitors = [folder / name for name in names if MONITOR.fullmatch(name)]
    try:
        task, columns = _monitored(monitors) if monitors else (UNTOLD, _logged(folder, names))
    except FileError as error:
        raise RunError(f"{Path(error.name).name} cannot be read: {error.reason}") from None
    if not columns:
        raise NothingToCompare("its log has no episode" if monitors else "its event files have no numbers")
    agent, seed = _agent_and_seed(folder.absolute(), task)
    return Log(
        record={
            "task": _our_name(task),
            "algorithm": agent,
            "seed": seed,
            "world": "stable-baselines3" if monitors else "tensorboard",
            "status": "finished",
            "steps": int(max(steps[-1] for steps, _, _ in columns.values())),
            "wall_time_s": float(max(wall[-1] for _, wall, _ in columns.values())),
        },
        columns=columns,
    )


def _monitored(files: list[Path]) -> tuple[str, dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Task and columns of the monitors of a training's environments, whose episodes are put in order of time."""
    episodes: list[tuple[float, float, float]] = []
    task, begun = UNTOLD, math.inf
    for path in files:
        lines = list(read_lines(path))
        head = parse_json(lines[0].removeprefix(b"#"), path) if lines and lines[0].startswith(b"#") else {}
        start = head.get("t_start", 0.0) if isinstance(head, dict) else 0.0
        start = float(start) if isinstance(start, int | float) else 0.0
        begun = min(begun, start)
        if isinstance(head, dict) and head.get("env_id") not in (None, "None"):
            task = printable(head["env_id"], NAME)
        text = as_text(b"".join(lines[1 if head else 0 :]), path)
        rows = list(csv.DictReader(text.splitlines()))
        for number, row in enumerate(rows):
            try:
                episodes.append((start + float(row["t"]), float(row["l"]), float(row["r"])))
            except (KeyError, TypeError, ValueError):
                if number + 1 < len(rows) or "r" not in row:  # the last may be cut short
                    raise RunError(f"{path.name} is damaged: row {number + 1} has no r, l and t") from None
    if not episodes:
        return task, {}
    times, lengths, returns = np.array(sorted(episodes)).T
    steps, wall = np.cumsum(lengths), times - begun
    return task, {"return": (steps, wall, returns), "length": (steps, wall, lengths)}


def _logged(folder: Path, names: list[str]) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Numbers in the event files of ``folder`` by tag, in the order of their steps."""
    rows: dict[str, list[tuple[int, float, float]]] = {}
    for name in names:
        if name.startswith(EVENTS):
            for tag, step, wall, value in _numbers(folder / name):
                rows.setdefault(tag, []).append((step, wall, value))
    first = min((wall for found in rows.values() for _, wall, _ in found), default=0.0)
    columns = {}
    for tag, found in rows.items():
        steps, wall, values = np.array(sorted(found, key=lambda row: row[0])).T
        columns[tag] = steps, wall - first, values
    return columns


def _numbers(path: Path) -> Iterator[tuple[str, int, float, float]]:
    """Tag, step, time [s] and value of each number in an event file; a last record that was cut short ends it."""
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    content, place = read_bytes(path), 0
    while place + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        record = content[place + 12 : place + 12 + length]
        place += length + 16
        if place > len(content):
            return
        try:
            event = Event.FromString(record)
        except DecodeError:
            raise FileError(path, "is damaged, or no event file of TensorBoard") from None
        for item in event.summary.value:
            kind = item.WhichOneof("value")
            if kind == "simple_value":
                yield printable(item.tag, NAME), event.step, event.wall_time, item.simple_value
            elif kind == "tensor" and item.tensor.dtype == FLOAT and len(item.tensor.float_val) == 1:
                yield printable(item.tag, NAME), event.step, event.wall_time, item.tensor.float_val[0]
            elif kind == "tensor" and item.tensor.dtype == FLOAT and len(item.tensor.tensor_content) == 4:
                (value,) = struct.unpack("<f", item.tensor.tensor_content)
                yield printable(item.tag, NAME), event.step, event.wall_time, value


def _agent_and_seed(folder: Path, task: str) -> tuple[str, int]:
    """Agent and seed by the folder's name, such as ``PPO_3``; without a name of an agent it is the one above."""
    stem, seed = folder.name, 0
    if DATED.match(stem):
        stem = ""
    elif found := NUMBERED.fullmatch(stem):
        stem, seed = found[1], int(found[2])
    return printable(folder.parent.name if stem in ("", task) else stem, NAME) or UNTOLD, seed


def _our_name(task: str) -> str:
    """The task's name in Gaitway, so that runs of both are compared."""
    from gaitway_gymnasium.tasks import IDS, PREFIX

    short = {env_id: name for name, env_id in IDS.items()}
    return task if task == UNTOLD else short.get(task, PREFIX + task)
