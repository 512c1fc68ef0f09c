"""Unknown numbers of an identification, their start, and their conversion back to parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.interface import Array
from gaitway_tasks.robots import Robot

from .drive_log import IdentificationError
from .hung_model import KINDS, HungModel, Values
from .windows import MAX_DELAY

SHARING = ("joint", "type", "robot")
COMMON = ("delay", "velocity_lag", "torque_lag")
FACTORS = ("stiffness_scale", "damping_scale", "strength")
FACTOR_STD = 0.3  # how far from 1 a factor is expected to be
FRICTION_STD = 0.05  # of the effort limit
LOWEST_FACTOR, HIGHEST_FACTOR = 0.1, 5.0


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """One number; several joints may share it."""

    name: str
    """Name, such as "delay" or "joints.FL_hip_joint.armature"; of shared ones, "hip_joint.armature"."""
    kind: str
    joints: tuple[int, ...]
    """Indices; empty for what all joints have in common."""
    prior: float
    """Expected value, where a search starts."""
    prior_std: float
    """Standard deviation of the value about it; also the scale of steps."""
    low: float = 0.0
    high: float = np.inf


@dataclass(frozen=True, eq=False)
class Unknowns:
    """U of them, in order."""

    items: tuple[Unknown, ...]
    base: Values
    """Values of all numbers that are not searched."""

    def __len__(self) -> int:
        return len(self.items)

    @property
    def prior(self) -> Array:
        return np.array([item.prior for item in self.items])

    @property
    def prior_std(self) -> Array:
        return np.array([item.prior_std for item in self.items])

    @property
    def bounds(self) -> tuple[Array, Array]:
        return np.array([item.low for item in self.items]), np.array([item.high for item in self.items])

    def values(self, theta: Array) -> Values:
        """Values of the numbers ``theta``, (U,)."""
        joints = {kind: values.copy() for kind, values in self.base.joints.items()}
        common = {name: getattr(self.base, name) for name in COMMON}
        for item, value in zip(self.items, theta, strict=True):
            if item.kind in COMMON:
                common[item.kind] = float(value)
            else:
                joints[item.kind][list(item.joints)] = value
        return Values(joints=joints, **common)

    def colours(self, trees: Sequence[Sequence[int]]) -> list[list[int]]:
        """Unknowns in groups no two of which move the same limb: each group needs one perturbed simulation."""
        groups: list[tuple[set[int], list[int]]] = []
        for number, item in enumerate(self.items):
            limbs = {t for t, tree in enumerate(trees) if not item.joints or set(item.joints) & set(tree)}
            for taken, members in groups:
                if not taken & limbs:
                    taken |= limbs
                    members.append(number)
                    break
            else:
                groups.append((limbs, [number]))
        return [members for _, members in groups]


def choose(model: HungModel, damping: Array, *, share: str = "joint", has_torque: bool = True) -> Unknowns:
    """Everything that a hung robot can tell. ``damping`` is the commanded kd of each joint [N m s/rad], (J,).

    ``share``: every joint has numbers of its own ("joint"), joints that mirror each other or sit at the same place of
    other legs share them ("type"), or all do ("robot"). Without reported torques the drives' strength is not looked
    for: it acts only through its products with the gain scales.
    """
    if share not in SHARING:
        raise IdentificationError(f"share {share!r}: choose one of {', '.join(SHARING)}")
    kinds = [kind for kind in KINDS if has_torque or kind != "strength"]
    items = [Unknown(name="delay", kind="delay", joints=(), prior=0.01, prior_std=0.02, high=MAX_DELAY)]
    lags = ("velocity_lag", "torque_lag") if has_torque else ("velocity_lag",)
    items += [Unknown(name=lag, kind=lag, joints=(), prior=0.0, prior_std=0.005, high=0.03) for lag in lags]
    for label, joints in joint_groups(model.robot, share).items():
        for kind in kinds:
            items.append(_unknown(model, damping, f"{label}.{kind}", kind, joints))
    return Unknowns(tuple(items), model.nominal)


def _unknown(model: HungModel, damping: Array, name: str, kind: str, joints: tuple[int, ...]) -> Unknown:
    nominal = float(np.mean(model.nominal.joints[kind][list(joints)]))
    at = list(joints)
    if kind in FACTORS:
        bounds = (LOWEST_FACTOR, HIGHEST_FACTOR)
        return Unknown(
            name=name, kind=kind, joints=joints, prior=1.0, prior_std=FACTOR_STD, low=bounds[0], high=bounds[1]
        )
    scale = {
        "armature": float(np.mean(model.inertia[at])),
        "friction": FRICTION_STD * float(np.mean(model.effort_limit[at])),
        "viscous": float(np.mean(damping[at])),
    }[kind]
    return Unknown(name=name, kind=kind, joints=joints, prior=nominal, prior_std=max(nominal, scale))


def joint_groups(robot: Robot, share: str) -> dict[str, tuple[int, ...]]:
    """Label and joints of each group that shares its numbers, see :func:`choose`."""
    if share == "robot":
        return {"robot": tuple(range(robot.num_joints))}
    if share == "joint":
        return {f"joints.{name}": (index,) for index, name in enumerate(robot.joint_names)}
    sides = {side for mirror in robot.mirrors.values() for pair in mirror.pairs.items() for side in pair}
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(robot.joint_names):
        prefix = max((side for side in sides if name.startswith(side)), key=len, default="")
        groups.setdefault(name[len(prefix) :].lstrip("_"), []).append(index)
    return {label: tuple(joints) for label, joints in groups.items()}
