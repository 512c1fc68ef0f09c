"""Event terms: ``func(world, env_ids, **params)``. Ranges are uniform ``(low, high)``."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ..math import quat_apply_inverse, quat_from_yaw, quat_mul
from ..world import EditableWorld
from . import indices

Range = tuple[float, float]
TWIST = ("x", "y", "z", "roll", "pitch", "yaw")


def _uniform(world: EditableWorld, limits: Range, *shape: int) -> Tensor:
    low, high = limits
    return low + (high - low) * torch.rand(*shape, generator=world.generator, device=world.device)


def _uniform_axes(world: EditableWorld, ranges: Mapping[str, Range], axes: tuple[str, ...], n: int) -> Tensor:
    """A column (n, len(axes)) for each axis, zero where ``ranges`` has none; one draw for all."""
    low, span = indices.spans(tuple(tuple(ranges.get(axis, (0.0, 0.0))) for axis in axes), world.device)
    return (low + span * torch.rand(len(axes), n, generator=world.generator, device=world.device)).t()


def randomize_rigid_body_material(
    world: EditableWorld, env_ids: Tensor, friction_range: Range, dynamic_friction_range: Range | None = None
) -> None:
    """Sliding friction between robot and ground.

    ``dynamic_friction_range`` is for simulators with a separate coefficient for sliding bodies; None uses the same
    value. MuJoCo has one coefficient.
    """
    world.set_friction(env_ids, _uniform(world, friction_range, len(env_ids)))


def randomize_ground_impedance(world: EditableWorld, env_ids: Tensor, impedance_range: Range) -> None:
    """Hardness of the ground, MuJoCo's contact impedance: 0.9 gives way like a mat, 0.98 like a floor."""
    world.set_ground_impedance(env_ids, _uniform(world, impedance_range, len(env_ids)))


def randomize_rigid_body_mass(world: EditableWorld, env_ids: Tensor, mass_distribution_params: Range) -> None:
    """Mass added to the base [kg]."""
    world.set_added_mass(env_ids, _uniform(world, mass_distribution_params, len(env_ids)))


def scale_rigid_body_mass(world: EditableWorld, env_ids: Tensor, scale_range: Range, body: str | None = None) -> None:
    """Factor on the mass of ``body``, the base without one, uniform in its logarithm; its inertia follows.

    Isaac Lab's ``randomize_rigid_body_mass`` with ``operation="scale"`` and ``distribution="log_uniform"``.
    """
    low, high = (math.log(limit) for limit in scale_range)
    world.set_mass_scale(env_ids, _uniform(world, (low, high), len(env_ids)).exp(), body)


def randomize_rigid_body_com(world: EditableWorld, env_ids: Tensor, com_range: dict[str, Range]) -> None:
    """Shift of the base's centre of mass [m]."""
    world.set_com_offset(env_ids, _uniform_axes(world, com_range, ("x", "y", "z"), len(env_ids)))


def randomize_actuator_gains(
    world: EditableWorld, env_ids: Tensor, stiffness_range: Range, damping_range: Range
) -> None:
    """Factors on kp and kd, independent for each joint."""
    shape = (len(env_ids), world.spec.num_joints)
    world.set_gain_scale(env_ids, _uniform(world, stiffness_range, *shape), _uniform(world, damping_range, *shape))


def randomize_motor_strength(world: EditableWorld, env_ids: Tensor, strength_range: Range) -> None:
    """Factor on the delivered torque, independent for each joint."""
    world.set_motor_strength(env_ids, _uniform(world, strength_range, len(env_ids), world.spec.num_joints))


def randomize_joint_offset(world: EditableWorld, env_ids: Tensor, offset_range: Range) -> None:
    """Encoder calibration error [rad], independent for each joint."""
    world.set_joint_offset(env_ids, _uniform(world, offset_range, len(env_ids), world.spec.num_joints))


def randomize_action_delay(world: EditableWorld, env_ids: Tensor, delay_range: Range) -> None:
    """Delay from action to motor [s]."""
    world.set_action_delay(env_ids, _uniform(world, delay_range, len(env_ids)))


def reset_root_state_uniform(
    world: EditableWorld, env_ids: Tensor, pose_range: dict[str, Range], velocity_range: dict[str, Range]
) -> None:
    """Base at its default height above the ground, with a random offset [m], yaw [rad] and velocities.

    Linear velocities are in the world frame and angular velocities about the world axes, as in Isaac Lab.
    """
    pose = _uniform_axes(world, pose_range, TWIST, len(env_ids))
    pos, (roll, pitch, yaw) = pose[:, :3], pose[:, 3:].unbind(1)
    place = world.ground.origin(env_ids, pos[:, :2])
    pos = torch.cat((place[:, :2], pos[:, 2:] + (world.spec.init_height + place[:, 2:])), 1)
    quat = quat_from_yaw(yaw)
    if "roll" in pose_range or "pitch" in pose_range:
        quat = quat_mul(quat, quat_mul(_about(1, pitch), _about(0, roll)))
    vel = _uniform_axes(world, velocity_range, TWIST, len(env_ids))
    world.write_root_state(env_ids, pos, quat, vel[:, :3], quat_apply_inverse(quat, vel[:, 3:]))


def reset_joints_by_scale(world: EditableWorld, env_ids: Tensor, position_range: Range) -> None:
    """Default joint positions times a random factor, clipped to the soft limits; velocities are zero."""
    n, joints = len(env_ids), world.spec.num_joints
    limits = world.soft_joint_pos_limits
    pos = (world.default_joint_pos * _uniform(world, position_range, n, joints)).clamp(limits[:, 0], limits[:, 1])
    world.write_joint_state(env_ids, pos, torch.zeros_like(pos))


def push_by_setting_velocity(world: EditableWorld, env_ids: Tensor, velocity_range: dict[str, Range]) -> None:
    """Add a random velocity [m/s, rad/s] to the base, in the world frame; it grows where a curriculum grows it."""
    vel = _uniform_axes(world, velocity_range, TWIST, len(env_ids))
    if world.growth is not None:
        vel = vel * world.growth
    world.add_root_velocity(env_ids, vel[:, :3], vel[:, 3:])


def _about(axis: int, angle: Tensor) -> Tensor:
    quat = torch.zeros(len(angle), 4, device=angle.device)
    quat[:, 0], quat[:, 1 + axis] = (angle / 2).cos(), (angle / 2).sin()
    return quat
