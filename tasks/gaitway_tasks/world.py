"""Protocols of the world that terms read. Every simulator implements them; a real robot implements the measurable half.

Tensors are float32 on one device, batched over N environments; joints, bodies and feet are in the robot's canonical
order. Velocities ending in ``_b`` are in the base frame, ``_w`` in the world frame; quaternions are w, x, y, z.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from .ground import Ground
from .robots.robot import Robot


class RobotState(Protocol):
    # A robot with a fixed base has a root as well: it does not move.
    joint_pos: Tensor  # [rad], (N, J), as the encoders report it
    joint_vel: Tensor  # [rad/s], (N, J)
    joint_acc: Tensor  # [rad/s^2], (N, J)
    applied_torque: Tensor  # [N m], (N, J)
    root_pos_w: Tensor  # [m], (N, 3)
    root_quat_wxyz: Tensor  # (N, 4)
    root_lin_vel_b: Tensor  # [m/s], (N, 3)
    root_ang_vel_b: Tensor  # [rad/s], (N, 3)
    projected_gravity_b: Tensor  # unit vector, (N, 3)
    contact_force_w: Tensor  # [N], (N, B, 3), net contact force on each body
    # Bodies, for terms that declare that they read them (:func:`.signals.reads`):
    body_pos_w: Tensor  # [m], (N, B, 3), of each body frame's origin
    body_quat_wxyz: Tensor  # (N, B, 4), of each body frame
    body_lin_vel_w: Tensor  # [m/s], (N, B, 3), of each centre of mass
    body_ang_vel_w: Tensor  # [rad/s], (N, B, 3)
    current_air_time: Tensor  # [s], (N, F), time each foot has been in the air, 0 in contact
    last_air_time: Tensor  # [s], (N, F), length of the last completed swing
    current_contact_time: Tensor  # [s], (N, F)
    last_contact_time: Tensor  # [s], (N, F)


class ObjectState(Protocol):
    """State of an object of the task, :class:`.objects.RigidObject`."""

    default_pos: Tensor  # [m], (3,), its place at a reset

    @property
    def root_pos_w(self) -> Tensor:
        """Middle of the object [m], (N, 3)."""
        ...

    @property
    def root_quat_wxyz(self) -> Tensor:
        """Rotation, (N, 4)."""
        ...


class World(Protocol):
    """Read side: data for observations, rewards and terminations."""

    spec: Robot
    num_envs: int
    device: torch.device
    default_joint_pos: Tensor  # [rad], (J,)
    soft_joint_pos_limits: Tensor  # [rad], (J, 2)
    step_dt: float
    ground: Ground
    contact_time_tolerance: float  # [s], how far off a clock of contact or air may be
    max_episode_length: int
    action: Tensor  # (N, A), raw policy output
    previous_action: Tensor  # (N, A)
    episode_step: Tensor  # (N,), int64
    terminated: Tensor  # (N,), bool, ended in this step for another reason than time
    growth: Tensor | None  # (), 0 to 1, how far commands and pushes have grown; None where no curriculum grows them
    style: Tensor | None  # (), 0 to 1, how far rewards with a start have grown, after the commands
    reward_weights: dict[str, Tensor]  # () each, weight times step_dt of each reward, which curricula may change

    @property
    def robot(self) -> RobotState: ...

    def command(self, name: str) -> Tensor: ...

    def command_of(self, name: str) -> object:
        """The task's :class:`.commands.Command`, of which :meth:`command` has the numbers."""
        ...

    def settling(self, name: str) -> Tensor | None:
        """Time for which a robot that is told to stand is still to step [s], (N,); None where it is told so at once."""
        ...

    def contact_force_norm(self, bodies: str) -> Tensor:
        """Size of the contact force on each body whose whole name matches the expression ``bodies`` [N], (N, n).

        The largest within the control step, where a simulator samples contacts more often than once.
        """
        ...

    @property
    def objects(self) -> Mapping[str, ObjectState]:
        """Objects of the task by name."""
        ...

    def object_pos(self, name: str) -> Tensor:
        """Middle of an object in the base's frame [m], (N, 3)."""
        ...

    def height_scan(self, name: str) -> Tensor:
        """Height of the scanner's body above each scan point [m], (N, P)."""
        ...


class EditableWorld(World, Protocol):
    """Write side: setters for events. ``env_ids`` is an int64 tensor (n,); values have n rows."""

    generator: torch.Generator

    def write_root_state(
        self, env_ids: Tensor, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None: ...

    def write_joint_state(self, env_ids: Tensor, pos: Tensor, vel: Tensor) -> None: ...

    def write_object_state(
        self, env_ids: Tensor, name: str, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None:
        """Pose and velocities of an object."""
        ...

    def set_object_mass_scale(self, env_ids: Tensor, name: str, factor: Tensor) -> None:
        """Factor on the mass and inertia of an object, (n,)."""
        ...

    def add_root_velocity(self, env_ids: Tensor, lin_vel_w: Tensor, ang_vel_w: Tensor) -> None: ...

    def set_friction(self, env_ids: Tensor, friction: Tensor) -> None:
        """Sliding friction of the feet on the ground, (n,)."""
        ...

    def set_ground_impedance(self, env_ids: Tensor, impedance: Tensor) -> None:
        """Hardness of the ground as MuJoCo's contact impedance at first touch, (n,), in (0, 1)."""
        ...

    def set_added_mass(self, env_ids: Tensor, kilograms: Tensor) -> None:
        """Mass added to the base [kg], (n,); inertia scales with the mass, as in Isaac Lab."""
        ...

    def set_mass_scale(self, env_ids: Tensor, factor: Tensor, body: str | None = None) -> None:
        """Factor on the mass and inertia of ``body``, the base without one, (n,)."""
        ...

    def set_com_offset(self, env_ids: Tensor, offset: Tensor) -> None:
        """Shift of the base's centre of mass [m], (n, 3)."""
        ...

    def set_gain_scale(self, env_ids: Tensor, stiffness: Tensor, damping: Tensor) -> None:
        """Factors on kp and kd, (n, J) each."""
        ...

    def set_motor_strength(self, env_ids: Tensor, strength: Tensor) -> None:
        """Factor on the delivered joint torque, (n, J)."""
        ...

    def set_joint_offset(self, env_ids: Tensor, offset: Tensor) -> None:
        """Encoder calibration error [rad], (n, J): the encoder reads the true angle plus this."""
        ...

    def set_action_delay(self, env_ids: Tensor, seconds: Tensor) -> None:
        """Delay from an action to the motors [s], (n,)."""
        ...
