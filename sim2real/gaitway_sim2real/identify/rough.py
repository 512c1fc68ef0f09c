"""Start of the search: the delay from correlated signals, the rest by CMA-ES with one number of a kind for all."""

from __future__ import annotations

import numpy as np
from gaitway_onboard.interface import Array

from .hung_model import HungModel, Values
from .windows import MAX_DELAY, Windows

DELAY_STEP = 0.002  # [s]
POPULATION, GENERATIONS = 8, 15
SIGMA = 0.25  # of the logarithms
ROUGH_WINDOWS, ROUGH_SECONDS = 8, 1.0
SPREAD_FRICTION = 0.01  # of the effort limit, where the model has no friction to multiply
RANGE = 2.5  # e^2.5 = 12: no drive is further from its data sheet


def guess_delay(windows: Windows) -> float:
    """The delay under which delayed position errors explain best what the joints did [s].

    What is explained is the reported torque or, without it, the acceleration; by the PD law's two terms and, for
    accelerations, a constant and the direction of motion. The best of a grid, refined by a parabola.
    """
    grid = np.arange(0.0, MAX_DELAY + 1e-9, DELAY_STEP)
    few = _few(windows)
    errors = np.array([_unexplained(few, delay) for delay in grid])
    best = int(errors.argmin())
    if 0 < best < len(grid) - 1:
        before, at, after = errors[best - 1 : best + 2]
        return float(grid[best] + DELAY_STEP * 0.5 * (before - after) / (before - 2.0 * at + after))
    return float(grid[best])


def _unexplained(windows: Windows, delay: float) -> float:
    """Share of the variance that the terms leave, summed over joints."""
    target = windows.targets(delay, windows.period)
    pos, vel, keep = windows.pos[:, :-1], windows.vel[:, :-1], windows.scored[:, :-1]
    acceleration = np.gradient(windows.vel, windows.period, axis=1)[:, :-1]
    total = 0.0
    for joint in range(pos.shape[2]):
        error, speed = (target - pos)[keep, joint], vel[keep, joint]
        if windows.torque is not None:
            response, terms = windows.torque[:, :-1][keep, joint], [error, speed]
        else:
            response = acceleration[keep, joint]
            terms = [error, speed, np.sign(speed), np.ones_like(speed), pos[keep, joint]]
        regressor = np.stack(terms, 1)
        left = response - regressor @ np.linalg.lstsq(regressor, response, rcond=None)[0]
        total += float(left @ left / max(response @ response, 1e-12))
    return total


def rough_fit(model: HungModel, windows: Windows, delay: float, *, seed: int = 0) -> Values:
    """CMA-ES (Hansen 2016) on five factors that all joints share, and the delay, from what the model says."""
    import cma

    few = _few(windows)
    spread = _spread(few)

    def values(x: Array) -> Values:
        factors = np.exp(np.clip(x[:5], -RANGE, RANGE))
        joints = dict(model.nominal.joints)
        floor = {
            "armature": 0.1 * model.inertia,
            "friction": SPREAD_FRICTION * model.effort_limit,
            "viscous": 0.1 * few.damping.mean(0),
        }
        for factor, kind in zip(factors, ("stiffness_scale", "damping_scale", *floor), strict=True):
            least = floor.get(kind, 0.0)
            joints[kind] = factor * np.maximum(joints[kind], least)
        late = float(np.clip(delay + 0.01 * x[5], 0.0, MAX_DELAY))
        return Values(joints=joints, delay=late)

    def cost(x: Array) -> float:
        found = model.predict(values(np.asarray(x)), few, ROUGH_SECONDS)
        keep = few.scored[:, : found.pos.shape[1], None]
        error = sum(
            float(np.mean(np.minimum(np.abs((predicted - seen[:, : keep.shape[1]]) / scale), 3.0) ** 2 * keep))
            for predicted, seen, scale in ((found.pos, few.pos, spread[0]), (found.vel, few.vel, spread[1]))
        )
        return error + 1e-4 * float(np.asarray(x) @ np.asarray(x))

    options = {"popsize": POPULATION, "maxiter": GENERATIONS, "seed": seed + 1, "verbose": -9}
    best, _ = cma.fmin2(cost, np.zeros(6), SIGMA, options)
    return values(np.asarray(best))


def _few(windows: Windows) -> Windows:
    return windows.take(np.linspace(0, len(windows) - 1, min(len(windows), ROUGH_WINDOWS)).round().astype(int))


def _spread(windows: Windows) -> tuple[Array, Array]:
    keep = windows.scored
    return windows.pos[keep].std(0) + 1e-6, windows.vel[keep].std(0) + 1e-6
