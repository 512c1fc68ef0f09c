"""How Isaac Lab 3.0 describes the tensors of a velocity policy to LEAPP: kinds, element names, connections.

The names are those of ``isaaclab.utils.leapp`` (``export_annotator.py``, ``leapp_semantics.py``) and of the
``leapp_tensor_semantics`` marks on its articulation, command and ray-caster data, version 3.0.0. Its quaternions are
x, y, z, w; its joints are in whatever order the element names say.
"""

from __future__ import annotations

from dataclasses import dataclass

XYZ = ("x", "y", "z")
QUAT_XYZW = ("qx", "qy", "qz", "qw")
TWIST = ("lin_vel_x", "lin_vel_y", "ang_vel_z")
PER_JOINT = ("<joint>",)
"""Stands for the names of the robot's joints."""

TARGET_KIND = "target/joint/position"
TARGET_NAME = "joint_pos"
CONNECTION = "isaaclab_connection"
WRITE_TARGET = "write:robot:set_joint_position_target_index"
GAINS = {
    "stiffness": ("kp", "write:robot:write_joint_stiffness_to_sim_index"),
    "damping": ("kd", "write:robot:write_joint_damping_to_sim_index"),
}
"""Kind and connection of the constant outputs that carry the gains."""


@dataclass(frozen=True, kw_only=True)
class InputSemantics:
    """What a package says of one of its inputs."""

    name: str
    kind: str
    elements: tuple[str, ...] | None
    connection: str


INPUTS: dict[str, tuple[InputSemantics, ...]] = {
    "joint_pos": (
        InputSemantics(
            name="robot_joint_pos",
            kind="state/joint/position",
            elements=PER_JOINT,
            connection="state:robot:joint_pos",
        ),
    ),
    "joint_vel": (
        InputSemantics(
            name="robot_joint_vel",
            kind="state/joint/velocity",
            elements=PER_JOINT,
            connection="state:robot:joint_vel",
        ),
    ),
    "imu_quat_wxyz": (
        InputSemantics(
            name="robot_root_quat_w",
            kind="state/body/rotation",
            elements=QUAT_XYZW,
            connection="state:robot:root_quat_w",
        ),
    ),
    "gyro": (
        InputSemantics(
            name="robot_root_ang_vel_b",
            kind="state/body/angular_velocity",
            elements=XYZ,
            connection="state:robot:root_ang_vel_b",
        ),
    ),
    "command": (
        InputSemantics(
            name="base_velocity", kind="command/body/velocity", elements=TWIST, connection="command:base_velocity"
        ),
    ),
    "base_lin_vel": (
        InputSemantics(
            name="robot_root_lin_vel_b",
            kind="state/body/linear_velocity",
            elements=XYZ,
            connection="state:robot:root_lin_vel_b",
        ),
    ),
    "height_scan": (
        InputSemantics(
            name="height_scanner_pos_w",
            kind="state/sensor/position",
            elements=XYZ,
            connection="state:height_scanner:pos_w",
        ),
        InputSemantics(
            name="height_scanner_ray_hits_w",
            kind="state/sensor/ray_hit_position",
            elements=None,
            connection="state:height_scanner:ray_hits_w",
        ),
    ),
}
"""The tensors of a package that carry each input of a bundle."""
