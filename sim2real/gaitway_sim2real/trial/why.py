"""Reason for a FAIL: what failed worst, seen on the robot that did worst, and what the failed limits have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gaitway_onboard.bundle.contract import Contract

from ..mujoco.film import COMPONENTS
from ..mujoco.plant import Plant
from .scenario import Scenario
from .simulate import Trajectory

MOST = 0.6
"""Share of the failed limits that a theme must have to be what they have in common."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A likely cause and what to do, from the settings of the training; empty texts for what is not known."""

    cause: str = ""
    command: str = ""
    """What trains on, to be typed."""


@dataclass(frozen=True, kw_only=True)
class Why:
    """Reason for a FAIL, in words."""

    scenario: str
    """Title of the scenario that failed worst."""
    robot: int
    """Number of the robot that is shown, of those of its first run."""
    seen: tuple[str, ...]
    """What it did, with part of the body and time."""
    common: str = ""
    """What several failed limits have in common."""
    cause: str = ""
    command: str = ""

    def lines(self) -> list[str]:
        """The reason as a list for a terminal."""
        rows = [("seen", text) for text in self.seen]
        rows += [("in common", self.common), ("likely cause", self.cause), ("next", self.command)]
        return [f"{name}: {text}" for name, text in rows if text]

    def to_dict(self) -> dict[str, Any]:
        """Plain data without :attr:`command`: it has paths of this machine, and verdicts travel with bundles."""
        return {name: value for name, value in asdict(self).items() if name != "command"}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Why:
        """The reverse of :meth:`to_dict`, without a command."""
        return cls(**{**row, "seen": tuple(row["seen"])})


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a suite says of a :class:`FailedWalk`."""

    seen: tuple[str, ...]
    start: float
    """Begin of the time to look at [s]."""
    end: float
    figures: tuple[Any, ...] = ()
    """Parts of a report."""


@dataclass(frozen=True, kw_only=True)
class FailedWalk:
    """The robot that did worst in the scenario that failed worst, walked once more."""

    result: Any
    """Its :class:`.ScenarioResult`, and the :class:`.LimitCheck` that failed."""
    check: Any
    scenario: Scenario
    robot: int
    recording: Trajectory
    """Of this robot alone, with its joint positions."""
    plant: Plant

    @property
    def fell(self) -> float | None:
        """Time of its fall [s], None if it stood."""
        step = int(self.recording.fall_step[0])
        return None if step < 0 else (step + 1) * self.recording.control_dt


@dataclass(kw_only=True)
class Shown:
    """A failed walk with its film."""

    walk: FailedWalk
    explanation: Explanation
    clip: Path | None = None
    why_no_clip: str = "not asked for"


def fall_in_words(walk: FailedWalk, contract: Contract) -> str:
    """One sentence on the fall of a robot; empty if it stood."""
    if walk.fell is None:
        return ""
    step = int(walk.recording.fall_step[0])
    told = told_in_words(walk.recording.command[step, 0], contract)
    return (
        f"robot {walk.robot + 1} of {walk.scenario.envs} falls after {walk.fell:.1f} s "
        f"({walk.recording.fall_cause[0]}), told {told}"
    )


def told_in_words(command: Iterable[float], contract: Contract) -> str:
    """A command with names and units, zeros left out."""
    numbers: tuple[tuple[str, str], ...] = COMPONENTS
    if not contract.follows_velocity:
        numbers = tuple(zip(contract.command_names, contract.command_units, strict=True))
    rows = zip(numbers, command, strict=True)
    said = ", ".join(f"{name} {value:.2g} {unit}".strip() for (name, unit), value in rows if abs(value) > 1e-6)
    return said or "to stand"


def in_common(pairs: Sequence[tuple[Any, Any]], themes: Mapping[str, str]) -> str:
    """One sentence on what several failed limits have in common; empty for a single one.

    ``themes`` say what a metric is about, by its name.
    """
    if len(pairs) < 2:
        return ""
    scenarios = list(dict.fromkeys(result.title for result, _ in pairs))
    about = Counter(themes.get(check.metric.name, check.title) for _, check in pairs)
    theme, count = about.most_common(1)[0]
    head = f"{len(pairs)} limits fail in {len(scenarios)} scenario{'s' * (len(scenarios) > 1)}"
    if count >= MOST * len(pairs):
        own = [(r, c) for r, c in pairs if themes.get(c.metric.name, c.title) == theme]
        names = ", ".join(dict.fromkeys(check.title for _, check in own))
        which = "all" if count == len(pairs) else str(count)
        return f"{head}; {which} are about {theme} ({names}){_place([r for r, _ in own])}"
    parts = ", ".join(f"{theme} {count}" for theme, count in about.most_common(3))
    return f"{head}, about several things ({parts}){_place([r for r, _ in pairs])}"


def _place(results: Sequence[Any]) -> str:
    """Where the limits fail: undisturbed too, or with one factor only."""
    plain = [r for r in results if not r.factor]
    if plain:
        return f", undisturbed as well ({plain[0].title})" if len({r.title for r in results}) > 1 else ""
    factors = dict.fromkeys(r.factor for r in results)
    levels = ", ".join(dict.fromkeys(r.title for r in results))
    return f", only with changes: {levels}" if len(factors) <= 2 else ", only with changes"
