"""Commands and motion of a hung robot in one flight, joints in the robot's canonical order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.flight.reading import Flight
from gaitway_onboard.interface import Array
from gaitway_onboard.rotation import projected_gravity
from gaitway_tasks.robots import Robot

from ..logs.reading import TABLES, LogOptions, is_bag, read_any

MAX_BASE_SPEED = 0.25  # [rad/s] rms of the gyroscope of a robot that hangs still; a slow walk has twice that
SETTLED = 0.5  # quantile of a tick's delay that its stamp is set to
MIN_TICKS = 100


class IdentificationError(UserError):
    """A flight or a question that no parameters can be found from, with the reason and the fix."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DriveLog:
    """N states and M command frames; J joints. Times on the robot's clock [s], rising."""

    source: str
    time: Array
    """(N,)"""
    pos: Array
    """[rad], (N, J)"""
    vel: Array
    """[rad/s], (N, J)"""
    torque: Array | None
    """Torques that the drives reported [N m], (N, J)."""
    gravity: Array
    """Gravity in the base frame [m/s^2], (N, 3)."""
    frame_time: Array
    """(M,)"""
    targets: Array
    """[rad], (M, J)"""
    stiffness: Array
    """Commanded stiffness [N m/rad], (M, J)."""
    damping: Array
    """Commanded damping [N m s/rad], (M, J)."""

    @property
    def period(self) -> float:
        """Time between two states [s]."""
        return float(np.median(np.diff(self.time)))


def read_drive_logs(
    path: str | Path,
    robot: Robot,
    *,
    gains: str | None = None,
    topics: tuple[str, ...] = (),
    say: Callable[[str], None] = lambda text: None,
) -> list[DriveLog]:
    """The flight or log ``path``, or each of the folder ``path``; see :class:`LogOptions` for ``gains`` and ``topics``.

    Raises :class:`UserError`.
    """
    path, options = Path(path), LogOptions(robot=robot, gains=gains, topics=topics)
    paths = [path]
    if path.is_dir() and not is_bag(path):
        paths = sorted(item for item in path.iterdir() if item.suffix.lower() in (".mcap", ".db3", *TABLES))
        if not paths:
            raise IdentificationError(f"{path} has no flight: *.mcap, as gaitway deploy --log writes them")
    return [drive_log(read_any(item, options, say=say)[0], robot) for item in paths]


def drive_log(flight: Flight, robot: Robot) -> DriveLog:
    """The part of a flight that drives and joints have to do with. Raises :class:`IdentificationError`."""
    name = str(flight.path)
    if flight.robot != robot.name:
        raise IdentificationError(f"{name} is a flight of {flight.robot or 'an unknown robot'}, not of {robot.name}")
    if sorted(flight.joint_names) != sorted(robot.joint_names):
        raise IdentificationError(f"{name}: its joints are not those of {robot.name}: {', '.join(flight.joint_names)}")
    if not len(flight.frame):
        raise IdentificationError(f"{name} has no commands: joint targets, stiffness and damping are needed")
    if len(flight.state) < MIN_TICKS or len(flight.frame) < MIN_TICKS:
        raise IdentificationError(f"{name} has {len(flight.state)} states and {len(flight.frame)} commands: too few")
    order = [flight.joint_names.index(joint) for joint in robot.joint_names]
    state, frame = flight.state, flight.frame
    sane = np.isfinite(state.joint_pos).all(1) & np.isfinite(state.joint_vel).all(1)
    quat = np.asarray(state.imu_quat_wxyz, float)
    norm = np.linalg.norm(quat, axis=1)
    sane &= np.abs(norm - 1.0) < 0.1  # also false of NaN
    time = np.asarray(state.time, float)
    if flight.has("tick").all() and "tick" in state:
        time = steady_times(time, np.asarray(state.tick, float))
    sane &= np.concatenate([[True], np.diff(np.maximum.accumulate(time)) > 0.0])
    torque = None
    if "joint_torque" in state and flight.has("joint_torque")[sane].all():
        torque = np.asarray(state.joint_torque, float)[sane][:, order]
        torque = torque if np.ptp(torque, axis=0).all() else None  # a wire that reports zeros reports nothing
    return check_hung(
        DriveLog(
            source=name,
            time=time[sane],
            pos=np.asarray(state.joint_pos, float)[sane][:, order],
            vel=np.asarray(state.joint_vel, float)[sane][:, order],
            torque=torque,
            gravity=gravity_in_base(quat[sane] / norm[sane, None]),
            frame_time=np.asarray(frame.time, float),
            targets=np.nan_to_num(np.asarray(frame.targets, float)[:, order]),  # damping follows none
            stiffness=np.asarray(frame.stiffness, float)[:, order],
            damping=np.asarray(frame.damping, float)[:, order],
        ),
        np.asarray(state.gyro, float)[sane],
    )


def check_hung(log: DriveLog, gyro: Array) -> DriveLog:
    """``log``, unless its base turned: contacts with the ground are not known, so a walk tells too little of joints."""
    speed = float(np.sqrt((gyro**2).sum(1).mean()))
    if speed > MAX_BASE_SPEED:
        raise IdentificationError(
            f"{log.source}: the base turned at {speed:.2f} rad/s (rms; at most {MAX_BASE_SPEED:g}): a walking or a "
            "swinging robot tells too little of its joints, since what touches it is unknown. Fix the base to a stand, "
            "feet in the air, and record an excitation: gaitway deploy --excite 60"
        )
    return log


def steady_part(log: DriveLog) -> DriveLog:
    """The longest stretch of ``log`` with the same gains throughout: the policy's, of most flights."""
    gains = np.concatenate([log.stiffness, log.damping], 1)
    edges = np.concatenate([[0], np.flatnonzero((np.diff(gains, axis=0) != 0.0).any(1)) + 1, [len(gains)]])
    longest = int(np.diff(edges).argmax())
    frames = slice(int(edges[longest]), int(edges[longest + 1]))
    frame_time = log.frame_time[frames]
    states = (log.time >= frame_time[0]) & (log.time <= frame_time[-1] + log.period)
    return replace(
        log,
        torque=None if log.torque is None else log.torque[states],
        **{name: getattr(log, name)[states] for name in ("time", "pos", "vel", "gravity")},
        **{name: getattr(log, name)[frames] for name in ("frame_time", "targets", "stiffness", "damping")},
    )


def gravity_in_base(quat_wxyz: Array) -> Array:
    """(N, 3) [m/s^2] of orientations (N, 4)."""
    return 9.81 * projected_gravity(quat_wxyz)


def steady_times(stamps: Array, tick: Array) -> Array:
    """Times of states whose arrival is jittered and whose ``tick`` counts the robot's own time, (N,).

    A line through ticks and stamps, in pieces of ten seconds, since two clocks drift. The mean delay of the wire stays
    in: it is part of what a controller sees. Stamps themselves where the counter is no clock.
    """
    if len(tick) < MIN_TICKS or (np.diff(tick) < 0).any() or tick[-1] == tick[0]:
        return stamps
    slope = (stamps[-1] - stamps[0]) / (tick[-1] - tick[0])
    late = stamps - slope * tick
    piece = np.floor((stamps - stamps[0]) / 10.0).astype(int)
    knots = np.unique(piece)
    if len(knots) < 2:
        line = np.full_like(stamps, np.quantile(late, SETTLED))
    else:
        centres = [stamps[piece == knot].mean() for knot in knots]
        line = np.interp(stamps, centres, [np.quantile(late[piece == knot], SETTLED) for knot in knots])
    if np.abs(late - line).max() > 0.2:
        return stamps
    result: Array = slope * tick + line
    return result
