"""Do the reported torques follow the commands? Gains, delay and the single motors that do something else.

The law is ``torque = a kp (target - q) - b kd qd``, with the commands of ``delay`` ago, and a joint's state of ``lag``
ago, since drives report the torque of their last step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.interface import Array
from gaitway_tasks.robots import ROBOTS

from ..digital_twin.drives import drive_limits
from .recorded import Recorded

DELAYS = np.arange(0.0, 0.0605, 0.001)  # [s]
LAGS = (0, 1, 2)  # states
ROWS = 2500
PRIOR = 20.0  # [N^2 m^2], weight with which factors are 1 where a motion does not tell
SATURATED = 0.9  # of the effort limit, from which a torque tells nothing of gains
WINDOW = 0.03  # [s], over which a joint's misfit is averaged
MISFIT, MISFITS = 0.8, 5.0  # [N m] and times the usual misfit, from which a motor does something else
SHORTEST = 0.05  # [s] of misfit at a stretch
SHORT, GROSS = 0.016, 4.0  # [s] of misfit that is enough if it is so large [N m]
AGAINST, PULLS = 0.85, 2.0  # share of the time with opposite torques, of at least so much [N m], of a reversed motor
SLACK = (0.0, -0.006, -0.003, 0.003, 0.006)  # [s] by which single commands may be early or late
SAME = 0.35  # share of the misfit that an explanation may leave


@dataclass(frozen=True, kw_only=True, eq=False)
class DriveLaw:
    """What the torques say of the drives, J joints."""

    delay: float
    """From a command to a state with its torque [s]."""
    lag: int
    stiffness: Array
    """Factor on kp of each joint, (J,)."""
    damping: Array
    """Factor on kd, (J,)."""
    left: float
    """RMS of what the law with these factors leaves [N m], median of the joints."""
    told: Array
    """Torque by the commands, with the factors that most joints have [N m], (N, J)."""
    lowest: Array
    """Least of it within :data:`SLACK`, (N, J): wires deliver commands early and late."""
    highest: Array

    @property
    def stiffness_most(self) -> float:
        """Factor on kp of most joints."""
        return float(np.median(self.stiffness))

    @property
    def damping_most(self) -> float:
        return float(np.median(self.damping))


def fit_drive_law(record: Recorded) -> DriveLaw:
    rows = np.flatnonzero(record.whole & (np.arange(len(record.time)) >= max(LAGS)))
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, ROWS).astype(int))]
    limit, (low, high) = effort_limits(record), torque_range(record)
    torque = record.torque[rows]
    calm = np.abs(torque) < SATURATED * limit
    best, choice = np.inf, (0.0, 0)
    for lag in LAGS:
        for delay in DELAYS:
            terms = _terms(record, rows, delay, lag)
            factors, left = _solve(terms, torque, calm)
            cost = float(np.median((left**2 * calm).sum(0) / np.maximum((torque**2 * calm).sum(0), 1e-9)))
            if cost < best:
                best, choice = cost, (delay, lag)
    delay, lag = choice
    terms, weight = _terms(record, rows, delay, lag), calm.astype(float)
    for _ in range(6):  # Huber's weights: a motor's fault of a moment should not bend the law
        factors, left = _solve(terms, torque, weight)
        size = np.maximum(np.median(np.abs(left), axis=0), 1e-6)
        weight = calm * np.minimum(1.0, 2.5 * size / np.maximum(np.abs(left), 1e-9))
    every, (a, b) = np.maximum(np.arange(len(record.time)), lag), np.median(factors, axis=1)
    near = np.stack([
        np.clip(a * pull + b * drag, low, high)
        for pull, drag in (_terms(record, every, delay + shift, lag) for shift in SLACK)
    ])  # fmt: skip
    return DriveLaw(
        delay=float(delay), lag=lag, stiffness=factors[0], damping=factors[1],
        left=float(np.median(1.4826 * size)), told=near[0], lowest=near.min(0), highest=near.max(0),
    )  # fmt: skip


def effort_limits(record: Recorded) -> Array:
    """Largest torque of each drive [N m], (J,)."""
    contract, robot = record.contract, ROBOTS[record.contract.robot]
    known = dict(zip(contract.joint_names, contract.per_joint("effort_limit"), strict=True))
    if robot.hardware is not None:
        known |= robot.hardware.effort_limit
    return np.array([known[name] for name in record.flight.joint_names], float)


def torque_range(record: Recorded) -> tuple[Array, Array]:
    """Lowest and highest torque of each drive at each state [N m], (N, J): its limit, and less as it turns faster."""
    high, hardware = effort_limits(record), ROBOTS[record.contract.robot].hardware
    if hardware is None:
        return np.broadcast_to(-high, record.vel.shape), np.broadcast_to(high, record.vel.shape)
    limits = drive_limits(
        ROBOTS[record.contract.robot], record.flight.joint_names, hardware.effort_limit, hardware.velocity_limit,
        hardware.damping,
    )  # fmt: skip
    lined = np.isfinite(limits.stall)
    missing = np.where(lined, limits.stall, 0.0) / np.where(lined, limits.no_load, 1.0) * record.calm_vel
    return (np.minimum(np.maximum(-high, -limits.stall - missing), high),
            np.maximum(np.minimum(high, limits.stall - missing), -high))  # fmt: skip


def _terms(record: Recorded, rows: np.ndarray, delay: float, lag: int) -> tuple[Array, Array]:
    """``kp (target - q)`` and ``-kd qd`` at ``rows``, (R, J) each."""
    frame = record.flight.frame
    row = np.clip(np.searchsorted(frame.time, record.time[rows] - delay, side="right") - 1, 0, None)
    targets, kp, kd = (np.nan_to_num(getattr(frame, n)[row].astype(float)) for n in ("targets", "stiffness", "damping"))
    return kp * (targets - record.calm_pos[rows - lag]), -kd * record.calm_vel[rows - lag]


def _solve(terms: tuple[Array, Array], torque: Array, weight: Array) -> tuple[Array, Array]:
    """Factors (2, J) of weighted least squares, and what they leave (R, J)."""
    x, y = terms
    xx, xy, yy = ((weight * p * q).sum(0) for p, q in ((x, x), (x, y), (y, y)))
    xt, yt = (weight * x * torque).sum(0), (weight * y * torque).sum(0)
    xx, xt, yy, yt = xx + PRIOR, xt + PRIOR, yy + PRIOR, yt + PRIOR
    det = np.maximum(xx * yy - xy**2, 1e-9)
    a, b = (yy * xt - xy * yt) / det, (xx * yt - xy * xt) / det
    return np.stack([a, b]), torque - a * x - b * y


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """A joint whose torque does not follow its commands. ``kind`` is "" where nothing simple explains it."""

    joint: int
    kind: str
    start: float
    """On the robot's clock [s]."""
    seconds: float
    before: float
    """RMS of the misfit [N m]."""
    after: float
    """The same with the explanation."""
    other: int | None = None
    """Joint whose targets it follows."""
    value: float = 0.0


def misfits(record: Recorded, law: DriveLaw) -> list[Misfit]:
    """Joints whose motor or encoder does something of its own, the worst first."""
    gap = record.torque - np.clip(record.torque, law.lowest, law.highest)
    length = max(3, round(WINDOW / record.period))
    box = np.ones(length) / length
    size = np.sqrt(np.stack([np.convolve(g**2, box, mode="same") for g in gap.T], 1))
    usual = np.median(size[record.whole], axis=0)
    found = []
    for joint in range(gap.shape[1]):
        bad = record.whole & (size[:, joint] > max(MISFIT, MISFITS * min(usual[joint], 3.0 * law.left)))
        edges = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]]).astype(int)))
        if not len(edges):
            continue
        seconds = record.period * (edges[1::2] - edges[::2]).max()
        if seconds < SHORTEST and not (seconds > SHORT and size[bad, joint].max() > GROSS):
            continue
        longest = int((edges[1::2] - edges[::2]).argmax())
        rows = np.arange(edges[2 * longest], edges[-1])  # with what follows: a motor that is dead stays so
        rows = rows[record.whole[rows] & (np.abs(gap[rows, joint]) > MISFIT)]
        if len(rows):
            found.append(_explained(record, law, joint, rows))
    return sorted(found, key=lambda each: -each.before * np.sqrt(each.seconds))


def _explained(record: Recorded, law: DriveLaw, joint: int, rows: np.ndarray) -> Misfit:
    rows = rows[rows >= law.lag]
    torque, told = record.torque[rows, joint], law.told[rows, joint]
    low, high = (values[rows, joint] for values in torque_range(record))
    here, speed = record.calm_pos[rows - law.lag, joint], record.calm_vel[rows - law.lag, joint]
    targets, kp, kd = (values[rows] for values in record.commands(law.delay))
    stiff, drag = law.stiffness_most * kp[:, joint], -law.damping_most * kd[:, joint] * speed

    def left(targets: Array, sign: float = 1.0) -> float:
        return _trimmed(torque - np.clip(stiff * (targets - sign * here) + drag, low, high))

    shift = float(np.median(((torque - told) / np.maximum(stiff, 1e-9))[stiff > 0.0])) if (stiff > 0.0).any() else 0.0
    tried: list[tuple[float, str, int | None, float]] = [
        (_trimmed(torque), "dead", None, 0.0),
        (_trimmed(torque - np.median(torque)), "stuck", None, float(np.median(torque))),
        (_trimmed(torque + told), "motor_sign", None, 0.0),
        (left(targets[:, joint], -1.0), "encoder_sign", None, 0.0),
        (left(targets[:, joint] + shift), "offset", None, -shift),
        *((left(targets[:, other]), "order", other, 0.0) for other in range(targets.shape[1]) if other != joint),
    ]
    before, (after, kind, number, value) = _trimmed(torque - told), min(tried, key=lambda each: each[0])
    if kind == "stuck" and abs(value) < 3.0 * law.left:
        kind = "dead"
    pulling = np.minimum(np.abs(torque), np.abs(told)) > PULLS
    against = float((torque * told < 0.0)[pulling].mean()) if pulling.any() else 0.0
    if kind not in ("dead", "order") and after > 3.0 * law.left and against > AGAINST:
        kind = "motor_sign"  # whose torque the speed of its flight limits, so that it is not the law's
    elif after > SAME * before:
        kind, number = "", None
    return Misfit(
        joint=joint, kind=kind, start=float(record.time[rows[0]]), seconds=float(len(rows) * record.period),
        before=before, after=after, other=number, value=value,
    )  # fmt: skip


def _trimmed(values: Array) -> float:
    """RMS of the smaller 80 %: when a fault begins and ends is not known to a state."""
    squares = np.sort(values**2)
    return float(np.sqrt(squares[: max(1, round(0.8 * len(squares)))].mean()))
