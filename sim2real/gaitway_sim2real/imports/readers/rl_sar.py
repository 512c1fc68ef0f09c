"""rl_sar: ``policy/ROBOT/base.yaml`` and ``policy/ROBOT/NAME/config.yaml`` with the network beside it.

Its runner's rules stand in ``rl_sdk.cpp`` (observation, action), ``observation_buffer.cpp`` (history: the listed ages,
each frame whole or term by term, zeros at the start) and ``rl_sim_mujoco.cpp``. Lists of ``config.yaml`` are in the
policy's order; ``joint_mapping`` leads from it to the ``joint_names`` of ``base.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaitway_files.reading import FileError
from gaitway_files.yaml_files import read_yaml
from gaitway_tasks.robots import ROBOTS

from ..bundle import Found
from ..described_policy import DescribedPolicy, described
from ..description_file import description_from, product
from ..errors import PolicyImportError, in_form
from ..families import Options
from ..weights import read_network

TERMS = {"lin_vel": "base_lin_vel", "ang_vel": "base_ang_vel", "gravity_vec": "projected_gravity",
         "commands": "generated_commands", "dof_pos": "joint_pos_rel", "dof_vel": "joint_vel_rel",
         "actions": "last_action"}  # fmt: skip
SCALES = {"lin_vel": "lin_vel_scale", "ang_vel": "ang_vel_scale", "commands": "commands_scale",
          "dof_pos": "dof_pos_scale", "dof_vel": "dof_vel_scale"}  # fmt: skip
KEYS = ("rl_kp", "rl_kd", "default_dof_pos", "torque_limits", "action_scale", "joint_mapping", "joint_names",
        "observations", "model_name", "dt", "decimation")  # fmt: skip
GUESSED_RANGES = {"lin_vel_x": [-1.0, 1.0], "lin_vel_y": [-0.5, 0.5], "ang_vel_z": [-1.0, 1.0]}


def find(source: Path) -> list[Path]:
    """Each ``config.yaml`` with a ``base.yaml`` above it, at or below ``source``."""
    if source.is_file():
        found = [source] if source.name == "config.yaml" else sorted(source.parent.glob("config.yaml"))
    else:
        below = ("", "*/", "*/*/", "policy/*/*/", "policy/*/*/*/")
        found = [path for folder in below for path in sorted(source.glob(f"{folder}config.yaml"))]
    return [path for path in dict.fromkeys(found) if _base(path) is not None]


def load(path: Path, options: Options) -> DescribedPolicy:
    return described(read(path), options)


def read(path: Path) -> Found:
    """The policy that ``config.yaml`` at ``path`` describes."""
    base_file = _base(path)
    assert base_file is not None
    try:
        base, config = (_only(read_yaml(file), file) for file in (base_file, path))
    except FileError as error:
        raise PolicyImportError(str(error)) from None
    said = {**base, **config}
    if missing := [key for key in KEYS if key not in said]:
        raise PolicyImportError(f"{path} and {base_file.name} beside it have no {', '.join(missing)}")
    with in_form(path, "rl_sar", KEYS):
        d = _description(said, path, base_file)
    return read_network(description_from(d, str(path)), path.parent / Path(str(said["model_name"])).name)


def _description(said: Mapping[str, Any], path: Path, base_file: Path) -> dict[str, Any]:
    names, mapping = said["joint_names"], said["joint_mapping"]
    if said.get("wheel_indices"):
        raise PolicyImportError(
            f"{path} drives wheels (wheel_indices {said['wheel_indices']}) by their speed: a bundle's output is joint "
            f"position targets"
        )
    if unknown := [name for name in said["observations"] if name not in TERMS]:
        raise PolicyImportError(f"{path} reads {', '.join(unknown)}; known terms are {', '.join(TERMS)}")
    if not all(isinstance(slot, int) and 0 <= slot < len(names) for slot in mapping):
        raise PolicyImportError(f"{path}: joint_mapping {mapping} is not one of the {len(names)} joint_names")
    ages = said.get("observations_history") or [0]
    low, high = said.get("clip_actions_lower"), said.get("clip_actions_upper")
    name = "/".join(path.parent.parts[path.parent.parts.index(base_file.parent.name) :])
    return {
        "family": "rl_sar",
        "name": name.replace("/", "-"),
        "robot": base_file.parent.name if base_file.parent.name in ROBOTS else None,
        "joints": [names[slot] for slot in mapping],
        "default_joint_pos": said["default_dof_pos"],
        "stiffness": said["rl_kp"],
        "damping": said["rl_kd"],
        "effort_limit": said["torque_limits"],
        "control_dt": product(said["dt"], said["decimation"], f"{path}: dt x decimation"),
        "physics_dt": said["dt"],
        "action": {"scale": said["action_scale"],
                   **({"raw_clip": [list(pair) for pair in zip(low, high, strict=True)]} if low and high else {})},
        "observation": [
            {"term": TERMS[term], "scale": said.get(SCALES.get(term, ""), 1.0)} for term in said["observations"]
        ],
        "history": {"ages": ages, "by": "term" if said.get("observations_history_priority") == "term" else "step",
                    "fill": "zeros"},
        "clip_observation": said.get("clip_obs"),
        "command": {"ranges": GUESSED_RANGES},
        "network": {"file": str(said["model_name"])},
        "licence": "Apache-2.0",
        "source": f"fan-ziqi/rl_sar, policy/{name}",
        "guessed": {"command ranges": "1 m/s, 0.5 m/s, 1 rad/s: rl_sar has none"},
    }  # fmt: skip


def _base(path: Path) -> Path | None:
    """``base.yaml`` in one of the three folders above the policy's."""
    folders = list(path.absolute().parents)[1:4]
    return next((folder / "base.yaml" for folder in folders if (folder / "base.yaml").is_file()), None)


def _only(data: Any, path: Path) -> dict[str, Any]:
    """The settings under the file's one key."""
    if not isinstance(data, dict) or len(data) != 1 or not isinstance(value := next(iter(data.values())), dict):
        raise PolicyImportError(f"{path} is no configuration of rl_sar: it must have one key, the policy's name")
    return value
