"""Outputs of a perfect estimator, for a policy that needs more than sensors measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_apply_inverse, yaw_of
from gaitway_tasks.ground import Ground

NOTES = {
    "base_lin_vel": "its base velocity, which no sensor measures",
    "object_pos": "where the object beside it is, which takes a camera",
    "height_scan": "the heights of the ground around it, which take a map or depth cameras",
}


def true_estimates(
    contract: Contract,
    base_pos: np.ndarray,
    base_quat: np.ndarray,
    lin_vel_b: Callable[[], np.ndarray],
    ground: Ground,
    objects: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> dict[str, np.ndarray]:
    """The estimated inputs of the contract from the simulation's truth, (N, d) each.

    ``base_pos`` (N, 3) [m] and ``base_quat`` (N, 4, w x y z) are the base's in the world, over ``ground``.
    ``lin_vel_b`` gives the base's velocity in its own frame [m/s]. ``objects`` are the places of the contract's objects
    in the world [m], (N, 3) each.
    """
    found = {}
    if "base_lin_vel" in contract.estimated:
        found["base_lin_vel"] = lin_vel_b()
    if contract.height_scan is not None:
        found["height_scan"] = ground.scan(np.array(contract.height_scan.points()), base_pos, yaw_of(base_quat))
    if "object_pos" in contract.estimated:
        (place,) = objects.values()
        found["object_pos"] = quat_apply_inverse(base_quat, place - base_pos)
    return found


def estimates_note(contract: Contract) -> tuple[str, ...]:
    """A sentence for the reader of a verdict; empty for a policy that reads sensors only."""
    if not contract.estimated:
        return ()
    reads = " and ".join(NOTES[name] for name in contract.estimated)
    return (
        f"The policy reads {reads}. Here the simulation's own values stood in for an estimator without error; "
        "a robot needs a real one.",
    )
