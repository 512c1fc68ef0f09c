"""A flight as even columns: states and the commands in force, on one clock, joints in the flight's order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.reading import NAME, printable
from gaitway_onboard.bundle.contract import CONTRACT_FILE, Contract
from gaitway_onboard.flight.reading import Flight
from gaitway_onboard.interface import Array
from gaitway_onboard.rotation import projected_gravity, tilt_of

from ..identify.drive_log import steady_times
from ..replay.motion import robot_of
from ..replay.policy_check import load_policy

MIN_SECONDS = 0.3
"""Least time under command that is worth a diagnosis [s]."""
MAX_GAP = 0.02  # [s] without a state, over which nothing is interpolated
MAX_MISSING = 0.3  # share of the standing and walking that gaps may take
UPRIGHT = 0.6  # [rad], a robot that is tilted further may touch the ground with anything
CALM = 5  # states
STANDING = ("hold", "policy", "settle")


class FlightDiagnosisError(UserError):
    """A flight that cannot be diagnosed with this bundle, with the reason and the fix."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Recorded:
    """N states at equal intervals, J joints of the flight's order."""

    flight: Flight
    contract: Contract
    time: Array
    """Robot's clock as the computer saw it [s], (N,)."""
    pos: Array
    """[rad], (N, J)"""
    vel: Array
    """[rad/s], (N, J)"""
    torque: Array
    """Torques that the drives report [N m], (N, J)."""
    quat: Array
    """(N, 4), w, x, y, z"""
    gyro: Array
    """[rad/s], (N, 3)"""
    force: Array | None
    """Specific force in the base frame [m/s^2], (N, 3); None without an accelerometer."""
    whole: np.ndarray
    """Mask of states under command without a gap around them, (N,) bool."""
    usable: np.ndarray
    """Mask of states on the feet, upright and without a gap around them, (N,) bool."""

    @property
    def period(self) -> float:
        """Time between two states [s]."""
        return float(self.time[1] - self.time[0])

    @cached_property
    def calm_pos(self) -> Array:
        """Positions without the noise of single states, (N, J)."""
        return smoothed(self.pos, CALM)

    @cached_property
    def calm_vel(self) -> Array:
        return smoothed(self.vel, CALM)

    def commands(self, delay: float) -> tuple[Array, Array, Array]:
        """Targets, stiffness and damping that act at each state if they are ``delay`` [s] late, (N, J) each."""
        frame = self.flight.frame
        row = np.clip(np.searchsorted(frame.time, self.time - delay, side="right") - 1, 0, None)
        targets, kp, kd = (getattr(frame, name)[row].astype(float) for name in ("targets", "stiffness", "damping"))
        return np.nan_to_num(targets), kp, kd


def recorded(flight: Flight, bundle: str | Path) -> Recorded:
    """Columns of ``flight``. Raises :class:`UserError` if it tells too little or is not of ``bundle``."""
    path, contract = flight.path, load_policy(flight, bundle).contract
    if flight.contract_yaml is not None and flight.contract_yaml != (Path(bundle) / CONTRACT_FILE).read_bytes():
        name = printable(flight.metadata.get("bundle", ""), NAME)
        raise FlightDiagnosisError(
            f"{path} was flown by another bundle than {bundle}: give the one that flew ({name or 'without a name'})"
        )
    state, frame = flight.state, flight.frame
    if len(state) < 2 or not len(frame):
        raise FlightDiagnosisError(f"{path} has {len(state)} states and {len(frame)} commands: nothing to compare")
    robot_of(flight)
    if "imu_quat_wxyz" not in state:
        raise FlightDiagnosisError(
            f"{path} has no orientation (imu_quat_wxyz): a robot with a fixed base cannot be diagnosed"
        )
    has_torque = flight.has("joint_torque")
    if not has_torque.any() or not np.ptp(np.nan_to_num(state.joint_torque[has_torque]), axis=0).any():
        raise FlightDiagnosisError(
            f"{path} has no joint torques (joint_torque): without what the drives reported, gains and loads cannot be "
            "told apart; record on a robot that reports torques, or compare with gaitway replay --against"
        )
    stamps = state.time.astype(float)
    time = steady_times(stamps, state.tick.astype(float)) if "tick" in state and flight.has("tick").all() else stamps
    good = has_torque & np.isfinite(state.joint_pos).all(1) & np.isfinite(state.joint_vel).all(1)
    good &= np.isfinite(state.joint_torque).all(1) & np.isfinite(state.gyro).all(1)
    good &= np.abs(np.linalg.norm(np.nan_to_num(state.imu_quat_wxyz), axis=1) - 1.0) < 0.1
    good &= np.concatenate([[True], np.diff(np.maximum.accumulate(time)) > 0.0])
    if good.sum() < 2:
        raise FlightDiagnosisError(f"{path}: no two states have a finite reading of every sensor")
    kept = time[good]
    period = float(np.median(np.diff(kept)))
    if period > MAX_GAP:
        raise FlightDiagnosisError(
            f"{path} has a state every {1e3 * period:.0f} ms; one in {1e3 * MAX_GAP:g} ms is needed: record all "
            "that the robot sends"
        )
    even = kept[0] + period * np.arange(int((kept[-1] - kept[0]) / period) + 1)

    def columns(name: str) -> Array:
        values = getattr(state, name)[good].astype(float)
        return np.stack([np.interp(even, kept, column) for column in values.T], 1)

    after = np.clip(np.searchsorted(kept, even), 1, len(kept) - 1)
    whole = kept[after] - kept[after - 1] <= max(MAX_GAP, 2.5 * period)
    mode = frame.mode[np.clip(np.searchsorted(frame.time, even, side="right") - 1, 0, None)]
    standing = np.isin(mode, STANDING)
    quat = columns("imu_quat_wxyz")
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    upright = np.array(tilt_of(quat)) < UPRIGHT
    commanded = even >= frame.time[0]
    if (seconds := period * commanded.sum()) < MIN_SECONDS:
        raise FlightDiagnosisError(
            f"{path} has {seconds:.2f} s of states under command; at least {MIN_SECONDS:g} s are needed: record longer"
        )
    if (missing := 1.0 - whole[commanded].mean()) > MAX_MISSING:
        raise FlightDiagnosisError(
            f"{path}: states are missing for {missing:.0%} of the time under command (gaps above {1e3 * MAX_GAP:g} ms; "
            f"at most {MAX_MISSING:.0%}): record again over a cable, or look at gaitway replay for what was lost"
        )
    force = columns("accelerometer") if "accelerometer" in state and flight.has("accelerometer")[good].all() else None
    return Recorded(
        flight=flight, contract=contract, time=even, pos=columns("joint_pos"), vel=columns("joint_vel"),
        torque=columns("joint_torque"), quat=quat, gyro=columns("gyro"), force=force,
        whole=whole & commanded, usable=standing & upright & whole & commanded,
    )  # fmt: skip


def down(record: Recorded) -> Array:
    """Gravity's direction in the base frame by the orientation, (N, 3)."""
    found: Array = projected_gravity(record.quat)
    return found


def smoothed(values: Array, length: int) -> Array:
    """Running mean (N, C) with a Hann window of ``length`` samples, an odd number."""
    window = np.hanning(length + 2)[1:-1]
    window /= window.sum()
    padded = np.pad(values, ((length // 2, length // 2), (0, 0)), mode="edge")
    return np.stack([np.convolve(column, window, mode="valid") for column in padded.T], 1)
