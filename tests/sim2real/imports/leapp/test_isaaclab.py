"""LEAPP packages as Isaac Lab 3.0's exporter writes them: PhysX's joint order, x y z w, and no contract beside them.

The same packages from that exporter itself are compared in tests/peers/isaaclab3.
"""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import yaml
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_sim2real.bundle.export import open_session
from gaitway_sim2real.imports.leapp.bundle import bundle_of_package
from gaitway_sim2real.imports.leapp.package import LeappError
from gaitway_tasks.math import projected_gravity
from gaitway_tasks.robots import ANYMAL_C, ROBOTS
from leapp_packages import KINDS, MEASURED, PHYSX, RAYS, Policy, default_pose, simple, write

pytest.importorskip("leapp")


def mixer(width: int, outputs: int = 12) -> torch.Tensor:
    return 0.1 * torch.randn(width, outputs, generator=torch.Generator().manual_seed(width))


def velocity_policy(order: tuple[str, ...]) -> Policy:
    """Inputs in ``order`` and the last action through one layer; target = default + 0.5 action."""

    def policy(x: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> Any:
        seen = torch.cat([x[name] for name in order] + [state["last_action"]], 1)
        action = torch.tanh(seen @ mixer(12 + sum(KINDS[name][3][1] for name in order)))
        return default_pose() + 0.5 * action, {"last_action": action}

    return policy


def run(bundle: Path, steps: int, batch: int = 3, seed: int = 0) -> tuple[Contract, list[dict[str, np.ndarray]]]:
    """Random inputs in the bundle's conventions, and what its graph makes of them, step by step."""
    contract, session = Contract.load(bundle), open_session(bundle / "policy.onnx")
    rng, rows = np.random.default_rng(seed), []
    state = np.zeros((batch, contract.state_dim), np.float32)
    for _ in range(steps):
        feed = {s.name: rng.standard_normal((batch, s.shape[1])).astype(np.float32) for s in contract.inputs[:-1]}
        feed["imu_quat_wxyz"] /= np.linalg.norm(feed["imu_quat_wxyz"], axis=1, keepdims=True)
        target, action, state = session.run(["joint_pos_target", "action", "next_state"], {**feed, "state": state})
        rows.append({**feed, "joint_pos_target": target, "action": action})
    return contract, rows


def robot_by_robot(bundle: Path) -> bool:
    return [node.op_type for node in onnx.load(bundle / "policy.onnx").graph.node] == ["Scan"]


def as_isaac_lab(row: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The bundle's inputs as the environment has them: PhysX's order and x, y, z, w."""
    to_physx = [ANYMAL_C.joint_names.index(name) for name in PHYSX]
    tensors = {name: torch.tensor(value) for name, value in row.items()}
    seen = {
        "robot_joint_pos": tensors["joint_pos"][:, to_physx],
        "robot_joint_vel": tensors["joint_vel"][:, to_physx],
        "robot_root_quat_w": tensors["imu_quat_wxyz"][:, [1, 2, 3, 0]],
        "robot_projected_gravity_b": projected_gravity(tensors["imu_quat_wxyz"]),
        "robot_root_ang_vel_b": tensors["gyro"],
        "base_velocity": tensors["command"],
    }
    if "base_lin_vel" in tensors:
        seen["robot_root_lin_vel_b"] = tensors["base_lin_vel"]
    return seen


def worst_error(policy: Policy, rows: list[dict[str, np.ndarray]], state: dict[str, torch.Tensor]) -> float:
    """Largest difference between the bundle's targets and the policy's own, in Isaac Lab's conventions [rad]."""
    from_physx = [PHYSX.index(name) for name in ANYMAL_C.joint_names]
    worst = 0.0
    for row in rows:
        target, state = policy(as_isaac_lab(row), state)
        worst = max(worst, float((target[:, from_physx] - torch.tensor(row["joint_pos_target"])).abs().max()))
    return worst


ALL = (*MEASURED, "robot_root_lin_vel_b", "robot_projected_gravity_b")


def test_orders_frames_and_feedback_of_isaac_lab_become_the_bundles(tmp_path: Path) -> None:
    order = tuple(reversed(ALL))
    policy = velocity_policy(order)
    package = write(tmp_path, policy, ALL, state={"last_action": torch.zeros(1, 12)})
    said: list[str] = []
    bundle = bundle_of_package(package, say=said.append)
    assert not robot_by_robot(bundle)
    contract, rows = run(bundle, 5)
    assert worst_error(policy, rows, {"last_action": torch.zeros(3, 12)}) < 1e-6
    assert contract.task == "Isaac-Velocity-Flat-Anymal-C-v0" and contract.robot == "anymal-c"
    assert contract.estimated == ("base_lin_vel",)
    assert contract.action.scale == (0.5,) * 12 and contract.action.offset == ANYMAL_C.default_joint_pos
    for row in rows:
        expected = (row["joint_pos_target"] - np.array(ANYMAL_C.default_joint_pos)) / 0.5
        np.testing.assert_allclose(row["action"], expected, atol=1e-5)
    assert contract.per_joint("stiffness") == (150.0,) * 12 and contract.per_joint("damping") == (3.0,) * 12
    assert contract.per_joint("effort_limit") == (80.0,) * 12
    assert contract.control_dt == pytest.approx(0.02)
    assert any("50 Hz" in line for line in said) and any("torque limits" in line for line in said)


def test_state_of_any_shape_starts_from_the_packages_initial_values(tmp_path: Path) -> None:
    """As with an LSTM, whose state is (layers, 1, hidden)."""

    def policy(x: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> Any:
        memory = 0.5 * state["actor_state_0"] + x["robot_root_ang_vel_b"].mean()
        return default_pose() + memory.sum() * 0.01 + 0.0 * x["robot_joint_pos"], {"actor_state_0": memory}

    start = torch.arange(8.0).reshape(2, 1, 4)
    package = write(tmp_path, policy, ("robot_joint_pos", "robot_root_ang_vel_b"), state={"actor_state_0": start})
    bundle = bundle_of_package(package, say=lambda text: None)
    OnboardPolicy(bundle)
    assert robot_by_robot(bundle)  # the layers come first: robots cannot
    contract, rows = run(bundle, 4, batch=2)
    assert contract.state_dim == 1 + 8
    for robot in range(2):
        memory = start.numpy()
        for row in rows:
            memory = 0.5 * memory + row["gyro"][robot].mean()
            expected = np.array(ANYMAL_C.default_joint_pos) + 0.01 * memory.sum()
            np.testing.assert_allclose(row["joint_pos_target"][robot], expected, atol=1e-5)
    assert contract.action.scale == (1.0,) * 12  # without a last action, the action is the offset from the default


def test_the_height_scan_is_the_sensors_height_above_its_hits(tmp_path: Path) -> None:
    def policy(x: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> Any:
        scan = x["height_scanner_pos_w"][:, 2].unsqueeze(1) - x["height_scanner_ray_hits_w"][..., 2] - 0.5
        return default_pose() + 0.1 * scan[:, :12] + 0.0 * x["robot_joint_pos"], {}

    inputs = ("robot_joint_pos", "height_scanner_pos_w", "height_scanner_ray_hits_w")
    contract, rows = run(bundle_of_package(write(tmp_path, policy, inputs), say=lambda text: None), 2)
    assert contract.estimated == ("height_scan",)
    assert contract.height_scan is not None and len(contract.height_scan.points()) == RAYS
    from_physx = [PHYSX.index(name) for name in ANYMAL_C.joint_names]
    for row in rows:
        expected = (default_pose().numpy() + 0.1 * (row["height_scan"][:, :12] - 0.5))[:, from_physx]
        np.testing.assert_allclose(row["joint_pos_target"], expected, atol=1e-5)


def test_a_graph_that_looks_at_where_its_rays_hit_is_refused(tmp_path: Path) -> None:
    def policy(x: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> Any:
        return default_pose() + x["height_scanner_ray_hits_w"][..., :12, 0] + 0.0 * x["robot_joint_pos"], {}

    package = write(tmp_path, policy, ("robot_joint_pos", "height_scanner_ray_hits_w"))
    with pytest.raises(LeappError, match="uses more of its height scanner than the height"):
        bundle_of_package(package, say=lambda text: None)


UNMATCHED: dict[str, tuple[Any, str]] = {
    "robot_root_ang_vel_b": ((None, None, None, (1, 3)), r"robot_root_ang_vel_b \(no kind\): it has no kind"),
    "robot_root_lin_vel_w": (
        ("state/body/linear_velocity", ["x", "y", "z"], "state:robot:root_lin_vel_w", (1, 3)),
        "only vectors in the base frame",
    ),
    "base_velocity": (
        ("command/body/velocity", ["x", "y", "z", "heading"], "command:pose", (1, 4)),
        "its 4 numbers are x, y, z, heading",
    ),
    "robot_joint_pos": (
        ("state/joint/position", [*PHYSX[:-1], "TAIL"], "state:robot:joint_pos", (1, 12)),
        "the robot has no joint TAIL",
    ),
    "robot_joint_effort": (
        ("state/joint/effort", PHYSX, "state:robot:joint_effort", (1, 12)),
        "no sensor or estimate of a legged robot gives it",
    ),
}


def test_inputs_that_cannot_be_matched_are_listed(tmp_path: Path) -> None:
    kinds = {name: kind for name, (kind, _) in UNMATCHED.items()}
    package = write(tmp_path, simple, ("robot_joint_vel", *kinds), kinds=kinds)
    with pytest.raises(LeappError, match="robot_root_ang_vel_b") as error:
        bundle_of_package(package, say=lambda text: None)
    for name, (_, fault) in UNMATCHED.items():
        assert re.search(f"input {name}[^;]*{fault}|input {fault}", str(error.value)), name
    assert "robot_joint_vel" not in str(error.value)
    assert not (package / "bundle").exists()


def test_a_package_that_moves_other_joints_names_the_robots_there_are(tmp_path: Path) -> None:
    package = write(tmp_path, simple, ("robot_root_ang_vel_b",), targets=[f"joint_{k}" for k in range(12)])
    with pytest.raises(LeappError, match=r"moves joint_0, .*no robot that Gaitway knows has exactly these joints"):
        bundle_of_package(package, say=lambda text: None)


def test_gains_of_zero_give_way_to_the_robots_own_and_the_packages_own_rate_is_taken(tmp_path: Path) -> None:
    from leapp.utils.tensor_description import GraphConfigs

    said: list[str] = []
    package = write(tmp_path, simple, ("robot_joint_pos",), kp=0.0, graph_configs=GraphConfigs(frequency=100.0))
    contract = Contract.load(bundle_of_package(package, say=said.append))
    assert contract.per_joint("stiffness") == tuple(law.stiffness for law in ANYMAL_C.joint_actuators)
    assert any("gains as anymal-c has them" in line for line in said)
    assert math.isclose(contract.control_dt, 0.01) and contract.decimation == 2


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose name tells no robot. Read-only."""
    return write(tmp_path_factory.mktemp("unnamed"), simple, ("robot_joint_pos",), node="walk-somewhere")


def renamed(package: Path, node: str, folder: Path) -> Path:
    """The same package of a node with another name."""
    copy = Path(shutil.copytree(package, folder / node))
    for path in copy.iterdir():
        if path.suffix == ".yaml":
            path.write_text(path.read_text().replace(package.name, node))
        path.rename(path.with_name(path.name.replace(package.name, node)))
    return copy


def test_robots_that_share_their_joints_are_told_apart_by_name_or_option(unnamed: Path, tmp_path: Path) -> None:
    twins = [name for name, robot in ROBOTS.items() if set(robot.joint_names) == set(ANYMAL_C.joint_names)]
    assert len(twins) > 1
    for node, robot in (
        ("Isaac-Velocity-Rough-Anymal-D-v0", "anymal-d"),
        ("IsaacContrib-Velocity-Flat-AnymalB", "anymal-b"),  # as 3.0.0 spells its tasks
    ):
        assert Contract.load(bundle_of_package(renamed(unnamed, node, tmp_path), say=lambda text: None)).robot == robot
    package = renamed(unnamed, "walk-anywhere", tmp_path)
    with pytest.raises(LeappError, match=r"fits .*anymal-c.*: name its robot with --robot"):
        bundle_of_package(package, say=lambda text: None)
    for robot in ("anymal-b", "anymal-c"):
        assert Contract.load(bundle_of_package(package, robot=robot, say=lambda text: None)).robot == robot
    with pytest.raises(LeappError, match=r"--robot rex: Gaitway knows .*anymal-c"):
        bundle_of_package(package, robot="rex", say=lambda text: None)


def test_torchscript_is_refused_with_the_exporters_option(unnamed: Path, tmp_path: Path) -> None:
    package = renamed(unnamed, "walk-in-torchscript", tmp_path)
    path = next(package.glob("*.yaml"))
    data = yaml.safe_load(path.read_text())
    next(iter(data["models"].values()))["parameters"]["backend"] = "jit"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(LeappError, match="--export_method onnx-dynamo"):
        bundle_of_package(package)
