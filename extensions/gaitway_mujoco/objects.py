"""Objects of a task in a MuJoCo batch, as terms read them and events write them."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from gaitway_tasks.objects import addresses
from mujoco.batch import Batch
from torch import Tensor


class MujocoObjectState:
    """Implements :class:`gaitway_tasks.world.ObjectState`: the state after the last physics step."""

    def __init__(self, qpos: np.ndarray, qvel: np.ndarray, place: np.ndarray):
        self._qpos, self._qvel = qpos, qvel
        self.default_pos = torch.from_numpy(place.astype(np.float32))

    @property
    def root_pos_w(self) -> Tensor:
        return torch.from_numpy(self._qpos[:, :3].astype(np.float32))

    @property
    def root_quat_wxyz(self) -> Tensor:
        return torch.from_numpy(self._qpos[:, 3:].astype(np.float32))

    def write(self, rows: np.ndarray, pose: Tensor, twist: Tensor) -> None:
        """Put position and quaternion (n, 7), and linear and angular velocity (n, 6), into ``rows`` (n,)."""
        self._qpos[rows], self._qvel[rows] = pose.numpy(), twist.numpy()


def object_states(batch: Batch, model: mujoco.MjModel, names: Sequence[str]) -> dict[str, MujocoObjectState]:
    """State of each object by name."""
    qpos, qvel = batch.bind("qpos"), batch.bind("qvel")
    return {
        name: MujocoObjectState(qpos[:, at : at + 7], qvel[:, dof : dof + 6], model.body(name).pos)
        for name, (at, dof) in addresses(model, names).items()
    }
