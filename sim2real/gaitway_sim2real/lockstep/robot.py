"""A simulated robot behind the interface of a real one. Needs MuJoCo, never torch.

It knows the bundle's contract and an MJCF, nothing of the task: what runs here is what runs on the robot.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.interface import Array, Signals
from gaitway_onboard.safety.gains import walking_gains
from gaitway_tasks.ground import LEVEL, Ground
from gaitway_tasks.robots.mjcf import DriveParameters

from ..mujoco.estimates import true_estimates
from ..mujoco.plant import build_plant, start_pose


class LockstepRobot:
    """Implements :class:`gaitway_onboard.interface.RobotInterface` on one MuJoCo simulation.

    Joints are reported in the model's own order. Time is the simulation's; with ``realtime`` it also waits for the
    wall clock.
    """

    def __init__(
        self,
        bundle: str | Path,
        model: str | Path | None = None,
        *,
        realtime: bool = False,
        visual: bool = False,
        ground: Ground = LEVEL,
    ):
        """``model`` is any MJCF with the contract's joints; without it, the bundle's robot.xml.

        The robot starts at the origin of ``ground``.
        """
        bundle = Path(bundle)
        contract = Contract.load(bundle)
        own = bundle / "robot.xml"
        self.plant = plant = build_plant(contract, Path(model or own), own, ground=ground, visual=visual)
        self.model, self.data = plant.model, mujoco.MjData(plant.model)
        order = np.argsort(plant.joint_dof)
        self.joint_names = tuple(contract.joint_names[i] for i in order)
        self._qpos, self._dof, self._ctrl = plant.joint_qpos[order], plant.joint_dof[order], order
        self._realtime, self._damping = realtime, True
        self._held: tuple[Array, Array] | None = None
        base, dof, fixed = plant.base_qpos, plant.base_dof, plant.fixed_pose
        pose = self.data.qpos[base : base + 7] if fixed is None else fixed.copy()
        self._pos, self._quat = pose[:3], pose[3:]
        self._vel = self.data.qvel[dof : dof + 6] if fixed is None else np.zeros(6)
        self._drives = DriveParameters(self.model)
        self._own_gains = walking_gains(contract, self.joint_names)
        self._contract = contract
        self.place(contract.default_joint_pos)
        self._wall_start = time.monotonic()

    def place(self, joint_pos: Array | tuple[float, ...]) -> None:
        """Start anew at rest, square on the ground, with joints (contract order) at ``joint_pos`` [rad]."""
        mujoco.mj_resetData(self.model, self.data)
        if self.plant.fixed_pose is None:
            pos, quat = start_pose(self.plant, self.plant.start_height, np.zeros(1))
            self._pos[:], self._quat[:] = pos[0], quat[0]
        self.data.qpos[self.plant.joint_qpos] = joint_pos
        mujoco.mj_forward(self.model, self.data)

    def hold(self, held: bool) -> None:
        """Keep the base where it is, as a stand does, or let it go."""
        if not held:
            self._held = None
        elif self._held is None:
            self._held = self._pos.copy(), self._quat.copy()

    def clock(self) -> float:
        return float(self.data.time)

    def sleep_until(self, deadline: float) -> None:
        data, half = self.data, 0.5 * self.model.opt.timestep
        while data.time < deadline - half:
            if self._damping:
                data.ctrl[self._ctrl] = data.qpos[self._qpos]  # no position error: only the damping term is left
            mujoco.mj_step(self.model, data)
            if self._held is not None:
                self._pos[:], self._quat[:], self._vel[:] = *self._held, 0.0
        if self._realtime:
            time.sleep(max(0.0, self._wall_start + data.time - time.monotonic()))

    def read(self) -> Signals:
        quat = self.plant.frame.orientation(self._quat)
        imu = self.plant.fixed_pose is None
        return Signals(
            joint_pos=self.data.qpos[self._qpos],
            joint_vel=self.data.qvel[self._dof],
            imu_quat_wxyz=quat.copy() if imu else None,
            gyro=self._gyro().copy() if imu else None,
            stamp=float(self.data.time),
            joint_torque=self.data.actuator_force[self._ctrl],
            **self._truth(quat),
        )

    def _truth(self, quat: Array) -> dict[str, Any]:
        """The simulation's own values in place of estimates: the velocity, and what else the policy asks for."""
        position, velocity = self.plant.frame.position(self._pos, self._quat)[None], self.lin_vel()[None]
        objects = {name: self.data.qpos[None, at : at + 3] for name, (at, _) in self.plant.objects.items()}
        found = true_estimates(self._contract, position, quat[None], lambda: velocity, self.plant.ground, objects)
        return {name: value[0] for name, value in ({"base_lin_vel": velocity} | found).items()}

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        self._damping = False
        self.data.ctrl[self._ctrl] = targets
        self._set_gains(stiffness, damping)

    def damp(self) -> None:
        self._damping = True
        self._set_gains(*self._own_gains)

    def _set_gains(self, stiffness: Array | float, damping: Array | float) -> None:
        """Gains in the robot's order."""
        kp, kd = np.zeros((2, len(self._ctrl)))
        kp[self._ctrl], kd[self._ctrl] = stiffness, damping
        self._drives.write(kp, kd)

    def close(self) -> None:
        pass

    def base_velocity(self) -> Array:
        """Velocity that no robot measures: vx, vy [m/s] and yaw rate [rad/s] of the contract's base frame, (3,)."""
        return np.array([*self.lin_vel()[:2], self._gyro()[2]])

    def _gyro(self) -> Array:
        return self.plant.frame.ang_vel(self._vel[3:])

    def lin_vel(self) -> Array:
        """Velocity of the contract's base in its own frame [m/s], (3,)."""
        return self.plant.frame.lin_vel(self._quat, self._vel[:3], self._vel[3:])

    def base_height(self) -> float:
        """Above the ground that carries it [m]."""
        return float(self.plant.ground.base_height(self._pos))
