"""Fit of the drives to the recorded motion: gains, armature, torque limit, delay, order or sign.

Each hypothesis is fitted on one half of the sampled steps and judged on the other, against the bundle's own drives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from .findings import Finding
from .fit import assign, correlation
from .observation import NoteOrFindings
from .one_step import KEEP, MAX_DELAY, DriveChange, OneStep, trimmed
from .view import View

MIN_SAMPLES = 60
NEGLIGIBLE = 0.04  # share of the recorded change: drives that predict the rest are the right ones
EXPLAINS = 0.7  # a hypothesis must leave less than this share of the error
ENOUGH = 0.2  # with less than this share of the error left, no more causes are looked for
ON_THE_GROUND = 0.4  # the same where no leg swings, since another contact looks much like other gains
CLEARLY = 0.8  # and a more complicated one less than this share of the simpler one's
MATERIAL_GAIN = 0.1
MATERIAL_ARMATURE = 0.05  # of the inertia that a joint moves
ITERATIONS = 16
SLOW = 0.98  # a step that leaves more than this share of the error is the last
HOPELESS = 0.95  # share of the error that a first step must leave at most, to be followed by another
STIFFNESSES, DAMPINGS = (0.5, 0.7, 1.0, 1.4, 2.0), (0.6, 1.0, 1.6)
INERTIAS = (0.5, 2.0, 4.0, 8.0)
LIMITS = (0.25, 0.4, 0.6, 0.8, 1.25, 1.6)
SHIFT = 0.02  # [rad]
STEP = 0.02  # in the logarithm of a number
LONGEST = 0.9


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    cause: str
    drives: DriveChange
    error: float
    """Error on the steps that it was not fitted to."""


def check_dynamics(view: View, steps: OneStep, name_order: Callable[[np.ndarray], str]) -> NoteOrFindings:
    """Predict the recording step by step; where that fails, look for the drives with which it succeeds."""
    if not view.recording.flat_ground:
        return "dynamics: not checked, the ground is not flat and the bundle knows no other", []
    if len(steps) < MIN_SAMPLES:
        return f"dynamics: not checked, {len(steps)} usable steps are too few (at least {MIN_SAMPLES})", []
    grounds = (False,) if steps.in_the_air else (False, True)
    ways = [DriveChange(explicit=explicit, rigid=rigid) for explicit in _ways_to_integrate(view) for rigid in grounds]
    nulls = [_judge(steps, "", way) for way in ways]
    null = min(nulls, key=lambda null: null.error)
    held = ", with torques held over each physics step" if null.drives.explicit else ""
    if null.error < NEGLIGIBLE / (1.0 if steps.in_the_air else ON_THE_GROUND):
        return f"dynamics: one step ahead, MuJoCo predicts the recording to {null.error:.2%} of the change{held}", []
    found: list[Hypothesis] = []
    for start in nulls:
        tried = explain(steps, start)
        if tried and tried[-1].error < min(EXPLAINS * null.error, found[-1].error if found else np.inf):
            found = tried
        if found and found[-1].error < max(NEGLIGIBLE, ENOUGH * null.error):
            break
    note = f"dynamics: one-step error {null.error:.1%} of the recorded change"
    if not found:
        return f"{note}; no other drives explain it clearly better", []
    best = found[-1]
    note += f", {best.error:.1%} with {', '.join(dict.fromkeys(h.cause for h in found)).replace('_', ' ')}"
    return note, [_finding(h, null, best, steps, name_order) for h in found]


def _ways_to_integrate(view: View) -> tuple[bool, ...]:
    """Values of "torques were held" to try: the recorded one; if none is recorded, both, the likelier first.

    An armature of the physics step times the damping would look the same.
    """
    if view.recording.torques_held is not None:
        return (view.recording.torques_held,)
    likely = view.recording.simulator.startswith("Isaac")  # its DC motors hold their torque, ours are implicit
    return (likely, not likely)


def explain(steps: OneStep, null: Hypothesis) -> list[Hypothesis]:
    """The causes that are needed, simplest first; the last one's drives hold them all. Empty if none helps."""
    found: list[Hypothesis] = []
    current = null
    while len(found) < 3:
        done = {h.cause for h in found}
        tried = [h for causes, fit in FITS if not done & set(causes) and (h := fit(steps, current)) is not None]
        share = (EXPLAINS if steps.in_the_air else ON_THE_GROUND) * (CLEARLY if found else 1.0)
        tried = [h for h in tried if h.error < share * current.error and _is_material(h, steps)]
        if not tried:
            break
        current = min(tried, key=lambda h: h.error)
        found.append(current)
        if current.error < max(NEGLIGIBLE, ENOUGH * null.error):
            break
    return found


def _judge(steps: OneStep, cause: str, drives: DriveChange) -> Hypothesis:
    return Hypothesis(cause=cause, drives=drives, error=trimmed(steps.errors(drives, held_out=True)))


def fit_continuous(steps: OneStep, start: DriveChange, names: tuple[str, ...]) -> DriveChange:
    """Gauss-Newton on ``names``, on the errors that :func:`trimmed` keeps of the steps to fit."""
    drives = start
    now = steps.errors(drives)
    for iteration in range(ITERATIONS):
        base = now
        columns = []
        for i in range(len(names)):
            nudge = np.where(np.arange(len(names)) == i, STEP, 0.0)
            columns.append((steps.errors(_moved(drives, names, nudge, steps)) - base) / STEP)
        slope = np.stack(columns, 1)
        kept = np.abs(base) <= np.quantile(np.abs(base), KEEP)
        slope, pull = slope[kept], base[kept]
        normal = slope.T @ slope
        if not np.trace(normal) > 0.0:  # such as a limit that no torque meets
            return drives
        move = -np.linalg.solve(normal + 1e-9 * np.trace(normal) * np.eye(len(names)), slope.T @ pull)
        move *= min(1.0, LONGEST / float(np.abs(move).max()))
        for _ in range(4):
            after = _moved(drives, names, move, steps)
            now = steps.errors(after)
            if trimmed(now) <= trimmed(base):
                break
            move *= 0.4
        else:
            return drives
        drives = after
        if trimmed(now) > (SLOW if iteration else HOPELESS) * trimmed(base):
            break
    return drives


def _moved(drives: DriveChange, names: tuple[str, ...], move: np.ndarray, steps: OneStep) -> DriveChange:
    """``drives`` after a step in the logarithm of each number; of an armature, in that of the whole inertia."""
    values = {}
    for name, change in zip(names, move, strict=True):
        value, factor = getattr(drives, name), float(np.exp(change))
        if name == "armature":
            inertia = steps.inertia
            values[name] = max((value + inertia) * factor - inertia, -float(steps.armature().min()))
        else:
            values[name] = float(np.clip(value * factor, 0.05, 20.0))
    return replace(drives, **values)


def fit_gains(steps: OneStep, base: Hypothesis) -> Hypothesis:
    """Scanned first: from far away, Gauss-Newton gets lost in the valley of equal damping ratios."""
    tried = [replace(base.drives, stiffness=kp, damping=kd) for kp in STIFFNESSES for kd in DAMPINGS]
    best = min([base.drives, *tried], key=lambda drives: trimmed(steps.errors(drives)))
    return _judge(steps, "gains", fit_continuous(steps, best, ("stiffness", "damping")))


def fit_armature(steps: OneStep, base: Hypothesis) -> Hypothesis:
    """Scanned first: with several times the inertia, joints no longer follow, and small changes of it matter little."""
    tried = [_moved(base.drives, ("armature",), np.log([factor]), steps) for factor in INERTIAS]
    best = min([base.drives, *tried], key=lambda drives: trimmed(steps.errors(drives)))
    return _judge(steps, "armature", fit_continuous(steps, best, ("armature",)))


def fit_limit(steps: OneStep, base: Hypothesis) -> Hypothesis:
    """Scanned first: the error does not change with a limit that is never met."""
    tried = [replace(base.drives, effort_limit=base.drives.effort_limit * factor) for factor in LIMITS]
    best = min(tried, key=lambda drives: trimmed(steps.errors(drives)))
    return _judge(steps, "torque_limit", fit_continuous(steps, best, ("effort_limit",)))


def fit_delay(steps: OneStep, base: Hypothesis) -> Hypothesis:
    """The error falls up to the true delay and rises after it."""
    best, least = base.drives, np.inf
    for delay in range(base.drives.delay + 1, MAX_DELAY * steps.plant.decimation + 1):
        drives = replace(base.drives, delay=delay)
        error = trimmed(steps.errors(drives))
        if error < least:
            best, least = drives, error
        elif delay > best.delay + 2:
            break
    return _judge(steps, "delay", best)


def fit_wiring(steps: OneStep, base: Hypothesis) -> Hypothesis | None:
    """Order and sign of the targets, from the targets that the recorded motion asks for."""
    rows = np.flatnonzero(~steps.held_out)
    t, n = (index[rows] for index in steps.rows)
    vel = steps.predict(base.drives, rows)
    response = np.median((steps.predict(base.drives, rows, SHIFT) - vel) / SHIFT, 0)
    given = steps.targets[t, n] - np.array(steps.view.contract.default_joint_pos)
    asked = given + (steps.next_vel[rows] - vel) / np.where(np.abs(response) > 1e-6, response, np.inf)
    related = np.zeros((given.shape[1],) * 2)
    for joint, swing in enumerate(steps.swing[rows].T):
        if swing.sum() >= MIN_SAMPLES // 4:
            related[joint] = correlation(asked[swing, joint : joint + 1], given[swing])[0]
    order = assign(np.abs(related) + 1e-3 * np.eye(len(related)))
    flipped = tuple(int(j) for j in np.flatnonzero(related[np.arange(len(order)), order] < -0.3))
    same = np.array_equal(order, np.arange(len(order)))
    if same and not flipped:
        return None
    source = () if same else tuple(int(i) for i in order)
    return _judge(steps, "sign" if same else "joint_order", replace(base.drives, source=source, flipped=flipped))


FITS: tuple[tuple[tuple[str, ...], Callable[[OneStep, Hypothesis], Hypothesis | None]], ...] = (
    (("gains",), fit_gains),
    (("armature",), fit_armature),
    (("torque_limit",), fit_limit),
    (("delay",), fit_delay),
    (("joint_order", "sign"), fit_wiring),
)


def _is_material(hypothesis: Hypothesis, steps: OneStep) -> bool:
    drives = hypothesis.drives
    if hypothesis.cause == "gains":
        return max(abs(drives.stiffness - 1.0), abs(drives.damping - 1.0)) > MATERIAL_GAIN
    if hypothesis.cause == "armature":
        return abs(drives.armature) > MATERIAL_ARMATURE * steps.inertia
    if hypothesis.cause == "torque_limit":
        return abs(drives.effort_limit - 1.0) > MATERIAL_GAIN
    return True


def _finding(
    hypothesis: Hypothesis, null: Hypothesis, best: Hypothesis, steps: OneStep, name_order: Callable[[np.ndarray], str]
) -> Finding:
    drives, contract = best.drives, steps.view.contract
    evidence = (
        f"one-step error {null.error:.1%} of the recorded change with the bundle's drives, {hypothesis.error:.1%} so, "
        f"on {int(steps.held_out.sum())} steps that were not fitted"
    )
    what, fix = _words(hypothesis.cause, drives, steps)
    if hypothesis.cause == "joint_order" and (name := name_order(np.array(drives.source))):
        what += f" ({name} order)"
    return Finding(
        cause=hypothesis.cause,
        where=(f"drives of {contract.robot}",),
        what=what,
        evidence=evidence,
        fix=fix,
        numbers={
            "before": null.error,
            "after": hypothesis.error,
            **{f.name: getattr(drives, f.name) for f in fields(drives)},
        },
    )


def _span(values: tuple[float, ...], factor: float = 1.0) -> str:
    found = sorted({round(value * factor, 3) for value in values})
    return f"{found[0]:g}" if len(found) == 1 else f"{found[0]:g} to {found[-1]:g}"


def _words(cause: str, drives: DriveChange, steps: OneStep) -> tuple[str, str]:
    """Description of the cause, and the fix."""
    contract, names = steps.view.contract, steps.view.contract.joint_names
    match cause:
        case "gains":
            kp, kd = contract.per_joint("stiffness"), contract.per_joint("damping")
            return (
                f"the recorded drives have stiffness {drives.stiffness:.2f} times and damping {drives.damping:.2f} "
                "times the bundle's",
                f"stiffness should be about {_span(kp, drives.stiffness)} N m/rad (bundle: {_span(kp)}), damping about "
                f"{_span(kd, drives.damping)} N m s/rad (bundle: {_span(kd)})",
            )
        case "armature":
            own = float(steps.armature().mean())
            return (
                f"the recorded joints carry {drives.armature:+.4f} kg m^2 of inertia beside the bundle's",
                f"armature should be about {own + drives.armature:.4f} kg m^2 (bundle: {own:.4f})",
            )
        case "torque_limit":
            limit = contract.per_joint("effort_limit")
            return (
                f"the recorded drives give at most {drives.effort_limit:.2f} times the bundle's torque",
                f"effort_limit should be about {_span(limit, drives.effort_limit)} N m (bundle: {_span(limit)})",
            )
        case "delay":
            late = f"{drives.delay * steps.physics_dt * 1e3:g} ms"
            return (
                f"joint targets took effect {late} after the action",
                f"add {late} of action delay to the simulation that the bundle is compared with, or train without it",
            )
    if drives.source:
        order = ", ".join(names[i] for i in drives.source)
        what = f"joints follow each other's targets: {', '.join(names)} got those of {order}"
        return what, f"map targets by name: {order}"
    flipped = ", ".join(names[i] for i in drives.flipped)
    return f"{flipped} moved against the target", f"turn the axis of {flipped}, or negate its target"
