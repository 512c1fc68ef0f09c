"""Small LEAPP packages as Isaac Lab 3.0's exporter writes them, through NVIDIA's library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from gaitway_tasks.robots import ANYMAL_C, Robot
from gaitway_tasks.robots.orders import physx_order

PHYSX = list(physx_order(ANYMAL_C))
RAYS = 187
KINDS = {
    "robot_joint_pos": ("state/joint/position", PHYSX, "state:robot:joint_pos", (1, 12)),
    "robot_joint_vel": ("state/joint/velocity", PHYSX, "state:robot:joint_vel", (1, 12)),
    "robot_root_quat_w": ("state/body/rotation", ["qx", "qy", "qz", "qw"], "state:robot:root_quat_w", (1, 4)),
    "robot_projected_gravity_b": ("state/vector3d", ["x", "y", "z"], "state:robot:projected_gravity_b", (1, 3)),
    "robot_root_ang_vel_b": ("state/body/angular_velocity", ["x", "y", "z"], "state:robot:root_ang_vel_b", (1, 3)),
    "robot_root_lin_vel_b": ("state/body/linear_velocity", ["x", "y", "z"], "state:robot:root_lin_vel_b", (1, 3)),
    "base_velocity": (
        "command/body/velocity", ["lin_vel_x", "lin_vel_y", "ang_vel_z"], "command:base_velocity", (1, 3)
    ),
    "height_scanner_pos_w": ("state/sensor/position", ["x", "y", "z"], "state:height_scanner:pos_w", (1, 3)),
    "height_scanner_ray_hits_w": (
        "state/sensor/ray_hit_position", None, "state:height_scanner:ray_hits_w", (1, RAYS, 3)
    ),
}  # fmt: skip
MEASURED = ("robot_joint_pos", "robot_joint_vel", "robot_root_quat_w", "robot_root_ang_vel_b", "base_velocity")
Policy = Callable[..., tuple[torch.Tensor, dict[str, torch.Tensor]]]


def write(
    folder: Path,
    policy: Policy,
    inputs: tuple[str, ...] = MEASURED,
    *,
    state: dict[str, torch.Tensor] | None = None,
    kinds: dict[str, Any] | None = None,
    targets: list[str] | None = None,
    kp: float = 150.0,
    node: str = "Isaac-Velocity-Flat-Anymal-C-v0",
    **compile_options: Any,
) -> Path:
    """Trace ``policy(inputs, state) -> (targets, next state)`` as the exporter traces an environment."""
    import leapp
    from leapp import annotate
    from leapp.utils.tensor_description import TensorSemantics

    described = {**KINDS, **(kinds or {})}
    targets = PHYSX if targets is None else targets
    leapp.start(node, save_path=str(folder), max_cached_io=2)
    with torch.inference_mode():
        for _ in range(2):
            rows = []
            for name in inputs:
                kind, elements, connection, shape = described[name]
                value = torch.full(shape, 0.1)
                extra = {"isaaclab_connection": connection} if connection else None
                rows.append(TensorSemantics(name=name, ref=value, kind=kind, element_names=elements, extra=extra))
            traced = annotate.input_tensors(node, rows)
            traced = dict(zip(inputs, traced if isinstance(traced, tuple) else (traced,), strict=True))
            kept = {}
            for name, value in (state or {}).items():
                kept[name] = annotate.state_tensors(node, {name: value.clone()})
            target, following = policy(traced, kept)
            if following:
                annotate.update_state(node, following)
            gain = TensorSemantics(
                name="joint_pos_kp_gains", ref=torch.full((1, len(targets)), kp), kind="kp", element_names=targets
            )
            damping = TensorSemantics(
                name="joint_pos_kd_gains", ref=torch.full((1, len(targets)), 3.0), kind="kd", element_names=targets
            )
            output = TensorSemantics(name="joint_pos", ref=target, kind="target/joint/position", element_names=targets)
            annotate.output_tensors(node, [output], static_outputs=[gain, damping], export_with="onnx-dynamo")
    leapp.stop()
    assert leapp.compile_graph(visualize=False, **compile_options)
    return folder / node


def default_pose(robot: Robot = ANYMAL_C) -> torch.Tensor:
    order = physx_order(robot)
    return torch.tensor([robot.default_joint_pos[robot.joint_names.index(name)] for name in order])[None]


def simple(x: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> Any:
    return default_pose() + sum(0.01 * value.mean() for value in x.values()), {}
