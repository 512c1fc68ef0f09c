"""Numbers of a recording: the form of a metric, and those that every robot has.

Pure numpy. Means run over the time before a robot's fall, and robots weigh the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gaitway_files.blame import blamed
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract

from ..pages.verdict import rounded
from .intervals import Kind, Samples
from .simulate import Trajectory


@dataclass(frozen=True)
class Metric:
    """One number that scenarios limit and reports show; equal to another if a verdict says the same of both."""

    name: str
    title: str
    unit: str = ""
    about: str = field(default="", compare=False)
    percent: bool = field(default=False, kw_only=True)
    """True for a share, which readers see in percent."""
    needs: tuple[str, ...] = field(default=(), compare=False, kw_only=True)
    """Properties that a robot must have to be measured: names of the suite's needs."""
    places: str = field(default="", kw_only=True)
    """Words before the places of a check that names some, such as "falls at"."""
    measure: Callable[[Trajectory, Contract], np.ndarray] | None = field(default=None, compare=False, kw_only=True)
    """Value of each robot of a recording, (N,), NaN of one that fell or of all; None: the suite measures it."""
    kind: Kind = field(default="mean", compare=False, kw_only=True)
    """Meaning of these values (see :class:`.intervals.Samples`)."""

    def samples(self, rec: Trajectory, contract: Contract, where: str) -> Samples:
        """What :attr:`measure` finds in a recording; raises :class:`UserError`, with ``where``, for what it may not."""
        assert self.measure is not None
        with blamed(f"metric {self.name!r} {where}", self.measure):
            values = np.asarray(self.measure(rec, contract), float)
        robots, fell = len(rec.mass), rec.fall_step >= 0
        if values.shape != (robots,):
            raise UserError(
                f"metric {self.name!r} {where} has shape {values.shape}: expected ({robots},), a value of each robot"
            )
        known = np.isfinite(values)
        if (missing := int((~known & ~fell).sum())) and known.any():  # of no robot: not measured, which never passes
            raise UserError(
                f"metric {self.name!r} {where} has no finite value for {missing} of the {robots} robots, which did not "
                "fall: a verdict without them would be of the others only"
            )
        if self.kind == "share" and not np.isin(values[known], (0.0, 1.0)).all():
            raise UserError(f"metric {self.name!r} {where} is a share, of which each robot's value must be 0 or 1")
        return Samples(values=values, kind=self.kind)

    def say(self, value: float) -> str:
        """A number as a person wants to read it, with its unit."""
        if math.isnan(value):
            return "not measured"
        if self.percent:
            return f"{100 * value:.1f} %"
        return f"{rounded(value)} {self.unit}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without what only a suite needs."""
        return {"title": self.title, "unit": self.unit, "percent": self.percent, "places": self.places}


GENERAL: tuple[Metric, ...] = (
    Metric("falls", "Falls", "", "Share of robots that fell.", percent=True),
    Metric(
        "cut",
        "Targets cut off",
        "",
        "Share of the periods in which the controller's safety filter moved a joint target.",
        percent=True,
    ),
    Metric("torque_rms", "Torque RMS", "N m", "Root mean square over all joints."),
    Metric("torque_peak", "Torque peak", "", "Largest torque as a share of the effort limit.", percent=True),
    Metric(
        "torque_saturation",
        "Torque at limit",
        "",
        "Share of joint samples above 98 % of the effort limit.",
        percent=True,
    ),
    Metric("joint_speed_peak", "Joint speed peak", "rad/s", "Largest joint speed."),
    Metric(
        "joint_limit_use", "Outside soft limits", "", "Share of joint samples beyond the soft limits.", percent=True
    ),
    Metric("action_rate", "Target rate", "rad/s", "RMS rate of change of the joint targets."),
)
"""Metrics of every suite."""
PEAKS = frozenset({"torque_peak", "joint_speed_peak"})
"""Metrics that are the largest value seen."""


def measure_general(rec: Trajectory, contract: Contract) -> dict[str, Samples]:
    """The :data:`GENERAL` metrics of one recording; NaN where it holds nothing to measure.

    Shares and means keep a value per robot, so that runs can be pooled and intervals are known.
    """
    levels = joint_use(rec, contract) | {"action_rate": action_rate(rec)}
    return {
        "falls": Samples(values=(rec.fall_step >= 0).astype(float), kind="share"),
        "cut": Samples(values=cuts(rec), kind="mean"),
        **{name: level(value, "peak" if name in PEAKS else "level") for name, value in levels.items()},
    }


def level(value: float, kind: Kind = "level") -> Samples:
    """One value of a whole run."""
    return Samples(values=np.array([value]), kind=kind)


def per_robot(value: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Mean of ``value`` (T, N) over each robot's time before its fall, (N,); NaN if there was none."""
    count = alive.sum(0)
    return np.where(count > 0, (value * alive).sum(0) / np.maximum(count, 1), np.nan)


def cuts(rec: Trajectory) -> np.ndarray:
    """Share of each robot's periods in which targets were cut off, (N,); NaN where nothing cuts."""
    return np.full(rec.command.shape[1], np.nan) if rec.cut is None else per_robot(rec.cut, rec.alive)


def joint_use(rec: Trajectory, contract: Contract) -> dict[str, float]:
    """Torque, speed and range that the joints needed."""
    limit, soft = np.array(contract.per_joint("effort_limit")), np.array(contract.soft_joint_pos_limits())
    torque, pos = np.abs(rec.torque[rec.alive]), rec.joint_pos[rec.alive]
    outside = (pos < soft[:, 0]) | (pos > soft[:, 1])
    if not torque.size:
        names = ("torque_rms", "torque_peak", "torque_saturation", "joint_speed_peak", "joint_limit_use")
        return dict.fromkeys(names, np.nan)
    return {
        "torque_rms": float(np.sqrt(np.mean(torque.astype(float) ** 2))),
        "torque_peak": float((torque / limit).max()),
        "torque_saturation": float((torque > 0.98 * limit).mean()),
        "joint_speed_peak": float(np.abs(rec.joint_vel[rec.alive]).max()),
        "joint_limit_use": float(outside.mean()),
    }


def action_rate(rec: Trajectory) -> float:
    """RMS rate of change of the joint targets [rad/s]."""
    rate = np.diff(rec.target.astype(float), axis=0)[rec.alive[1:]] / rec.control_dt
    return float(np.sqrt(np.mean(rate**2))) if rate.size else np.nan
