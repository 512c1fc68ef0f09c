"""What recorded readings tell by themselves: clocks, lost states, noise, and the gyroscope beside the orientation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.interface import Array
from gaitway_onboard.rotation import quat_conjugate, quat_mul

from .recorded import Recorded

JUMP, MIRRORED = 0.06, 0.06  # [rad] beyond the speed's, of a jump; and to the negative, by share too
TURN = 0.1  # [s], over which the orientation's change is taken
THIRD = math.sqrt(20.0)  # standard deviation of a third difference, by that of white noise


@dataclass(frozen=True, kw_only=True)
class Readings:
    clock_rate: float
    """The robot's clock by the computer's; 1 where the robot counts none."""
    lost: float
    """Share of the states that did not arrive."""
    bunched: float
    """Share that would be missed by a reader because several arrive at once, as late as states come here."""
    noise: dict[str, float]
    """Standard deviation of the white noise, by signal: the worst column."""
    gyro_bias: Array
    """[rad/s], (3,)"""
    gyro_left: float
    """RMS of the difference to the turning of the orientation, without the bias [rad/s]."""
    flipped: tuple[int, float] | None
    """Joint whose position jumped to its negative, and when [s]."""


def read_readings(record: Recorded) -> Readings:
    state = record.flight.state
    rate, bunched = 1.0, 0.0
    stamps = state.time.astype(float)
    if "tick" in state and flight_ticks(record):
        tick = state.tick.astype(float)
        slope = (tick[-1] - tick[0]) / max(stamps[-1] - stamps[0], 1e-9)
        rate = slope / 10.0 ** round(math.log10(slope))
        late, stamps = stamps - tick / slope, tick / slope
        bunched = _bunched(late, float(np.median(np.diff(stamps))), float(np.median(np.diff(record.flight.frame.time))))
    steps = np.diff(stamps)
    period = float(np.median(steps[steps > 0.0]))
    lost = max(0.0, 1.0 - (len(np.unique(stamps)) - 1) * period / float(stamps[-1] - stamps[0]))
    rows = np.flatnonzero(np.isfinite(state.joint_pos).all(1))
    noise = {}
    for name in ("joint_pos", "joint_vel", "gyro"):
        third = np.abs(np.diff(getattr(state, name)[rows].astype(float), 3, axis=0))
        noise[name] = float(np.nanmax(1.4826 * np.nanmedian(third, axis=0)) / THIRD)
    turning, gyro = _turning(record)
    if not len(turning):  # never on its feet
        turning = gyro = np.zeros((1, 3))
    bias = np.median(gyro - turning, axis=0)
    return Readings(
        clock_rate=rate, lost=lost, bunched=bunched, noise=noise, gyro_bias=bias,
        gyro_left=float(np.sqrt(np.median(((gyro - turning - bias) ** 2).sum(1)))),
        flipped=_flipped(record),
    )  # fmt: skip


def flight_ticks(record: Recorded) -> bool:
    """True if the robot counts its own time in every state."""
    state = record.flight.state
    return bool(record.flight.has("tick").all() and (np.diff(state.tick.astype(float)) >= 0.0).all()
                and state.tick[-1] > state.tick[0])  # fmt: skip


def _turning(record: Recorded) -> tuple[Array, Array]:
    """Turning of the orientation and mean of the gyroscope over the same time, base frame [rad/s], (K, 3) each."""
    count = max(1, round(TURN / record.period))
    rows = np.flatnonzero(record.usable[:-count] & record.usable[count:])[:: max(1, count // 2)]
    relative = quat_mul(quat_conjugate(record.quat[rows]), record.quat[rows + count])
    relative *= np.where(relative[:, :1] < 0.0, -1.0, 1.0)
    size = np.linalg.norm(relative[:, 1:], axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(size, relative[:, :1])
    turning = relative[:, 1:] / np.maximum(size, 1e-12) * angle / (count * record.period)
    total = np.concatenate([np.zeros((1, 3)), np.cumsum(record.gyro, axis=0)])
    return turning, (total[rows + count] - total[rows]) / count


def _flipped(record: Recorded) -> tuple[int, float] | None:
    """A joint whose position jumps to its negative, while its speed does not say so."""
    state = record.flight.state
    pos, time = state.joint_pos.astype(float), state.time.astype(float)
    step = np.diff(pos, axis=0) - state.joint_vel[:-1] * np.diff(time)[:, None]
    mirrored = np.abs(pos[1:] + pos[:-1]) < MIRRORED + 0.1 * np.abs(pos[1:])
    rows, joints = np.nonzero((np.abs(step) > JUMP) & mirrored & (np.sign(pos[1:]) != np.sign(pos[:-1])))
    return (int(joints[0]), float(time[rows[0] + 1])) if len(rows) else None


def _bunched(late: Array, period: float, reads: float) -> float:
    """Share of states that a newer one overtakes before it is read, if each is as late as some recorded one."""
    count = 20_000
    arrival = np.arange(count) * period + np.random.default_rng(0).choice(late, count)
    seen = len(np.unique(np.floor(np.maximum.accumulate(arrival) / reads + 1e-6)))
    return max(0.0, 1.0 - seen / min(count, count * period / reads))
