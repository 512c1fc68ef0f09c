"""Motion of the robot, reconstructed from its own sensors.

Orientation is the IMU's. Height is what puts the lowest foot on flat ground, unless the robot hangs on a stand. The
velocity of the base is an estimate (:mod:`.velocity`), and position is that velocity summed up: it drifts, and where
the robot really was is not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_onboard.flight.reading import Flight
from gaitway_onboard.rotation import quat_apply
from gaitway_tasks.robots import ROBOTS, Robot
from gaitway_tasks.robots.parameters import RobotParameters

from ..mujoco.body import Body
from ..mujoco.model import distance_to_ground
from .summary import ReplayError
from .velocity import base_velocity

FAR = 2.0
"""Height at which the base is posed to see how far below it the feet are [m]."""
HUNG_HEIGHT = 0.3
"""Height of the lowest foot of a robot on a stand [m]."""


@dataclass(frozen=True, kw_only=True)
class Motion:
    """States of the whole robot, ready for MuJoCo. T times."""

    time: np.ndarray
    """Robot's clock [s], (T,)."""
    index: np.ndarray
    """Indices of the flight's states, (T,)."""
    qpos: np.ndarray
    """(T, nq)"""
    qvel: np.ndarray
    """(T, nv)"""
    lin_vel_b: np.ndarray
    """Velocity of the base, base frame [m/s], (T, 3)."""
    source: str
    """Source of the velocity, in words."""


def robot_of(flight: Flight) -> Robot:
    """The robot's definition; raises :class:`ReplayError` if it is unknown or has other joints."""
    if flight.robot not in ROBOTS:
        raise ReplayError(
            f"{flight.path}: the robot {flight.robot!r} is not one of {', '.join(ROBOTS)}: only the summary and the "
            "report's plots of it can be had"
        )
    robot = ROBOTS[flight.robot]
    if unknown := [name for name in flight.joint_names if name not in robot.joint_names]:
        raise ReplayError(f"{flight.path}: {robot.name} has no joint {', '.join(unknown)}")
    if not len(flight.state):
        raise ReplayError(f"{flight.path} has no state: there is nothing to replay")
    return robot


def make_body(flight: Flight, *, parameters: RobotParameters | None = None, visual: bool = False) -> Body:
    """The flight's robot in MuJoCo, joints in the flight's order."""
    return Body(robot_of(flight), flight.joint_names, parameters=parameters, visual=visual)


def reconstruct(flight: Flight, body: Body, every: float, *, hung: bool = False) -> Motion:
    """The motion at states about ``every`` seconds apart; those with numbers that are not finite are left out."""
    state = flight.state
    good = np.flatnonzero(
        np.isfinite(state.joint_pos).all(1)
        & np.isfinite(state.joint_vel).all(1)
        & np.isfinite(state.gyro).all(1)
        & (np.abs(np.linalg.norm(np.nan_to_num(state.imu_quat_wxyz), axis=1) - 1.0) < 0.1)
    )
    if not len(good):
        raise ReplayError(f"{flight.path}: no state has a finite reading of every sensor")
    index = good[np.unique(np.searchsorted(state.time[good], np.arange(state.time[good[0]], state.time[-1], every)))]
    velocity, source = base_velocity(flight, body.robot, hung=hung)
    velocity = velocity[index]
    feet = foot_geoms(body)
    rows = [_pose(flight, body, feet, int(k), velocity[row], hung=hung) for row, k in enumerate(index)]
    qpos, qvel = (np.array(column) for column in zip(*rows, strict=True))
    base, dof = body.plant.base_qpos, body.plant.base_dof
    steps = np.diff(state.time[index], prepend=state.time[index[0]])[:, None]
    qpos[:, base : base + 2] = np.cumsum(qvel[:, dof : dof + 2] * steps, 0)
    return Motion(
        time=state.time[index].astype(float), index=index, qpos=qpos, qvel=qvel, lin_vel_b=velocity, source=source
    )


def _pose(
    flight: Flight, body: Body, feet: list[int], k: int, velocity: np.ndarray, *, hung: bool
) -> tuple[np.ndarray, np.ndarray]:
    """qpos and qvel at state ``k``, above the origin; ``velocity`` of the base in its own frame."""
    m, d, state = body.model, body.data, flight.state
    base, dof = body.plant.base_qpos, body.plant.base_dof
    d.qpos[:], d.qvel[:] = m.qpos0, 0.0
    quat = state.imu_quat_wxyz[k].astype(float)
    d.qpos[base : base + 3] = 0.0, 0.0, FAR
    d.qpos[base + 3 : base + 7] = quat / np.linalg.norm(quat)
    d.qpos[body.plant.joint_qpos], d.qvel[body.plant.joint_dof] = state.joint_pos[k], state.joint_vel[k]
    d.qvel[dof + 3 : dof + 6] = state.gyro[k]
    mujoco.mj_kinematics(m, d)
    low = min(distance_to_ground(d, geom) for geom in feet)
    d.qpos[base + 2] = FAR - low + (HUNG_HEIGHT if hung else 0.0)
    d.qvel[dof : dof + 3] = quat_apply(d.qpos[base + 3 : base + 7], velocity)
    return d.qpos.copy(), d.qvel.copy()


def foot_geoms(body: Body) -> list[int]:
    """Geoms of the feet, the named bodies and all below them, that can touch the ground."""
    m = body.model
    feet = {m.body(name).id for name in body.foot_names}
    for child in range(m.nbody):
        if int(m.body_parentid[child]) in feet:
            feet.add(child)
    solid = (m.geom_contype > 0) | (m.geom_conaffinity > 0)
    found = [geom for geom in range(m.ngeom) if int(m.geom_bodyid[geom]) in feet and solid[geom]]
    if not found:
        raise ReplayError(f"the feet of {body.robot.name} have no shape that can stand on the ground")
    return found
