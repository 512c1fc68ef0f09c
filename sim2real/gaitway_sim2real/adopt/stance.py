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
        self.passive = [name for name in tree.joints if name not in tree.driven] if tree.loops else []
        self.pose: dict[str, float] = {}
        self.put(dict.fromkeys(tree.joints, 0.0))

    def put(self, pose: Mapping[str, float]) -> None:
        """Move the joints in ``pose`` {name: position}; the others stay, or follow where loops move them."""
        self.pose |= pose
        for name, value in pose.items():
            self.data.qpos[self.address[name]] = value
        mujoco.mj_kinematics(self.model, self.data)
        if self.passive:
            self._close()

    def gaps(self) -> Array:
        """Distances between the ends of all loops, and of joints from where others put them, (G,)."""
        found = []
        for loop in self.tree.loops:
            if loop.points is None:
                one, two = (float(self.data.qpos[self.address[n]]) - self.tree.joints[n].ref for n in loop.names)
                found.append(np.array([one - float(np.polynomial.Polynomial(loop.coefficients)(two))]))
            else:
                found.append(self.place(loop.names[0], loop.points[0]) - self.place(loop.names[1], loop.points[1]))
        return np.concatenate(found)

    def _slopes(self, names: Sequence[str]) -> Array:
        """Change of the gaps with each of these joints, (G, J)."""
        now, columns = self.gaps(), []
        for name in names:
            self.data.qpos[self.address[name]] += 1e-6
            mujoco.mj_kinematics(self.model, self.data)
            columns.append((self.gaps() - now) / 1e-6)
            self.data.qpos[self.address[name]] -= 1e-6
        mujoco.mj_kinematics(self.model, self.data)
        return np.stack(columns, 1)

    def _close(self) -> None:
        """Move the passive joints until the loops are closed, as far as they can be."""
        at = [self.address[name] for name in self.passive]
        for _ in range(20):
            gap = self.gaps()
            if float(np.abs(gap).max()) < 1e-7:
                break
            step = np.linalg.lstsq(self._slopes(self.passive), gap, rcond=1e-6)[0]
            self.data.qpos[at] -= np.clip(step, -0.3, 0.3)
            mujoco.mj_kinematics(self.model, self.data)
        self.pose |= {name: float(self.data.qpos[self.address[name]]) for name in self.passive}

    def _following(self) -> Array:
        """Motion of all degrees of freedom for each, with loops closed: passive joints follow the others, (nv, nv)."""
        found = np.eye(self.model.nv)
        if self.passive:
            others = [name for name in self.dof if name not in self.passive]
            rows, columns = ([self.dof[name] for name in names] for names in (self.passive, others))
            slopes = np.linalg.lstsq(self._slopes(self.passive), -self._slopes(others), rcond=1e-6)[0]
            found[rows] = 0.0
            found[np.ix_(rows, columns)] = slopes
        return found

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
        follow = self._following()
        return np.asarray(follow.T @ full @ follow)

    def jacobian(self, link: str, point: Array) -> Array:
        """Of a point of a link in the world, (3, nv)."""
        found = np.zeros((3, self.model.nv))
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_jac(self.model, self.data, found, None, point, self.model.body(link).id)
        return found @ self._following()

    def torques(self, supports: Sequence[tuple[str, Array]]) -> tuple[dict[str, float], float]:
        """Torques that hold the robot on ``supports`` (links and points in the world), the weight shared evenly.

        The second number is the share of the weight that they leave unbalanced: its moment, when it is off them.
        """
        mujoco.mj_forward(self.model, self.data)
        bias = (self.data.qfrc_bias - self.data.qfrc_passive) @ self._following()
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
