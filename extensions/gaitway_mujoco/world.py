"""The MuJoCo world: state for terms to read, and the randomisation that events write."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.commands import Command
from gaitway_tasks.math import all_finite, quat_apply_inverse, yaw_of
from gaitway_tasks.mdp import indices
from gaitway_tasks.robots.clock import untimed
from gaitway_tasks.robots.mjcf import DriveParameters, compensate_known, ground_geoms
from gaitway_tasks.signals import BODIES, read_by
from gaitway_tasks.spec import Task
from mujoco.batch import Batch
from torch import Tensor

from .model import PhysicsOptions, build_model, delay_line, drives_are_network
from .objects import MujocoObjectState, object_states
from .state import LED_TO_IT, NOW, MujocoRobotState

PHYSICS_STATE = ("qpos", "qvel", "qacc_warmstart", "ctrl", "history", "time")
TOP_SPEED = 1e3  # [m/s, rad/s] no robot gets near it; MuJoCo itself lets a diverging one reach 1e10


class MujocoWorld:
    """Implements :class:`gaitway_tasks.world.EditableWorld` on ``mujoco.batch.Batch``."""

    contact_time_tolerance = 1e-8

    def __init__(
        self, task: Task, num_envs: int, generator: torch.Generator, options: PhysicsOptions, num_threads: int = 0
    ):
        self.task, self.spec, self.num_envs, self.generator = task, task.robot, num_envs, generator
        self.options = options
        self.device = torch.device("cpu")
        self.step_dt = task.timing.step_dt
        self.max_episode_length = task.timing.max_episode_length
        self.model = build_model(task, options)
        for name, scanner in task.height_scanners.items():
            if scanner.body not in (None, self.spec.base_name):
                raise UserError(
                    f"{task.name}: height scanner {name!r} hangs from the body {scanner.body!r}, and this world has "
                    f"them under the base only: use --world isaaclab, or set task.height_scanners.{name}.body=null"
                )
        self._ground_geoms = torch.from_numpy(ground_geoms(self.model))
        self.ground = task.ground.under(self)
        self.batch = Batch(self.model, num_envs, num_threads)
        self._drives = DriveParameters(self.model, lambda field: self._expand(field).numpy())
        self._network = None
        if drives_are_network(self.spec):
            from gaitway_tasks.actuator_network import NetworkDrives

            assert self.spec.parameters is not None and self.spec.parameters.actuator_network is not None
            path = self.spec.parameters.actuator_network
            self._network = NetworkDrives(path, self.spec, task.timing.physics_dt, num_envs)
        self._fields = {name: torch.from_numpy(self.batch.bind(name)) for name in PHYSICS_STATE if self._has(name)}
        self._time, self._qpos, self._qvel = (self.batch.bind(name) for name in ("time", "qpos", "qvel"))
        self._ctrl = self.batch.bind("ctrl")
        joints = self.spec.num_joints
        self.default_joint_pos = torch.tensor(self.spec.default_joint_pos)
        self.soft_joint_pos_limits = torch.tensor(self.spec.soft_joint_limits())
        self._targets = task.actions.targets(self.spec, self.device)
        self.action = torch.zeros(num_envs, task.actions.num(self.spec))
        self.previous_action = torch.zeros_like(self.action)
        self.joint_pos_target = self._network_target = self.default_joint_pos.expand(num_envs, -1)
        """Encoder targets of the last action [rad], (N, J)."""
        self.episode_step = torch.zeros(num_envs, dtype=torch.int64)
        self.terminated = torch.zeros(num_envs, dtype=torch.bool)
        self.diverged = torch.zeros(num_envs, dtype=torch.bool)
        self.commands: dict[str, Any] = {}
        self.growth: Tensor | None = None
        self.style: Tensor | None = None
        self.reward_weights: dict[str, Tensor] = {}
        self._stiffness = torch.ones(num_envs, joints)
        self._damping = torch.ones(num_envs, joints)
        self._strength = torch.ones(num_envs, joints)
        self._stale_constants: list[Tensor] = []
        self._stale_delay_lines: list[np.ndarray] = []
        self._stale_kinematics: list[np.ndarray] = []
        self.randomised: set[str] = set()
        """Model fields that have per-environment values."""
        observed = (term for group in task.observations.values() for term in group.terms.values())
        terms = (*task.rewards.values(), *task.terminations.values(), *task.events.values(), *task.curriculum.values())
        bodies = NOW if read_by(observed) & BODIES else LED_TO_IT if read_by(terms) & BODIES else None
        self._stage = int(mujoco.mjtStage.mjSTAGE_VEL if bodies == NOW else mujoco.mjtStage.mjSTAGE_NONE)
        self.robot = MujocoRobotState(self.batch, self.model, self.spec, bodies=bodies)
        self.objects: dict[str, MujocoObjectState] = object_states(self.batch, self.model, tuple(task.objects))
        self._delay_lines: np.ndarray | None = None
        if self._has("history"):  # the values of each actuator's row [user, cursor, times (n), values (n)]
            samples = int(self.model.actuator_history[0, 0])
            rows = self.batch.bind("history").reshape(num_envs, joints, -1)
            self._delay_lines = rows[:, :, 2 + samples : 2 + 2 * samples]

    def _has(self, field: str) -> bool:
        return field != "history" or self.model.nhistory > 0

    # ---- read side -------------------------------------------------------------------------------------------------

    def command(self, name: str) -> Tensor:
        return self.commands[name].command

    def command_of(self, name: str) -> Command:
        return self.commands[name].of

    def settling(self, name: str) -> Tensor | None:
        return self.commands[name].settling

    def contact_force_norm(self, bodies: str) -> Tensor:
        return self.robot.contact_force_norm.index_select(1, indices.bodies(self, bodies))

    def object_pos(self, name: str) -> Tensor:
        way = self._object(name).root_pos_w - self.robot.root_pos_w
        return quat_apply_inverse(self.robot.root_quat_wxyz, way)

    def _object(self, name: str) -> MujocoObjectState:
        if name not in self.objects:
            told = ", ".join(self.objects) or "no objects"
            raise UserError(f"{self.task.name} has no object {name!r}: it has {told}; declare it in task.objects")
        return self.objects[name]

    def height_scan(self, name: str) -> Tensor:
        scanner = self.task.height_scanners[name]
        xs, ys = (torch.arange(-length / 2, length / 2 + 1e-9, scanner.resolution) for length in scanner.size)
        grid_y, grid_x = torch.meshgrid(ys, xs, indexing="ij")
        points = torch.stack((grid_x.flatten(), grid_y.flatten()), 1)
        return self.ground.scan(points, self.robot.root_pos_w, yaw_of(self.robot.root_quat_wxyz))

    # ---- stepping --------------------------------------------------------------------------------------------------

    def apply_action(self, action: Tensor) -> None:
        """Hold joint targets for ``action`` (N, A) until the next control step."""
        if (limit := self.task.actions.raw_clip) is not None:
            action = action.clamp(-limit, limit)
        self.previous_action, self.action = self.action, action
        self.joint_pos_target = target = self._targets(action)
        if self.robot.joint_offset is not None:
            target = target - self.robot.joint_offset
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

    def write_root_state(
        self, env_ids: Tensor, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None:
        self._refuse_fixed_base()
        _check_finite(root_position=pos_w, root_rotation=quat_wxyz, root_velocity=lin_vel_w, root_turning=ang_vel_b)
        rows = env_ids.numpy()
        self._qpos[rows, 0:3], self._qpos[rows, 3:7] = pos_w.numpy(), quat_wxyz.numpy()
        self._qvel[rows, 0:3], self._qvel[rows, 3:6] = lin_vel_w.numpy(), ang_vel_b.numpy()
        self._stale_kinematics.append(rows)

    def write_object_state(
        self, env_ids: Tensor, name: str, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None:
        _check_finite(position=pos_w, rotation=quat_wxyz, velocity=lin_vel_w, turning=ang_vel_b)
        self._object(name).write(
            env_ids.numpy(), torch.cat((pos_w, quat_wxyz), 1), torch.cat((lin_vel_w, ang_vel_b), 1)
        )
        self._stale_kinematics.append(env_ids.numpy())

    def set_object_mass_scale(self, env_ids: Tensor, name: str, factor: Tensor) -> None:
        self._object(name)
        self.set_mass_scale(env_ids, factor, name)

    def write_joint_state(self, env_ids: Tensor, pos: Tensor, vel: Tensor) -> None:
        _check_finite(joint_position=pos, joint_velocity=vel)
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
        _check_finite(root_velocity=lin_vel_w, root_turning=ang_vel_w)
        rows = env_ids.numpy()
        ang_vel_b = quat_apply_inverse(torch.from_numpy(self._qpos[rows, 3:7].astype(np.float32)), ang_vel_w)
        self._qvel[rows, 0:3] += lin_vel_w.numpy()
        self._qvel[rows, 3:6] += ang_vel_b.numpy()
        self._stale_kinematics.append(rows)

    def lay_fields(self, heights: np.ndarray) -> None:
        """Heights of the height fields (T, X, Y), in [0, 1] of the model's, x first."""
        self.model.hfield_data[:] = heights.transpose(0, 2, 1).ravel()

    def choose_field(self, env_ids: Tensor, field: Tensor) -> None:
        """Number of the height field that is the ground of each of ``env_ids``, (n,)."""
        self.batch.expand("geom_dataid")[env_ids.numpy(), int(self._ground_geoms[0])] = field.numpy()

    def set_friction(self, env_ids: Tensor, friction: Tensor) -> None:
        _check_finite(friction=friction)
        if (friction < 0.0).any():
            raise UserError(f"friction {float(friction.min()):.3g}: it cannot be negative")
        self._expand("geom_friction")[env_ids[:, None], self._ground_geoms, 0] = friction.double()[:, None]

    def set_ground_impedance(self, env_ids: Tensor, impedance: Tensor) -> None:
        """``solimp`` from ``impedance`` at first touch to halfway between it and 1."""
        _check_finite(ground_impedance=impedance)
        if ((impedance <= 0.0) | (impedance >= 1.0)).any():
            bad = impedance.min() if (impedance <= 0.0).any() else impedance.max()
            raise UserError(f"ground impedance {float(bad):.3g}: it must lie strictly between 0 and 1")
        solimp = self._expand("geom_solimp")
        rows, hardness = env_ids[:, None], impedance[:, None]
        solimp[rows, self._ground_geoms, 0] = hardness.double()
        solimp[rows, self._ground_geoms, 1] = (0.5 + 0.5 * hardness).double()

    def set_added_mass(self, env_ids: Tensor, kilograms: Tensor) -> None:
        _check_finite(added_mass=kilograms)
        mass = self.model.body(self.spec.base_name).mass.item()
        ratio = 1.0 + kilograms.double() / mass
        if (ratio <= 0.0).any():
            raise UserError(
                f"added mass of {float(kilograms.min()):.3g} kg leaves the base, which weighs {mass:.3g} kg, without "
                "mass: raise the lower end of the range"
            )
        self.set_mass_scale(env_ids, ratio)

    def set_mass_scale(self, env_ids: Tensor, factor: Tensor, body: str | None = None) -> None:
        _check_finite(mass_scale=factor)
        if (factor <= 0.0).any():
            raise UserError(f"mass scale {float(factor.min()):.3g}: it must be positive")
        row, ratio = self.model.body(body or self.spec.base_name).id, factor.double()
        self._expand("body_mass")[env_ids, row] = self.model.body_mass[row] * ratio
        compensate_known(self.model, lambda field: self._expand(field).numpy())
        inertia = torch.from_numpy(self.model.body_inertia[row].copy())
        self._expand("body_inertia")[env_ids, row] = ratio[:, None] * inertia
        self._stale_constants.append(env_ids)

    def set_com_offset(self, env_ids: Tensor, offset: Tensor) -> None:
        _check_finite(com_offset=offset)
        base = self.model.body(self.spec.base_name).id
        com = torch.from_numpy(self.model.body_ipos[base].copy())
        self._expand("body_ipos")[env_ids, base] = com + offset.double()
        self._stale_constants.append(env_ids)

    def set_gain_scale(self, env_ids: Tensor, stiffness: Tensor, damping: Tensor) -> None:
        _check_finite(stiffness=stiffness, damping=damping)
        if (stiffness < 0.0).any() or (damping < 0.0).any():
            raise UserError("a gain factor is negative: the joint would push itself away from its target")
        self._refuse_network("gains")
        self._stiffness[env_ids], self._damping[env_ids] = stiffness, damping
        self._write_actuators(env_ids)

    def set_motor_strength(self, env_ids: Tensor, strength: Tensor) -> None:
        _check_finite(motor_strength=strength)
        if (strength <= 0.0).any():
            raise UserError(f"motor strength {float(strength.min()):.3g}: it must be positive")
        if self._network is not None:
            self._network.strength[env_ids] = strength
            return
        self._strength[env_ids] = strength
        self._write_actuators(env_ids)

    def set_joint_offset(self, env_ids: Tensor, offset: Tensor) -> None:
        _check_finite(joint_offset=offset)
        if self.robot.joint_offset is None:
            self.robot.joint_offset = torch.zeros(self.num_envs, self.spec.num_joints)
        self.robot.joint_offset[env_ids] = offset
        self._stale_kinematics.append(env_ids.numpy())

    def set_action_delay(self, env_ids: Tensor, seconds: Tensor) -> None:
        if not len(env_ids):
            return
        _check_finite(action_delay=seconds)
        shortest, longest = float(seconds.min()), float(seconds.max())
        if shortest < 0.0:
            raise UserError(f"action delay {shortest:.3g} s: it cannot be negative")
        self._refuse_network("delay")
        if longest > delay_line(self.task, self.options) + 1e-9:
            raise UserError(
                f"action delay {longest:.3g} s exceeds the delay line: set max_action_delay >= {longest:.3g}"
            )
        self._expand("actuator_delay").numpy()[env_ids.numpy()] = seconds.numpy()[:, None]

    def _refuse_fixed_base(self) -> None:
        if self.spec.fixed_base:
            raise UserError(f"the base of {self.spec.name} is fixed: leave out the events that move or push it")

    def _refuse_network(self, what: str) -> None:
        if self._network is not None:
            raise UserError(f"the drives are an actuator network, which has its {what} in it: leave that event out")

    def _expand(self, field: str) -> Tensor:
        self.randomised.add(field)
        return torch.from_numpy(self.batch.expand(field))

    def _write_actuators(self, env_ids: Tensor) -> None:
        """Put gain factors and motor strength into the drives."""
        gains = zip((self._drives.stiffness, self._drives.damping), (self._stiffness, self._damping), strict=True)
        stiffness, damping = (torch.tensor(law).float() * factor[env_ids] for law, factor in gains)
        strength = self._strength[env_ids].double()
        self._drives.write(
            stiffness.double().numpy(), damping.double().numpy(), strength=strength.numpy(), rows=env_ids.numpy()
        )

    def _fill_delay_lines(self, rows: np.ndarray) -> None:
        """Fill the delay lines with the default pose after a reset; MuJoCo would fill them with zero."""
        if self._delay_lines is None:
            return
        target = self.default_joint_pos.numpy().astype(np.float64)[None]
        if self.robot.joint_offset is not None:
            target = target - self.robot.joint_offset.numpy()[rows]
        self._delay_lines[rows] = target[:, :, None]

    # ---- checkpoint ------------------------------------------------------------------------------------------------

    BUFFERS = ("action", "previous_action", "episode_step", "_stiffness", "_damping", "_strength")

    def state_dict(self) -> dict[str, Any]:
        return {
            "physics": {name: field.clone() for name, field in self._fields.items()},
            "model": {name: torch.from_numpy(self.batch.expand(name).copy()) for name in sorted(self.randomised)},
            "buffers": {name: getattr(self, name).clone() for name in self.BUFFERS},
            "joint_offset": None if self.robot.joint_offset is None else self.robot.joint_offset.clone(),
            "air_times": {name: getattr(self.robot, name).clone() for name in self.robot.AIR_TIMES},
            "network": None if self._network is None else self._network.state_dict(),
            "ground": self.ground.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state["model"].items():
            self._expand(name).copy_(value)
        if state["model"]:
            self.batch.set_const()
        for name, value in state["physics"].items():
            self._fields[name].copy_(value)
        for name, value in state["buffers"].items():
            setattr(self, name, value.clone())
        self.robot.joint_offset = None if state["joint_offset"] is None else state["joint_offset"].clone()
        for name, value in state["air_times"].items():
            setattr(self.robot, name, value.clone())
        if self._network is not None:
            self._network.load_state_dict(state["network"])
        self.ground.load_state_dict(state.get("ground", {}))  # checkpoints of earlier versions do not have it
        self.robot.update_kinematics()


def _check_finite(**values: Tensor) -> None:
    """Raise for what an event writes that is NaN or infinite: MuJoCo would restart the robot in silence."""
    for name, value in values.items():
        if not all_finite(value):
            row = int((~value.isfinite()).nonzero()[0, 0])
            raise UserError(f"{name.replace('_', ' ')} is {value[row].tolist()} in row {row}: it must be finite")
