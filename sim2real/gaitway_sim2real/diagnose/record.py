"""Record a bundle in plain MuJoCo, as the validation suite simulates it: something to compare with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_tasks.recording import Recording, RecordingError, RolloutBuffer

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.plant import build_plant
from ..mujoco.robots import RobotBatch
from ..validate.conditions import draw
from ..validate.scenario import Scenario
from .history import contract_layout
from .seen_command import limited_columns, seen
from .terms import build_frames, expected_terms
from .view import view_of


def record_bundle(bundle: str | Path, *, seconds: float, envs: int, seed: int = 0) -> Recording:
    """``envs`` robots that start in the default pose and get a new random command every 4 s.

    The graph keeps its observation to itself: the recorded one is built by the contract. The recorded command is the
    one that the policy saw, limited and corrected, as a world that it learns in records it.
    """
    bundle = Path(bundle)
    verify_files(bundle)
    contract = Contract.load(bundle)
    if contract.height_scan is not None:
        raise RecordingError(
            f"{contract.task} scans the ground, which is flat for a bundle: record it where it trains instead"
        )
    scenario = Scenario(name="record", title="", about="", limits=(), envs=envs, seconds=seconds, commands="steps")
    conditions = draw(scenario, contract.command_ranges, contract.num_joints, contract.control_dt, seed)
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml")
    robots, policy = RobotBatch(plant, contract, envs), BatchedPolicy(bundle / "policy.onnx", contract, envs)
    robots.place(yaw=conditions.yaw, joint_offset=conditions.joint_offset, velocity=conditions.velocity)
    buffer = RolloutBuffer(
        joint_names=contract.joint_names,
        quat_order="wxyz",
        velocity_frame="base",
        control_dt=contract.control_dt,
        physics_dt=float(plant.model.opt.timestep),
        simulator=f"MuJoCo {mujoco.__version__}, as gaitway validate steps it",
        starts_at_reset=True,
        observation_noise=False,
        flat_ground=plant.ground.flat,
    )
    limited = limited_columns(contract)
    torque = np.zeros((envs, contract.num_joints))
    for command in conditions.command:
        signals = robots.signals()
        target, action = policy({**signals, "command": command})
        followed = command if limited is None else policy.state[:, limited]
        buffer.add(
            {
                "observation": np.zeros((envs, 1)),
                "action": action,
                "joint_pos": signals["joint_pos"],
                "joint_vel": signals["joint_vel"],
                "root_pos_w": robots.base_pos(),
                "root_quat": signals["imu_quat_wxyz"],
                "root_lin_vel": robots.lin_vel(),
                "root_ang_vel": signals["gyro"],
                "command": seen(contract, np.ascontiguousarray(followed, np.float32)),
                "joint_pos_target": target,
                "applied_torque": torque,
                "done": np.zeros(envs, bool),
            }
        )
        robots.ctrl[:] = target
        robots.step(plant.decimation)
        torque = robots.measure()["torque"].copy()
    recording = buffer.recording()
    return replace(recording, observation=_observation(recording, contract, bundle))


def _observation(recording: Recording, contract: Contract, bundle: Path) -> np.ndarray:
    view = view_of(recording, contract)
    terms = expected_terms(view, bundle)
    frames = build_frames(terms)
    if frames is None:
        unknown = ", ".join(f"{term.name} ({term.why_not})" for term in terms if term.value is None)
        raise RecordingError(f"the observation of {contract.task} cannot be rebuilt: {unknown}")
    layout, dims = contract_layout(contract), [term.layout.dim for term in terms]
    observation = np.zeros((*frames.shape[:2], sum(dims) * layout.length), np.float32)
    for age in range(layout.length):
        observation[..., layout.columns(dims, age)] = frames[np.maximum(np.arange(len(frames)) - age, 0)]
    return observation
