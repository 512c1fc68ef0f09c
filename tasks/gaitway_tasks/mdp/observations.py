"""Observation terms, ``(N, d)``. Each has a row in :mod:`gaitway_tasks.vocabulary`."""

from torch import Tensor

from ..signals import observes
from ..world import World
from . import gait


@observes
def base_lin_vel(world: World) -> Tensor:
    """Base linear velocity in the base frame [m/s], (N, 3)."""
    return world.robot.root_lin_vel_b


@observes
def base_ang_vel(world: World) -> Tensor:
    """Base angular velocity in the base frame [rad/s], (N, 3)."""
    return world.robot.root_ang_vel_b


@observes
def projected_gravity(world: World) -> Tensor:
    """Unit gravity vector in the base frame, (N, 3)."""
    return world.robot.projected_gravity_b


@observes
def generated_commands(world: World, command_name: str) -> Tensor:
    """The current command, (N, d)."""
    return world.command(command_name)


@observes
def joint_pos(world: World) -> Tensor:
    """Joint positions [rad], (N, J)."""
    return world.robot.joint_pos


@observes
def joint_pos_rel(world: World) -> Tensor:
    """Joint positions relative to the default pose [rad], (N, J)."""
    return world.robot.joint_pos - world.default_joint_pos


@observes
def joint_vel_rel(world: World) -> Tensor:
    """Joint velocities relative to the default ones, which are zero [rad/s], (N, J)."""
    return world.robot.joint_vel


@observes
def last_action(world: World) -> Tensor:
    """The last raw action, (N, A)."""
    return world.action


@observes
def gait_phase(
    world: World, period: float, late: float = 0.0, command_name: str | None = None, threshold: float = 0.1
) -> Tensor:
    """Sine and cosine of the phase of a gait with cycles of ``period`` [s], (N, 2).

    The phase is that of ``late`` control steps from now: with 0.5 its sine is never 0 and can choose mirror images.
    With ``command_name`` both are 0 while the command is no longer than ``threshold``: a robot that is told to stand
    has no clock, though it goes on counting.
    """
    both = gait.clock(world, period, late)
    return both if command_name is None else both * gait.is_commanded(world, command_name, threshold)[:, None]


@observes
def height_scan(world: World, sensor: str, offset: float = 0.5) -> Tensor:
    """Base height above each scan point minus ``offset`` [m], (N, P)."""
    return world.height_scan(sensor) - offset


@observes
def base_pos_z(world: World) -> Tensor:
    """Height of the base in the world [m], (N, 1)."""
    return world.robot.root_pos_w[:, 2:3]


@observes
def feet_contact(world: World, feet: str = ".*_FOOT", threshold: float = 1.0) -> Tensor:
    """1.0 for each foot whose contact force exceeds ``threshold`` [N], (N, F)."""
    return (world.contact_force_norm(feet) > threshold).float()
