"""Gait metrics: pure functions of a foot trace and the trajectory beside it.

A **stance** begins with a touch of at least 0.02 s; a shorter one belongs to the swing around it, and its time does
not count as time in the air. A **swing** is a time in the air of at least 0.03 s between two stances; a shorter lift
belongs to the stance. A short touch with 0.03 s of air on either side is a **stumble**, and so is a moment in which the
ground pushes a foot sideways with more than five times the vertical force. The first 2 s are left out, in which a robot
comes up to speed, and so is all after a fall. Swings cut off by either end of the recording are not counted. A foot
that does not swing counts as one with swings of 0 s and 0 m.

A foot with a sole touches down **heel first** if only its rear half is loaded in the first 0.02 s, **toe first** if
only its front half is, else **flat**.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.rotation import quat_apply
from gaitway_sim2real.mujoco.model import GRAVITY
from gaitway_sim2real.trial.feet import FootTrace
from gaitway_sim2real.trial.simulate import Trajectory

RAMP = 2.0  # [s]
SHORTEST_TOUCH, SHORTEST_SWING = 0.02, 0.03  # [s]
SHORTEST_RECORD = 1.0  # [s] between ramp and fall; a robot with less says nothing about its gait
STUMBLE_RATIO = 5.0  # horizontal over vertical force, as in legged_gym and Isaac Lab
STUMBLE_FORCE = 1.0  # [N]
DRAG_RATE, DRAG_CLEARANCE = 0.05, 0.02  # [sqrt(g/L)], [L]: a foot that steps more rarely or is lifted less drags
DRAG_ON_TWO = 0.007  # [L], of robots with two feet: like the other a third of the clearance that is required
SINE = 2.0 * np.sqrt(2.0)  # height of a sine from bottom to top, over its standard deviation
LEAST_SWING = 0.02  # [rad], arms that swing less are held still
FALLEN = {"swing_time": 0.0, "clearance": 0.0, "dragging_feet": 1.0}


@dataclass(frozen=True, kw_only=True)
class Swings:
    """All K completed swings of a trace."""

    robot: np.ndarray  # (K,)
    foot: np.ndarray  # (K,)
    start: np.ndarray  # (K,) physics step of the lift-off
    end: np.ndarray  # (K,) physics step of the touch-down
    seconds: np.ndarray  # (K,) [s] without contact
    peak: np.ndarray  # (K,) [m], greatest clearance
    impact: np.ndarray  # (K,) [m/s], downward speed of the lowest point just before the touch-down

    def per_foot(self, values: np.ndarray, shape: tuple[int, int], how: str = "mean") -> np.ndarray:
        """``mean`` or ``median`` of ``values`` (K,) over the swings of each foot, (N, F); 0 for a foot without any."""
        result = np.zeros(shape)
        for robot, foot in {*zip(self.robot.tolist(), self.foot.tolist(), strict=True)}:
            chosen = values[(self.robot == robot) & (self.foot == foot)]
            result[robot, foot] = np.median(chosen) if how == "median" else chosen.mean()
        return result

    def count(self, shape: tuple[int, int]) -> np.ndarray:
        """Number of swings of each foot, (N, F)."""
        result = np.zeros(shape, int)
        np.add.at(result, (self.robot, self.foot), 1)
        return result


def gait_metrics(rec: Trajectory, feet: FootTrace) -> dict[str, np.ndarray]:
    """The gait of each robot, (N,) each, with the names, units and meanings of :data:`.metrics.METRICS`.

    A robot that fell counts as one that drags all its feet: swings of 0 s and 0 m. Of what it did before, only what was
    seen for a second is told; other values are NaN.
    """
    first, last = window(rec, feet)
    shape = feet.contact.shape[1:]
    seconds = (last - first) * feet.dt
    enough = seconds >= SHORTEST_RECORD
    time = np.maximum(seconds, feet.dt)
    step = np.arange(len(feet.contact))[:, None]
    measured = ((step >= first) & (step < last))[..., None]  # (S, N, 1)
    stance, stumbles = stances(feet, first, last)
    swings = find_swings(feet, stance, first, last)
    swing_time = swings.per_foot(swings.seconds, shape)
    count = swings.count(shape)
    hits = (feet.horizontal_force > STUMBLE_RATIO * feet.normal_force) & (feet.horizontal_force > STUMBLE_FORCE)
    hits &= measured
    stumbles += (hits[1:] & ~hits[:-1]).sum(0)
    loaded = feet.contact & measured
    with np.errstate(invalid="ignore"):
        slip = (slip_of_steps(feet) * loaded).sum((0, 2)) / loaded.sum((0, 2))
    rate, clearance = count / time[:, None], swings.per_foot(swings.peak, shape, "median")
    drags = rate < DRAG_RATE * np.sqrt(GRAVITY / feet.stand_height)
    drags |= clearance < (DRAG_ON_TWO if shape[1] == 2 else DRAG_CLEARANCE) * feet.stand_height
    values = {
        "swing_time": swing_time.mean(1),
        "step_rate": rate.mean(1),
        "clearance": np.sort(clearance, 1)[:, : max(shape[1] // 2, 1)].mean(1),
        "slip": slip,
        "dragging_feet": drags.mean(1),
        "stumbles": stumbles.sum(1) / np.maximum(count.sum(1), 1),
        "duty_factor": (stance & measured).sum(0).mean(1) * feet.dt / time,
        "left_right": asymmetry(swing_time, mirrored_feet(feet.places)),
        "front_hind": asymmetry(swing_time, front_and_hind(feet.places)),
        "impact_speed": np.where(count.sum(1) > 0, swings.per_foot(swings.impact, shape).mean(1), np.nan),
        **roughness(rec),
        "double_support": (stance & measured).all(2).sum(0) * feet.dt / time
        if shape[1] == 2
        else np.full(shape[0], np.nan),
        "step_width": step_widths(feet, swings),
        **strikes(feet, swings),
        **posture(rec, feet.stand_height),
        **arm_swing(rec),
    }
    values = {name: np.where(enough, value, np.nan) for name, value in values.items()}
    fell = rec.fall_step >= 0
    return values | {name: np.where(fell, worst, values[name]) for name, worst in FALLEN.items()}


def window(rec: Trajectory, feet: FootTrace) -> tuple[np.ndarray, np.ndarray]:
    """First physics step that is measured, and the one after the last, of each robot, (N,) each."""
    last = rec.alive.sum(0) * feet.decimation
    return np.minimum(round(RAMP / feet.dt), last), last


def stances(feet: FootTrace, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contact without short touches and short lifts, (S, N, F) bool, and the number of stumbling touches, (N, F)."""
    stance = np.zeros_like(feet.contact)
    stumbles = np.zeros(feet.contact.shape[1:], int)
    touch, lift = SHORTEST_TOUCH / feet.dt, SHORTEST_SWING / feet.dt
    for robot, foot in np.ndindex(stumbles.shape):
        span = slice(int(first[robot]), int(last[robot]))
        contact = feet.contact[span, robot, foot]
        bounces = without_short(contact, False, lift)  # those of a landing are not stumbles
        stumbles[robot, foot] = _short(bounces, True, touch)[2].sum()
        stance[span, robot, foot] = without_short(without_short(contact, True, touch), False, lift)
    return stance, stumbles


def find_swings(feet: FootTrace, stance: np.ndarray, first: np.ndarray, last: np.ndarray) -> Swings:
    """The swings between the ``stance`` (S, N, F) of :func:`stances`, robot by robot and foot by foot."""
    rows: list[tuple[float, ...]] = []
    for robot, foot in np.ndindex(stance.shape[1:]):
        begin, end = int(first[robot]), int(last[robot])
        height, contact = feet.clearance[:, robot, foot], feet.contact[:, robot, foot]
        for lift, land in zip(*runs(~stance[begin:end, robot, foot]), strict=True):
            if lift == 0 or land == end - begin:
                continue
            a, b = begin + lift, begin + land
            air = (~contact[a:b]).sum() * feet.dt
            impact = (height[b - 2] - height[b - 1]) / feet.dt
            rows.append((robot, foot, a, b, air, height[a:b].max(), impact))
    table = np.array(rows, float).reshape(-1, 7).T
    robot, foot, start, stop = table[:4].astype(int)
    return Swings(robot=robot, foot=foot, start=start, end=stop, seconds=table[4], peak=table[5], impact=table[6])


def slip_of_steps(feet: FootTrace) -> np.ndarray:
    """Slip [m/s] by which each physics step moved a loaded sole, (S, N, F).

    Simulators move by the speed at the end of a step, and the trace has the one at its start: at a touch-down that is
    the speed of a foot in flight. A step after which the foot has no contact keeps the speed of its start.
    """
    slip = np.array(feet.slip)
    stays = feet.contact[:-1] & feet.contact[1:]
    slip[:-1][stays] = feet.slip[1:][stays]
    return slip


def mirrored_feet(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Left feet and the right ones across from them; ``places`` (F, 2), x forward and y left [m]."""
    left, right = np.flatnonzero(places[:, 1] > 0), np.flatnonzero(places[:, 1] < 0)
    if len(left) != len(right):
        return left[:0], right[:0]
    return left[np.argsort(places[left, 0])], right[np.argsort(places[right, 0])]


def front_and_hind(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Front feet and the hind ones of the same side; none for robots with two feet."""
    left, right = mirrored_feet(places)
    if len(left) != 2:
        return left[:0], right[:0]
    return np.array([left[1], right[1]]), np.array([left[0], right[0]])


def asymmetry(values: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Mean over the pairs of feet of the difference of ``values`` (N, F) over their mean, (N,): 0 to 2.

    It is NaN without pairs and 0 for a pair without a value on either side. The index is that of R. O. Robinson,
    W. Herzog and B. M. Nigg, "Use of force platform variables to quantify the effects of chiropractic manipulation on
    gait symmetry", 1987.
    """
    one, other = values[:, pairs[0]], values[:, pairs[1]]
    if not one.shape[1]:
        return np.full(len(values), np.nan)
    mean = (one + other) / 2
    return np.asarray((np.abs(one - other) / np.where(mean > 0, mean, 1.0)).mean(1))


def roughness(rec: Trajectory) -> dict[str, np.ndarray]:
    """Roughness of torques and of the base's motion, at control steps, after the ramp; (N,) each.

    ``torque_frequency`` [Hz] is that of the sine with the same ratio of change to size, after S. O. Rice,
    "Mathematical analysis of random noise", 1944; ``base_acceleration`` [m/s^2] is the root mean square over time.
    """
    first = round(RAMP / rec.control_dt)
    alive = rec.alive[first:]
    both = (alive[1:] & alive[:-1])[..., None]
    steps = np.maximum(both.sum(0), 1)
    torque = rec.torque[first:].astype(float)
    mean = (torque * alive[..., None]).sum(0) / np.maximum(alive.sum(0), 1)[:, None]
    size = (((torque - mean)[1:] ** 2) * both).sum((0, 2))
    change = ((np.diff(torque, axis=0) / rec.control_dt) ** 2 * both).sum((0, 2))
    velocity = quat_apply(rec.base_quat[first:].astype(float), rec.lin_vel[first:].astype(float))
    shaken = ((np.diff(velocity, axis=0) / rec.control_dt) ** 2 * both).sum((0, 2)) / steps[:, 0]
    return {
        "torque_frequency": np.sqrt(change / np.maximum(size, 1e-12)) / (2 * np.pi),
        "base_acceleration": np.sqrt(shaken),
    }


def step_widths(feet: FootTrace, swings: Swings) -> np.ndarray:
    """Mean distance across the robot, at its touch-downs, of a foot and the one across [m], (N,); crossed, negative."""
    pairs = mirrored_feet(feet.places)
    other = np.full(len(feet.places), -1)
    other[pairs[0]], other[pairs[1]] = pairs[1], pairs[0]
    side = np.sign(feet.places[:, 1])[swings.foot]
    partner = other[swings.foot]
    width = side * (feet.left[swings.end, swings.robot, swings.foot] - feet.left[swings.end, swings.robot, partner])
    return _share(width, partner >= 0, swings.robot, feet.contact.shape[1])


def strikes(feet: FootTrace, swings: Swings) -> dict[str, np.ndarray]:
    """Shares of the touch-downs of feet with soles that are heel first, flat and toe first, (N,) each."""
    steps = swings.end[:, None] + np.arange(round(SHORTEST_TOUCH / feet.dt))
    at = np.minimum(steps, len(feet.contact) - 1), swings.robot[:, None], swings.foot[:, None]
    heel, toe = feet.heel[at].any(1), feet.toe[at].any(1)
    known = (feet.soles[swings.foot] > 0) & (heel | toe)
    kinds = {"heel_first": heel & ~toe, "flat": heel & toe, "toe_first": toe & ~heel}
    return {name: _share(kind, known, swings.robot, feet.contact.shape[1]) for name, kind in kinds.items()}


def _share(values: np.ndarray, known: np.ndarray, robot: np.ndarray, robots: int) -> np.ndarray:
    """Mean of the ``known`` of ``values`` (K,) of each robot, (N,); NaN for one without any."""
    count = np.bincount(robot[known], minlength=robots)
    total = np.bincount(robot[known], weights=values[known].astype(float), minlength=robots)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def posture(rec: Trajectory, stand_height: float) -> dict[str, np.ndarray]:
    """Height of the base as a share of its standing height, and its vertical bobbing [m], (N,) each.

    ``bob`` is what a sine of the same deviation has from top to bottom.
    """
    if rec.height is None:
        return dict.fromkeys(("base_height", "bob"), np.full(rec.alive.shape[1], np.nan))
    mean, deviation = _spread(rec.height, _walked(rec))
    return {"base_height": mean / stand_height, "bob": SINE * deviation}


def arm_swing(rec: Trajectory) -> dict[str, np.ndarray]:
    """Swing of the shoulders [rad], as a sine of the same deviation, and its correlation with the legs; (N,).

    ``arms_with_legs`` is the correlation of each arm with the leg across: 1 as people swing, -1 with the leg of its
    own side; NaN for arms that hardly swing. Both are means over the arms.
    """
    walked = _walked(rec)
    ranges, alike = [], []
    for arm in rec.arms:
        angles = [sign * rec.joint_pos[..., joint].astype(float) for joint, sign in arm.joints]
        (shoulder, swing), (hip, step) = (_spread(angle, walked) for angle in angles)
        both = _spread((angles[0] - shoulder) * (angles[1] - hip), walked)[0]
        swings = (SINE * swing > LEAST_SWING) & (step > 0)
        ranges.append(SINE * swing)
        alike.append(np.where(swings, both / np.where(swings, swing * step, 1.0), np.nan))
    unknown = np.full((1, rec.alive.shape[1]), np.nan)
    return {name: np.mean(rows or unknown, axis=0) for name, rows in (("arm_swing", ranges), ("arms_with_legs", alike))}


def _walked(rec: Trajectory) -> np.ndarray:
    """Control steps after the ramp and before a fall, (T, N) bool."""
    return rec.alive & (np.arange(len(rec.alive))[:, None] >= round(RAMP / rec.control_dt))


def _spread(values: np.ndarray, when: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of ``values`` (T, N) over the times ``when``, (N,) each."""
    count = np.maximum(when.sum(0), 1)
    mean = (values * when).sum(0) / count
    return mean, np.sqrt((((values - mean) ** 2) * when).sum(0) / count)


def runs(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends (one past the last) of the runs of True in ``mask`` (S,)."""
    change = np.diff(mask.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(change == 1), np.flatnonzero(change == -1)


def _short(mask: np.ndarray, value: bool, samples: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends of the runs of ``value``, and which are shorter than ``samples`` and end within ``mask`` (S,)."""
    starts, ends = runs(mask == value)
    return starts, ends, (ends - starts < samples - 1e-6) & (starts > 0) & (ends < len(mask))


def without_short(mask: np.ndarray, value: bool, samples: float) -> np.ndarray:
    """``mask`` (S,) with every short run of ``value`` within it turned over."""
    starts, ends, short = _short(mask, value, samples)
    result = mask.copy()
    for start, end in zip(starts[short], ends[short], strict=True):
        result[start:end] = not value
    return result


def one_stride(feet: FootTrace, start: float, end: float) -> tuple[float, float]:
    """Stride from a touch-down of the first foot to the next [s]; a second where it does not step."""
    first, last = round(start / feet.dt), round(end / feet.dt)
    starts, ends = runs(feet.contact[first:last, 0, 0])
    touches = starts[(starts > 0) & (ends - starts >= 0.02 / feet.dt)]
    if len(touches) < 2:
        return end - min(1.0, end - start), end
    return start + float(touches[0]) * feet.dt, start + float(touches[1]) * feet.dt
