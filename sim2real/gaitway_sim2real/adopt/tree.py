"""Links of a robot's file: the bodies that move, with whatever is fixed to them taken into them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import mujoco
import numpy as np
from gaitway_files.mjcf_files import read_mjcf
from gaitway_tasks.robots.mjcf import ModelError, compile_spec, effort_limits
from gaitway_tasks.robots.source import Inertial, compiled, is_urdf, read_spec

from ..mujoco.shapes import Shape, foot_shapes

Array = np.ndarray
_TYPE = mujoco.mjtJoint
SCALAR = (int(_TYPE.mjJNT_HINGE), int(_TYPE.mjJNT_SLIDE))
WIRED = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
UPRIGHT = 0.95
FASTEST = 100.0
"""Speed of a joint that no file means [rad/s]."""
ENDLESS = 9.4248
"""Limit of a joint without any: three half turns, as ANYbotics writes [rad]."""


class AdoptError(ModelError):
    """A file that no walking robot can be made of, with the part and the fix."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A link fixed to another, in the frame of the link that carries it."""

    name: str
    position: Array
    rotation: Array
    inertial: Inertial  # in the carrier's frame
    shapes: tuple[Shape, ...]  # in the carrier's frame


@dataclass(frozen=True, kw_only=True)
class Joint:
    """A hinge, or a slide, in the frame of its link. Stiffness is that of a spring; a motor has none."""

    name: str
    slide: bool
    position: Array
    axis: Array
    limits: tuple[float, float] | None
    ref: float
    stiffness: float
    springref: float
    damping: float
    friction: float
    armature: float


@dataclass(frozen=True, kw_only=True)
class Link:
    """A moving body with its own part and that of what is fixed to it."""

    name: str
    parent: str | None
    position: Array  # in the parent's frame
    rotation: Array
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...]  # the link itself first

    @property
    def inertial(self) -> Inertial:
        return total(frame.inertial for frame in self.frames)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(shape for frame in self.frames for shape in frame.shapes)


@dataclass(frozen=True, kw_only=True)
class Foot:
    """A foot. All positions are in the frame of ``link``, the last link of the leg that a motor moves."""

    name: str
    link: str
    own_body: bool
    """True if the foot becomes a body of its own, with ``position`` and ``rotation``."""
    position: Array
    rotation: Array
    frames: tuple[str, ...]
    """Fixed links whose mass is the foot's, if it is a body of its own."""
    sole: Array
    """Middle of the sole."""
    flat: bool
    shapes: tuple[Shape, ...]
    note: str


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A constraint that closes a loop: points of two links that coincide, or two joints that move together."""

    names: tuple[str, str]
    points: tuple[Array, Array] | None
    coefficients: Array


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The robot of a file, the base first and parents before children."""

    path: Path
    links: tuple[Link, ...]
    loops: tuple[Loop, ...]
    driven: frozenset[str]
    """Joints that motors move: those with actuators if the file has any."""
    efforts: Mapping[str, float] = field(default_factory=dict)
    """The most that a joint's motor gives by the file [N m]."""
    velocities: Mapping[str, float] = field(default_factory=dict)
    """A joint's largest speed by the file, a URDF [rad/s]."""
    key: Mapping[str, float] = field(default_factory=dict)
    """Joint positions of the file's keyframe that is called home or stand [rad]."""
    notes: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Link]:
        return {link.name: link for link in self.links}

    @cached_property
    def joints(self) -> dict[str, Joint]:
        return {joint.name: joint for link in self.links for joint in link.joints}

    @cached_property
    def mass(self) -> float:
        return sum(link.inertial.mass for link in self.links)

    def children(self, name: str) -> list[Link]:
        return [link for link in self.links if link.parent == name]

    def below(self, name: str) -> list[Link]:
        """A link and all that hang on it."""
        return [self.by_name[name], *(each for child in self.children(name) for each in self.below(child.name))]

    def chain(self, name: str) -> list[Link]:
        """Links from below the base to ``name``."""
        link = self.by_name[name]
        return [] if link.parent is None else [*self.chain(link.parent), link]

    def limb(self, name: str) -> list[str]:
        """Joints that move the link ``name``: between it and the base, and those of limbs that loops tie to these."""
        links = {link.name: link for link in self.chain(name)}
        for loop in self.loops:
            if loop.points is not None and any(end in links for end in loop.names):
                links |= {link.name: link for end in loop.names for link in self.chain(end)}
        return [joint.name for link in links.values() for joint in link.joints]


def begun(tree: Tree, pose: Mapping[str, float]) -> Tree:
    """The tree whose passive hinges in ``pose`` {name: position} are there at the start of a simulation."""
    links = []
    for link in tree.links:
        if len(link.joints) == 1 and not link.joints[0].slide and link.joints[0].name in pose:
            joint = link.joints[0]
            quat, flat = np.zeros(4), np.zeros(9)
            mujoco.mju_axisAngle2Quat(quat, joint.axis, pose[joint.name] - joint.ref)
            mujoco.mju_quat2Mat(flat, quat)
            turned = link.rotation @ flat.reshape(3, 3)
            at = link.position + (link.rotation - turned) @ joint.position
            link = replace(link, rotation=turned, position=at, joints=(replace(joint, ref=pose[joint.name]),))
        links.append(link)
    loops = []
    for loop in tree.loops:
        if loop.points is None and (name := loop.names[0]) in pose:
            shift = np.array([tree.joints[name].ref - pose[name], 0.0, 0.0, 0.0, 0.0])
            loop = replace(loop, coefficients=loop.coefficients + shift)
        loops.append(loop)
    return replace(tree, links=tuple(links), loops=tuple(loops))


def total(parts: Iterator[Inertial]) -> Inertial:
    """The mass properties of several bodies as one, all in the same frame."""
    found = list(parts)
    mass = sum(part.mass for part in found)
    com = sum((part.mass * part.com for part in found), np.zeros(3)) / mass if mass else np.zeros(3)
    return Inertial(mass, com, sum((part.about(com) for part in found), np.zeros((3, 3))))


FORWARD = {"x": 0.0, "y": 0.5, "-x": 1.0, "-y": -0.5}
"""Angle of the direction in which a robot faces, in its file's base, in half turns."""


def read_tree(path: Path, base: str | None = None, held: Mapping[str, float] | None = None, forward: str = "x") -> Tree:
    """The robot of an MJCF or URDF; joints ``held`` {name: position} are made rigid there.

    ``forward`` is the axis of the file's base along which it walks; it becomes x.
    """
    notes: list[str] = []
    spec = read_spec(path, notes)
    for number, body in enumerate(spec.bodies):
        body.name = body.name or f"link_{number}"
        for place, joint in enumerate(body.joints):
            joint.name = joint.name or f"{body.name}_joint{place or ''}"
    try:
        model = compile_spec(spec, path)
    except ModelError as error:
        if "mjMINVAL" not in str(error):
            raise
        names = [body.name for body in spec.bodies if f"'{body.name}'" in str(error)] or ["one"]
        raise AdoptError(
            f"{path}: link {names[-1]!r} moves and has no mass or no inertia: give it an <inertial> with both"
        ) from None
    if len(lost := [note for note in notes if note.startswith("mesh ")]) > 2:
        notes = [note for note in notes if note not in lost]
        notes.append(f"{lost[0]}; so are {len(lost) - 1} others")
    if model.ntendon:
        notes.append(f"{model.ntendon} tendons are left out")
    root = _root(model, path)
    if model.jnt_type[model.body_jntadr[root]] != _TYPE.mjJNT_FREE or model.body_jntnum[root] == 0:
        if model.body_jntnum[root] not in (0, 6):
            raise AdoptError(
                f"{path}: the base {model.body(root).name!r} hangs on the world by "
                f"{model.body_jntnum[root]} joints: give it "
                "a <freejoint/> alone"
            )
        notes.append("the base is fixed to the world in the file: here it is free")
    data = mujoco.MjData(model)
    for name, angle in (held or {}).items():
        data.qpos[model.joint(name).qposadr[0]] = angle
    mujoco.mj_kinematics(model, data)
    angle = FORWARD[forward] * np.pi
    facing = np.array([[np.cos(angle), -np.sin(angle), 0.0], [np.sin(angle), np.cos(angle), 0.0], [0.0, 0.0, 1.0]])
    return _Reader(model, data, root, base, frozenset(held or ()), facing, path).tree(tuple(notes))


def _root(model: mujoco.MjModel, path: Path) -> int:
    moving = {
        int(model.body_rootid[model.jnt_bodyid[joint]])
        for joint in range(model.njnt)
        if model.jnt_type[joint] in SCALAR
    }
    if not moving:
        raise AdoptError(f"{path} has no hinge or slide joint: a robot with legs has some")
    if len(moving) > 1:
        names = ", ".join(repr(model.body(root).name) for root in sorted(moving))
        raise AdoptError(f"{path} holds {len(moving)} robots, with the bases {names}: leave one of them in the file")
    return moving.pop()


class _Reader:
    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        root: int,
        base: str | None,
        held: Collection[str],
        facing: Array,
        path: Path,
    ):
        self.facing = facing
        self.model, self.data, self.path, self.held, self.top = model, data, path, held, root
        bodies = [body for body in range(1, model.nbody) if model.body_rootid[body] == root]
        self.owner: dict[int, int] = {}
        for body in bodies:
            moves = body == root or any(model.joint(joint).name not in held for joint in self.joints_of(body))
            self.owner[body] = body if moves else self.owner[int(model.body_parentid[body])]
        self.groups = {body: [each for each in bodies if self.owner[each] == body] for body in bodies}
        self.base = self._base(base)
        self.loose = bool(self.model.npair)
        paired = {int(geom) for geom in (*model.pair_geom1, *model.pair_geom2)}
        ours = [geom for geom in range(model.ngeom) if model.geom_bodyid[geom] in self.owner]
        self.geoms = [g for g in ours if model.geom_contype[g] or model.geom_conaffinity[g] or g in paired] or ours

    def joints_of(self, body: int) -> list[int]:
        first = int(self.model.body_jntadr[body])
        return list(range(first, first + int(self.model.body_jntnum[body])))

    def _base(self, wanted: str | None) -> int:
        group = self.groups[self.top]
        names = [self.model.body(body).name for body in group]
        if wanted is not None:
            if wanted not in names:
                raise AdoptError(f"--base {wanted}: the base is the first link or fixed to it: {', '.join(names)}")
            return group[names.index(wanted)]
        if self.model.body_mass[self.top] > 0.02 * self.model.body_mass[group].sum():
            return self.top
        heaviest = max(group, key=lambda body: float(self.model.body_mass[body]))
        return self.top if np.allclose(self.data.xpos[heaviest], self.data.xpos[self.top]) else heaviest

    def frame(self, body: int) -> tuple[Array, Array]:
        """Position and rotation of a body; the base faces as the file's first link."""
        if self.owner[body] == self.top and body == self.base:
            own = self.data.xmat[self.top].reshape(3, 3)
            upright = own[2, 2] > UPRIGHT  # else the link has other axes than the robot, as in a model with y up
            return self.data.xpos[body].copy(), (own if upright else np.eye(3)) @ self.facing
        return self.data.xpos[body].copy(), self.data.xmat[body].reshape(3, 3).copy()

    def tree(self, notes: tuple[str, ...]) -> Tree:
        model = self.model
        links = [self.link(body) for body in sorted(self.groups) if self.owner[body] == body]
        joints = {joint.name for link in links for joint in link.joints}
        wired = {
            model.joint(model.actuator_trnid[k, 0]).name
            for k in range(model.nu)
            if int(model.actuator_trntype[k]) in WIRED
        }
        loops = tuple(self.loops(joints))
        following = {loop.names[0] for loop in loops if loop.points is None}
        driven = (wired & joints) or (joints - following)
        return Tree(
            path=self.path,
            links=tuple(links),
            loops=loops,
            driven=frozenset(driven),
            efforts=effort_limits(model, sorted(joints)),
            velocities=_velocities(self.path),
            key=self.key(),
            notes=notes,
        )

    def link(self, body: int) -> Link:
        model, top = self.model, body == self.top
        at, turn = self.frame(self.base if top else body)
        above = None if top else self.owner[int(model.body_parentid[body])]
        shift, rotation = np.zeros(3), np.eye(3)
        if above is not None:
            up_at, up_turn = self.frame(self.base if above == self.top else above)
            shift, rotation = up_turn.T @ (at - up_at), up_turn.T @ turn
        first = self.base if top else body
        group = sorted(self.groups[body], key=lambda each: each != first)
        return Link(
            name=model.body(first).name,
            parent=None if above is None else model.body(self.base if above == self.top else above).name,
            position=shift,
            rotation=rotation,
            joints=()
            if top
            else tuple(self.joint(each) for each in self.joints_of(body) if model.joint(each).name not in self.held),
            frames=tuple(self.fixed(each, at, turn) for each in group),
        )

    def fixed(self, body: int, at: Array, turn: Array) -> Frame:
        position = turn.T @ (self.data.xpos[body] - at)
        rotation = turn.T @ self.data.xmat[body].reshape(3, 3)
        own = [geom for geom in self.geoms if self.model.geom_bodyid[geom] == body]
        (shapes,) = foot_shapes(self.model, [self.model.body(body).name], own)
        return Frame(
            name=self.model.body(body).name,
            position=position,
            rotation=rotation,
            inertial=compiled(self.model, body).moved(position, rotation),
            shapes=tuple(
                replace(each, position=position + rotation @ each.position, rotation=rotation @ each.rotation)
                for each in shapes
            ),
        )

    def joint(self, joint: int) -> Joint:
        model, name = self.model, self.model.joint(joint).name
        if model.jnt_type[joint] not in SCALAR:
            body = model.body(model.jnt_bodyid[joint]).name
            raise AdoptError(f"{self.path}: joint {name!r} of {body!r} has more than one axis: write it as hinges")
        dof, qpos = int(model.jnt_dofadr[joint]), int(model.jnt_qposadr[joint])
        low, high = (float(x) for x in model.jnt_range[joint])
        return Joint(
            name=name,
            slide=bool(model.jnt_type[joint] == _TYPE.mjJNT_SLIDE),
            position=model.jnt_pos[joint].copy(),
            axis=model.jnt_axis[joint].copy(),
            limits=(low, high) if model.jnt_limited[joint] and low < high < 1e4 else None,
            ref=float(model.qpos0[qpos]),
            stiffness=float(np.ravel(model.jnt_stiffness[joint])[0]),
            springref=float(model.qpos_spring[qpos]),
            damping=float(np.ravel(model.dof_damping[dof])[0]),
            friction=float(model.dof_frictionloss[dof]),
            armature=float(model.dof_armature[dof]),
        )

    def loops(self, joints: Collection[str]) -> Iterator[Loop]:
        model = self.model
        for k in range(model.neq):
            kind, ids, numbers = model.eq_type[k], (model.eq_obj1id[k], model.eq_obj2id[k]), model.eq_data[k]
            if kind == mujoco.mjtEq.mjEQ_JOINT:
                names = tuple(model.joint(each).name if each >= 0 else "" for each in ids)
                if names[0] in joints and names[1] in joints:
                    yield Loop(names=(names[0], names[1]), points=None, coefficients=numbers[:5].copy())
                continue
            sites = model.eq_objtype[k] == mujoco.mjtObj.mjOBJ_SITE
            bodies = [int(model.site_bodyid[each]) if sites else int(each) for each in ids]
            if kind != mujoco.mjtEq.mjEQ_CONNECT:
                raise AdoptError(f"{self.path}: constraint {k} is no <connect> and no <joint>: write it as one of them")
            if any(body not in self.owner for body in bodies):
                continue  # it ties the robot to the world
            points = []
            for place, body in enumerate(bodies):
                point = model.site_pos[ids[place]] if sites else numbers[3 * place : 3 * place + 3]
                world = self.data.xpos[body] + self.data.xmat[body].reshape(3, 3) @ point
                owner = self.owner[body]
                at, turn = self.frame(self.base if owner == self.top else owner)
                points.append(turn.T @ (world - at))
            owners = [self.base if self.owner[body] == self.top else self.owner[body] for body in bodies]
            yield Loop(
                names=(model.body(owners[0]).name, model.body(owners[1]).name),
                points=(points[0], points[1]),
                coefficients=np.zeros(5),
            )

    def key(self) -> dict[str, float]:
        model = self.model
        for k in range(model.nkey):
            if any(word in model.key(k).name.lower() for word in ("home", "stand")):
                pose = model.key_qpos[k]
                scalar = [joint for joint in range(model.njnt) if model.jnt_type[joint] in SCALAR]
                return {model.joint(joint).name: float(pose[model.jnt_qposadr[joint]]) for joint in scalar}
        return {}


def _velocities(path: Path) -> dict[str, float]:
    """Largest speeds that a URDF names; an MJCF has none."""
    if not is_urdf(path):
        return {}
    limits = ((joint.get("name", ""), joint.find("limit")) for joint in read_mjcf(path).iter("joint"))
    told = {name: float(limit.get("velocity", 0.0)) for name, limit in limits if limit is not None}
    return {name: speed for name, speed in told.items() if 0.0 < speed < FASTEST}
