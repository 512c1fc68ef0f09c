"""What the worlds of one MuJoCo model share: the state of its task, what terms ask, and what events write into it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.commands import Command
from gaitway_tasks.math import all_finite, quat_apply_inverse, yaw_of
from gaitway_tasks.mdp import indices
from gaitway_tasks.robots.mjcf import DriveParameters, compensate_known, ground_geoms
from gaitway_tasks.signals import BODIES, read_by
from gaitway_tasks.spec import Task
from gaitway_tasks.waits import on_host
from torch import Tensor

from .model import build_model, delay_line, drives_are_network
from .objects import MujocoObjectState
from .options import PhysicsOptions
from .state import LED_TO_IT, NOW

PHYSICS_STATE = ("qpos", "qvel", "qacc_warmstart", "ctrl", "history", "time")
TOP_SPEED = 1e3  # [m/s, rad/s] no robot gets near it; MuJoCo itself lets a diverging one reach 1e10


class ModelWorld(ABC):
    """The part of :class:`gaitway_tasks.world.EditableWorld` that does not step.

    A field of the model that events write has a row for each environment: :meth:`_expand`. Writing happens in place.
    Numbers that are wrong raise :class:`gaitway_files.errors.UserError`, where reading them would make the host wait
    only with the next step: :meth:`broken`.
    """

    contact_time_tolerance = 1e-8
    device: torch.device
    robot: Any
    drives: DriveParameters
    objects: dict[str, MujocoObjectState]

    def __init__(
        self, task: Task, num_envs: int, generator: torch.Generator, options: PhysicsOptions, device: torch.device
    ):
        self.task, self.spec, self.num_envs, self.generator = task, task.robot, num_envs, generator
        self.options, self.device = options, device
        self.step_dt = task.timing.step_dt
        self.max_episode_length = task.timing.max_episode_length
        self.model = build_model(task, options)
        for name, scanner in task.height_scanners.items():
            if scanner.body not in (None, self.spec.base_name):
                raise UserError(
                    f"{task.name}: height scanner {name!r} hangs from the body {scanner.body!r}, and this world has "
                    f"them under the base only: use --world isaaclab, or set task.height_scanners.{name}.body=null"
                )
        self._ground_geoms = torch.from_numpy(ground_geoms(self.model)).to(device)
        self.ground = task.ground.under(self)
        joints = self.spec.num_joints
        self.default_joint_pos = torch.tensor(self.spec.default_joint_pos, device=device)
        self.soft_joint_pos_limits = torch.tensor(self.spec.soft_joint_limits(), device=device)
        self._targets = task.actions.targets(self.spec, device)
        self.action = torch.zeros(num_envs, task.actions.num(self.spec), device=device)
        self.previous_action = torch.zeros_like(self.action)
        self.joint_pos_target = self.default_joint_pos.expand(num_envs, -1)
        """Encoder targets of the last action [rad], (N, J)."""
        self.episode_step = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.terminated = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self.diverged = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self.commands: dict[str, Any] = {}
        self.growth: Tensor | None = None
        self.style: Tensor | None = None
        self.reward_weights: dict[str, Tensor] = {}
        self._stiffness, self._damping, self._strength = torch.ones(3, num_envs, joints, device=device)
        self.randomised: set[str] = set()
        """Model fields that have per-environment values."""
        self._defaults: dict[str, Tensor] = {}
        self._doubts: list[tuple[Tensor, Callable[[], str]]] = []

    @property
    def has_delay_lines(self) -> bool:
        return bool(self.model.nhistory > 0)

    @property
    def has_network(self) -> bool:
        """True if the drives are an actuator network."""
        return drives_are_network(self.spec)

    def bodies_read(self) -> str | None:
        """Moment of the poses and twists of bodies that the task's terms read; None if they read none."""
        task = self.task
        observed = (term for group in task.observations.values() for term in group.terms.values())
        terms = (*task.rewards.values(), *task.terminations.values(), *task.events.values(), *task.curriculum.values())
        return NOW if read_by(observed) & BODIES else LED_TO_IT if read_by(terms) & BODIES else None

    # ---- simulator -------------------------------------------------------------------------------------------------

    @abstractmethod
    def _field(self, name: str) -> Tensor:
        """The model's field ``name`` with a row for each environment, (N, ...), to write into."""

    def _expand(self, name: str) -> Tensor:
        """As :meth:`_field`, of a field that checkpoints keep."""
        self.randomised.add(name)
        return self._field(name)

    def _default(self, name: str) -> Tensor:
        """The model's own field ``name``, float64 (...)."""
        if name not in self._defaults:
            self._defaults[name] = torch.from_numpy(getattr(self.model, name).copy()).to(self.device)
        return self._defaults[name]

    @abstractmethod
    def _masses_changed(self, env_ids: Tensor) -> None:
        """Constants that follow from masses, inertias and centres of ``env_ids`` (n,) are to be made anew."""

    def _array(self, tensor: Tensor) -> Any:
        """``tensor`` as the kind of array that :attr:`drives` has."""
        return tensor

    def refuse(self, bad: Tensor, message: Callable[[], str]) -> None:
        """Raise ``message`` if anything in ``bad`` is true, at once or in the next step."""
        if on_host(bad):
            if bad.any():
                raise UserError(message())
        else:
            self._doubts.append((bad.any(), message))

    def broken(self) -> Tensor:
        """Mask (N,) that is false unless something was refused that was not waited for: :meth:`check` then raises."""
        doubts, self._waiting, self._doubts = self._doubts, self._doubts, []
        if not doubts:
            return torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        return torch.stack([bad for bad, _ in doubts]).any().expand(self.num_envs)

    def check(self) -> None:
        """Raise the first refusal of the last :meth:`broken`."""
        raise UserError(next(message() for bad, message in self._waiting if bad))

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
        xs, ys = (
            torch.arange(-length / 2, length / 2 + 1e-9, scanner.resolution, device=self.device)
            for length in scanner.size
        )
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
        self._hold(target)

    @abstractmethod
    def _hold(self, target: Tensor) -> None:
        """Give the drives joint targets (N, J) [rad], without the encoders' offsets."""

    # ---- write side ------------------------------------------------------------------------------------------------

    def write_object_state(
        self, env_ids: Tensor, name: str, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None:
        self._check_finite(position=pos_w, rotation=quat_wxyz, velocity=lin_vel_w, turning=ang_vel_b)
        self._object(name).write(env_ids, torch.cat((pos_w, quat_wxyz), 1), torch.cat((lin_vel_w, ang_vel_b), 1))
        self._moved(env_ids)

    def set_object_mass_scale(self, env_ids: Tensor, name: str, factor: Tensor) -> None:
        self._object(name)
        self.set_mass_scale(env_ids, factor, name)

    def lay_fields(self, heights: np.ndarray) -> None:
        """Heights of the height fields (T, X, Y), in [0, 1] of the model's, x first."""
        self.model.hfield_data[:] = heights.transpose(0, 2, 1).ravel()

    def choose_field(self, env_ids: Tensor, field: Tensor) -> None:
        """Number of the height field that is the ground of each of ``env_ids``, (n,)."""
        chosen = self._field("geom_dataid")
        chosen[env_ids, self._ground_geoms[0]] = field.to(chosen.dtype)

    def set_friction(self, env_ids: Tensor, friction: Tensor) -> None:
        self._check_finite(friction=friction)
        self.refuse(friction < 0.0, lambda: f"friction {float(friction.min()):.3g}: it cannot be negative")
        field = self._expand("geom_friction")
        field[env_ids[:, None], self._ground_geoms, 0] = friction.to(field.dtype)[:, None]

    def set_ground_impedance(self, env_ids: Tensor, impedance: Tensor) -> None:
        """``solimp`` from ``impedance`` at first touch to halfway between it and 1."""
        self._check_finite(ground_impedance=impedance)

        def outside() -> str:
            bad = impedance.min() if (impedance <= 0.0).any() else impedance.max()
            return f"ground impedance {float(bad):.3g}: it must lie strictly between 0 and 1"

        self.refuse((impedance <= 0.0) | (impedance >= 1.0), outside)
        solimp = self._expand("geom_solimp")
        rows, hardness = env_ids[:, None], impedance[:, None]
        solimp[rows, self._ground_geoms, 0] = hardness.to(solimp.dtype)
        solimp[rows, self._ground_geoms, 1] = (0.5 + 0.5 * hardness).to(solimp.dtype)

    def set_added_mass(self, env_ids: Tensor, kilograms: Tensor) -> None:
        self._check_finite(added_mass=kilograms)
        mass = self.model.body(self.spec.base_name).mass.item()
        ratio = 1.0 + kilograms.double() / mass
        self.refuse(
            ratio <= 0.0,
            lambda: (
                f"added mass of {float(kilograms.min()):.3g} kg leaves the base, which weighs {mass:.3g} kg, without "
                "mass: raise the lower end of the range"
            ),
        )
        self.set_mass_scale(env_ids, ratio)

    def set_mass_scale(self, env_ids: Tensor, factor: Tensor, body: str | None = None) -> None:
        self._check_finite(mass_scale=factor)
        self.refuse(factor <= 0.0, lambda: f"mass scale {float(factor.min()):.3g}: it must be positive")
        row, ratio = self.model.body(body or self.spec.base_name).id, factor.double()
        masses, inertias = self._expand("body_mass"), self._expand("body_inertia")
        masses[env_ids, row] = (self.model.body_mass[row].item() * ratio).to(masses.dtype)
        compensate_known(self.model, self._expand)
        inertias[env_ids, row] = (ratio[:, None] * self._default("body_inertia")[row]).to(inertias.dtype)
        self._masses_changed(env_ids)

    def set_com_offset(self, env_ids: Tensor, offset: Tensor) -> None:
        self._check_finite(com_offset=offset)
        base = self.model.body(self.spec.base_name).id
        centres = self._expand("body_ipos")
        centres[env_ids, base] = (self._default("body_ipos")[base] + offset.double()).to(centres.dtype)
        self._masses_changed(env_ids)

    def set_gain_scale(self, env_ids: Tensor, stiffness: Tensor, damping: Tensor) -> None:
        self._check_finite(stiffness=stiffness, damping=damping)
        self.refuse(
            (stiffness < 0.0) | (damping < 0.0),
            lambda: "a gain factor is negative: the joint would push itself away from its target",
        )
        self._refuse_network("gains")
        self._stiffness[env_ids], self._damping[env_ids] = stiffness, damping
        self._write_actuators(env_ids)

    def set_motor_strength(self, env_ids: Tensor, strength: Tensor) -> None:
        self._check_strength(strength)
        self._strength[env_ids] = strength
        self._write_actuators(env_ids)

    def _check_strength(self, strength: Tensor) -> None:
        self._check_finite(motor_strength=strength)
        self.refuse(strength <= 0.0, lambda: f"motor strength {float(strength.min()):.3g}: it must be positive")

    def set_joint_offset(self, env_ids: Tensor, offset: Tensor) -> None:
        self._check_finite(joint_offset=offset)
        if self.robot.joint_offset is None:
            self.robot.joint_offset = torch.zeros(self.num_envs, self.spec.num_joints, device=self.device)
        self.robot.joint_offset[env_ids] = offset
        self._moved(env_ids)

    @abstractmethod
    def _moved(self, env_ids: Tensor) -> None:
        """The state that terms read of ``env_ids`` (n,) is to be read again."""

    def set_action_delay(self, env_ids: Tensor, seconds: Tensor) -> None:
        if not len(env_ids):
            return
        self._check_finite(action_delay=seconds)
        self.refuse(seconds < 0.0, lambda: f"action delay {float(seconds.min()):.3g} s: it cannot be negative")
        self._refuse_network("delay")

        def too_long() -> str:
            longest = float(seconds.max())
            return f"action delay {longest:.3g} s exceeds the delay line: set max_action_delay >= {longest:.3g}"

        self.refuse(seconds > delay_line(self.task, self.options) + 1e-9, too_long)
        delays = self._expand("actuator_delay")
        delays[env_ids] = seconds.to(delays.dtype)[:, None]

    def _refuse_fixed_base(self) -> None:
        if self.spec.fixed_base:
            raise UserError(f"the base of {self.spec.name} is fixed: leave out the events that move or push it")

    def _refuse_network(self, what: str) -> None:
        if self.has_network:
            raise UserError(f"the drives are an actuator network, which has its {what} in it: leave that event out")

    def _write_actuators(self, env_ids: Tensor) -> None:
        """Put gain factors and motor strength into the drives."""
        gains = zip((self.drives.stiffness, self.drives.damping), (self._stiffness, self._damping), strict=True)
        stiffness, damping = (torch.as_tensor(law).float() * factor[env_ids] for law, factor in gains)
        strength, rows = self._array(self._strength[env_ids]), self._array(env_ids)
        self.drives.write(self._array(stiffness), self._array(damping), strength=strength, rows=rows)

    def _check_finite(self, **values: Tensor) -> None:
        """Refuse what an event writes that is NaN or infinite: the simulation would restart the robot in silence."""
        for name, value in values.items():
            if on_host(value) and all_finite(value):
                continue
            self.refuse(~value.isfinite(), lambda name=name, value=value: _not_finite(name, value))  # type: ignore[misc]

    # ---- checkpoint ------------------------------------------------------------------------------------------------

    BUFFERS = ("action", "previous_action", "episode_step", "_stiffness", "_damping", "_strength")

    def _state(self) -> dict[str, Any]:
        """Part of a checkpoint besides physics and model."""
        return {
            "buffers": {name: getattr(self, name).clone() for name in self.BUFFERS},
            "joint_offset": None if self.robot.joint_offset is None else self.robot.joint_offset.clone(),
            "air_times": {name: getattr(self.robot, name).clone() for name in self.robot.AIR_TIMES},
            "ground": self.ground.state_dict(),
        }

    def _load_state(self, state: dict[str, Any]) -> None:
        """Go on where :meth:`_state` was."""
        for name, value in state["buffers"].items():
            setattr(self, name, value.to(self.device, copy=True))
        offset = state["joint_offset"]
        self.robot.joint_offset = None if offset is None else offset.to(self.device, copy=True)
        for name, value in state["air_times"].items():
            setattr(self.robot, name, value.to(self.device, copy=True))
        self.ground.load_state_dict(state.get("ground", {}))  # checkpoints of earlier versions do not have it


def _not_finite(name: str, value: Tensor) -> str:
    row = int((~value.isfinite()).nonzero()[0, 0])
    return f"{name.replace('_', ' ')} is {value[row].tolist()} in row {row}: it must be finite"
