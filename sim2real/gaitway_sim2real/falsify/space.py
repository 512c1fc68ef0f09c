"""The space of cases: numbers in [-1, 1], each a share of its declared bound, and what they stand for.

The disturbances come first: fields of :class:`.Twin`, and blows as shares along x and y. Their Euclidean norm is the
size of a case. Behind them are the free numbers: the times of the blows, and the commands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..mujoco.model import GRAVITY
from ..population.twin import Kind, Twin
from ..population.walk import Blow
from .case import BOUNDS, Outcome

STARTS = (1.0, 3.0, 5.0)
"""Starts of the commands [s]; before, the robot rests."""
SECONDS = 8.0
BLOWS, FIRST_BLOW, LAST_BLOW = 2, 1.5, 6.5
"""Number of blows, and the ends of their times [s]."""
WORDS = {
    "payload": "a payload of {:+.0%} of the mass",
    "payload_at": "the payload {:+.2f} standing heights along {axis}",
    "friction": "friction {:.2f}",
    "softness": "contacts of {:.3f} s",
    "impedance": "contact impedance {:.3f}",
    "strength": "motors at {:.0%}",
    "stiffness": "kp at {:.0%}",
    "damping": "kd at {:.0%}",
    "armature": "armature at {:.0%}",
    "joint_friction": "joint friction of {:.1%} of the torque",
    "delay": "targets {:.4f} s late",
    "jitter": "jitter of up to {:.4f} s",
    "backlash": "gear play of {:.4f} rad",
    "gyro_noise": "gyro noise of {:.3f} rad/s",
    "orientation_noise": "orientation noise of {:.4f} rad",
    "joint_pos_noise": "encoder noise of {:.4f} rad",
    "joint_vel_noise": "joint speed noise of {:.2f} rad/s",
    "imu_tilt": "an IMU tilted by {:+.3f} rad about {axis}",
    "foot_size": "feet at {:.0%}",
}
"""Words for the fields."""
FOOT_STEP = 0.05
"""Feet come in steps of this factor, since each size is a model of its own."""
SIDES = ("behind", "the back right", "the right", "the front right", "the front", "the front left", "the left",
         "the back left")  # fmt: skip
"""Sides from which a blow comes, by eighths of a turn of its direction."""


class Knots(Protocol):
    """A family's commands: what a share of the contract's ranges means, and words for it."""

    @property
    def strongest(self) -> float:
        """Bound of a blow's impulse over the robot's mass, in sqrt(g L)."""

    def told(self, shares: np.ndarray, contract: Contract) -> np.ndarray:
        """Commands (K, D) from shares (K, D) in [-1, 1]; 0 is rest."""

    def says(self, command: Sequence[float]) -> str:
        """Words for a command."""


@dataclass(frozen=True)
class Coordinate:
    """One number of a twin: an index of a field, or of none."""

    field: str
    index: int | None
    nominal: float
    low: float
    high: float

    @property
    def name(self) -> str:
        return self.field if self.index is None else f"{self.field}.{'xyz'[self.index]}"

    def value(self, share: float) -> float:
        """Value at a share of the bound on its side."""
        end = self.high if share > 0.0 else self.low
        found = self.nominal + abs(share) * (end - self.nominal)
        return round(round(found / FOOT_STEP) * FOOT_STEP, 6) if self.field == "foot_size" else found

    def says(self, share: float) -> str:
        return WORDS[self.field].format(self.value(share), axis="xyz"[self.index or 0])


class Space:
    """Cases of one robot."""

    def __init__(self, kind: Kind, knots: Knots) -> None:
        self.kind, self.knots, self.contract = kind, knots, kind.contract
        self.coordinates, self.width = _coordinates(kind), len(kind.contract.command_ranges)
        twin, places = len(self.coordinates), 2 * BLOWS
        self.blow_at = [twin + 2 * i for i in range(BLOWS)]
        self.disturbances, self.times = twin + places, slice(twin + places, twin + places + BLOWS)
        self.told = slice(self.times.stop, self.times.stop + len(STARTS) * self.width)
        self.dim = self.told.stop
        self.strongest = knots.strongest * math.sqrt(GRAVITY * kind.plant.stand_height)
        """Bound of a blow [m/s]."""

    @cached_property
    def groups(self) -> list[list[int]]:
        """Indices that are nominal or not together: a field, a blow, a command."""
        width = self.width
        twin = [[i] for i, each in enumerate(self.coordinates) if each.field != "payload"]
        payload = [[i for i, each in enumerate(self.coordinates) if each.field.startswith("payload")]]
        told = [list(range(start, start + width)) for start in range(self.told.start, self.told.stop, width)]
        return [*twin, *payload, *([i, i + 1] for i in self.blow_at), *told]

    def tidy(self, x: np.ndarray) -> np.ndarray:
        """The same case within the bounds, without numbers that mean nothing."""
        x = np.clip(x, -1.0, 1.0)
        for i, each in enumerate(self.coordinates):
            if each.value(x[i]) == each.nominal or (each.low == each.nominal and x[i] < 0.0):
                x[i] = 0.0
        for i in self.blow_at:  # a blow is as strong as its bound at most, whatever its direction
            x[i : i + 2] /= max(1.0, float(np.hypot(*x[i : i + 2])))
        names = [each.field for each in self.coordinates]
        if x[names.index("payload")] == 0.0:
            x[[i for i, name in enumerate(names) if name == "payload_at"]] = 0.0
        return x

    def size(self, x: np.ndarray) -> float:
        """Euclidean norm of the disturbances of a tidy case."""
        return float(np.linalg.norm(x[: self.disturbances]))

    def shares(self, x: np.ndarray) -> dict[str, float]:
        """Disturbances of a tidy case, largest first."""
        found = {each.name: float(x[i]) for i, each in enumerate(self.coordinates)}
        found |= {f"blow {n}": float(np.hypot(*x[i : i + 2])) for n, i in enumerate(self.blow_at, 1)}
        return dict(sorted(((k, v) for k, v in found.items() if v), key=lambda pair: -abs(pair[1])))

    def twin(self, x: np.ndarray) -> Twin:
        changed: dict[str, Any] = {}
        for each, share in zip(self.coordinates, x.tolist(), strict=False):
            if not share:
                continue
            if each.index is None:
                changed[each.field] = each.value(share)
            else:
                values = list(changed.get(each.field, getattr(Twin(), each.field)))
                values[each.index] = each.value(share)
                changed[each.field] = tuple(values)
        return Twin(**changed)

    def blows(self, x: np.ndarray) -> tuple[Blow, ...]:
        return tuple(
            Blow(at=at, impulse=(float(self.strongest * x[i]), float(self.strongest * x[i + 1])))
            for at, i in zip(self.blow_times(x), self.blow_at, strict=True)
            if x[i : i + 2].any()
        )

    def blow_times(self, x: np.ndarray) -> list[float]:
        """Starts of all blows [s]."""
        found: list[float] = (FIRST_BLOW + (x[self.times] + 1.0) / 2.0 * (LAST_BLOW - FIRST_BLOW)).tolist()
        return found

    def after(self, x: np.ndarray, time: float) -> list[list[int]]:
        """Groups of blows and commands that begin at ``time`` [s] or later."""
        starts = dict(zip(self.blow_at, self.blow_times(x), strict=True))
        starts |= dict(zip(range(self.told.start, self.told.stop, self.width), STARTS, strict=True))
        return [group for group in self.groups if starts.get(group[0], 0.0) >= time and x[group].any()]

    def command(self, x: np.ndarray) -> tuple[tuple[float, ...], ...]:
        """Rows of a start [s] and the command from then on."""
        numbers = self.knots.told(x[self.told].reshape(len(STARTS), -1), self.contract)
        rest = self.knots.told(np.zeros((1, numbers.shape[1])), self.contract)
        rows: list[tuple[float, ...]] = []
        for start, row in zip((0.0, *STARTS), np.vstack([rest, numbers]).tolist(), strict=True):
            if not rows or tuple(row) != rows[-1][1:]:
                rows.append((start, *row))
        return tuple(rows)

    def says(self, x: np.ndarray, outcome: Outcome) -> str:
        """The case in words, for one of its robots that fell."""
        walk, fallen = outcome.walk, outcome.falls_after
        told = walk.command[:, outcome.shown]

        def at(time: float) -> int:
            return min(round(time / walk.control_dt), int(walk.alive[:, outcome.shown].sum()) - 1)

        def doing(time: float) -> str:
            step = at(time)
            others = np.flatnonzero((told[:step] != told[step]).any(1))
            before = self.knots.says(told[others[-1]]) if others.size and told[others[-1]].any() else ""
            after = f", {(step - others[-1]) * walk.control_dt:.1f} s after {before}" if before else ""
            return f"while {self.knots.says(told[step])}{after}"

        blows = []
        for blow in sorted(self.blows(x), key=lambda each: each.at):
            turn = math.atan2(blow.impulse[1], blow.impulse[0]) - float(outcome.heading[at(blow.at)])
            side = SIDES[round(turn / (math.pi / 4.0)) % 8]
            size = math.hypot(*blow.impulse)
            blows.append(f"a blow of {size:.2f} m/s from {side} at {blow.at:.1f} s {doing(blow.at)}")
        shares = {i: abs(x[i]) for i in range(len(self.coordinates)) if x[i]}
        body = [self.coordinates[i].says(x[i]) for i in sorted(shares, key=lambda i: -shares[i])]
        told_then = "" if blows else f" {doing(fallen)}"
        return f"falls after {fallen:.1f} s{told_then}: {', '.join([*blows, *body]) or 'no disturbance'}"

    def bounds(self) -> Mapping[str, str]:
        """The declared bounds, in words."""
        fields = {
            each.name: f"{each.low:.4g} to {each.high:.4g}, nominal {each.nominal:.4g}" for each in self.coordinates
        }
        blows = f"{BLOWS} of up to {self.strongest:.2f} m/s, within 0.2 s each"
        told = ", ".join(f"{low:g} to {high:g}" for low, high in self.contract.command_ranges)
        return {**fields, "blows": blows, "commands": f"{len(STARTS)} within {told} ({SECONDS:g} s in all); free"}


def _coordinates(kind: Kind) -> list[Coordinate]:
    """Numbers of a twin that can differ; a nominal value beyond a bound is the bound."""
    model, soles = kind.plant.model, kind.plant.soles
    own = {
        "softness": float(model.geom_solref[soles, 0].mean()),
        "impedance": float(model.geom_solimp[soles, 1].mean()),
    }
    found, nominal = [], Twin()
    for field, ends in BOUNDS.items():
        if own.get(field, 1.0) <= 0.0:  # MuJoCo's other form of a contact's law
            continue
        for index, (low, high) in enumerate(ends):
            value = own.get(field, getattr(nominal, field))
            value = value[index] if isinstance(value, tuple) else value
            bounds = min(low, value), max(high, value)
            found.append(Coordinate(field, index if len(ends) > 1 else None, value, *bounds))
    return found
