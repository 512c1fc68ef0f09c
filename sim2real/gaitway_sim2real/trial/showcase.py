"""One robot, one fixed sequence of commands: the episode that the report's curves and the video show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from ..mujoco.plant import Plant
from .conditions import Conditions
from .scenario import NOMINAL_FRICTION
from .simulate import Policy, Trajectory, simulate


@dataclass(frozen=True, kw_only=True)
class Showcase:
    """A recording with its joint positions, and what is asked for at each control step."""

    recording: Trajectory
    labels: tuple[str, ...]  # per control step

    @property
    def end(self) -> float:
        """Time when the robot fell, or the sequence ended [s]."""
        return float(self.recording.alive[:, 0].sum()) * self.recording.control_dt


def run_showcase(
    plant: Plant, contract: Contract, policy: Policy, command: np.ndarray, labels: tuple[str, ...]
) -> Showcase:
    """Run the sequence ``command`` (T, D) once, undisturbed. ``policy`` must be fresh and for one robot."""
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
    )
    return Showcase(recording=simulate(plant, contract, policy, conditions, keep_qpos=True), labels=labels)
