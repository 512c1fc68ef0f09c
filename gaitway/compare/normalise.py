"""Scores on one scale, so that tasks can be averaged: 0 at a low reference, 1 at a high one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.yaml_files import read_yaml

from .atari_scores import RANDOM_AND_HUMAN, game_of
from .gather import Run
from .statistics import Array

CHOICES = ("none", "minmax", "atari-human")
POINTS = 200  # at which a curve is evaluated


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """References (low, high) for each task; without any, scores are unchanged."""

    name: str
    about: str
    references: Mapping[str, tuple[float, float]]

    @property
    def scales(self) -> bool:
        return bool(self.references)

    @property
    def places(self) -> int | None:
        """Decimal places of a scaled score; None for significant digits."""
        return 3 if self.scales else None

    def __call__(self, task: str, values: Array) -> Array:
        if not self.scales:
            return values
        low, high = self.references[task]
        return (values - low) / (high - low)


def make_normalisation(choice: str | None, runs: Sequence[Run]) -> Normalisation:
    """``choice`` is one of :data:`CHOICES` or a YAML file of references; by default several tasks are scaled minmax."""
    tasks = list(dict.fromkeys(run.task for run in runs))
    if choice is None:
        choice = "minmax" if len(tasks) > 1 else "none"
    if choice == "none":
        return Normalisation(name=choice, about="scores as they are", references={})
    if choice == "minmax":
        about = "0 is the lowest point of any curve on the task, 1 the highest"
        return Normalisation(name=choice, about=about, references=_check(_lowest_and_highest(runs), choice))
    if choice == "atari-human":
        table = {task: RANDOM_AND_HUMAN.get(game_of(task)) for task in tasks}
        if unknown := [task for task, pair in table.items() if pair is None]:
            raise UserError(f"--normalize atari-human: {unknown[0]} is none of the 57 games with a human score")
        known = {task: pair for task, pair in table.items() if pair is not None}
        return Normalisation(name=choice, about="0 is a random player, 1 a human (table of DQN Zoo)", references=known)
    given = _read_references(Path(choice))
    if unknown := [task for task in tasks if task not in given]:
        raise UserError(f"--normalize {choice}: no reference for {unknown[0]}; add '{unknown[0]}: [low, high]'")
    return Normalisation(name=choice, about=f"0 and 1 as {choice} says", references=_check(given, choice))


def _lowest_and_highest(runs: Sequence[Run]) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for run in runs:
        curve = run.series.curve(np.linspace(0.0, run.series.end("steps"), POINTS + 1), "steps")
        low, high = found.get(run.task, (math.inf, -math.inf))
        found[run.task] = min(low, float(np.nanmin(curve))), max(high, float(np.nanmax(curve)))
    return found


def _read_references(path: Path) -> dict[str, tuple[float, float]]:
    if not path.is_file():
        raise UserError(f"--normalize {path}: use {', '.join(CHOICES)} or a YAML file of 'task: [low, high]'")
    try:
        data = read_yaml(path)
        return {str(task): (float(low), float(high)) for task, (low, high) in data.items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise UserError(f"--normalize {path}: it must hold 'task: [low, high]' for each task") from None


def _check(references: dict[str, tuple[float, float]], choice: str) -> dict[str, tuple[float, float]]:
    for task, (low, high) in references.items():
        if not low < high:
            raise UserError(
                f"--normalize {choice}: {task} has references {low:g} and {high:g}, the second must be larger; "
                "--normalize none leaves scores as they are"
            )
    return references
