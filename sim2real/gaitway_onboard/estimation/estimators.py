"""Estimators by the names that bundles call them by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..bundle.contract import BundleError, Contract
from .estimator import Estimator
from .leg_inertial import LegInertialEstimator

ESTIMATORS: dict[str, Callable[..., Estimator]] = {"leg-inertial": LegInertialEstimator.of_bundle}
"""Estimators by name: functions of a bundle, the robot's joint names, the time between two states [s] and the feet
under its sensors."""
USUAL = {"base_lin_vel": "leg-inertial"}
"""The default estimator of each input; the robot's own software must give the others."""


def open_estimator(
    bundle: str | Path, joint_names: Sequence[str], period: float = 0.002, feet: Sequence[str] = ()
) -> Estimator | None:
    """The estimator that a bundle names, or None; what it does not :attr:`~Estimator.provide` is the robot's to give.

    ``joint_names`` is the robot's own order, ``period`` the usual time between two states [s], ``feet`` the foot under
    each of the robot's force sensors. Raises :class:`BundleError` for a name that is not known here, or for one that
    does not estimate what it shall.
    """
    named = Contract.load(bundle).estimators or {}
    if unknown := sorted(set(named.values()) - set(ESTIMATORS)):
        raise BundleError(
            f"{bundle} names the estimator {unknown[0]!r}, which this Gaitway does not have (it has "
            f"{', '.join(ESTIMATORS)}): export the run again"
        )
    if not named:
        return None
    estimator = ESTIMATORS[next(iter(named.values()))](bundle, joint_names, period, feet)
    if wrong := [signal for signal in named if signal not in estimator.provides]:
        raise BundleError(
            f"{bundle} wants {', '.join(wrong)} from an estimator of {', '.join(estimator.provides)}: "
            "export the run again"
        )
    return estimator
