"""Policies that carry their robot in the ONNX file's metadata: holosoma's and mjlab's exports.

holosoma writes joint names, gains and command ranges (``kp``, ``kd``, ``dof_names``, ``command_ranges``). The rest is
in its ``holosoma_inference`` package and stands here: scales (``config_values/observation.py``), action scale, rate and
gait period (``task.py``), default poses (``robot.py``), and the clock's rules (``policies/locomotion.py``). Its runner
sorts terms by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from gaitway_files.graphs import check_graph
from gaitway_files.json_files import parse_json
from gaitway_files.reading import FileError, read_bytes
from gaitway_onboard.bundle.contract import FILE_BYTES, sha256

from ..bundle import Found
from ..described_policy import DescribedPolicy, described
from ..description_file import description_from
from ..errors import PolicyImportError, in_form
from ..families import Options

HOLOSOMA = ("dof_names", "kp", "kd", "command_ranges")
MJLAB = ("joint_names", "joint_stiffness", "joint_damping", "default_joint_pos", "observation_names", "action_scale")
LEG_POSE = {".*[Hh]ip_[Pp]itch.*": -0.312, ".*[Kk]nee.*": 0.669, ".*[Aa]nkle_[Pp]itch.*": -0.363}
POSES: dict[str, dict[str, float]] = {
    "g1": {**LEG_POSE, ".*shoulder_pitch.*": 0.2, "left_shoulder_roll.*": 0.2, "right_shoulder_roll.*": -0.2,
           ".*_elbow_joint": 0.6, ".*": 0.0},
    "t1": {".*Shoulder_Pitch": 0.2, "Left_Shoulder_Roll": -1.35, "Right_Shoulder_Roll": 1.35, "Left_Elbow_Yaw": -0.5,
           "Right_Elbow_Yaw": 0.5, ".*Hip_Pitch": -0.2, ".*Knee_Pitch": 0.4, ".*Ankle_Pitch": -0.25, ".*": 0.0},
}  # fmt: skip
"""Default poses of holosoma's robots [rad]; none of them is in the metadata."""
SCALES = {"g1": (0.25, 0.05), "t1": (1.0, 0.1)}
"""Scales of ``base_ang_vel`` and ``dof_vel``."""
TERMS = {
    "base_ang_vel": "base_ang_vel", "base_lin_vel": "base_lin_vel", "projected_gravity": "projected_gravity",
    "joint_pos": "joint_pos_rel", "joint_vel": "joint_vel_rel", "joint_pos_rel": "joint_pos_rel",
    "joint_vel_rel": "joint_vel_rel", "actions": "last_action", "last_action": "last_action",
    "command": "generated_commands", "velocity_commands": "generated_commands", "twist": "generated_commands",
    "generated_commands": "generated_commands",
}  # fmt: skip
"""Our terms by mjlab's."""


def find(source: Path) -> list[Path]:
    """ONNX files with the metadata of one of the two, at or below ``source``."""
    files = [source] if source.suffix == ".onnx" else sorted(source.glob("*.onnx"))
    return [path for path in files if path.is_file() and _family(_metadata(path)[1])]


def load(path: Path, options: Options) -> DescribedPolicy:
    return described(read(path), options)


def read(path: Path) -> Found:
    """The policy in the ONNX file ``path``."""
    content, said = _metadata(path)
    family = _family(said)
    with in_form(path, str(family), HOLOSOMA if family == "holosoma" else MJLAB):
        d = (_holosoma if family == "holosoma" else _mjlab)(path, said)
    return Found(description=description_from(d, path.name), graph=content, weights_sha256=sha256(content))


def _family(said: Mapping[str, Any]) -> str | None:
    if all(key in said for key in HOLOSOMA):
        return "holosoma"
    return "mjlab" if all(key in said for key in MJLAB) else None


def _metadata(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Content of the file, and its metadata: JSON where it is JSON, else lists of what commas part."""
    try:
        content = read_bytes(path, FILE_BYTES)
        check_graph(content, path)
    except FileError:
        return b"", {}
    model = onnx.load_from_string(content)
    return content, {entry.key: _value(entry.value) for entry in model.metadata_props}


def _value(text: str) -> Any:
    try:
        return parse_json(text, "metadata")
    except FileError:
        parts = [part.strip() for part in text.split(",")]
    try:
        return [float(part) for part in parts]
    except ValueError:
        return parts if len(parts) > 1 else text


def _holosoma(path: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    ranges = said["command_ranges"]
    if not isinstance(ranges, Mapping):
        raise PolicyImportError(f"{path.name} follows no velocity command (command_ranges is {ranges}): it is no walk")
    joints = said["dof_names"]
    robot = "t1" if "Waist" in joints else "g1"
    gyro, dof_vel = SCALES[robot]
    observation = [
        {"term": "last_action"},
        {"term": "base_ang_vel", "scale": gyro},
        {"term": "generated_commands", "columns": [2]},
        {"term": "generated_commands", "columns": [0, 1]},
        {"term": "phase_cos"},
        {"term": "joint_pos_rel"},
        {"term": "joint_vel_rel", "scale": dof_vel},
        {"term": "projected_gravity"},
        {"term": "phase_sin"},
    ]
    return {
        "family": "holosoma",
        "name": path.stem,
        "robot": "g1-29dof" if robot == "g1" else None,
        "joints": joints,
        "default_joint_pos": POSES[robot],
        "stiffness": said["kp"],
        "damping": said["kd"],
        "control_dt": 0.02,
        "action": {"scale": 0.25},
        "observation": observation,
        "command": {"ranges": {"lin_vel_x": ranges["lin_vel_x"], "lin_vel_y": ranges["lin_vel_y"],
                               "ang_vel_z": ranges["ang_vel_yaw"]}},
        "clock": {"frequency": 1.0, "offsets": [0.0, 0.5], "first": 1, "rest_below": 0.01, "rest_phase": 0.5,
                  "restarts": True},
        "network": {"file": path.name},
        "licence": "Apache-2.0",
        "source": "amazon-far/holosoma",
        "guessed": {"action scale, rate, clock, default pose": "as holosoma's own runner has them; not in the file"},
    }  # fmt: skip


def _mjlab(path: Path, said: Mapping[str, Any]) -> dict[str, Any]:
    names = said["observation_names"]
    if unknown := [name for name in names if name not in TERMS]:
        raise PolicyImportError(
            f"{path.name} reads {', '.join(unknown)}, which have no equivalent here ({', '.join(TERMS)}): give a "
            f"description with --describe"
        )
    return {
        "family": "mjlab",
        "name": path.stem,
        "joints": said["joint_names"],
        "default_joint_pos": said["default_joint_pos"],
        "stiffness": said["joint_stiffness"],
        "damping": said["joint_damping"],
        "control_dt": 0.02,
        "action": {"scale": said["action_scale"]},
        "observation": [{"term": TERMS[name]} for name in names],
        "command": {"ranges": {"lin_vel_x": [-1.0, 1.0], "lin_vel_y": [-1.0, 1.0], "ang_vel_z": [-0.5, 0.5]}},
        "network": {"file": path.name},
        "source": "mjlab",
        "guessed": {
            "control_dt": "0.02 s, as mjlab's velocity tasks; not in the file",
            "command ranges": "the first stage of mjlab's velocity task; not in the file",
        },
    }
