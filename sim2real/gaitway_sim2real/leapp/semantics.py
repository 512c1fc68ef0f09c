"""How Isaac Lab 3.0 describes the tensors of a velocity policy to LEAPP: kinds, element names, connections.

The names are those of ``isaaclab.utils.leapp`` (``export_annotator.py``, ``leapp_semantics.py``) and of the
``leapp_tensor_semantics`` marks on its articulation, command and ray-caster data, version 3.0.0. Its quaternions are
x, y, z, w; its joints are in whatever order the element names say.
"""

from __future__ import annotations

from typing import NamedTuple

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


class InputSemantics(NamedTuple):
    """Description of one input of a package."""

    name: str
    kind: str
    elements: tuple[str, ...] | None
    connection: str


def _state(entity: str, data: str, kind: str, elements: tuple[str, ...] | None) -> InputSemantics:
    """The property ``data`` of the robot or of a sensor."""
    return InputSemantics(f"{entity}_{data}", kind, elements, f"state:{entity}:{data}")


INPUTS: dict[str, tuple[InputSemantics, ...]] = {
    "joint_pos": (_state("robot", "joint_pos", "state/joint/position", PER_JOINT),),
    "joint_vel": (_state("robot", "joint_vel", "state/joint/velocity", PER_JOINT),),
    "imu_quat_wxyz": (_state("robot", "root_quat_w", "state/body/rotation", QUAT_XYZW),),
    "gyro": (_state("robot", "root_ang_vel_b", "state/body/angular_velocity", XYZ),),
    "command": (InputSemantics("base_velocity", "command/body/velocity", TWIST, "command:base_velocity"),),
    "base_lin_vel": (_state("robot", "root_lin_vel_b", "state/body/linear_velocity", XYZ),),
    "height_scan": (
        _state("height_scanner", "pos_w", "state/sensor/position", XYZ),
        _state("height_scanner", "ray_hits_w", "state/sensor/ray_hit_position", None),
    ),
}
"""The tensors of a package that carry each input of a bundle."""
