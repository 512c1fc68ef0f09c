"""How the robot stood and moved, as far as its own sensors tell.

Orientation is the IMU's. Height is what puts the lowest foot on flat ground, unless the robot hangs on a stand. The
velocity of the base is the flight's estimate or, without one, that of the lowest feet taken to stand still. Position is
that velocity summed up: it drifts, and where the robot really was nobody recorded.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_tasks.robots import ROBOTS, Robot
from gaitway_tasks.robots.parameters import RobotParameters

from ..digital_twin.body import Body
from ..onboard.flight.reading import Flight
from .summary import ReplayError

STANCE = 0.015
"""Feet that are at most this much higher than the lowest are taken to stand [m]."""
FAR = 2.0
"""Height at which the base is posed to see how far below it the feet are [m]."""
HUNG_HEIGHT = 0.3
"""Of the lowest foot of a robot on a stand [m]."""


@dataclass(frozen=True, kw_only=True)
class Motion:
    """States of the whole robot, ready for MuJoCo. T times."""

    time: np.ndarray
    """Robot's clock [s], (T,)."""
    index: np.ndarray
    """Of the flight's states, (T,)."""
    qpos: np.ndarray
    """(T, nq)"""
    qvel: np.ndarray
    """(T, nv)"""
    lin_vel_b: np.ndarray
    """Of the base, base frame [m/s], (T, 3)."""
    estimated: bool
    """Whether the velocity is the flight's own estimate."""

    @property
    def source(self) -> str:
        """Where velocity and position come from, in words."""
        if self.estimated:
            return "velocity as the robot estimated it, position summed up from it"
        return "velocity from feet taken to stand still, position summed up from it"


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


def make_body(
    flight: Flight, *, timestep: float = 0.002, parameters: RobotParameters | None = None, visual: bool = False
) -> Body:
    """The flight's robot in MuJoCo, joints in the flight's order."""
    return Body(robot_of(flight), flight.joint_names, timestep=timestep, parameters=parameters, visual=visual)


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
    index = index if len(index) else good[:1]
    estimated = "base_lin_vel" in state and bool(flight.has("base_lin_vel")[index].any()) and not hung
    rows = [_pose(flight, body, int(k), estimated=estimated, hung=hung) for k in index]
    qpos, qvel, velocity = (np.array(column) for column in zip(*rows, strict=True))
    base, dof = body.base_qpos, body.base_dof
    steps = np.diff(state.time[index], prepend=state.time[index[0]])[:, None]
    qpos[:, base : base + 2] = np.cumsum(qvel[:, dof : dof + 2] * steps, 0)
    return Motion(
        time=state.time[index].astype(float), index=index, qpos=qpos, qvel=qvel, lin_vel_b=velocity, estimated=estimated
    )


def _pose(
    flight: Flight, body: Body, k: int, *, estimated: bool, hung: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """qpos and qvel at state ``k``, above the origin, and the base's velocity in its own frame."""
    m, d, state = body.model, body.data, flight.state
    base, dof = body.base_qpos, body.base_dof
    d.qpos[:], d.qvel[:] = m.qpos0, 0.0
    quat = state.imu_quat_wxyz[k].astype(float)
    d.qpos[base : base + 3] = 0.0, 0.0, FAR
    d.qpos[base + 3 : base + 7] = quat / np.linalg.norm(quat)
    d.qpos[body.qpos], d.qvel[body.dof] = state.joint_pos[k], state.joint_vel[k]
    d.qvel[dof + 3 : dof + 6] = state.gyro[k]
    mujoco.mj_kinematics(m, d)
    mujoco.mj_comPos(m, d)
    height, sole_velocity = _soles(body)
    d.qpos[base + 2] = FAR - height.min() + (HUNG_HEIGHT if hung else 0.0)
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, d.qpos[base + 3 : base + 7])
    rotation = turn.reshape(3, 3)
    if hung:
        velocity = np.zeros(3)
    elif estimated and flight.has("base_lin_vel")[k]:
        velocity = state.base_lin_vel[k].astype(float)
    else:
        velocity = -rotation.T @ sole_velocity[height < height.min() + STANCE].mean(0)
    d.qvel[dof : dof + 3] = rotation @ velocity
    return d.qpos.copy(), d.qvel.copy(), velocity


def _soles(body: Body) -> tuple[np.ndarray, np.ndarray]:
    """Height of the lowest point of every foot [m], (F,), and its velocity with the base at rest [m/s], (F, 3)."""
    m, d = body.model, body.data
    ground, ends, jacobian = m.geom("ground").id, np.zeros(6), np.zeros((3, m.nv))
    heights, velocities = [], []
    for geoms in _foot_geoms(body):
        nearest, point, owner = FAR * 2.0, np.zeros(3), 0
        for geom in geoms:
            distance = mujoco.mj_geomDistance(m, d, ground, geom, 2.0 * FAR, ends)
            if distance < nearest:
                nearest, point, owner = distance, ends[3:].copy(), int(m.geom_bodyid[geom])
        mujoco.mj_jac(m, d, jacobian, None, point, owner)
        heights.append(nearest)
        velocities.append(jacobian @ d.qvel)
    return np.array(heights), np.array(velocities)


def _foot_geoms(body: Body) -> list[list[int]]:
    """What of each foot, the named body and all below it, can touch the ground."""
    m = body.model
    found = []
    for name in body.foot_names:
        foot = m.body(name).id
        below = {foot}
        for child in range(foot + 1, m.nbody):
            if int(m.body_parentid[child]) in below:
                below.add(child)
        geoms = [
            g for g in range(m.ngeom) if m.geom_bodyid[g] in below and (m.geom_contype[g] or m.geom_conaffinity[g])
        ]
        if not geoms:
            raise ReplayError(f"{name} of {body.robot.name} has no shape that can stand on the ground")
        found.append(geoms)
    return found
