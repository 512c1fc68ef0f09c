"""Pieces of drive logs that are simulated each from its own measured start: multiple shooting.

Errors do not accumulate over a flight, and a lost state costs one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from gaitway_onboard.interface import Array

from .drive_log import DriveLog, IdentificationError

LENGTH = 2.0  # [s]
BURN_IN = 0.25  # [s], not scored: a start is measured with noise
MAX_DELAY = 0.06  # [s]
MAX_GAP = 4  # periods without a state, or without a command
SMOOTH = 5  # states on either side that a start is fitted to
MOVES = 0.02  # [rad], spread of the targets below which a piece tells little


@dataclass(frozen=True, kw_only=True, eq=False)
class Windows:
    """W pieces of T states each at equal intervals; J joints."""

    period: float
    """Time between two states [s]."""
    pos: Array
    """[rad], (W, T, J)"""
    vel: Array
    """[rad/s], (W, T, J)"""
    torque: Array | None
    """[N m], (W, T, J)"""
    scored: np.ndarray
    """Mask of the states that were measured and count, (W, T) bool."""
    start_pos: Array
    """[rad], (W, J)"""
    start_vel: Array
    """[rad/s], (W, J)"""
    stiffness: Array
    """Commanded stiffness; the same throughout a window [N m/rad], (W, J)."""
    damping: Array
    """[N m s/rad], (W, J)"""
    gravity: Array
    """Gravity in the base frame [m/s^2], (W, 3)."""
    start: Array
    """Start on the robot's clock [s], (W,)."""
    log: np.ndarray
    """Index of each window's log, (W,)."""
    logs: tuple[DriveLog, ...]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def steps(self) -> int:
        return self.pos.shape[1]

    def take(self, index: np.ndarray | slice) -> Windows:
        """Some of the windows."""
        names = ("pos", "vel", "scored", "start_pos", "start_vel", "stiffness", "damping", "gravity", "start", "log")
        torque = None if self.torque is None else self.torque[index]
        return replace(self, torque=torque, **{name: getattr(self, name)[index] for name in names})

    def targets(self, delay: float, dt: float) -> Array:
        """Mean target of every physics step of ``dt`` [s] if it acts ``delay`` [s] late, (W, (T - 1) period / dt, J).

        A command that falls into a step counts for its share, so that this is smooth in the delay.
        """
        count = round((self.steps - 1) * self.period / dt)
        return self._means(dt * np.arange(count + 1) - delay) / dt

    def targets_around(self, delay: float) -> Array:
        """Mean target over the period around each state if it acts ``delay`` [s] late, (W, T, J)."""
        return self._means(self.period * (np.arange(self.steps + 1) - 0.5) - delay) / self.period

    def _means(self, edges: Array) -> Array:
        """Integral of the targets between ``edges`` (K + 1,), from each window's start [s], (W, K, J)."""
        result = np.empty((len(self), len(edges) - 1, self.pos.shape[2]))
        for number, log in enumerate(self.logs):
            mine = self.log == number
            total = np.concatenate([np.zeros((1, self.pos.shape[2])), _integral(log)])
            at = self.start[mine, None] + edges
            frame = np.clip(np.searchsorted(log.frame_time, at, side="right") - 1, 0, len(log.frame_time) - 1)
            area = total[frame] + (at - log.frame_time[frame])[..., None] * log.targets[frame]
            result[mine] = np.diff(area, axis=1)
        return result

    def jumps(self, delay: float) -> Array:
        """Jumps of the targets around each state if they act ``delay`` [s] late [rad], (W, T, J).

        Within a period and a half: when exactly a command took effect, and when a torque was measured, is not known
        better. A steady change is no jump.
        """
        times = self.start[:, None] + self.period * np.arange(self.steps) - delay
        result = np.empty((len(self), self.steps, self.pos.shape[2]))
        for number, log in enumerate(self.logs):
            mine = self.log == number
            before, now, after = (
                log.targets[np.clip(np.searchsorted(log.frame_time, times[mine] + side, side="right") - 1, 0, None)]
                for side in (-1.5 * self.period, 0.0, 1.5 * self.period)
            )
            result[mine] = np.abs(after - 2.0 * now + before)
        return result


def _integral(log: DriveLog) -> Array:
    """Integral of the held targets from the first frame to each later one, (M - 1, J)."""
    area: Array = np.cumsum(np.diff(log.frame_time)[:, None] * log.targets[:-1], axis=0)
    return area


def cut(
    logs: Sequence[DriveLog], *, length: float = LENGTH, burn_in: float = BURN_IN, stride: float | None = None
) -> Windows:
    """All windows of ``logs`` with constant gains and no long gap; raises :class:`IdentificationError` if none is left.

    The scored parts of neighbours touch unless ``stride`` [s] says otherwise.
    """
    period = float(np.median([log.period for log in logs]))
    steps = round(length / period) + 1
    every = stride or length - burn_in
    parts = [part for number, log in enumerate(logs) for part in _windows(log, number, period, steps, every)]
    parts = [part for part in parts if part is not None]
    if not parts:
        raise IdentificationError(
            f"{', '.join(log.source for log in logs)}: no {length:g} s in a row of moving joints, constant gains and "
            "states without long gaps: record an excitation of at least 10 s"
        )
    has_torque = all(log.torque is not None for log in logs)
    columns = {name: np.stack([part[name] for part in parts]) for name in parts[0] if name != "torque"}
    columns["scored"][:, : round(burn_in / period)] = False
    torque = np.stack([part["torque"] for part in parts]) if has_torque else None
    return Windows(period=period, torque=torque, logs=tuple(logs), **columns)


def _windows(log: DriveLog, number: int, period: float, steps: int, every: float) -> list[dict[str, Array]]:
    first = max(log.time[0] + SMOOTH * period, log.frame_time[0] + MAX_DELAY)
    last = min(log.time[-1], log.frame_time[-1] + MAX_GAP * period)
    starts = np.arange(first, last - (steps - 1) * period, every)
    return [part for start in starts if (part := _window(log, number, start, period, steps)) is not None]


def _window(log: DriveLog, number: int, start: float, period: float, steps: int) -> dict[str, Array] | None:
    times = start + period * np.arange(steps)
    low, high = np.searchsorted(log.frame_time, [start - MAX_DELAY, times[-1]])
    low = max(low - 1, 0)
    frames = slice(low, high + 1)
    gains = np.concatenate([log.stiffness[frames], log.damping[frames]], 1)
    if (gains != gains[0]).any() or not log.stiffness[low].any() or np.ptp(log.targets[frames], axis=0).max() < MOVES:
        return None
    after = np.clip(np.searchsorted(log.time, times), 1, len(log.time) - 1)
    gap = log.time[after] - log.time[after - 1]
    measured = gap < (MAX_GAP + 0.5) * period
    if measured.mean() < 0.8 or not measured[: round(BURN_IN / period)].all():
        return None
    share = np.clip((times - log.time[after - 1]) / gap, 0.0, 1.0)[:, None]

    def at(values: Array) -> Array:
        between: Array = (1.0 - share) * values[after - 1] + share * values[after]
        return between

    pos, vel = _start(log, start, period)
    return {
        "pos": at(log.pos),
        "vel": at(log.vel),
        "torque": at(log.torque) if log.torque is not None else np.zeros(0),
        "scored": measured,
        "start_pos": pos,
        "start_vel": vel,
        "stiffness": log.stiffness[low],
        "damping": log.damping[low],
        "gravity": log.gravity[after].mean(0),
        "start": np.float64(start),
        "log": np.int64(number),
    }


def _start(log: DriveLog, start: float, period: float) -> tuple[Array, Array]:
    """Position and velocity at ``start`` by a parabola through the states around it, both measurements used."""
    centre = int(np.clip(np.searchsorted(log.time, start), SMOOTH, len(log.time) - SMOOTH - 1))
    near = slice(centre - SMOOTH, centre + SMOOTH + 1)
    t = (log.time[near] - start) / period
    ones, zeros = np.ones_like(t), np.zeros_like(t)
    noise = max(1e-3, 0.05 * period)  # how much worse velocities [rad/period] are known than positions, roughly
    rows = np.concatenate([np.stack([ones, t, t * t], 1), 1e-3 / noise * np.stack([zeros, ones, 2.0 * t], 1)])
    seen = np.concatenate([log.pos[near], 1e-3 / noise * period * log.vel[near]])
    found = np.linalg.lstsq(rows, seen, rcond=None)[0]
    return found[0], found[1] / period
