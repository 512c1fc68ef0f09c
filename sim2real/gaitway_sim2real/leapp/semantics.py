"""How Isaac Lab 3.0 describes the tensors of a velocity policy to LEAPP: kinds, element names, connections.

The names are those of ``isaaclab.utils.leapp`` (``export_annotator.py``, ``leapp_semantics.py``) and of the
``leapp_tensor_semantics`` marks on its articulation, command and ray-caster data, version 3.0.0. Its quaternions are
x, y, z, w; its joints are in whatever order the element names say.
"""

from __future__ import annotations

from typing import NamedTuple

from gaitway_tasks import vocabulary

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


ELEMENTS = {
    "state/joint/position": PER_JOINT,
    "state/joint/velocity": PER_JOINT,
    "state/body/rotation": QUAT_XYZW,
    "state/body/angular_velocity": XYZ,
    "state/body/linear_velocity": XYZ,
    "command/body/velocity": TWIST,
    "state/sensor/position": XYZ,
}
"""Names of the numbers of each kind."""


def _semantics(data: str, kind: str) -> InputSemantics:
    """The property or command ``data`` of Isaac Lab's."""
    source = kind.partition("/")[0]
    return InputSemantics(data.replace(":", "_"), kind, ELEMENTS.get(kind), f"{source}:{data}")


INPUTS = {name: tuple(map(_semantics, signal.isaaclab, signal.leapp)) for name, signal in vocabulary.INPUTS.items()}
"""The tensors of a package that carry each input of a bundle."""
