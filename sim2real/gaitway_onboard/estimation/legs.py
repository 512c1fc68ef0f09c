"""The legs of a robot as its MJCF has them: what forward kinematics needs, read without a simulator.

MuJoCo's documentation of MJCF (https://mujoco.readthedocs.io/en/stable/XMLreference.html) says what the attributes
mean. What a file may hold and this reader does not know is refused, never guessed.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.mjcf_files import read_mjcf
from gaitway_files.reading import FileError, one_line
from numpy.typing import NDArray

from ..rotation import matrix_from_quat

Array = NDArray[np.float64]

REFUSED = ("include", "attach", "replicate", "composite", "flexcomp")
LENGTHS = {"quat": 4, "axisangle": 4, "fromto": 6}
"""Numbers of an attribute, where they are not three."""


class LegError(UserError):
    """A model file whose legs cannot be read, with what to change."""


@dataclass(frozen=True, kw_only=True)
class Hinge:
    """A joint of a leg; its frame has the joint's anchor as origin."""

    name: str
    offset: Array
    """Anchor in the frame of the hinge before it, or of the base [m], (3,)"""
    turn: Array
    """Orientation of this frame there, at joint angle 0, (3, 3)"""
    axis: Array
    """Unit vector in this frame, (3,)"""


@dataclass(frozen=True, kw_only=True)
class Leg:
    """A chain of hinges from the base to a foot."""

    foot: str
    hinges: tuple[Hinge, ...]
    offset: Array
    """Origin of the foot's body in the frame of the last hinge [m], (3,)"""
    turn: Array
    """Orientation of the foot's body there, (3, 3)"""
    sole: Array
    """Points of the foot that can touch the ground, in the foot's frame [m], (S, 3)"""
    radius: Array
    """Radii of the spheres around those points [m], (S,)"""


@dataclass(frozen=True, kw_only=True)
class LeggedBody:
    """The base, and the legs that hang from it."""

    legs: tuple[Leg, ...]
    imu: Array
    """Position of the site named ``imu``, or of the base's origin without one, in the base's frame [m], (3,)"""
    mass: float
    """Mass of the whole robot, as far as its bodies have inertials [kg]"""


def read_legs(path: str | Path, base: str, feet: Sequence[str]) -> LeggedBody:
    """Read ``feet``, bodies below the body ``base``, from the MJCF at ``path``. Raises :class:`LegError`."""
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            return _Reader(Path(path)).read(base, feet)
    except LegError:
        raise
    except (ValueError, ArithmeticError, LookupError) as error:  # of a number, a turn about no axis, a class
        raise LegError(f"{path} is not a valid MJCF: {one_line(error)}") from None


class _Reader:
    def __init__(self, path: Path):
        self.path = path
        try:
            self.root = read_mjcf(path)
        except FileError as error:
            raise LegError(f"{path} is not a readable MJCF: {error.reason}") from None
        if found := [tag for tag in REFUSED if self.root.find(f".//{tag}") is not None]:
            raise LegError(f"{path} uses <{found[0]}>: save the compiled model as XML and export with that")
        compiler: Mapping[str, str] = {}
        for node in self.root.findall("compiler"):
            compiler = {**compiler, **node.attrib}
        self.angle = 1.0 if compiler.get("angle", "degree") == "radian" else math.pi / 180.0
        self.sequence = compiler.get("eulerseq", "xyz")
        self.defaults: dict[str, dict[str, dict[str, str]]] = {"main": {}}
        for node in self.root.findall("default"):
            self._read_defaults(node, "main", {})
        self.parent: dict[ElementTree.Element, ElementTree.Element] = {
            child: node for node in self.root.iter() for child in node
        }

    def _read_defaults(self, node: ElementTree.Element, name: str, inherited: dict[str, dict[str, str]]) -> None:
        own = {tag: dict(values) for tag, values in inherited.items()}
        for child in node:
            if child.tag != "default":
                own[child.tag] = {**own.get(child.tag, {}), **child.attrib}
        self.defaults[name] = own
        for child in node.findall("default"):
            self._read_defaults(child, child.attrib["class"], own)

    def read(self, base: str, feet: Sequence[str]) -> LeggedBody:
        bodies = {node.get("name", ""): node for node in self.root.iter("body")}
        if missing := [name for name in (base, *feet) if name not in bodies]:
            raise LegError(f"{self.path} has no body named {', '.join(missing)}")
        imu = next((site for site in self.root.iter("site") if site.get("name") == "imu"), None)
        if imu is not None and self.parent[imu] is not bodies[base]:
            raise LegError(f"{self.path}: the site 'imu' belongs to the body {base}, and is elsewhere")
        return LeggedBody(
            legs=tuple(self._leg(bodies[base], bodies[name]) for name in feet),
            imu=np.zeros(3) if imu is None else self._vector(imu, "pos", (0.0, 0.0, 0.0)),
            mass=sum(self._numbers("mass", node.get("mass", "0"), 1)[0] for node in self.root.iter("inertial")),
        )

    def _leg(self, base: ElementTree.Element, foot: ElementTree.Element) -> Leg:
        chain, node = [foot], self.parent[foot]
        while node is not base:
            if node.tag == "worldbody":
                raise LegError(f"{self.path}: {foot.get('name')} does not hang from {base.get('name')}")
            chain.append(node)
            node = self.parent[node]
        hinges: list[Hinge] = []
        offset, turn = np.zeros(3), np.eye(3)  # from the last hinge's frame to the present one
        for node in reversed(chain):
            offset, turn = offset + turn @ self._vector(node, "pos", (0.0, 0.0, 0.0)), turn @ self._turn(node)
            if node.tag != "body":  # <frame>: a transformation of what it holds
                continue
            for joint in node.findall("joint"):
                hinge = self._hinge(joint, offset, turn)
                anchor = self._vector(joint, "pos", (0.0, 0.0, 0.0))
                hinges.append(hinge)
                offset, turn = -anchor, np.eye(3)
        sole, radius = self._sole(foot)
        return Leg(foot=str(foot.get("name")), hinges=tuple(hinges), offset=offset, turn=turn, sole=sole, radius=radius)

    def _hinge(self, joint: ElementTree.Element, offset: Array, turn: Array) -> Hinge:
        name, attributes = joint.get("name", ""), self._attributes(joint)
        if attributes.get("type", "hinge") != "hinge" or float(attributes.get("ref", "0")) != 0.0:
            raise LegError(f"{self.path}: joint {name!r} of a leg must be a hinge whose ref is 0")
        axis = self._vector(joint, "axis", (0.0, 0.0, 1.0))
        return Hinge(
            name=name,
            offset=offset + turn @ self._vector(joint, "pos", (0.0, 0.0, 0.0)),
            turn=turn,
            axis=axis / np.linalg.norm(axis),
        )

    def _sole(self, foot: ElementTree.Element) -> tuple[Array, Array]:
        """Spheres of the foot's colliding geoms; its origin where it has none of a known shape."""
        points: list[Array] = []
        radii: list[float] = []
        for geom in foot.findall("geom"):
            attributes = self._attributes(geom)
            if attributes.get("contype", "1") == attributes.get("conaffinity", "1") == "0":
                continue
            for point, radius in self._spheres(geom, attributes):
                points.append(point)
                radii.append(radius)
        if not points:
            return np.zeros((1, 3)), np.zeros(1)
        return np.array(points), np.array(radii)

    def _spheres(self, geom: ElementTree.Element, attributes: Mapping[str, str]) -> Iterator[tuple[Array, float]]:
        kind = attributes.get("type", "sphere")
        size = self._numbers("size", attributes.get("size", "0"))
        centre, turn = self._vector(geom, "pos", (0.0, 0.0, 0.0)), self._turn(geom)
        if kind == "sphere":
            yield centre, size[0]
        elif kind == "capsule" and "fromto" in attributes:
            ends = self._vector(geom, "fromto", ())
            yield ends[:3], size[0]
            yield ends[3:], size[0]
        elif kind == "capsule":
            for sign in (-1.0, 1.0):
                yield centre + turn @ np.array([0.0, 0.0, sign * size[1]]), size[0]
        elif kind == "box" and "fromto" not in attributes:
            for corner in np.ndindex(2, 2, 2):
                yield centre + turn @ ((2.0 * np.array(corner) - 1.0) * size), 0.0

    def _attributes(self, node: ElementTree.Element) -> dict[str, str]:
        """Attributes of the node over those of its class: its own, or the nearest ``childclass`` above it."""
        name, above = node.get("class"), self.parent.get(node)
        while name is None and above is not None:
            name, above = above.get("childclass"), self.parent.get(above)
        return {**self.defaults[name or "main"].get(node.tag, {}), **node.attrib}

    def _vector(self, node: ElementTree.Element, key: str, default: Sequence[float]) -> Array:
        text = self._attributes(node).get(key)
        return np.array(default) if text is None else self._numbers(key, text, LENGTHS.get(key, 3))

    def _numbers(self, key: str, text: str, length: int | None = None) -> Array:
        numbers = np.array([float(word) for word in text.split()])
        if len(numbers) != (length or len(numbers)) or not np.isfinite(numbers).all():
            raise LegError(f"{self.path}: {key}={text[:60]!r} must be {length or ''} finite numbers")
        return numbers

    def _turn(self, node: ElementTree.Element) -> Array:
        """Orientation of a body, frame or geom in its parent, (3, 3)."""
        attributes = self._attributes(node)
        if "quat" in attributes:
            return matrix_from_quat(self._vector(node, "quat", ()))
        if "axisangle" in attributes:
            *axis, angle = self._vector(node, "axisangle", ())
            return _about(np.array(axis) / np.linalg.norm(axis), self.angle * float(angle))
        if "euler" in attributes:
            turn = np.eye(3)
            for letter, angle in zip(self.sequence, self._vector(node, "euler", ()), strict=True):
                step = _about(np.eye(3)["xyz".index(letter.lower())], self.angle * float(angle))
                turn = turn @ step if letter.islower() else step @ turn
            return turn
        if unknown := {"xyaxes", "zaxis"} & attributes.keys():
            raise LegError(f"{self.path}: {node.get('name')!r} is turned by {unknown.pop()}: write it as quat")
        return np.eye(3)


def cross_matrix(vector: Array) -> Array:
    """The matrix that takes u to vector x u, (3, 3)."""
    x, y, z = vector
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def _about(axis: Array, angle: float) -> Array:
    k = cross_matrix(axis)
    return np.eye(3) + math.sin(angle) * k + (1.0 - math.cos(angle)) * (k @ k)
