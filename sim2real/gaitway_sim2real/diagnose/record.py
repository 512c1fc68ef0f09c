"""Record a bundle's robots, in plain MuJoCo or another simulator: something to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_tasks.recording import Recording, RecordingError, RolloutBuffer

from ..bundle.batched_policy import BatchedPolicy
from .history import contract_layout
from .seen_command import limited_columns, newest_frame, seen
from .terms import expected_terms
from .view import view_of


class Robots(Protocol):
    """N robots of a bundle in a simulator."""

    def signals(self) -> dict[str, np.ndarray]:
        """Inputs of the graph but its command."""

    def base_pos(self) -> np.ndarray:
        """[m], (N, 3)"""

    def lin_vel(self) -> np.ndarray:
        """Velocity of the base in its own frame [m/s], (N, 3)."""


def record_bundle(
    bundle: str | Path, *, seconds: float, envs: int, seed: int = 0, model: Path | None = None
) -> Recording:
    """``envs`` robots in MuJoCo, as the validation suite simulates them, with a new random command every 4 s.

    ``model`` is another MJCF of the same robot.
    """
    import mujoco

    from ..mujoco.plant import build_plant
    from ..mujoco.robots import RobotBatch
    from ..trial.scenario import Scenario
    from ..trial.suites import suite_of

    bundle = Path(bundle)
    contract = recordable(bundle)
    scenario = Scenario(name="record", title="", about="", limits=(), envs=envs, seconds=seconds, commands="steps")
    conditions = suite_of(contract).draw(scenario, contract, seed)
    plant = build_plant(contract, model or bundle / "robot.xml", bundle / "robot.xml")
    robots = RobotBatch(plant, contract, envs)
    robots.place(yaw=conditions.yaw, joint_offset=conditions.joint_offset, velocity=conditions.velocity)

    def step(target: np.ndarray) -> np.ndarray:
        robots.ctrl[:] = target
        robots.step(plant.decimation)
        return robots.measure()["torque"].copy()

    return record_robots(
        robots, step, bundle, contract, conditions.command, physics_dt=float(plant.model.opt.timestep),
        simulator=f"MuJoCo {mujoco.__version__}, as gaitway validate steps it",
    )  # fmt: skip


def recordable(bundle: Path) -> Contract:
    """The contract of a bundle, whole and of a policy that flat ground is enough for."""
    verify_files(bundle)
    contract = Contract.load(bundle)
    contract.check_velocity("recordings have")
    if contract.height_scan is not None:
        raise RecordingError(
            f"{contract.task} scans the ground, which is flat for a bundle: record it where it trains instead"
        )
    return contract


def record_robots(
    robots: Robots,
    step: Callable[[np.ndarray], np.ndarray],
    bundle: Path,
    contract: Contract,
    commands: Iterable[np.ndarray],
    **told: Any,
) -> Recording:
    """Recording of ``robots`` on flat ground under the ``commands`` of each control step, (N, 3) each.

    ``step`` holds joint position targets [rad] (N, J) for a control period and returns the drives' last torques [N m].
    The graph keeps its observation to itself: the recorded one is built by the contract. The recorded command is the
    one that the policy saw, limited and corrected, as a world that it learns in records it. ``told`` is the rest of
    :class:`RolloutBuffer`.
    """
    buffer = RolloutBuffer(
        joint_names=contract.joint_names,
        quat_order="wxyz",
        velocity_frame="base",
        control_dt=contract.control_dt,
        starts_at_reset=True,
        observation_noise=False,
        flat_ground=True,
        **told,
    )
    limited = limited_columns(contract)
    newest, frames = newest_frame(contract), []
    policy, torque = None, np.zeros((0, contract.num_joints))
    for command in commands:
        if policy is None:
            policy = BatchedPolicy(bundle / "policy.onnx", contract, len(command))
            torque = np.zeros((len(command), contract.num_joints))
        signals = robots.signals()
        target, action = policy({**signals, "command": command})
        followed = command if limited is None else policy.state[:, limited]
        buffer.add(
            {
                "observation": np.zeros((len(command), 1)),
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
                "done": np.zeros(len(command), bool),
            }
        )
        frames.append(policy.state[:, newest].copy())
        torque = step(target)
    recording = buffer.recording()
    return replace(recording, observation=_observation(recording, contract, bundle, np.stack(frames)))


def _observation(recording: Recording, contract: Contract, bundle: Path, frames: np.ndarray) -> np.ndarray:
    """The observation of each row by the contract, (T, N, D). What no recorded quantity gives, such as the clock of a
    gait, is as the graph has kept it: its newest ``frames``, (T, N, F), or (T, N, 0) if it keeps none."""
    view = view_of(recording, contract)
    terms = expected_terms(view, bundle)
    unknown = ", ".join(f"{term.name} ({term.why_not})" for term in terms if term.value is None)
    if unknown and not frames.shape[2]:
        raise RecordingError(f"the observation of {contract.task} cannot be rebuilt: {unknown}")
    values = [frames[..., t.columns] if t.value is None else t.observed(t.value) for t in terms]
    built = np.concatenate(values, -1)
    layout, dims = contract_layout(contract), [term.layout.dim for term in terms]
    observation = np.zeros((*built.shape[:2], sum(dims) * layout.length), np.float32)
    for age in range(layout.length):
        observation[..., layout.columns(dims, age)] = built[np.maximum(np.arange(len(built)) - age, 0)]
    return observation
