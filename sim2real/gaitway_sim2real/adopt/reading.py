"""Tree of a URDF or MJCF."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
from gaitway_files.mjcf_files import read_mjcf
from gaitway_tasks.robots.mjcf import WIDEST, ModelError, compile_spec, effort_limits
from gaitway_tasks.robots.source import compiled, is_urdf, read_spec

from ..mujoco.shapes import foot_shapes
from .tree import AdoptError, Array, Frame, Joint, Link, Loop, Tree

_TYPE = mujoco.mjtJoint
SCALAR = (int(_TYPE.mjJNT_HINGE), int(_TYPE.mjJNT_SLIDE))
WIRED = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
FORWARD = {"x": 0.0, "y": 0.5, "-x": 1.0, "-y": -0.5}
"""Angle of the direction in which a robot faces, in its file's base, in half turns."""
UPRIGHT = 0.95  # least cosine between a base's z and the vertical for its axes to be the robot's
FASTEST = 100.0  # speed of a joint from which a URDF's limit is a placeholder [rad/s]


def read_tree(
    path: Path, notes: list[str], base: str | None = None, held: Mapping[str, float] | None = None, forward: str = "x"
) -> Tree:
    """The robot of an MJCF or URDF; joints ``held`` {name: position} are made rigid there.

    ``forward`` is the axis of the file's base along which the robot walks; it becomes x. Faults of the file that are
    mended are added to ``notes``.
    """
    mended: list[str] = []
    model = _compiled(path, mended)
    lost = [note for note in mended if note.startswith("mesh ")]
    if len(lost) > 2:
        mended = [note for note in mended if note not in lost] + [f"{lost[0]}; so are {len(lost) - 1} others"]
    if model.ntendon:
        mended.append(f"{model.ntendon} tendons are left out")
    root = _root(model, path)
    count = int(model.body_jntnum[root])
    if count == 0 or model.jnt_type[model.body_jntadr[root]] != _TYPE.mjJNT_FREE:
        if count not in (0, 6):
            raise AdoptError(
                f"{path}: the base {model.body(root).name!r} hangs on the world by {count} joints: give it a "
                "<freejoint/> alone"
            )
        mended.append("the base is fixed to the world in the file: here it is free")
    notes += mended
    data = mujoco.MjData(model)
    for name, position in (held or {}).items():
        data.qpos[model.joint(name).qposadr[0]] = position
    mujoco.mj_kinematics(model, data)
    return _Reader(path, model, data, root, frozenset(held or ()), base, forward).tree()


def _compiled(path: Path, mended: list[str]) -> mujoco.MjModel:
    spec = read_spec(path, mended)
    for number, body in enumerate(spec.bodies):
        body.name = body.name or f"link_{number}"
        for place, joint in enumerate(body.joints):
            joint.name = joint.name or f"{body.name}_joint{place or ''}"
    try:
        return compile_spec(spec, path)
    except ModelError as error:
        if "mjMINVAL" not in str(error):
            raise
        names = [body.name for body in spec.bodies if f"'{body.name}'" in str(error)] or ["one"]
        raise AdoptError(
            f"{path}: link {names[-1]!r} moves and has no mass or no inertia: give it an <inertial> with both"
        ) from None


def _root(model: mujoco.MjModel, path: Path) -> int:
    scalar = np.isin(model.jnt_type, SCALAR)
    moving = sorted({int(body) for body in model.body_rootid[model.jnt_bodyid[scalar]]})
    if not moving:
        raise AdoptError(f"{path} has no hinge or slide joint: a robot with legs has some")
    if len(moving) > 1:
        names = ", ".join(repr(model.body(root).name) for root in moving)
        raise AdoptError(f"{path} holds {len(moving)} robots, with the bases {names}: leave one of them in the file")
    return moving[0]


class _Reader:
    """A model in the pose in which joints are held. Bodies that do not move are fixed to their ``carrier``."""

    def __init__(
        self, path: Path, model: mujoco.MjModel, data: mujoco.MjData, root: int, held: Collection[str],
        base: str | None, forward: str,
    ):  # fmt: skip
        self.path, self.model, self.data, self.held = path, model, data, held
        carrier: dict[int, int] = {}
        for body in np.flatnonzero(model.body_rootid == root).tolist():
            moves = body == root or any(model.joint(joint).name not in held for joint in self._joints_of(body))
            carrier[body] = body if moves else carrier[int(model.body_parentid[body])]
        self.base = self._base(root, [body for body, at in carrier.items() if at == root], base)
        self.carrier = {body: self.base if at == root else at for body, at in carrier.items()}
        self.places = {body: (data.xpos[body], data.xmat[body].reshape(3, 3)) for body in self.carrier.values()}
        turn = data.xmat[root].reshape(3, 3)
        if turn[2, 2] <= UPRIGHT:  # the link has other axes than the robot, as in a model with y up
            turn = np.eye(3)
        cos, sin = np.cos(FORWARD[forward] * np.pi), np.sin(FORWARD[forward] * np.pi)
        self.places[self.base] = data.xpos[self.base], turn @ [[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]]
        ours = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] in self.carrier]
        paired = {int(geom) for geom in (*model.pair_geom1, *model.pair_geom2)}
        self.geoms = [g for g in ours if model.geom_contype[g] or model.geom_conaffinity[g] or g in paired] or ours

    def _joints_of(self, body: int) -> range:
        first = int(self.model.body_jntadr[body])
        return range(first, first + int(self.model.body_jntnum[body]))

    def _base(self, root: int, fixed: list[int], wanted: str | None) -> int:
        """The body that the user names, the first link if it has a mass, or the heaviest one that is fixed to it."""
        names = [self.model.body(body).name for body in fixed]
        if wanted is not None:
            if wanted not in names:
                raise AdoptError(f"--base {wanted}: the base is the first link or fixed to it: {', '.join(names)}")
            return fixed[names.index(wanted)]
        mass = self.model.body_mass
        heaviest = max(fixed, key=lambda body: float(mass[body]))
        same = np.allclose(self.data.xpos[heaviest], self.data.xpos[root])
        return root if same or mass[root] > 0.02 * mass[fixed].sum() else heaviest

    def tree(self) -> Tree:
        model = self.model
        links = tuple(self._link(body) for body in dict.fromkeys(self.carrier.values()))
        joints = {joint.name for link in links for joint in link.joints}
        ids = [
            each for each, kind in zip(model.actuator_trnid[:, 0], model.actuator_trntype, strict=True) if kind in WIRED
        ]
        couplings = model.eq_obj1id[model.eq_type == mujoco.mjtEq.mjEQ_JOINT]
        followers = joints.intersection(model.joint(each).name for each in couplings)
        return Tree(
            path=self.path,
            links=links,
            loops=tuple(self._loops()),
            followers=frozenset(followers),
            driven=frozenset({model.joint(each).name for each in ids} & joints or joints - followers),
            efforts=effort_limits(model, sorted(joints)),
            velocities=_velocities(self.path),
            key=self._key(),
        )

    def _link(self, body: int) -> Link:
        at, turn = self.places[body]
        above = None if body == self.base else self.carrier[int(self.model.body_parentid[body])]
        up_at, up_turn = (at, turn) if above is None else self.places[above]
        joints = [] if above is None else [self._joint(each) for each in self._joints_of(body)]
        fixed = sorted((each for each in self.carrier if self.carrier[each] == body), key=lambda each: each != body)
        return Link(
            name=self.model.body(body).name,
            parent=None if above is None else self.model.body(above).name,
            position=up_turn.T @ (at - up_at),
            rotation=up_turn.T @ turn,
            joints=tuple(joint for joint in joints if joint.name not in self.held),
            frames=tuple(self._frame(each, at, turn) for each in fixed),
        )

    def _frame(self, body: int, at: Array, turn: Array) -> Frame:
        name = self.model.body(body).name
        position, rotation = turn.T @ (self.data.xpos[body] - at), turn.T @ self.data.xmat[body].reshape(3, 3)
        (shapes,) = foot_shapes(self.model, [name], [g for g in self.geoms if self.model.geom_bodyid[g] == body])
        moved = (
            replace(each, position=position + rotation @ each.position, rotation=rotation @ each.rotation)
            for each in shapes
        )
        inertial = compiled(self.model, body).moved(position, rotation)
        return Frame(name=name, position=position, rotation=rotation, inertial=inertial, shapes=tuple(moved))

    def _joint(self, joint: int) -> Joint:
        model, name = self.model, self.model.joint(joint).name
        if model.jnt_type[joint] not in SCALAR:
            body = model.body(model.jnt_bodyid[joint]).name
            raise AdoptError(f"{self.path}: joint {name!r} of {body!r} has more than one axis: write it as hinges")
        dof, qpos = int(model.jnt_dofadr[joint]), int(model.jnt_qposadr[joint])
        low, high = (float(end) for end in model.jnt_range[joint])
        return Joint(
            name=name,
            slide=bool(model.jnt_type[joint] == _TYPE.mjJNT_SLIDE),
            position=model.jnt_pos[joint],
            axis=model.jnt_axis[joint],
            limits=(low, high) if model.jnt_limited[joint] and 0.0 < high - low < WIDEST else None,
            ref=float(model.qpos0[qpos]),
            stiffness=model.jnt_stiffness[joint],
            springref=float(model.qpos_spring[qpos]),
            damping=model.dof_damping[dof],
            frictionloss=float(model.dof_frictionloss[dof]),
            armature=float(model.dof_armature[dof]),
        )

    def _loops(self) -> Iterator[Loop]:
        model = self.model
        for k in np.flatnonzero(model.eq_type != mujoco.mjtEq.mjEQ_JOINT):
            if model.eq_type[k] != mujoco.mjtEq.mjEQ_CONNECT:
                raise AdoptError(f"{self.path}: constraint {k} is no <connect> and no <joint>: write it as one of them")
            ids, numbers = (model.eq_obj1id[k], model.eq_obj2id[k]), model.eq_data[k]
            sites = model.eq_objtype[k] == mujoco.mjtObj.mjOBJ_SITE
            bodies = [int(model.site_bodyid[each]) if sites else int(each) for each in ids]
            if any(body not in self.carrier for body in bodies):
                continue  # it ties the robot to the world
            names, points = [], []
            for place, body in enumerate(bodies):
                point = model.site_pos[ids[place]] if sites else numbers[3 * place : 3 * place + 3]
                at, turn = self.places[self.carrier[body]]
                points.append(turn.T @ (self.data.xpos[body] + self.data.xmat[body].reshape(3, 3) @ point - at))
                names.append(model.body(self.carrier[body]).name)
            yield Loop(names=(names[0], names[1]), points=(points[0], points[1]))

    def _key(self) -> dict[str, float]:
        model = self.model
        named = (k for k in range(model.nkey) if any(word in model.key(k).name.lower() for word in ("home", "stand")))
        if (chosen := next(named, None)) is None:
            return {}
        qpos = model.key_qpos[chosen][model.jnt_qposadr]
        scalar = np.flatnonzero(np.isin(model.jnt_type, SCALAR))
        return {model.joint(joint).name: float(qpos[joint]) for joint in scalar}


def _velocities(path: Path) -> dict[str, float]:
    """Largest speeds that a URDF names; an MJCF has none."""
    if not is_urdf(path):
        return {}
    limits = ((joint.get("name", ""), joint.find("limit")) for joint in read_mjcf(path).iter("joint"))
    told = {name: float(limit.get("velocity", 0.0)) for name, limit in limits if limit is not None}
    return {name: speed for name, speed in told.items() if 0.0 < speed < FASTEST}
