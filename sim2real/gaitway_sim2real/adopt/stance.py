"""Kinematics of a tree: its links and joints in a pose, and the torques that hold it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mujoco
import numpy as np

from ..mujoco.model import GRAVITY
from .tree import Array, Tree
from .writing import build


class Stance:
    """The robot of a tree with its base at the origin, level, and its joints wherever they are put."""

    def __init__(self, tree: Tree):
        self.tree = tree
        self.model = build(tree, {}, ()).compile()
        self.data = mujoco.MjData(self.model)
        self.address = {name: int(self.model.joint(name).qposadr[0]) for name in tree.joints}
        self.dof = {name: int(self.model.joint(name).dofadr[0]) for name in tree.joints}
        self.pose: dict[str, float] = {}
        self.put(dict.fromkeys(tree.joints, 0.0))

    def put(self, pose: Mapping[str, float]) -> None:
        """Move the joints in ``pose`` {name: position}; the others stay."""
        self.pose |= pose
        for name, value in pose.items():
            self.data.qpos[self.address[name]] = value
        mujoco.mj_kinematics(self.model, self.data)

    def place(self, link: str, point: Array | None = None) -> Array:
        """Position of a point of a link, in its frame (..., 3), or of its origin."""
        body = self.data.body(link)
        at = np.zeros(3) if point is None else point
        return np.asarray(body.xpos + at @ body.xmat.reshape(3, 3).T)

    def turn(self, link: str) -> Array:
        """Rotation of a link, (3, 3)."""
        return np.array(self.data.body(link).xmat).reshape(3, 3)

    def anchor(self, joint: str) -> Array:
        return np.array(self.data.joint(joint).xanchor)

    def axis(self, joint: str) -> Array:
        return np.array(self.data.joint(joint).xaxis)

    def com(self) -> Array:
        mujoco.mj_comPos(self.model, self.data)
        return np.array(self.data.subtree_com[1])

    def mass_matrix(self) -> Array:
        """Inertia of all degrees of freedom in this pose, with the feet free."""
        mujoco.mj_forward(self.model, self.data)
        full = np.zeros((self.model.nv, self.model.nv))
        mujoco.mj_fullM(self.model, self.data, full)
        return full

    def jacobian(self, link: str, point: Array) -> Array:
        """Of a point of a link in the world, (3, nv)."""
        found = np.zeros((3, self.model.nv))
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_jac(self.model, self.data, found, None, point, self.model.body(link).id)
        return found

    def torques(self, supports: Sequence[tuple[str, Array]]) -> tuple[dict[str, float], float]:
        """Torques that hold the robot on ``supports`` (links and points in the world), the weight shared evenly.

        The second number is the share of the weight that they leave unbalanced: its moment, when it is off them.
        """
        mujoco.mj_forward(self.model, self.data)
        bias = self.data.qfrc_bias - self.data.qfrc_passive
        rows = np.concatenate([self.jacobian(link, point) for link, point in supports])
        base = rows[:, :6].T  # (6, 3 S)
        cheap = np.tile([0.1, 0.1, 1.0], len(supports))  # forces along the ground cost ten times as much
        scaled = np.linalg.lstsq(base * cheap, bias[:6], rcond=1e-6)[0]
        force = cheap * scaled
        weight = GRAVITY * float(self.model.body_mass.sum())
        missed = float(np.linalg.norm(base @ force - bias[:6])) / weight
        pulled = float(-force[2::3].min(initial=0.0)) / weight
        torque = bias - rows.T @ force
        return {name: float(torque[dof]) for name, dof in self.dof.items()}, max(missed, pulled)
