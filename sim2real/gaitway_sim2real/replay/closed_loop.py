"""The same policy and the same velocity commands in MuJoCo, beside what the robot did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_onboard.flight.reading import Flight
from gaitway_onboard.interface import Signals
from gaitway_onboard.safety.gains import walking_gains
from gaitway_tasks.robots.parameters import RobotParameters

from ..mujoco.body import Body
from .motion import Motion
from .open_loop import RecordedDrives
from .policy_check import load_policy
from .summary import ReplayError

FALLEN = 1.2
"""Tilt at which a walk is over [rad]."""


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """P policy steps until the end or a fall, J joints in the flight's order."""

    time: np.ndarray
    """Robot's clock [s], (P,)."""
    command: np.ndarray
    """(P, 3)"""
    robot_pos: np.ndarray
    """Recorded joint positions [rad], (P, J)."""
    robot_vel: np.ndarray
    """Recorded velocity, vx, vy [m/s] and yaw rate [rad/s], base frame, as far as it is known, (P, 3)."""
    sim_pos: np.ndarray
    """(P, J)"""
    sim_vel: np.ndarray
    """(P, 3)"""
    qpos: np.ndarray
    """Coordinates of the simulated robot, (P, nq)."""
    pos_rmse: np.ndarray
    """Root-mean-square difference of the two [rad], (J,). Gaits drift out of step, so mean and spread tell more."""
    fell: float | None
    """Seconds after the start of the policy; None if the simulated robot kept standing."""

    @property
    def velocity_rmse(self) -> np.ndarray:
        """Root-mean-square difference of the two: vx, vy [m/s], yaw rate [rad/s], (3,)."""
        result: np.ndarray = np.sqrt(((self.robot_vel - self.sim_vel) ** 2).mean(0))
        return result

    def text(self, flight: Flight) -> str:
        """One or two lines for a terminal."""
        vx, vy, yaw = self.velocity_rmse
        robot, sim = (np.abs(v - self.command).mean(0) for v in (self.robot_vel, self.sim_vel))
        fall = f"; the simulated robot FELL after {self.fell:.1f} s" if self.fell is not None else ""
        worst = int(self.pos_rmse.argmax())
        return (
            f"the same commands through MuJoCo, {len(self.time)} policy steps: velocities differ by {vx:.3f}, "
            f"{vy:.3f} m/s, {yaw:.3f} rad/s RMS; vx is off command by {robot[0]:.3f} m/s (robot) and "
            f"{sim[0]:.3f} m/s (simulation); "
            f"joints differ by {np.sqrt((self.pos_rmse**2).mean()):.3f} rad RMS, most {flight.joint_names[worst]}{fall}"
        )


def walk(
    flight: Flight, bundle: str | Path, body: Body, motion: Motion, *, parameters: RobotParameters | None = None
) -> ClosedLoop:
    """Start as the robot stood when its policy took over, and follow the recorded commands."""
    policy, steps = load_policy(flight, bundle), flight.policy
    if not len(steps):
        raise ReplayError(f"{flight.path} has no policy step: the policy was never in charge")
    contract = policy.contract
    if unknown := [name for name in contract.estimated if name != "base_lin_vel"]:
        raise ReplayError(f"{bundle} reads {', '.join(unknown)}, which a replay on flat ground does not make up")
    order = [contract.joint_names.index(name) for name in flight.joint_names]
    drives = RecordedDrives(flight, body, parameters)
    drives.effort = np.minimum(drives.effort, np.array(contract.per_joint("effort_limit"))[order])
    gains = walking_gains(contract, flight.joint_names)
    rows = np.maximum(np.searchsorted(motion.time, steps.time, side="right") - 1, 0)
    first = rows[0]
    body.put(motion.qpos[first], motion.qvel[first], hung=False)
    policy.reset()
    sim_pos, sim_vel, qpos, fell = [], [], [], None
    now, dt = float(steps.time[0]), body.model.opt.timestep
    ends = [*steps.time[1:], steps.time[-1] + contract.control_dt]
    for k, end in enumerate(ends):
        truth = body.truth(now)
        if truth.tilt > FALLEN:
            fell = float(steps.time[k] - steps.time[0])
            break
        sim_pos.append(body.joint_pos.copy())
        sim_vel.append([*truth.base_lin_vel[:2], truth.base_ang_vel[2]])
        qpos.append(body.data.qpos.copy())
        signals = Signals(
            joint_pos=truth.joint_pos,
            joint_vel=truth.joint_vel,
            imu_quat_wxyz=truth.base_quat_wxyz,
            gyro=truth.base_ang_vel,
            stamp=now,
            base_lin_vel=truth.base_lin_vel if "base_lin_vel" in contract.estimated else None,
        )
        drives.set(body, policy.step(signals, steps.command[k]).astype(float), *gains)
        while now < end - 0.5 * dt:
            body.step()
            now += dt
    count = len(sim_pos)
    if not count:
        raise ReplayError(f"{flight.path}: the robot lay on its side when the policy took over")
    state = motion.index[rows[:count]]
    robot_pos = flight.state.joint_pos[state].astype(float)
    robot_vel = np.column_stack([motion.lin_vel_b[rows[:count], :2], flight.state.gyro[state, 2]]).astype(float)
    found = np.array(sim_pos)
    return ClosedLoop(
        time=steps.time[:count],
        command=steps.command[:count],
        robot_pos=robot_pos,
        robot_vel=robot_vel,
        sim_pos=found,
        sim_vel=np.array(sim_vel),
        qpos=np.array(qpos),
        pos_rmse=np.sqrt(((found - robot_pos) ** 2).mean(0)),
        fell=fell,
    )
