"""Stance: a tree in a pose, the places of its links, and the torques that hold it on its feet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import mujoco
import numpy as np

from ..mujoco.model import GRAVITY
from .building import build
from .tree import AdoptError, Array, Foot, Tree

LOOSE = 0.01  # gap of a closed loop that rounding explains, as a share of the robot's height


class Stance:
    """A tree with its base level at the origin, and with its joints wherever they are put."""

    def __init__(self, tree: Tree, feet: Sequence[Foot] = ()):
        self.tree, self.feet = tree, list(feet)
        spec = build(tree, {}, ())
        spec.option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        self.model = spec.compile()
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

    # ---- places ----------------------------------------------------------------------------------------------------

    def place(self, link: str, point: Array | None = None) -> Array:
        """Position of a point of a link, in its frame (..., 3), or of its origin."""
        body = self.data.body(link)
        return np.asarray(body.xpos + (np.zeros(3) if point is None else point) @ body.xmat.reshape(3, 3).T)

    def turn(self, link: str) -> Array:
        """Rotation of a link, (3, 3)."""
        return np.array(self.data.body(link).xmat).reshape(3, 3)

    def anchor(self, joint: str) -> Array:
        return np.array(self.data.joint(joint).xanchor)

    def axis(self, joint: str) -> Array:
        return np.array(self.data.joint(joint).xaxis)

    def sole(self, foot: Foot) -> Array:
        """Middle of a foot's sole."""
        return self.place(foot.link, foot.sole)

    def unlevel(self) -> float:
        """Difference in height of the soles [m]."""
        return float(np.ptp([self.sole(foot)[2] for foot in self.feet]))

    # ---- forces ----------------------------------------------------------------------------------------------------

    def com(self) -> Array:
        mujoco.mj_comPos(self.model, self.data)
        return np.array(self.data.subtree_com[1])

    def mass_matrix(self) -> Array:
        """Inertia of all degrees of freedom in this pose, with the feet free, (nv, nv)."""
        mujoco.mj_forward(self.model, self.data)
        full, follow = np.zeros((self.model.nv, self.model.nv)), self._following()
        mujoco.mj_fullM(self.model, self.data, full)
        return np.asarray(follow.T @ full @ follow)

    def jacobian(self, link: str, point: Array) -> Array:
        """Motion of a point of a link, given in the world, for each degree of freedom, (3, nv)."""
        found = np.zeros((3, self.model.nv))
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_jac(self.model, self.data, found, None, point, self.model.body(link).id)
        return found @ self._following()

    def torques(self) -> tuple[dict[str, float], float]:
        """Torques that hold the robot on its soles, and the share of its weight that they leave unbalanced.

        The soles share the weight evenly. The unbalanced share is the weight's moment when it lies beside the soles.
        """
        mujoco.mj_forward(self.model, self.data)
        bias = (self.data.qfrc_bias - self.data.qfrc_passive) @ self._following()
        points = [(foot.link, point) for foot in self.feet for point in self.place(foot.link, foot.supports)]
        rows = np.concatenate([self.jacobian(link, point) for link, point in points])
        base = rows[:, :6].T  # (6, 3 S)
        cheap = np.tile([0.1, 0.1, 1.0], len(rows) // 3)  # forces along the ground cost ten times as much
        force = cheap * np.linalg.lstsq(base * cheap, bias[:6], rcond=1e-6)[0]
        weight = GRAVITY * self.tree.mass
        missed = float(np.linalg.norm(base @ force - bias[:6])) / weight
        pulled = float(-force[2::3].min(initial=0.0)) / weight
        torque = bias - rows.T @ force
        return {name: float(torque[dof]) for name, dof in self.dof.items()}, max(missed, pulled)

    # ---- closed loops ----------------------------------------------------------------------------------------------

    def check_loops(self, size: float) -> None:
        """Raise for loops that cannot be closed: MuJoCo would tear the robot."""
        self.put(self.tree.neutral())
        gaps = self._gaps()[0].reshape(-1, 3) if self.tree.loops else np.zeros((0, 3))
        for loop, gap in zip(self.tree.loops, gaps, strict=True):
            if (most := float(np.abs(gap).max())) > LOOSE * size:
                raise AdoptError(
                    f"{self.tree.path}: the loop between {loop.names[0]!r} and {loop.names[1]!r} stays open by "
                    f"{most:.3f} m, and MuJoCo cannot hold it: move the links so that its ends meet, and leave its "
                    "joints without motors"
                )

    def settled(self) -> Tree:
        """The tree whose passive hinges begin a simulation where the loops have put them."""
        moved = {name for name in self.passive if not self.tree.joints[name].slide}
        links = []
        for link in self.tree.links:
            if link.parent is not None and len(link.joints) == 1 and (name := link.joints[0].name) in moved:
                up, joint = self.turn(link.parent), replace(link.joints[0], ref=self.pose[name])
                at = up.T @ (self.place(link.name) - self.place(link.parent))
                link = replace(link, position=at, rotation=up.T @ self.turn(link.name), joints=(joint,))
            links.append(link)
        return replace(self.tree, links=tuple(links))

    def _gaps(self) -> tuple[Array, Array]:
        """Distances between the ends of the loops, (G,), and their change with each degree of freedom, (G, nv)."""
        mujoco.mj_fwdPosition(self.model, self.data)
        loops = np.flatnonzero(self.data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY)
        return self.data.efc_pos[loops], self.data.efc_J.reshape(-1, self.model.nv)[loops]

    def _close(self) -> None:
        """Move the passive joints until the loops are closed, as far as they can be."""
        places = [self.address[name] for name in self.passive]
        for _ in range(20):
            gaps, slopes = self._gaps()
            if float(np.abs(gaps).max()) < 1e-7:
                break
            step = np.linalg.lstsq(slopes[:, [self.dof[name] for name in self.passive]], gaps, rcond=1e-6)[0]
            self.data.qpos[places] -= np.clip(step, -0.3, 0.3)
        mujoco.mj_kinematics(self.model, self.data)
        self.pose |= {name: float(self.data.qpos[self.address[name]]) for name in self.passive}

    def _following(self) -> Array:
        """Motion of all degrees of freedom for each, with loops closed: passive joints follow the others, (nv, nv)."""
        found = np.eye(self.model.nv)
        if self.passive:
            rows, columns = ([self.dof[n] for n in self.dof if (n in self.passive) == side] for side in (True, False))
            slopes = self._gaps()[1]
            found[rows] = 0.0
            found[np.ix_(rows, columns)] = np.linalg.lstsq(slopes[:, rows], -slopes[:, columns], rcond=1e-6)[0]
        return found
