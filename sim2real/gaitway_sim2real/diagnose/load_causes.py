"""One group of parameters at a time: which one makes the torques move the robot as it moved?

Each group is fitted to every other stretch of the flight and judged on the stretches between. The rotors' inertia is
fitted beside every group, since a simulation's way to integrate damping looks like some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from gaitway_onboard.interface import Array

from .loads import Loads, turn

HUBER, CAP = 1.5, 3.0  # medians, from which a sample counts less, and no more
STRETCHES = 24
EXPLAINS = 0.93  # share of the misfit that a cause may leave
SURE = 0.9  # share of the resampled flights in which the best group beats the next
USUAL = 1.1  # misfit of a robot that is as the model says, with noisy sensors
MATERIAL = {
    "motor_strength": 0.08, "joint_friction": 0.25, "encoder_offset": 0.03, "imu_mounting": 0.025,
    "payload": 0.05, "armature": 0.2,
}  # fmt: skip
"""Least change that is a cause: share, N m, rad, rad; shares of the robot's mass and of a joint's inertia."""


@dataclass(frozen=True, kw_only=True)
class Group:
    cause: str
    columns: tuple[str, ...]
    joint: str = ""
    values: Array
    """Fitted changes, of :attr:`columns`."""
    errors: Array
    """Losses of the stretches that were not fitted, (B,)."""
    armature: float


@dataclass(frozen=True, kw_only=True)
class LoadCauses:
    before: float
    """Median misfit, in units of the noise that sensors usually have."""
    best: Group | None
    """None if no group explains the flight clearly better than the model."""
    left: float
    """Share of the misfit that the best leaves."""
    doubt: str = ""
    """Cause that explains nearly as much, "" if none does."""


def explain_loads(loads: Loads) -> LoadCauses:
    columns = loads.columns()
    names = loads.record.flight.joint_names
    groups: list[tuple[str, tuple[str, ...], str]] = [
        ("payload", ("mass",), ""), ("payload", ("mass", "com/x", "com/y"), ""), ("motor_strength", ("strength",), ""),
        ("joint_friction", ("dry", "viscous"), ""), ("imu_mounting", ("mount/roll", "mount/pitch"), ""),
        *(("motor_strength", (f"strength/{name}",), name) for name in names),
        *(("joint_friction", (f"dry/{name}",), name) for name in names),
        *(("encoder_offset", (f"encoder/{name}",), name) for name in names),
    ]  # fmt: skip
    stretch = (np.arange(len(loads.rows)) * STRETCHES // max(1, len(loads.rows))).astype(int)
    fitted = stretch % 2 == 0
    rotor = columns["armature"][None]
    usual = float(np.median(_size(loads.residual + np.tensordot(_fit(loads.residual, rotor, fitted), rotor, 1))))

    def losses(left: Array) -> Array:
        """Of the stretches that are not fitted."""
        size = np.minimum(_size(left) / usual, CAP) ** 2
        return np.array([size[stretch == s].mean() for s in range(1, STRETCHES, 2) if (stretch == s).any()])

    def judge(cause: str, which: tuple[str, ...], joint: str) -> Group:
        slopes = np.concatenate([rotor, *(columns[name][None] for name in which)])
        values = _fit(loads.residual, slopes, fitted)
        left = loads.residual + np.tensordot(values, slopes, 1)
        if cause in ("encoder_offset", "imu_mounting") and np.abs(values[1:]).max() > MATERIAL[cause]:
            left = _anew(loads, which, values) + values[0] * rotor[0]
        return Group(
            cause=cause, columns=which, joint=joint, values=values[1:], errors=losses(left), armature=float(values[0])
        )

    null, model = judge("armature", (), ""), losses(loads.residual)
    tried = [group for each in groups if is_material(group := judge(*each), loads)]
    tried.sort(key=lambda group: group.errors.mean())
    best = tried[0] if tried and tried[0].errors.mean() < EXPLAINS * null.errors.mean() else None
    rivals = [group for group in tried if best is not None and group.cause != best.cause]
    reference = null.errors
    if best is None and is_material(null, loads) and null.errors.mean() < EXPLAINS * model.mean():
        best, reference = null, model
    left = 1.0 if best is None else float(best.errors.mean() / reference.mean())
    doubt = ""
    if best is not None and rivals:
        rng = np.random.default_rng(0)
        picks = rng.integers(0, len(best.errors), (500, len(best.errors)))
        if (best.errors[picks].mean(1) < rivals[0].errors[picks].mean(1)).mean() < SURE:
            doubt = rivals[0].cause
    return LoadCauses(before=float(usual), best=best, left=left, doubt=doubt)


def is_material(group: Group, loads: Loads) -> bool:
    """True if the change is large enough to matter, and possible."""
    value = float(np.abs(group.values).max()) if len(group.values) else abs(group.armature)
    if group.cause == "payload":
        return abs(float(group.values[0])) > MATERIAL["payload"] * loads.mass
    if group.cause == "armature":
        return value > MATERIAL["armature"] * loads.inertia
    if group.cause == "joint_friction":
        value = float(group.values[0])
    return value > MATERIAL[group.cause] * (1.5 if group.joint and group.cause != "encoder_offset" else 1.0)


def _size(residual: Array) -> Array:
    size: Array = np.sqrt((residual**2).sum(1))
    return size


def _fit(residual: Array, slopes: Array, rows: np.ndarray) -> Array:
    """Changes (P,) that leave least of ``residual`` (S, nv) at ``rows``, by Huber's loss on each sample's size."""
    r, a = residual[rows], slopes[:, rows]
    size = _size(r)
    values = np.zeros(len(a))
    for _ in range(8):
        weight = np.minimum(1.0, HUBER * np.median(size) / np.maximum(size, 1e-9))
        normal = np.einsum("psv,qsv,s->pq", a, a, weight)
        values = -np.linalg.solve(
            normal + 1e-9 * np.trace(normal) * np.eye(len(a)), np.einsum("psv,sv,s->p", a, r, weight)
        )
        size = _size(r + np.tensordot(values, a, 1))
    return values


def _anew(loads: Loads, which: tuple[str, ...], values: Array) -> Array:
    """Residual of readings that are corrected, with the feet that then touch the ground."""
    at = loads.samples
    for name, value in zip(which, values[1:], strict=True):
        kind, _, detail = name.partition("/")
        if kind == "encoder":
            joint = loads.record.flight.joint_names.index(detail)
            at = replace(at, pos=at.pos - value * np.eye(at.pos.shape[1])[joint])
        else:
            axis = ("roll", "pitch", "yaw").index(detail)
            at = replace(at, **{n: turn(getattr(at, n), axis, value) for n in ("gyro", "turn", "force", "up")})
    return loads.anew(at)
