"""Sizes of MuJoCo Warp's buffers, measured: robots in random poses on their ground, in MuJoCo itself."""

from __future__ import annotations

import math

import mujoco
import numpy as np
from gaitway_tasks.spec import Task

DRAWS = 300
RESERVE = 1.5
"""Factor on the largest number found."""
FIELD_CONTACTS = 4
"""Most contacts of a geom with a height field; MuJoCo itself finds up to 50."""


def measured(model: mujoco.MjModel, task: Task) -> tuple[int, int]:
    """Rows of constraints and contacts of a robot that falls about: ``njmax`` and ``nconmax``."""
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    hinges = np.isin(model.jnt_type, (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE))
    limits = np.where(model.jnt_limited[hinges, None], model.jnt_range[hinges], (-math.pi, math.pi))
    free = model.jnt_qposadr[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
    rows = contacts = 1
    for _ in range(DRAWS):
        mujoco.mj_resetData(model, data)
        # Beyond the limits too, which are rows of their own.
        data.qpos[model.jnt_qposadr[hinges]] = rng.uniform(*(1.1 * limits).T)
        for start in free:
            xy = rng.uniform(-0.2, 0.2, 2)
            data.qpos[start : start + 3] = *xy, rng.uniform(0.0, task.robot.init_height)
            data.qpos[start + 3 : start + 7] = _rotation(rng)
        mujoco.mj_forward(model, data)
        found = _contacts(model, data)
        others = data.ne + data.nf + data.nl
        per_contact = (data.nefc - others) / max(data.ncon, 1)
        rows, contacts = max(rows, math.ceil(others + per_contact * found)), max(contacts, found)
    return _rounded(rows), _rounded(contacts)


def _contacts(model: mujoco.MjModel, data: mujoco.MjData) -> int:
    """Contacts that MuJoCo Warp would find where MuJoCo found those of ``data``."""
    if not data.ncon:
        return 0
    pairs, counts = np.unique(data.contact.geom, axis=0, return_counts=True)
    on_field = (model.geom_type[pairs] == mujoco.mjtGeom.mjGEOM_HFIELD).any(1)
    return int(np.where(on_field, counts.clip(max=FIELD_CONTACTS), counts).sum())


def _rotation(rng: np.random.Generator) -> np.ndarray:
    quat = rng.normal(size=4)
    return quat / np.linalg.norm(quat)


def _rounded(number: int) -> int:
    return 8 * math.ceil(RESERVE * number / 8)
