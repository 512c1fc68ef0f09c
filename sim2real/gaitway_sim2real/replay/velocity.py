"""Velocity of the base: as recorded, which in a simulation is the truth, else by an estimate.

That is the leg-inertial filter's, made now; for a robot without an accelerometer, what its policy estimated for itself.
"""

from __future__ import annotations

import numpy as np
from gaitway_onboard.estimation.leg_inertial import LegInertialEstimator
from gaitway_onboard.estimation.legs import read_legs
from gaitway_onboard.flight.reading import Flight
from gaitway_tasks.robots import Robot

from .summary import own_velocity

RECORDED = 0.9
"""Share of the states that must have an estimate for the flight's own to be taken."""
STATES = 30_000
"""Most states that the filter reads: of a longer flight every second, or third, ..."""


def base_velocity(flight: Flight, robot: Robot, *, hung: bool) -> tuple[np.ndarray, str]:
    """At every state, base frame [m/s], (N, 3), and where it comes from."""
    state = flight.state
    if hung:
        return np.zeros((len(state), 3)), "the robot hangs on its stand"
    recorded = flight.has("base_lin_vel")
    if recorded.mean() >= RECORDED:
        source = "the robot's own estimate" if flight.hardware else "the simulation's own"
        return _filled(state.base_lin_vel.astype(float), recorded), source
    if not flight.has("accelerometer").all():
        if (own := own_velocity(flight)) is None:
            return np.zeros((len(state), 3)), "unknown, taken to be zero: neither an estimate nor an accelerometer"
        return np.nan_to_num(own), "the policy's own estimate"
    stride = -(-len(state) // STATES)
    period = stride * float(np.median(np.diff(state.time))) if len(state) > 1 else 0.002
    legs = read_legs(robot.mjcf, robot.base_name, robot.foot_names)
    estimator = LegInertialEstimator(legs, flight.joint_names, period)
    found, seen = np.zeros((len(state), 3)), np.zeros(len(state), bool)
    for k in range(0, len(state), stride):
        signals = flight.signals(k)
        estimator.update(signals)
        if signals.base_lin_vel is not None and np.isfinite(signals.base_lin_vel).all():
            found[k], seen[k] = signals.base_lin_vel, True
        else:
            estimator.reset()
    return _filled(found, seen), "leg-inertial filter on the recorded signals"


def _filled(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The last known value where there is none."""
    last = np.maximum.accumulate(np.where(known, np.arange(len(values)), 0))
    result: np.ndarray = np.where(known[last][:, None], values[last], 0.0)
    return result
