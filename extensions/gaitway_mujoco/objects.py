"""Objects of a task in a MuJoCo batch, as terms read them and events write them."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from gaitway_tasks.objects import addresses
from torch import Tensor


class MujocoObjectState:
    """Implements :class:`gaitway_tasks.world.ObjectState`: the state after the last physics step.

    ``qpos`` (N, 7) and ``qvel`` (N, 6) are views of the simulation's own state.
    """

    def __init__(self, qpos: Tensor, qvel: Tensor, place: np.ndarray):
        self._qpos, self._qvel = qpos, qvel
        self.default_pos = torch.from_numpy(place.astype(np.float32)).to(qpos.device)

    @property
    def root_pos_w(self) -> Tensor:
        return self._qpos[:, :3].to(torch.float32, copy=True)

    @property
    def root_quat_wxyz(self) -> Tensor:
        return self._qpos[:, 3:].to(torch.float32, copy=True)

    def write(self, env_ids: Tensor, pose: Tensor, twist: Tensor) -> None:
        """Put position and quaternion (n, 7), and linear and angular velocity (n, 6), into the rows ``env_ids``."""
        self._qpos[env_ids], self._qvel[env_ids] = pose.to(self._qpos.dtype), twist.to(self._qvel.dtype)


def object_states(
    qpos: Tensor, qvel: Tensor, model: mujoco.MjModel, names: Sequence[str]
) -> dict[str, MujocoObjectState]:
    """State of each object by name, in ``qpos`` (N, nq) and ``qvel`` (N, nv)."""
    return {
        name: MujocoObjectState(qpos[:, at : at + 7], qvel[:, dof : dof + 6], model.body(name).pos)
        for name, (at, dof) in addresses(model, names).items()
    }
