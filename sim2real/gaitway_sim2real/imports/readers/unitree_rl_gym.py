"""unitree_rl_gym: ``deploy/deploy_mujoco/configs/ROBOT.yaml`` and its TorchScript policy.

``deploy_mujoco.py`` has the observation's order and the gait's period, ``deploy/deploy_real/configs/ROBOT.yaml`` the
largest commands and how waist and arms are held. Joints are in the order of the legs in its MJCF.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaitway_files.reading import FileError
from gaitway_files.yaml_files import read_yaml

from ..bundle import Found
from ..described_policy import DescribedPolicy, described
from ..description_file import description_from, product
from ..errors import PolicyImportError, in_form
from ..families import Options
from ..weights import read_network

ROOT = "{LEGGED_GYM_ROOT_DIR}/"
PERIOD = 0.8  # [s], in deploy_mujoco.py
SIX = ("hip_yaw", "hip_pitch", "hip_roll", "knee", "ankle_pitch", "ankle_roll")
LEGS = {
    "g1": ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll"),
    "h1": ("hip_yaw", "hip_roll", "hip_pitch", "knee", "ankle"),
    "h1_2": SIX,
}
"""Joints of one leg, in the policy's order."""
ROBOTS = {"g1": "g1-29dof", "h1": "h1"}
KEYS = ("policy_path", "simulation_dt", "control_decimation", "kps", "kds", "default_angles", "ang_vel_scale",
        "dof_pos_scale", "dof_vel_scale", "action_scale", "cmd_scale", "num_actions")  # fmt: skip


def find(source: Path) -> list[Path]:
    """Its YAML files at or below ``source``, which may be the checkout."""
    files = [source] if source.is_file() else [*sorted(source.glob("*.yaml")),
        *sorted(source.glob("deploy/deploy_mujoco/configs/*.yaml"))]  # fmt: skip
    return [path for path in files if path.suffix == ".yaml" and _said(path) is not None]


def load(path: Path, options: Options) -> DescribedPolicy:
    return described(read(path), options)


def read(path: Path) -> Found:
    """The policy that the YAML file ``path`` names."""
    said = _said(path)
    assert said is not None
    robot = path.stem
    if robot not in LEGS:
        raise PolicyImportError(f"{path}: the joints of {robot} are not known here ({', '.join(LEGS)}); use --describe")
    with in_form(path, "unitree_rl_gym", KEYS):
        d = _description(said, _real(path), robot)
        network = _policy(path, said["policy_path"])
    return read_network(description_from(d, str(path)), network)


def _description(said: Mapping[str, Any], real: Mapping[str, Any], robot: str) -> dict[str, Any]:
    joints = [f"{side}_{joint}_joint" for side in ("left", "right") for joint in LEGS[robot]]
    largest = real.get("max_cmd", [0.8, 0.5, 1.57])
    return {
        "family": "unitree_rl_gym",
        "name": robot,
        "robot": ROBOTS.get(robot),
        "joints": joints,
        "default_joint_pos": said["default_angles"],
        "stiffness": said["kps"],
        "damping": said["kds"],
        "control_dt": product(said["simulation_dt"], said["control_decimation"], f"{robot}.yaml: control_decimation"),
        "physics_dt": said["simulation_dt"],
        "action": {"scale": said["action_scale"]},
        "held": {"stiffness": WAIST_STIFFNESS, "damping": WAIST_DAMPING, "position": {".*": 0.0}},
        "observation": [
            {"term": "base_ang_vel", "scale": said["ang_vel_scale"]},
            {"term": "projected_gravity"},
            {"term": "generated_commands", "scale": said["cmd_scale"]},
            {"term": "joint_pos_rel", "scale": said["dof_pos_scale"]},
            {"term": "joint_vel_rel", "scale": said["dof_vel_scale"]},
            {"term": "last_action"},
            {"term": "phase_sin"},
            {"term": "phase_cos"},
        ],
        "clock": {"frequency": 1.0 / PERIOD, "first": 1},
        "command": {"ranges": {name: [-most, most] for name, most in
                               zip(("lin_vel_x", "lin_vel_y", "ang_vel_z"), largest, strict=True)}},
        "network": {"file": Path(said["policy_path"]).name},
        "licence": "BSD-3-Clause",
        "source": "unitreerobotics/unitree_rl_gym",
        "guessed": {"command ranges": "max_cmd of deploy_real, both ways"},
    }  # fmt: skip


WAIST_STIFFNESS = {
    "waist.*|torso.*": 300.0,
    ".*shoulder_(pitch|roll).*": 100.0,
    ".*(shoulder|elbow).*": 50.0,
    ".*": 20.0,
}
WAIST_DAMPING = {"waist.*|torso.*": 3.0, ".*(shoulder|elbow).*": 2.0, ".*": 1.0}
"""Damping in ``deploy_real/configs/g1.yaml`` and ``h1.yaml``."""


def _said(path: Path) -> dict[str, Any] | None:
    try:
        data = read_yaml(path)
    except FileError:
        return None
    return data if isinstance(data, dict) and all(key in data for key in KEYS) else None


def _real(path: Path) -> dict[str, Any]:
    """The settings of the real robot, if the checkout has them."""
    file = path.absolute().parents[2] / "deploy_real" / "configs" / path.name
    try:
        data = read_yaml(file) if file.is_file() else {}
    except FileError as error:
        raise PolicyImportError(str(error)) from None
    return data if isinstance(data, dict) else {}


def _policy(path: Path, named: str) -> Path:
    """The policy below the checkout, or beside the YAML file."""
    inside = named.removeprefix(ROOT)
    parts = Path(inside).parts
    if Path(inside).is_absolute() or ".." in parts:
        raise PolicyImportError(f"{path}: policy_path {named!r} leads out of the folder")
    for folder in (*path.absolute().parents[:4], path.absolute().parent):
        if (found := folder / inside).is_file():
            return found
    if (found := path.with_name(Path(inside).name)).is_file():
        return found
    raise PolicyImportError(f"{path} names the policy {named}, which is not there: keep it at {inside} in the checkout")
