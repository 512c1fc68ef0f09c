"""Requirements of the scenarios, limits and metrics of walking on a robot's feet and commands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.plant import Plant
from gaitway_sim2real.trial.needs import Need

from .command_classes import AHEAD_SPEED, CLASSES, SLOWEST, has_class

VELOCITY, ZERO, FULL, STRAIGHT = "velocity command", "zero command", "full speed", "straight command"
AHEAD, BOTH_WAYS = "straight ahead", "both ways"
TWO_FEET, OTHER_FEET, FOOT_PAIRS = "two feet", "feet other than two", "left and right feet"
SMALL = tuple(f"small {name}" for name in ("vx", "vy", "yaw rate"))
"""Of each number of the command: it can be 0 and reaches :data:`SLOWEST` to one side or the other."""
SOLES, ARMS, HANDS = "soles", "arms", "hands"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Facts about what is judged, as far as something needs them."""

    ranges: np.ndarray
    """Ranges of vx, vy [m/s] and yaw rate [rad/s], (3, 2)."""
    feet: int
    pairs: bool = True
    """True if there are as many left feet as right ones."""
    soles: bool = False
    """True if feet have a heel and a toe."""
    arms: bool = False
    """True if it has arms that can swing."""
    hands: bool = False

    @classmethod
    def of(cls, contract: Contract, plant: Plant) -> Subject:
        side = np.sign(plant.foot_places[:, 1])
        return cls(
            ranges=np.array(contract.command_ranges),
            feet=len(plant.foot_names),
            pairs=bool((side > 0).sum() == (side < 0).sum() > 0),
            soles=plant.has_soles,
            arms=bool(plant.arms),
            hands=bool(plant.hands),
        )


def _class(name: str) -> Need:
    return Need(
        lambda s: has_class(name, s.ranges), f"the command ranges do not reach {SLOWEST:g} {CLASSES[name].title}"
    )


def _none(ends: np.ndarray) -> bool:
    """True if 0 is within a range, (2,)."""
    return bool(ends[0] <= 0.0 <= ends[1])


def _small(name: str, axis: int) -> Need:
    return Need(
        lambda s: _none(s.ranges[axis]) and bool(np.abs(s.ranges[axis]).max() >= SLOWEST),
        f"the range of {name.removeprefix('small ')} does not hold 0 and {SLOWEST:g}",
    )


def _straight(subject: Subject) -> bool:
    names = (name for name, kind in CLASSES.items() if not any(kind.yaw))
    return _none(subject.ranges[2]) and any(has_class(name, subject.ranges) for name in names)


NEEDS: dict[str, Need] = {
    VELOCITY: Need(lambda s: bool(s.ranges.any()), "the policy takes no velocity command"),
    ZERO: Need(
        lambda s: bool((s.ranges[:, 0] <= 0).all() and (s.ranges[:, 1] >= 0).all()), "it cannot be told to stand"
    ),
    FULL: Need(lambda s: bool(np.abs(s.ranges).max() >= SLOWEST), f"no command range reaches {SLOWEST:g}"),
    STRAIGHT: Need(_straight, f"it cannot be told to go straight at {SLOWEST:g} m/s"),
    AHEAD: Need(
        lambda s: s.ranges[0, 0] <= AHEAD_SPEED <= s.ranges[0, 1] and _none(s.ranges[1]) and _none(s.ranges[2]),
        f"it cannot be told to go straight ahead at {AHEAD_SPEED:g} m/s",
    ),
    BOTH_WAYS: Need(
        lambda s: bool((s.ranges[:, 0] <= -SLOWEST / 2).all() and (s.ranges[:, 1] >= SLOWEST / 2).all()),
        f"not every command range reaches {SLOWEST / 2:g} both ways",
    ),
    **{name: _small(name, axis) for axis, name in enumerate(SMALL)},
    TWO_FEET: Need(lambda s: s.feet == 2, "the robot has not two feet"),
    OTHER_FEET: Need(lambda s: s.feet != 2, "the robot has two feet"),
    FOOT_PAIRS: Need(lambda s: s.pairs, "its feet are not in pairs of left and right"),
    SOLES: Need(lambda s: s.soles, "its feet are balls or pads, without heel and toe"),
    ARMS: Need(lambda s: s.arms, "it has no arms that the policy can swing"),
    HANDS: Need(lambda s: s.hands, "it has no hands that the policy moves"),
    **{f"command: {kind.title}": _class(name) for name, kind in CLASSES.items()},
}
"""Needs by name, in plain words."""
