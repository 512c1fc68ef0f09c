"""One robot, one fixed sequence of commands: the episode that the report's curves and the video show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.plant import Plant
from .conditions import Conditions
from .scenarios import NOMINAL_FRICTION
from .simulate import Trajectory, simulate

SEQUENCE: tuple[tuple[float, str, tuple[float, float, float]], ...] = (
    (2.0, "stand", (0.0, 0.0, 0.0)),
    (4.0, "forward", (1.0, 0.0, 0.0)),
    (3.0, "forward, turning left", (0.6, 0.0, 0.8)),
    (3.0, "sideways left", (0.0, 0.6, 0.0)),
    (3.0, "backward", (-0.7, 0.0, 0.0)),
    (3.0, "turn right on the spot", (0.0, 0.0, -0.8)),
    (2.0, "stand", (0.0, 0.0, 0.0)),
)
"""Seconds, what a person would call it, and the command as a share of the contract's ranges."""


@dataclass(frozen=True, kw_only=True)
class Showcase:
    recording: Trajectory
    labels: tuple[str, ...]  # per control step
    foot_names: tuple[str, ...]


def command_sequence(contract: Contract) -> tuple[np.ndarray, tuple[str, ...]]:
    """The commands (T, 3) and a label for each control step."""
    low, high = np.array(contract.command_ranges).T
    rows, labels = [], []
    for seconds, label, share in SEQUENCE:
        count = round(seconds / contract.control_dt)
        command = np.where(
            np.array(share) >= 0, np.array(share) * np.maximum(high, 0), -np.array(share) * np.minimum(low, 0)
        )
        rows.append(np.tile(np.clip(command, low, high), (count, 1)))
        labels += [label] * count
    return np.concatenate(rows), tuple(labels)


def run_showcase(plant: Plant, contract: Contract, policy: BatchedPolicy) -> Showcase:
    """Run the sequence once, undisturbed. ``policy`` must be fresh and for one robot."""
    command, labels = command_sequence(contract)
    conditions = Conditions(
        command=command[:, None],
        push=np.zeros((len(command), 1, 2)),
        friction=np.full(1, NOMINAL_FRICTION),
        payload=np.zeros(1),
        strength=np.ones(1),
        delay=np.zeros(1),
        yaw=np.zeros(1),
        joint_offset=np.zeros((1, contract.num_joints)),
        velocity=np.zeros((1, 2)),
        noise_scale=0.0,
        noise_seed=(0,),
    )
    recording = simulate(plant, contract, policy, conditions, keep_qpos=True)
    return Showcase(recording=recording, labels=labels, foot_names=plant.foot_names)
