"""The MuJoCo world on the CPU: state for terms to read, and the randomisation that events write."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import torch
from gaitway_tasks.math import quat_apply_inverse
from gaitway_tasks.robots.clock import untimed
from gaitway_tasks.robots.mjcf import DriveParameters
from gaitway_tasks.spec import Task
from mujoco.batch import Batch
from torch import Tensor

from .model import PhysicsOptions
from .objects import MujocoObjectState, object_states
from .shared import PHYSICS_STATE, TOP_SPEED, ModelWorld
from .state import NOW, MujocoRobotState


class MujocoWorld(ModelWorld):
    """Implements :class:`gaitway_tasks.world.EditableWorld` on ``mujoco.batch.Batch``."""

    def __init__(
        self, task: Task, num_envs: int, generator: torch.Generator, options: PhysicsOptions, num_threads: int = 0
    ):
        super().__init__(task, num_envs, generator, options, torch.device("cpu"))
        self.batch = Batch(self.model, num_envs, num_threads)
        self.drives = DriveParameters(self.model, lambda field: self._expand(field).numpy())
        self._network = None
        if self.has_network:
            from gaitway_tasks.actuator_network import NetworkDrives

            assert self.spec.parameters is not None and self.spec.parameters.actuator_network is not None
            path = self.spec.parameters.actuator_network
            self._network = NetworkDrives(path, self.spec, task.timing.physics_dt, num_envs)
        names = [name for name in PHYSICS_STATE if name != "history" or self.has_delay_lines]
        self._fields = {name: torch.from_numpy(self.batch.bind(name)) for name in names}
        self._time, self._qpos, self._qvel = (self.batch.bind(name) for name in ("time", "qpos", "qvel"))
        self._ctrl = self.batch.bind("ctrl")
        self._network_target = self.joint_pos_target
        self._stale_constants: list[Tensor] = []
        self._stale_delay_lines: list[np.ndarray] = []
        self._stale_kinematics: list[np.ndarray] = []
        bodies = self.bodies_read()
        self._stage = int(mujoco.mjtStage.mjSTAGE_VEL if bodies == NOW else mujoco.mjtStage.mjSTAGE_NONE)
        self.robot = MujocoRobotState(self.batch, self.model, self.spec, bodies=bodies)
        self.objects: dict[str, MujocoObjectState] = object_states(
            self._fields["qpos"], self._fields["qvel"], self.model, tuple(task.objects)
        )
        self._delay_lines: np.ndarray | None = None
        if self.has_delay_lines:  # the values of each actuator's row [user, cursor, times (n), values (n)]
            samples = int(self.model.actuator_history[0, 0])
            rows = self.batch.bind("history").reshape(num_envs, self.spec.num_joints, -1)
            self._delay_lines = rows[:, :, 2 + samples : 2 + 2 * samples]

    def _field(self, name: str) -> Tensor:
        return torch.from_numpy(self.batch.expand(name))

    def _masses_changed(self, env_ids: Tensor) -> None:
        self._stale_constants.append(env_ids)

    def _moved(self, env_ids: Tensor) -> None:
        self._stale_kinematics.append(env_ids.numpy())

    def _array(self, tensor: Tensor) -> np.ndarray:
        return (tensor.double() if tensor.is_floating_point() else tensor).numpy()

    # ---- stepping --------------------------------------------------------------------------------------------------

    def _hold(self, target: Tensor) -> None:
        if self._network is None:
            self._ctrl[:] = target.numpy()
        else:
            self._network_target = target

    def step_physics(self) -> None:
        """Advance one control period. A simulation that had to be restarted is marked ``diverged``.

        MuJoCo restarts one, at time 0, when it finds a number that is not finite or huge.
        """
        before = self._time.copy()
        with untimed():
            if self._network is None:
                self.batch.step(nstep=self.task.timing.decimation, stage=self._stage)
            else:
                self._step_network()
        restarted = (self._time < before + 0.5 * self.step_dt).reshape(self.num_envs)
        # Two passes over all speeds cost less than one for each environment. A NaN fails both comparisons.
        if not (self._qvel.max() <= TOP_SPEED and self._qvel.min() >= -TOP_SPEED):
            exploding = ~(np.abs(self._qvel).max(1) <= TOP_SPEED)
            self.batch.reset(np.flatnonzero(exploding))
            restarted |= exploding
        self.diverged = torch.from_numpy(restarted)
        if not self.spec.fixed_base:
            self.ground.keep(self._fields["qpos"][:, :2])

    def _step_network(self) -> None:
        """Step with an actuator network, which is evaluated before every physics step because it reads each state."""
        assert self._network is not None
        qpos, qvel, ctrl = self._fields["qpos"], self._fields["qvel"], self._fields["ctrl"]
        for _ in range(self.task.timing.decimation):
            pos, vel = qpos[:, self.robot.qpos_adr].float(), qvel[:, self.robot.qvel_adr].float()
            ctrl.copy_(self._network.torque(self._network_target - pos, vel))
            self.batch.step(nstep=1, stage=self._stage)

    def reset_physics(self, env_ids: Tensor) -> None:
        """Reset to the model's initial state; the reset events then write poses."""
        rows = env_ids.numpy()
        self.batch.reset(rows, stage=0)
        self.ground.restart(env_ids)
        self._time[rows] = self.step_dt  # not 0, which marks a simulation that MuJoCo restarted
        self._stale_delay_lines.append(rows)
        if self._network is not None:
            self._network.reset(env_ids)
        self.robot.reset(rows)
        self.action = self.action.index_fill(0, env_ids, 0.0)
        self.previous_action = self.previous_action.index_fill(0, env_ids, 0.0)
        self._stale_kinematics.append(rows)

    def finish_events(self) -> None:
        """Make derived constants, delay lines and the kinematic state current after events wrote to the world."""
        if self._stale_constants:
            self.batch.set_const(torch.cat(self._stale_constants).unique().numpy())
            self._stale_constants.clear()
        for rows in self._stale_delay_lines:
            self._fill_delay_lines(rows)
        self._stale_delay_lines.clear()
        if self._stale_kinematics:
            self.robot.correct_kinematics(np.concatenate(self._stale_kinematics))
            self._stale_kinematics.clear()

    # ---- write side ------------------------------------------------------------------------------------------------

    def set_motor_strength(self, env_ids: Tensor, strength: Tensor) -> None:
        if self._network is None:
            super().set_motor_strength(env_ids, strength)
        else:
            self._check_strength(strength)
            self._network.strength[env_ids] = strength

    def write_root_state(
        self, env_ids: Tensor, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None:
        self._refuse_fixed_base()
        self._check_finite(
            root_position=pos_w, root_rotation=quat_wxyz, root_velocity=lin_vel_w, root_turning=ang_vel_b
        )
        rows = env_ids.numpy()
        self._qpos[rows, 0:3], self._qpos[rows, 3:7] = pos_w.numpy(), quat_wxyz.numpy()
        self._qvel[rows, 0:3], self._qvel[rows, 3:6] = lin_vel_w.numpy(), ang_vel_b.numpy()
        self._stale_kinematics.append(rows)

    def write_joint_state(self, env_ids: Tensor, pos: Tensor, vel: Tensor) -> None:
        self._check_finite(joint_position=pos, joint_velocity=vel)
        rows = env_ids.numpy()
        for field, columns, values in (
            (self._qpos, self.robot.qpos_adr, pos.numpy()),
            (self._qvel, self.robot.qvel_adr, vel.numpy()),
        ):
            state = field[rows]
            state[:, columns] = values
            field[rows] = state
        self._stale_kinematics.append(rows)

    def add_root_velocity(self, env_ids: Tensor, lin_vel_w: Tensor, ang_vel_w: Tensor) -> None:
        self._refuse_fixed_base()
        self._check_finite(root_velocity=lin_vel_w, root_turning=ang_vel_w)
        rows = env_ids.numpy()
        ang_vel_b = quat_apply_inverse(torch.from_numpy(self._qpos[rows, 3:7].astype(np.float32)), ang_vel_w)
        self._qvel[rows, 0:3] += lin_vel_w.numpy()
        self._qvel[rows, 3:6] += ang_vel_b.numpy()
        self._stale_kinematics.append(rows)

    def _fill_delay_lines(self, rows: np.ndarray) -> None:
        """Fill the delay lines with the default pose after a reset; MuJoCo would fill them with zero."""
        if self._delay_lines is None:
            return
        target = self.default_joint_pos.numpy().astype(np.float64)[None]
        if self.robot.joint_offset is not None:
            target = target - self.robot.joint_offset.numpy()[rows]
        self._delay_lines[rows] = target[:, :, None]

    # ---- checkpoint ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "physics": {name: field.clone() for name, field in self._fields.items()},
            "model": {name: torch.from_numpy(self.batch.expand(name).copy()) for name in sorted(self.randomised)},
            "network": None if self._network is None else self._network.state_dict(),
            **self._state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state["model"].items():
            self._expand(name).copy_(value)
        if state["model"]:
            self.batch.set_const()
        for name, value in state["physics"].items():
            self._fields[name].copy_(value)
        if self._network is not None:
            self._network.load_state_dict(state["network"])
        self._load_state(state)
        self.robot.update_kinematics()
