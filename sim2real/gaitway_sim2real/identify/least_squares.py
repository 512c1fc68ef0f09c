"""Maximum likelihood by Gauss-Newton on simulated windows: the output-error method (Ljung, "System Identification").

Measurements are states plus noise, whose size is estimated along the way for each joint and sensor; outliers count less
(Huber). Slopes are differences of simulations; with the base fixed the limbs do not feel each other, so one perturbed
simulation serves one number of every limb.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.interface import Array

from .hung_model import HungModel, Prediction
from .unknowns import COMMON, Unknowns
from .windows import Windows

CHUNK = 12  # windows at a time: bounds the memory
BLOCK = 0.5  # [s], after which errors have forgotten each other
HUBER = 3.0  # standard deviations
NUDGE = 0.02  # of a number's prior spread
DELAY_NUDGE = 0.001  # [s]
SETTLED = 0.02  # of a standard deviation or of the prior spread: a step below this ends the search
BLUR = 5.0  # uncertainty of a torque beside a jump of its command, of the jump
SHRINK, GROW = 0.3, 10.0
NOISE_FLOOR = (1e-5, 1e-4, 1e-3)  # [rad], [rad/s], [N m]


@dataclass(frozen=True, kw_only=True)
class Normal:
    """Normal equations of all numbers near one point, and the scatter of their gradient."""

    gradient: Array
    """(U,), of half the sum of squares."""
    hessian: Array
    """(U, U)"""
    scatter: Array
    """(U, U), of the gradient over independent blocks of time."""
    noise: Array
    """Standard deviation of the errors by sensor and joint, (C, J)."""


@dataclass(frozen=True, kw_only=True)
class Solution:
    theta: Array
    """(U,)"""
    covariance: Array
    """(U, U): of the numbers found, prior and correlated errors included (sandwich estimator)."""


def channels(windows: Windows, predicted: Prediction) -> Array:
    """Prediction minus measurement of each sensor, (W, T, C, J): positions, velocities and, if there, torques."""
    errors = [predicted.pos - windows.pos, predicted.vel - windows.vel]
    if windows.torque is not None:
        errors.append(predicted.torque - windows.torque)
    return np.stack(errors, 2)


def blur_of(windows: Windows, unknowns: Unknowns, theta: Array) -> Array:
    """Uncertainty of a torque near the moment when a command takes effect [N m], (W, T, J).

    Several times the jump: a jump's moment, known to a period at best, would else decide how late torques are.
    """
    values = unknowns.values(theta)
    result: Array = BLUR * windows.stiffness[:, None] * windows.jumps(values.delay + values.torque_lag)
    return result


def noise_of(model: HungModel, windows: Windows, unknowns: Unknowns, theta: Array) -> Array:
    """Robust standard deviation of the errors, (C, J); of torques, where commands change least."""
    errors = np.abs(channels(windows, model.predict(unknowns.values(theta), windows)))[windows.scored]
    floor = np.array(NOISE_FLOOR[: errors.shape[1]])[:, None]
    noise = np.median(errors, axis=0)
    if windows.torque is not None:
        blur = blur_of(windows, unknowns, theta)[windows.scored]
        calm = blur <= np.median(blur, axis=0)
        noise[2] = [np.median(errors[calm[:, j], 2, j]) for j in range(errors.shape[2])]
    return np.maximum(1.4826 * noise, floor)


def _scale(noise: Array, blur: Array) -> Array:
    """Scale of each error, (W, T, C, J)."""
    scale = np.broadcast_to(noise, (*blur.shape[:2], *noise.shape)).copy()
    if len(noise) > 2:
        scale[:, :, 2] = np.hypot(noise[2], blur)
    return scale


def normal_equations(
    model: HungModel, windows: Windows, unknowns: Unknowns, theta: Array, noise: Array | None
) -> Normal:
    """At ``theta``; without ``noise``, that of the errors here. The prior is not included."""
    if noise is None:
        noise = noise_of(model, windows, unknowns, theta)
    count = len(unknowns)
    gradient, hessian, scatter = np.zeros(count), np.zeros((count, count)), np.zeros((count, count))
    colours = unknowns.colours(model.trees)
    nudges = _nudges(unknowns, theta)
    block = max(1, round(BLOCK / windows.period))
    for first in range(0, len(windows), CHUNK):
        some = windows.take(slice(first, first + CHUNK))
        scale = _scale(noise, blur_of(some, unknowns, theta))
        errors = channels(some, model.predict(unknowns.values(theta), some)) / scale
        slopes = []
        for colour in colours:
            moved = theta.copy()
            moved[colour] += nudges[colour]
            slopes.append(channels(some, model.predict(unknowns.values(moved), some)) / scale - errors)
        weight = some.scored[:, :, None, None] * np.minimum(1.0, HUBER / np.maximum(np.abs(errors), 1e-12))
        for tree in model.trees:
            members = [
                (
                    colour,
                    [u for u in group if not unknowns.items[u].joints or set(unknowns.items[u].joints) & set(tree)],
                )
                for colour, group in enumerate(colours)
            ]
            here = [(colour, own[0]) for colour, own in members if own]
            index = np.array([u for _, u in here])
            joints = list(tree)
            slope = np.stack([slopes[c][..., joints] for c, _ in here]) / nudges[index][:, None, None, None, None]
            root = np.sqrt(weight[..., joints])
            slope, error = slope * root, errors[..., joints] * root
            pieces = range(0, some.steps, block)
            flat = slope.reshape(len(index), -1)
            hessian[np.ix_(index, index)] += flat @ flat.T
            # (blocks, unknowns): the gradient of each block of time
            parts = np.stack(
                [np.einsum("uwtcj,wtcj->wu", slope[:, :, p : p + block], error[:, p : p + block]) for p in pieces]
            ).reshape(-1, len(index))
            gradient[index] += parts.sum(0)
            scatter[np.ix_(index, index)] += parts.T @ parts
    return Normal(gradient=gradient, hessian=hessian, scatter=scatter, noise=noise)


def _nudges(unknowns: Unknowns, theta: Array) -> Array:
    """Steps of the differences, (U,), away from the bounds."""
    sizes = np.array([DELAY_NUDGE if item.kind in COMMON else NUDGE * item.prior_std for item in unknowns.items])
    _, high = unknowns.bounds
    return np.where(theta + sizes > high, -sizes, sizes)


def solve(
    model: HungModel,
    windows: Windows,
    unknowns: Unknowns,
    theta: Array,
    *,
    iterations: int,
    say: Callable[[str], None] = lambda text: None,
) -> Solution:
    """Gauss-Newton with Levenberg's damping, within bounds, from ``theta`` (U,)."""
    low, high = unknowns.bounds
    precision = 1.0 / unknowns.prior_std**2
    damping = 1e-3
    normal = normal_equations(model, windows, unknowns, theta, None)
    for done in range(1, iterations + 1):
        gradient = normal.gradient + precision * (theta - unknowns.prior)
        hessian = normal.hessian + np.diag(precision)
        free = ~(((theta <= low) & (gradient > 0.0)) | ((theta >= high) & (gradient < 0.0)))
        step = np.zeros_like(theta)
        at = np.flatnonzero(free)
        lifted = hessian[np.ix_(at, at)] + damping * np.diag(np.diag(hessian)[at])
        step[at] = -np.linalg.solve(lifted, gradient[at])
        moved = np.clip(theta + step, low, high)
        scale = _scale(normal.noise, blur_of(windows, unknowns, theta))
        before, after = (_total(model, windows, unknowns, point, scale) for point in (theta, moved))
        say(f"iteration {done}: misfit {before:.4g} -> {after:.4g}")
        if after > before:
            damping *= GROW
            if damping > 1e3:
                break
            continue
        damping *= SHRINK
        spread = np.minimum(np.sqrt(np.diag(np.linalg.inv(hessian))), unknowns.prior_std)
        small = np.abs(moved - theta) <= np.maximum(SETTLED * spread, 1e-4 * unknowns.prior_std)
        theta = moved
        normal = normal_equations(model, windows, unknowns, theta, None)
        if small.all():
            break
    return Solution(theta=theta, covariance=_covariance(normal, precision))


def _total(model: HungModel, windows: Windows, unknowns: Unknowns, theta: Array, scale: Array) -> float:
    """Objective, with the noise held."""
    errors = np.abs(channels(windows, model.predict(unknowns.values(theta), windows)) / scale)[windows.scored]
    huber = np.where(errors < HUBER, 0.5 * errors**2, HUBER * errors - 0.5 * HUBER**2)
    return float(huber.sum() + 0.5 * (((theta - unknowns.prior) / unknowns.prior_std) ** 2).sum())


def _covariance(normal: Normal, precision: Array) -> Array:
    """Sandwich estimator (Huber 1967; White 1982): right also where errors are correlated within a block of time.

    Not below what independent errors would give.
    """
    inverse = np.linalg.inv(normal.hessian + np.diag(precision))
    sandwich = inverse @ (normal.scatter + np.diag(precision)) @ inverse
    short = np.sqrt(np.maximum(1.0, np.diag(inverse) / np.diag(sandwich)))
    result: Array = sandwich * np.outer(short, short)
    return result


def correlated(covariance: Array, above: float) -> Sequence[tuple[int, int, float]]:
    """Pairs of numbers whose errors go together more than ``above``, strongest first."""
    std = np.sqrt(np.diag(covariance))
    related = covariance / np.outer(std, std)
    pairs = [(int(a), int(b), float(related[a, b])) for a, b in zip(*np.triu_indices(len(std), 1), strict=True)]
    return sorted((pair for pair in pairs if abs(pair[2]) > above), key=lambda pair: -abs(pair[2]))
