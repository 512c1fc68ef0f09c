"""Policies as others publish them, small and of our own making: a network of known weights and its description."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from gaitway_sim2real.imports.described_policy import DescribedPolicy
from gaitway_sim2real.imports.families import Options
from gaitway_sim2real.imports.readers import described
from gaitway_tasks.robots import ROBOTS
from onnx import TensorProto, helper, numpy_helper

GO2 = ROBOTS["go2"]
G1 = ROBOTS["g1-29dof"]


def linear_onnx(
    inputs: int, outputs: int, *, seed: int = 0, opset: int = 13, names: tuple[str, str] = ("obs", "actions"),
    metadata: Mapping[str, Any] | None = None, dtype: int = TensorProto.FLOAT, robots: int = 1,
) -> bytes:  # fmt: skip
    """action = tanh(obs @ W + b) for one robot, as most exporters write it: with a batch of one."""
    rng = np.random.default_rng(seed)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    weights = {"W": rng.normal(0.0, 0.1, (inputs, outputs)), "b": rng.normal(0.0, 0.1, outputs)}
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", [names[0], "W", "b"], ["hidden"]),
            helper.make_node("Tanh", ["hidden"], [names[1]]),
        ],
        "policy",
        [helper.make_tensor_value_info(names[0], dtype, [robots, inputs])],
        [helper.make_tensor_value_info(names[1], dtype, [robots, outputs])],
        [numpy_helper.from_array(value.astype(kind), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    helper.set_model_props(model, {key: value if isinstance(value, str) else json.dumps(value)
                                   for key, value in (metadata or {}).items()})  # fmt: skip
    return bytes(model.SerializeToString())


def recurrent_onnx(inputs: int, size: int, outputs: int, opset: int = 13, robots: int = 1) -> bytes:
    """next h = tanh(obs W + h U), action = h V; h is (1, N, size), as rsl_rl exports it."""
    rng = np.random.default_rng(1)
    weights = {"W": (inputs, size), "U": (size, size), "V": (size, outputs)}
    axes = numpy_helper.from_array(np.array([0], np.int64), "axis")
    graph = helper.make_graph(
        [
            helper.make_node("Squeeze", ["h_in", "axis"], ["h"]),
            helper.make_node("MatMul", ["obs", "W"], ["a"]),
            helper.make_node("MatMul", ["h", "U"], ["b"]),
            helper.make_node("Add", ["a", "b"], ["c"]),
            helper.make_node("Tanh", ["c"], ["next"]),
            helper.make_node("MatMul", ["next", "V"], ["actions"]),
            helper.make_node("Unsqueeze", ["next", "axis"], ["h_out"]),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [robots, inputs]),
         helper.make_tensor_value_info("h_in", TensorProto.FLOAT, [1, robots, size])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [robots, outputs]),
         helper.make_tensor_value_info("h_out", TensorProto.FLOAT, [1, robots, size])],
        [axes, *(numpy_helper.from_array(rng.normal(0.0, 0.2, shape).astype(np.float32), name)
                 for name, shape in weights.items())],
    )  # fmt: skip
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7).SerializeToString()
    )


def description(**changes: Any) -> dict[str, Any]:
    """A Go2 that reads what a blind walker reads, in an order of joints that is not ours: 45 numbers."""
    joints = [f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in ("hip", "thigh", "calf")]
    return {
        "family": "described",
        "name": "walk",
        "robot": "go2",
        "joints": joints,
        "default_joint_pos": {".*hip.*": 0.1, ".*thigh.*": 0.8, ".*calf.*": -1.5},
        "stiffness": 25.0,
        "damping": 0.5,
        "control_dt": 0.02,
        "action": {"scale": 0.25},
        "observation": [
            {"term": "base_ang_vel", "scale": 0.25},
            {"term": "projected_gravity"},
            {"term": "generated_commands", "scale": [2.0, 2.0, 0.25]},
            {"term": "joint_pos_rel"},
            {"term": "joint_vel_rel", "scale": 0.05},
            {"term": "last_action"},
        ],
        "command": {"ranges": {"lin_vel_x": [-1.0, 1.0], "lin_vel_y": [-0.5, 0.5], "ang_vel_z": [-1.0, 1.0]}},
        "network": {"file": "policy.onnx"},
        **changes,
    }


def write(path: Path, content: bytes | str | Mapping[str, Any]) -> Path:
    """A file with its folders; mappings become YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else yaml.dump(dict(content), Dumper=yaml.CSafeDumper))
    return path


def loaded(folder: Path, graph: bytes, options: Options | None = None, **changes: Any) -> DescribedPolicy:
    """A policy with this graph and the usual description."""
    data = {key: value for key, value in description(**changes).items() if key != "family"}
    files = write(folder / "policy.onnx", graph), write(folder / "d.yaml", data)
    return described.load(*files, options or Options())


def bundle_of(folder: Path, **changes: Any) -> Path:
    """The bundle of a linear policy with the usual description."""
    return loaded(folder, linear_onnx(45, 12), **changes).export(folder / "bundle")


def inputs_of(content: bytes) -> int:
    return int(onnx.load_from_string(content).graph.input[0].type.tensor_type.shape.dim[1].dim_value)


def deploy_yaml(**changes):
    """unitree_rl_lab's file for a G1: gains by motor, all else by the policy's joints, which have no names."""
    ids = [0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 22, 4, 10, 16, 23, 5, 11, 17, 24, 18, 25, 19, 26, 20, 27, 21, 28]
    terms = ("base_ang_vel", "projected_gravity", "velocity_commands", "joint_pos_rel", "joint_vel_rel", "last_action")
    said = {
        "joint_ids_map": ids,
        "step_dt": 0.02,
        "stiffness": [100.0 + motor for motor in range(29)],
        "damping": [1.0 + motor for motor in range(29)],
        "default_joint_pos": [0.01 * k for k in range(29)],
        "commands": {"base_velocity": {"ranges": {"lin_vel_x": [-0.5, 1.0], "lin_vel_y": [-0.3, 0.3],
                                                  "ang_vel_z": [-0.2, 0.2], "heading": None}}},
        "actions": {"JointPositionAction": {"clip": None, "scale": [0.25] * 29, "offset": [0.01 * k for k in range(29)],
                                            "joint_ids": None}},
        "observations": {name: {"clip": None, "scale": [1.0] * (3 if k < 3 else 29), "history_length": 5}
                         for k, name in enumerate(terms)},
    }  # fmt: skip
    return {**said, **changes}


def unitree_lab(folder, text=None, **changes):
    write(folder / "robots/g1/config/policy/velocity/v0/exported/policy.onnx", linear_onnx(480, 29, opset=11))
    return write(folder / "robots/g1/config/policy/velocity/v0/params/deploy.yaml", text or deploy_yaml(**changes))


METADATA = {
    "dof_names": list(G1.joint_names),
    "kp": [40.0] * 29,
    "kd": [2.5] * 29,
    "command_ranges": {"lin_vel_x": [-1.0, 1.0], "lin_vel_y": [-0.8, 0.8], "ang_vel_yaw": [-1.2, 1.2]},
}


def holosoma(folder, name="walk.onnx", **changes):
    """A file of holosoma's for a G1: 100 numbers."""
    graph = linear_onnx(100, 29, names=("actor_obs", "action"), metadata={**METADATA, **changes})
    return write(folder / name, graph)


WRONG = (None, "x", [], {}, [[]], -1, 1e300, True)


def mangled(said: Any) -> Iterator[tuple[str, Any]]:
    """``said`` with each of its values in turn, at any depth, replaced by each wrong one; and where that was."""
    for wrong in WRONG:
        yield repr(wrong), wrong
    items = said.items() if isinstance(said, dict) else enumerate(said[:1]) if isinstance(said, list) else ()
    for key, value in items:
        for place, changed in mangled(value):
            copy = dict(said) if isinstance(said, dict) else list(said)
            copy[key] = changed
            yield f"{key}: {place}", copy
