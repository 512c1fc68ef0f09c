"""Observation terms, ``(N, d)``. Each declares the signals it reads (see :mod:`gaitway_tasks.signals`)."""

from torch import Tensor

from ..signals import reads
from ..world import World


@reads("root_lin_vel_b", mirror="vector")
def base_lin_vel(world: World) -> Tensor:
    """Base linear velocity in the base frame [m/s], (N, 3)."""
    return world.robot.root_lin_vel_b


@reads("gyro", mirror="axial")
def base_ang_vel(world: World) -> Tensor:
    """Base angular velocity in the base frame [rad/s], (N, 3)."""
    return world.robot.root_ang_vel_b


@reads("imu_quat_wxyz", mirror="vector")
def projected_gravity(world: World) -> Tensor:
    """Unit gravity vector in the base frame, (N, 3)."""
    return world.robot.projected_gravity_b


@reads("command", mirror="planar_twist")
def generated_commands(world: World, command_name: str) -> Tensor:
    """The current command, (N, d)."""
    return world.command(command_name)


@reads("joint_pos", mirror="joints")
def joint_pos(world: World) -> Tensor:
    """Joint positions [rad], (N, J)."""
    return world.robot.joint_pos


@reads("joint_pos", mirror="joints")
def joint_pos_rel(world: World) -> Tensor:
    """Joint positions relative to the default pose [rad], (N, J)."""
    return world.robot.joint_pos - world.default_joint_pos


@reads("joint_vel", mirror="joints")
def joint_vel_rel(world: World) -> Tensor:
    """Joint velocities relative to the default ones, which are zero [rad/s], (N, J)."""
    return world.robot.joint_vel


@reads("action", mirror="joints")
def last_action(world: World) -> Tensor:
    """The last raw action, (N, A)."""
    return world.action


@reads("height_scan")
def height_scan(world: World, sensor: str, offset: float = 0.5) -> Tensor:
    """Base height above each scan point minus ``offset`` [m], (N, P)."""
    return world.height_scan(sensor) - offset


@reads("root_pos_w", mirror="scalar")
def base_pos_z(world: World) -> Tensor:
    """Height of the base in the world [m], (N, 1)."""
    return world.robot.root_pos_w[:, 2:3]


@reads("contact_force_w")
def feet_contact(world: World, feet: str = ".*_FOOT", threshold: float = 1.0) -> Tensor:
    """1.0 for each foot whose contact force exceeds ``threshold`` [N], (N, F)."""
    return (world.contact_force_norm(feet) > threshold).float()
