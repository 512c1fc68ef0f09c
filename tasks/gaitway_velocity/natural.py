"""How natural a gait is: six numbers of the gait alone, and one that compares legs with a clip of an animal.

All are smaller for more natural gaits. The first 2 s, in which robots come up to speed, are left out, and so are robots
that fell. docs/amp.md says what decides.

===================  ==================================================================================================
clip_distance        Fréchet distance of how single legs move from a clip; which legs move together does not matter
cost_of_transport    Mechanical power over weight times speed: animals choose gaits that cost little (Hoyt and Taylor
                     1981)
joint_acceleration   Root mean square [rad/s^2]: limbs move smoothly (Flash and Hogan 1985)
slip                 Speed of loaded soles [m/s]
left_right           Difference of swing times of opposite feet over their mean (Robinson, Herzog and Nigg 1987)
stride_variation     Standard deviation over mean of a foot's stride times
impact_speed         Downward speed of soles just before they touch the ground [m/s]
===================  ==================================================================================================
"""

from __future__ import annotations

import numpy as np
from gaitway_sim2real.trial.simulate import Trajectory
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.anatomy import anatomy
from numpy.typing import NDArray

from .gait import RAMP, Swings, find_swings, gait_metrics, stances, window
from .metrics import cost_of_transport

Array = NDArray[np.float64]
MEASURES = (
    "clip_distance", "cost_of_transport", "joint_acceleration", "slip", "left_right", "stride_variation",
    "impact_speed",
)  # fmt: skip
LEAST_DEVIATION = 0.05, 0.5
"""Least deviations of a joint's position [rad] and velocity [rad/s] in a clip, in which differences are counted."""


def natural(rec: Trajectory, robot: Robot, clip: tuple[Array, Array] | None = None) -> dict[str, float]:
    """Means over the robots that stood; without a ``clip``, joint positions and velocities (K, J), no distance of it.

    NaN where all fell.
    """
    assert rec.feet is not None
    stood = np.asarray(rec.alive.all(0))
    if not stood.any():
        return dict.fromkeys(MEASURES, float("nan"))
    first, last = window(rec, rec.feet)
    swings = find_swings(rec.feet, stances(rec.feet, first, last)[0], first, last)
    gait = gait_metrics(rec, rec.feet)
    steady = slice(round(RAMP / rec.control_dt), None)
    position, velocity = rec.joint_pos[steady][:, stood].astype(float), rec.joint_vel[steady][:, stood].astype(float)
    acceleration = np.diff(velocity, axis=0) / rec.control_dt
    return {
        "clip_distance": float("nan") if clip is None else clip_distance(position, velocity, robot, clip),
        "cost_of_transport": cost_of_transport(rec),
        "joint_acceleration": float(np.sqrt((acceleration**2).mean())),
        **{name: float(np.nanmean(gait[name][stood])) for name in ("slip", "left_right", "impact_speed")},
        "stride_variation": stride_variation(swings, rec.feet.dt, stood),
    }


def stride_variation(swings: Swings, dt: float, stood: NDArray[np.bool_]) -> float:
    """Mean over feet of robots that ``stood`` (N,) of standard deviation over mean of the time between lift-offs."""
    found = []
    for robot, foot in {*zip(swings.robot.tolist(), swings.foot.tolist(), strict=True)}:
        strides = np.diff(swings.start[(swings.robot == robot) & (swings.foot == foot)]) * dt
        if stood[robot] and len(strides) > 1:
            found.append(strides.std() / strides.mean())
    return float(np.mean(found)) if found else float("nan")


def clip_distance(position: Array, velocity: Array, robot: Robot, clip: tuple[Array, Array]) -> float:
    """Mean over the legs of the Fréchet distance between the leg's motion and the same leg's in ``clip``.

    A leg's motion are its joints' positions [rad] and velocities [rad/s] at all times, (..., J), each in standard
    deviations of the clip.
    """
    found = []
    for leg in anatomy(robot).legs:
        parts = []
        for ours, theirs, least in zip((position, velocity), clip, LEAST_DEVIATION, strict=True):
            scale = np.maximum(theirs[:, list(leg)].std(0), least)
            parts.append((ours[..., list(leg)].reshape(-1, len(leg)) / scale, theirs[:, list(leg)] / scale))
        ours, theirs = (np.concatenate(side, 1) for side in zip(*parts, strict=True))
        found.append(frechet(ours, theirs))
    return float(np.mean(found))


def frechet(a: Array, b: Array) -> float:
    """Distance of the normal distributions fitted to rows of ``a`` and ``b`` (Dowson and Landau 1982).

    d^2 = |m_a - m_b|^2 + tr(C_a + C_b - 2 (C_a^1/2 C_b C_a^1/2)^1/2)
    """
    cov_a, cov_b = (np.cov(side, rowvar=False, bias=True) for side in (a, b))
    root = _root(cov_a)
    squared = ((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(cov_a + cov_b - 2.0 * _root(root @ cov_b @ root))
    return float(np.sqrt(max(squared, 0.0)))


def _root(matrix: Array) -> Array:
    """Square root of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    found: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return found
