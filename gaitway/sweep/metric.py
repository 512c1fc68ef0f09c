"""The number that a sweep searches for, read from the files of a run folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gaitway_tasks.registry import UnknownNameError

from ..compare.comparison import LOWER_IS_BETTER
from ..compare.differences import measured_by
from ..compare.series import EVALUATION, EVALUATION_MAX, NothingToCompare, Series, read_evaluations, read_series
from ..compare.series import read_rows as rows_of
from ..errors import ConfigError
from ..runs.folder import EXAMINATIONS

if TYPE_CHECKING:
    from ..train_config import TrainConfig

FALLS, EXAMINATION, ERROR = "falls", "examination", "error/"
NAMES = ("return", "length", EVALUATION, EVALUATION_MAX, FALLS, EXAMINATION)
"""Metrics besides ``error/<measure>`` and the keys of metrics.jsonl, which have a slash."""
EVALUATED = (EVALUATION, EVALUATION_MAX, FALLS)


@dataclass(frozen=True)
class Metric:
    """A number of a run; less is better if ``lower``."""

    name: str
    lower: bool

    def series(self, folder: Path) -> Series:
        """Its values in a run so far. Raises :class:`gaitway.errors.RunError`, if there is none yet for example."""
        if self.name == EXAMINATION:
            return _examined(folder)
        if self.name == FALLS or self.name.startswith(ERROR):
            return _walked(folder, self.name)
        evaluations = read_evaluations(folder) if self.name in EVALUATED else ()
        return read_series(folder, self.name, evaluations)


def metric_of(name: str | None, *, minimize: bool, config: TrainConfig, keys: Sequence[str]) -> Metric:
    """The metric called ``name``, by default the evaluation if there is one, else the return.

    Raises :class:`ConfigError` where a run with this configuration would not have it, or where the varied ``keys``
    change what it measures.
    """
    name = name or (EVALUATION if config.evaluation_episodes else "return")
    if name not in NAMES and "/" not in name:
        raise UnknownNameError("metric", name, [*NAMES, "error/linear", "error/yaw", "rollout/reward"])
    if (name in EVALUATED or name.startswith(ERROR)) and not config.evaluation_episodes:
        raise ConfigError(f"--metric {name}: evaluation_episodes=0, so no run is evaluated; set evaluation_episodes=20")
    if name == EXAMINATION and config.until != "good":
        raise ConfigError(f"--metric {name}: until={config.until}, so no policy is examined; set until=good")
    if (name == FALLS or name.startswith(ERROR)) and config.simulator is None:
        raise ConfigError(f"--metric {name}: {config.task.name} is no robot's task; use {EVALUATION} or return")
    if name.startswith(ERROR) and name.removeprefix(ERROR) not in (measures := _measures(config)):
        raise UnknownNameError("--metric", name, [*(f"{ERROR}{measure}" for measure in measures), FALLS, EVALUATION])
    measured = measured_by("return" if name in (EVALUATION, EVALUATION_MAX) else name)
    for kind, beginnings in measured.items():
        for key in keys:
            if key.startswith(beginnings):
                other = "falls, error/linear or examination" if kind == "rewards" else "another space"
                raise ConfigError(
                    f"--space {key}: it changes the {kind} that --metric {name} measures, so trials could not be "
                    f"compared; use {other}"
                )
    known = name in (FALLS, EXAMINATION) or name.startswith((ERROR, *LOWER_IS_BETTER))
    return Metric(name, known or minimize)


def _measures(config: TrainConfig) -> list[str]:
    """The measures of a robot's errors, named as :func:`read_evaluations` does, by an environment of its own."""
    from ..domains.robots import in_mujoco
    from ..training.tracking import tracking_errors

    env = config.environments.make_env(in_mujoco(config), 1, config.seed)
    try:
        env.reset(seed=config.seed)
        found = [key.split("/", 2)[1:] for key in tracking_errors(env)]
    finally:
        env.close()
    several = len({command for command, _ in found}) > 1
    return [f"{command} {measure}" if several else measure for command, measure in found]


def _walked(folder: Path, name: str) -> Series:
    """Share of episodes that ended by a fall, or the distance from a command, of each evaluation."""
    evaluations = read_evaluations(folder)
    measure = name.removeprefix(ERROR)
    values = []
    for each in evaluations:
        found = each.errors.get(measure) if name != FALLS else (each.falls or 0) / len(each.returns)
        if found is None:
            there = ", ".join(each.errors) or "none"
            raise NothingToCompare(f"its evaluations have no error {measure!r}; they have {there}")
        values.append(found)
    if not values:
        raise NothingToCompare("it was not evaluated")
    said = "share of episodes with a fall" if name == FALLS else f"{measure} error"
    return _series(evaluations, values, said, f"{said} in the last evaluation of a run")


def _examined(folder: Path) -> Series:
    """How far the best policy examined was from the suite: 0 passed it, up to 1 passed its examination, more failed.

    Above 1 it is 1 + the number of failed checks + a part below 1 that grows with the largest share of a limit used.
    """
    rows = [row for row in rows_of(folder / EXAMINATIONS) if isinstance(row.get("steps"), int)]
    if not rows:
        raise NothingToCompare("no policy was examined")
    best = np.minimum.accumulate([_distance(row) for row in rows])
    said = "distance from passing"
    return _series([_Row(row) for row in rows], list(best), said, f"{said} of the best policy examined in a run")


def _distance(row: dict[str, Any]) -> float:
    if (row.get("suite") or {}).get("passed") is True:
        return 0.0
    used = row.get("closest")
    used = float(used) if isinstance(used, int | float) and math.isfinite(used) else math.inf
    if row.get("passed") is True:
        return min(used, 1.0)
    part = used / (1.0 + used) if math.isfinite(used) else 1.0
    return 1.0 + len(row.get("missing") or ()) + len(row.get("left_out") or ()) + part


@dataclass(frozen=True)
class _Row:
    row: dict[str, Any]

    @property
    def steps(self) -> int:
        return int(self.row["steps"])

    @property
    def wall_s(self) -> float:
        return float(self.row.get("wall_s", 0.0))


def _series(rows: Sequence[Any], values: Sequence[float], name: str, protocol: str) -> Series:
    return Series(
        steps=np.array([row.steps for row in rows], float),
        wall_s=np.array([row.wall_s for row in rows], float),
        values=np.array(values, float),
        window=1,
        name=name,
        protocol=protocol,
    )
