"""A bundle made by hand: a policy that holds the default pose whatever it is told."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import Action, Actuator, Signal, TermLayout
from gaitway_sim2real.bundle.golden import plausible_signals, record_golden
from gaitway_tasks.robots import ANYMAL_C, DCMotor, Robot
from onnx import TensorProto, helper, numpy_helper


def inputs(joints: int) -> dict[str, int]:
    """Width of each input of a policy for so many joints."""
    return {"joint_pos": joints, "joint_vel": joints, "imu_quat_wxyz": 4, "gyro": 3, "command": 3, "state": 1}


def outputs(joints: int) -> dict[str, int]:
    return {"joint_pos_target": joints, "action": joints, "next_state": 1}


def stand_graph(pose: tuple[float, ...]) -> onnx.ModelProto:
    """``joint_pos_target = pose``; every input is read with weight zero, since a graph must use its inputs."""
    nodes, terms = [], []
    for name in inputs(len(pose)):
        nodes.append(helper.make_node("ReduceSum", [name, "axis"], [f"{name}_sum"], keepdims=1))
        terms.append(f"{name}_sum")
    nodes += [
        helper.make_node("Sum", terms, ["total"]),
        helper.make_node("Mul", ["total", "zero"], ["nothing"]),
        helper.make_node("Add", ["nothing", "pose"], ["joint_pos_target"]),
        helper.make_node("Sub", ["joint_pos_target", "pose"], ["action"]),
        helper.make_node("Identity", ["state"], ["next_state"]),
    ]
    constants = {
        "axis": np.array([1], np.int64),
        "zero": np.zeros((1, 1), np.float32),
        "pose": np.array([pose], np.float32),
    }

    def signals(sizes: dict[str, int]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", d]) for n, d in sizes.items()]

    graph = helper.make_graph(
        nodes,
        "stand",
        signals(inputs(len(pose))),
        signals(outputs(len(pose))),
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    return model


def make_stand_bundle(
    folder: Path,
    robot: Robot = ANYMAL_C,
    *,
    stiffness: float = 150.0,
    damping: float | None = None,
    speed: float = 1.0,
    effort_limit: float | None = None,
) -> Path:
    """Write a complete bundle of the standing policy for a robot whose joints get one law, its first.

    Gains are stiff by default: ANYmal's own 40 N m/rad are too soft to hold it up without feedback. ``speed`` is the
    largest command, in each way.
    """
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(stand_graph(robot.default_joint_pos), folder / "policy.onnx")
    (folder / "robot.xml").write_bytes(robot.mjcf.read_bytes())
    (folder / "io_descriptors.yaml").write_text("{}\n")
    session = onnxruntime.InferenceSession(str(folder / "policy.onnx"), providers=["CPUExecutionProvider"])
    ranges = np.array([[-speed, speed]] * 3)
    signals = plausible_signals(np.array(robot.default_joint_pos), ranges, steps=8, batch=1, step_dt=0.02, seed=0)
    np.savez(folder / "golden.npz", allow_pickle=False, **record_golden(session, signals, 1))
    law, joints = robot.joint_actuators[0], len(robot.joint_names)
    contract = Contract(
        task="stand",
        robot=robot.name,
        joint_names=robot.joint_names,
        default_joint_pos=robot.default_joint_pos,
        joint_pos_limits=robot.joint_limits,
        soft_joint_pos_limit_factor=robot.soft_joint_pos_limit_factor,
        actuators=(
            Actuator(
                joints=robot.joint_names,
                law="dc_motor" if isinstance(law, DCMotor) else "implicit_pd",
                stiffness=stiffness,
                damping=law.damping if damping is None else damping,
                effort_limit=law.effort_limit if effort_limit is None else effort_limit,
                saturation_effort=getattr(law, "saturation_effort", None),
                velocity_limit=getattr(law, "velocity_limit", None),
            ),
        ),
        action=Action(kind="joint_position", scale=(0.5,) * joints, offset=robot.default_joint_pos),
        control_dt=0.02,
        physics_dt=0.005,
        base_body="base",
        foot_bodies=robot.foot_names,
        init_height=robot.init_height,
        commands={"base_velocity": dict.fromkeys(("lin_vel_x", "lin_vel_y", "ang_vel_z"), (-speed, speed))},
        conventions={"quaternion": "w, x, y, z"},
        inputs=tuple(Signal(name=n, shape=("N", d), unit="1") for n, d in inputs(joints).items()),
        outputs=tuple(Signal(name=n, shape=("N", d), unit="1") for n, d in outputs(joints).items()),
        state_dim=1,
        observation=(TermLayout(term="none", dim=1, history=1, scale=1.0, clip=None, signals=("command",)),),
        software={"gaitway": "test"},
        checkpoint_sha256="0" * 64,
        files={
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in ("policy.onnx", "golden.npz", "robot.xml", "io_descriptors.yaml")
        },
    )
    contract.save(folder)
    return folder
