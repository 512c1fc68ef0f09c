"""The MuJoCo Warp world: the model of the CPU's world, stepped on a GPU."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp
from gaitway_files.errors import UserError
from gaitway_tasks.math import quat_apply_inverse
from gaitway_tasks.robots.mjcf import DriveParameters
from gaitway_tasks.spec import Task
from torch import Tensor

from ..objects import object_states
from ..options import WarpOptions
from ..shared import PHYSICS_STATE, TOP_SPEED, ModelWorld
from ..state import NOW
from .sizes import measured
from .state import WarpRobotState

wp.config.log_level = wp.LOG_WARNING  # not a line for each of a hundred kernels

DERIVED = ("body_subtreemass", "body_invweight0", "dof_invweight0", "tendon_invweight0", "actuator_acc0")
"""Fields of the model that follow from masses, inertias and centres of mass."""
OVERFLOWS = {
    mjw.OverflowType.NEFC: "njmax", mjw.OverflowType.NJMAX_NNZ: "njmax", mjw.OverflowType.BROADPHASE: "nconmax",
    mjw.OverflowType.NARROWPHASE: "nconmax", mjw.OverflowType.CCD: "nconmax", mjw.OverflowType.HFIELD: None,
    mjw.OverflowType.CONTACT_MATCH: None,
}  # fmt: skip
"""Buffers that lose contacts or their constraints when they are full, and the setting of each."""
LOST = int(sum(OVERFLOWS))
BODIES = ("xpos", "xquat", "xipos", "subtree_com", "cvel")
"""Arrays of which poses and twists of bodies are made."""
CCD_ITERATIONS = 500
"""Of convex collisions with height fields, whose small faces take more than the 35 of MuJoCo."""
MATCHES = 500
"""Most contacts in a robot's neighbourhood that a contact sensor looks at; 64 on level ground."""


class WarpWorld(ModelWorld):
    """Implements :class:`gaitway_tasks.world.EditableWorld` on MuJoCo Warp, float32 on ``device``.

    The simulation's arrays are tensors that share its memory: events write into them in place. On a GPU the physics of
    a control step is one CUDA graph, recorded anew after a field of the model has got a row for each environment.
    """

    options: WarpOptions
    robot: WarpRobotState

    def __init__(
        self, task: Task, num_envs: int, generator: torch.Generator, options: WarpOptions, device: torch.device
    ):
        super().__init__(task, num_envs, generator, options, device)
        if self.has_network:
            raise UserError("the drives are an actuator network, which MuJoCo Warp does not step: use --world mujoco")
        rows, contacts = measured(self.model, task)
        self.njmax, self.nconmax = options.njmax or rows, options.nconmax or contacts
        with self._device():
            try:
                self._m = mjw.put_model(self.model)
            except NotImplementedError as error:
                raise UserError(f"MuJoCo Warp cannot step {task.name}: {error} Use --world mujoco") from None
            self._m.opt.warn_overflow = 0
            self._m.opt.deterministic = mjw.DeterminismType.ALL if options.deterministic else 0
            if self.model.nhfield:
                self._m.opt.ccd_iterations = CCD_ITERATIONS
                self._m.opt.contact_sensor_maxmatch = MATCHES
            self._d = mjw.make_data(self.model, nworld=num_envs, njmax=self.njmax, nconmax=self.nconmax)
        self._expanded: dict[str, Tensor] = {}
        self._graphs: dict[str, Any] = {}
        self._views: dict[str, Tensor] = {}
        names = [name for name in PHYSICS_STATE if name != "history" or self.has_delay_lines]
        self._fields = {name: self._read(name) for name in names}
        start = mujoco.MjData(self.model)
        start.time = self.step_dt
        self._start = {name: self._like(field, getattr(start, name)) for name, field in self._fields.items()}
        for name, field in self._fields.items():
            field[:] = self._start[name]
        self._overflow = self._read("overflow")
        self.drives = DriveParameters(self.model, self._expand, self._on_device)
        bodies = self.bodies_read()
        self._bodies_now = bodies == NOW
        self._run("kinematics", self._kinematics)
        self.robot = WarpRobotState(self._read, self.model, self.spec, bodies=bodies)
        read = ("qacc", "actuator_force", "sensordata", *(BODIES if bodies else ()))
        self._outputs = {name: self._read(name) for name in read}
        self._start |= {name: output[0].clone() for name, output in self._outputs.items()}
        self.objects = object_states(self._fields["qpos"], self._fields["qvel"], self.model, tuple(task.objects))
        self._stale_kinematics = False
        self._stale_constants: list[Tensor] = []
        self._stale_delay_lines: list[Tensor] = []
        if self.has_delay_lines:  # each actuator's row [user, cursor, times (n), values (n)]
            samples = int(self.model.actuator_history[0, 0])
            rows_ = self._fields["history"].view(num_envs, self.spec.num_joints, -1)
            self._delay_times = rows_[:, :, 2 : 2 + samples]
            self._delay_lines = rows_[:, :, 2 + samples : 2 + 2 * samples]

    # ---- arrays ----------------------------------------------------------------------------------------------------

    def _device(self) -> Any:
        return wp.ScopedDevice(str(self.device))

    def _read(self, name: str) -> Tensor:
        """The simulation's array ``name`` as a tensor that shares its memory, (N, ...)."""
        if name not in self._views:
            self._views[name] = wp.to_torch(getattr(self._d, name))
        return self._views[name]

    def _field(self, name: str) -> Tensor:
        if name not in self._expanded:
            own = getattr(self._m, name)
            rows = torch.from_numpy(own.numpy()).to(self.device)
            self._expanded[name] = values = rows.expand(self.num_envs, *rows.shape[1:]).clone()
            array = wp.from_torch(values, dtype=own.dtype)
            array._is_batched = own._is_batched
            setattr(self._m, name, array)
            self._graphs.clear()  # a graph keeps the address of the array before
        return self._expanded[name]

    def _on_device(self, array: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(array).to(self.device)
        return tensor.float() if tensor.is_floating_point() else tensor

    def _like(self, field: Tensor, value: Any) -> Tensor:
        """``value`` in the shape of a row of ``field``."""
        return torch.as_tensor(value, dtype=field.dtype, device=self.device).reshape(field.shape[1:])

    # ---- stepping --------------------------------------------------------------------------------------------------

    def _run(self, name: str, work: Callable[[], None]) -> None:
        """Do ``work`` on the device, in the order of torch's own work; on a GPU as a graph that is kept as ``name``."""
        with self._device():
            if self.device.type == "cpu":
                work()
                return
            stream = wp.stream_from_torch(torch.cuda.current_stream(self.device))
            if name not in self._graphs:
                self._graphs[name] = self._recorded(work, stream)
            wp.capture_launch(self._graphs[name], stream=stream)

    def _recorded(self, work: Callable[[], None], stream: Any) -> Any:
        """CUDA graph of ``work``, whose kernels are compiled and loaded before; the state stays as it is."""
        before = {name: field.clone() for name, field in self._fields.items()}
        with wp.ScopedStream(stream):
            work()
        for name, field in self._fields.items():
            field.copy_(before[name])
        torch.cuda.synchronize(self.device)
        collecting = gc.isenabled()
        gc.disable()  # which frees memory of the device, not allowed while a graph is recorded
        try:
            with wp.ScopedCapture(device=str(self.device)) as capture:
                work()
        finally:
            if collecting:
                gc.enable()
        return capture.graph

    def _steps(self) -> None:
        for _ in range(self.task.timing.decimation):
            mjw.step(self._m, self._d)
        if self._bodies_now:
            self._kinematics()

    def _kinematics(self) -> None:
        mjw.kinematics(self._m, self._d)
        mjw.com_pos(self._m, self._d)
        mjw.com_vel(self._m, self._d)

    def _hold(self, target: Tensor) -> None:
        self._fields["ctrl"].copy_(target)

    def step_physics(self) -> None:
        """Advance one control period. A simulation whose numbers are not finite or huge starts anew, ``diverged``."""
        self._turn_back_time()
        self._run("steps", self._steps)
        self.refuse((self._overflow & LOST) != 0, self._overflowed)
        qpos, qvel = self._fields["qpos"], self._fields["qvel"]
        self.diverged = ~(qvel.abs().amax(1) <= TOP_SPEED) | ~qpos.sum(1).isfinite()  # a NaN is not below a number
        for name, field in (self._fields | self._outputs).items():
            rows = self.diverged.view(-1, *[1] * (field.ndim - 1))
            field.copy_(torch.where(rows, self._start[name], field))
        if not self.spec.fixed_base:
            self.ground.keep(qpos[:, :2])

    def _turn_back_time(self) -> None:
        """Let each control step begin at the same time: after seconds, float32 no longer tells steps apart."""
        time = self._fields["time"]
        if self.has_delay_lines:
            self._delay_times -= (time - self.step_dt)[:, None, None]
        time.fill_(self.step_dt)

    def _overflowed(self) -> str:
        found = int(self._overflow.max())
        for kind, setting in OVERFLOWS.items():
            if found & kind and setting is not None:
                now, what = getattr(self, setting), "constraints" if setting == "njmax" else "contacts"
                return (
                    f"{self.task.name}: MuJoCo Warp's buffer of {now} {what} per robot is full, so some would be lost: "
                    f"set simulator.{setting}={2 * now}"
                )
        return (
            f"{self.task.name}: a robot of MuJoCo Warp touches more of its height field than its buffers hold: make "
            "task.ground.generator.horizontal_scale larger, or use --world mujoco"
        )

    def reset_physics(self, env_ids: Tensor) -> None:
        """Reset to the model's initial state; the reset events then write poses."""
        for name, field in self._fields.items():
            field[env_ids] = self._start[name]
        self.ground.restart(env_ids)
        self._stale_delay_lines.append(env_ids)
        self.robot.reset(env_ids)
        self.action = self.action.index_fill(0, env_ids, 0.0)
        self.previous_action = self.previous_action.index_fill(0, env_ids, 0.0)
        self._stale_kinematics = True

    def finish_events(self) -> None:
        """Make derived constants, delay lines and the kinematic state current after events wrote to the world."""
        if self._stale_constants:
            self._derive_constants(torch.cat(self._stale_constants))
            self._stale_constants.clear()
        for env_ids in self._stale_delay_lines:
            self._fill_delay_lines(env_ids)
        self._stale_delay_lines.clear()
        if self._stale_kinematics:
            self._update_kinematics()

    def _derive_constants(self, env_ids: Tensor) -> None:
        """Make :data:`DERIVED` of ``env_ids`` (n,) current; Warp computes it for all, where MuJoCo had computed it."""
        told = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device).index_fill(0, env_ids, True)
        before = {name: self._expand(name).clone() for name in DERIVED}
        with self._device(), self._torch_stream():
            mjw.set_const(self._m, self._d, restore=False)
        for name, values in before.items():
            field = self._field(name)
            field.copy_(torch.where(told.view(-1, *[1] * (field.ndim - 1)), field, values))
        self._stale_kinematics = True  # the bodies are left in the default pose

    def _torch_stream(self) -> Any:
        if self.device.type == "cpu":
            return wp.ScopedStream(None)
        return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(self.device)))

    def _update_kinematics(self) -> None:
        if self._bodies_now:
            self._run("kinematics", self._kinematics)
        self.robot.update_kinematics()
        self._stale_kinematics = False

    def _fill_delay_lines(self, env_ids: Tensor) -> None:
        """Fill the delay lines with the default pose after a reset; MuJoCo would fill them with zero."""
        if not self.has_delay_lines:
            return
        target = self.default_joint_pos.expand(len(env_ids), -1)
        if self.robot.joint_offset is not None:
            target = target - self.robot.joint_offset[env_ids]
        self._delay_lines[env_ids] = target[:, :, None].expand(-1, -1, self._delay_lines.shape[2])

    # ---- write side ------------------------------------------------------------------------------------------------

    def _moved(self, env_ids: Tensor) -> None:
        self._stale_kinematics = True

    def _masses_changed(self, env_ids: Tensor) -> None:
        self._stale_constants.append(env_ids)

    def write_root_state(
        self, env_ids: Tensor, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None:
        self._refuse_fixed_base()
        self._check_finite(
            root_position=pos_w, root_rotation=quat_wxyz, root_velocity=lin_vel_w, root_turning=ang_vel_b
        )
        self._fields["qpos"][env_ids, :7] = torch.cat((pos_w, quat_wxyz), 1).float()
        self._fields["qvel"][env_ids, :6] = torch.cat((lin_vel_w, ang_vel_b), 1).float()
        self._moved(env_ids)

    def write_joint_state(self, env_ids: Tensor, pos: Tensor, vel: Tensor) -> None:
        self._check_finite(joint_position=pos, joint_velocity=vel)
        self._fields["qpos"][env_ids[:, None], self.robot.qpos_adr] = pos.float()
        self._fields["qvel"][env_ids[:, None], self.robot.qvel_adr] = vel.float()
        self._moved(env_ids)

    def add_root_velocity(self, env_ids: Tensor, lin_vel_w: Tensor, ang_vel_w: Tensor) -> None:
        self._refuse_fixed_base()
        self._check_finite(root_velocity=lin_vel_w, root_turning=ang_vel_w)
        ang_vel_b = quat_apply_inverse(self._fields["qpos"][env_ids, 3:7], ang_vel_w)
        self._fields["qvel"][env_ids, :6] += torch.cat((lin_vel_w, ang_vel_b), 1)
        self._moved(env_ids)

    # ---- checkpoint ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "physics": {name: field.clone() for name, field in self._fields.items()},
            "model": {name: self._expand(name).clone() for name in sorted(self.randomised)},
            **self._state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state["model"].items():
            self._expand(name).copy_(value)
        for name, value in state["physics"].items():
            self._fields[name].copy_(value)
        self._load_state(state)
        self._update_kinematics()
