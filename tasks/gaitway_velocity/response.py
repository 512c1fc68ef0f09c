"""Response map: the mean velocity of robots for each of many commands along one axis, small ones above all.

The robots of a scenario form **sweeps**: each sweep has one robot for each of :data:`LEVELS` commands, so that a sweep
is one map of the whole range, and several of them give an interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_sim2real.trial.commands import Commands, Told, held
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.metric import Metric
from gaitway_sim2real.trial.simulate import Trajectory

from .gait import RAMP, SHORTEST_RECORD
from .needs import SMALL
from .steady import hann, heading_rate, tapered

LEVELS = 25
"""Commands of a sweep, zero among them."""
FINE, FINEST = 0.05, 6
"""Step between the ``FINEST`` commands of a side that are next to zero [m/s, rad/s]; the others are wider apart.

They begin at half a step, so that none is exactly at a round threshold that a policy may have.
"""
LEAST = 0.1
"""A side of a range that ends below this is not swept [m/s, rad/s]."""
ANSWERED = 1 / 3
"""Share of its command that a robot must move at, or the command counts as ignored."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One number of a velocity command."""

    name: str
    unit: str
    index: int
    title: str

    @property
    def prefix(self) -> str:
        """Beginning of the names of its metrics."""
        return "yaw_" if self.index == 2 else ""


AXES = {
    f"response_{key}": Axis(name=name, unit=unit, index=index, title=title)
    for index, (key, name, unit, title) in enumerate(
        (
            ("vx", "vx", "m/s", "forward and backward"),
            ("vy", "vy", "m/s", "sideways"),
            ("yaw", "yaw rate", "rad/s", "turning"),
        )
    )
}
"""Axes by the name of their kind of commands, which is that of their scenario."""

RESPONSE_METRICS = (
    Metric("dead_zone", "Dead zone", "m/s", "Speed up to which all commands of a side are ignored: answered with "
           "less than a third of them."),
    Metric("yaw_dead_zone", "Yaw dead zone", "rad/s", "The same of yaw rates."),
    Metric("response_jump", "Jump of the response", "m/s", "Largest change of the mean velocity between neighbouring "
           "commands, beyond that of the commands."),
    Metric("yaw_response_jump", "Jump of the yaw response", "rad/s", "The same of yaw rates."),
    Metric("slope_error", "Slope error", "", "Slope of mean velocity over command, fitted to each side: largest "
           "distance from 1."),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Response:
    """Sweeps of one axis: S maps of L commands each, from lowest to highest."""

    told: np.ndarray  # (L,) [m/s or rad/s]
    answer: np.ndarray  # (S, L), mean velocity; NaN of a robot that fell too early

    @classmethod
    def of(cls, rec: Trajectory, axis: Axis) -> Response:
        """Whole sweeps of a recording, in which the robots of each sweep follow each other."""
        after = np.arange(len(rec.alive))[:, None] >= round(RAMP / rec.control_dt)
        measured = rec.alive & after
        turning = axis.index == 2
        velocity = heading_rate(rec) if turning else rec.lin_vel[..., axis.index].astype(float)
        mean = tapered(velocity, hann(measured))
        mean = np.where(measured.sum(0) * rec.control_dt >= SHORTEST_RECORD, mean, np.nan)
        sweeps = len(mean) // LEVELS
        told = rec.command[0, :LEVELS, axis.index].astype(float)
        return cls(told=told, answer=mean[: sweeps * LEVELS].reshape(sweeps, LEVELS))

    def measure(self) -> dict[str, np.ndarray]:
        """Wider side of the dead zone, largest jump and error of the slope of each sweep, (S,) each."""
        rows = [
            (max(dead_zone(self.told, row)), jump(self.told, row), slope_error(self.told, row)) for row in self.answer
        ]
        return dict(zip(("dead_zone", "response_jump", "slope_error"), np.array(rows).reshape(-1, 3).T, strict=True))


def levels(ends: np.ndarray) -> np.ndarray:
    """The commands of a sweep of the range ``ends`` (2,), from lowest to highest, (LEVELS,)."""
    sides = [float(end) for end in ends if abs(end) >= LEAST]
    count = (LEVELS - 1) // max(len(sides), 1)
    return np.sort(np.concatenate([np.zeros(LEVELS - len(sides) * count), *(_side(end, count) for end in sides)]))


def _side(end: float, count: int) -> np.ndarray:
    """``count`` commands from next to zero to ``end``, close together up to :data:`NEAR`."""
    size, place = abs(end), np.arange(count) + 0.5
    if size <= FINE * place[-1]:
        return np.asarray(end * place / place[-1])
    small = FINE * place[:FINEST]
    return np.asarray(np.sign(end) * np.append(small, np.linspace(small[-1], size, count - FINEST + 1)[1:]))


def dead_zone(told: np.ndarray, answer: np.ndarray) -> tuple[float, float]:
    """Sizes of the commands up to which all are ignored, on the negative and the positive side; 0 if none is.

    A zone ends half-way from the last ignored to the first answered command, or at a robot that fell. ``told`` and
    ``answer`` are (L,), from the lowest command to the highest.
    """
    ends = []
    for side in (-1.0, 1.0):
        own = np.flatnonzero(side * told > 0)[:: int(side)]  # outwards from zero
        size, speed = side * told[own], side * answer[own]
        answered = ~(speed < ANSWERED * size)
        first = int(answered.argmax()) if answered.any() else len(size)
        ends.append(float(size[first - 1 : first + 1].mean()) if first else 0.0)
    return ends[0], ends[1]


def jump(told: np.ndarray, answer: np.ndarray) -> float:
    """Largest step of ``answer`` (L,) between neighbouring commands beyond that of ``told`` (L,); at least 0."""
    known = np.isfinite(answer)
    beyond = np.diff(answer[known]) - np.diff(told[known])
    return float(max(beyond.max(), 0.0)) if beyond.size else np.nan


def slope_error(told: np.ndarray, answer: np.ndarray) -> float:
    """Largest distance from 1 of the slopes of ``answer`` over ``told`` (L,), fitted to each side of zero."""
    found = slopes(told, answer)
    return max(abs(slope - 1.0) for slope in found) if found else np.nan


def slopes(told: np.ndarray, answer: np.ndarray) -> list[float]:
    """Least-squares slope of each side of zero that has three commands or more; an offset is fitted as well."""
    sides = [(told * side > 0) & np.isfinite(answer) for side in (-1.0, 1.0)]
    return [float(np.polyfit(told[own], answer[own], 1)[0]) for own in sides if own.sum() >= 3]


def least_answered(rec: Trajectory, axis: Axis) -> int:
    """Number of a robot of a sweep: the largest command that is ignored, without one that which is missed by most."""
    found = Response.of(rec, axis)
    told, answer = found.told, np.nan_to_num(found.answer)
    ignored = np.where((told != 0) & (np.sign(told) * answer < ANSWERED * np.abs(told)), np.abs(told), 0.0)
    ranked = ignored if ignored.any() else np.abs(answer - told)
    return int(ranked.argmax())


def in_words(axis: Axis, width: float) -> str:
    """A dead zone that is so wide on its wider side."""
    if not width:
        return f"every {axis.name} is answered"
    return f"{axis.name} is ignored for |command| <= {width:.2f} {axis.unit}"


def response_samples(rec: Trajectory, kind: str) -> dict[str, Samples]:
    """:data:`RESPONSE_METRICS` of a recording with commands of this ``kind``; NaN for other kinds."""
    found: dict[str, np.ndarray] = {}
    if axis := AXES.get(kind):
        for name, values in Response.of(rec, axis).measure().items():
            found[name if name == "slope_error" else axis.prefix + name] = values
    none = np.full(1, np.nan)
    return {each.name: Samples(values=found.get(each.name, none), kind="mean") for each in RESPONSE_METRICS}


def _sweep(axis: Axis) -> Commands:
    def draw(told: Told, n: int, rng: np.random.Generator) -> np.ndarray:
        command = np.tile(np.clip(0.0, *told.ranges.T), (n, 1))
        command[:, axis.index] = np.resize(levels(told.ranges[axis.index]), n)
        return command

    return held(draw, (SMALL[axis.index],))


RESPONSES: dict[str, Commands] = {name: _sweep(axis) for name, axis in AXES.items()}
"""Kinds of commands: sweeps along one axis."""
