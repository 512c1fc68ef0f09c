"""Tree: the links of a robot that move, each with everything that is fixed to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_tasks.robots.mjcf import ModelError
from gaitway_tasks.robots.source import Inertial

from ..mujoco.shapes import Shape

Array = np.ndarray


class AdoptError(ModelError):
    """Refusal of a file that makes no walking robot; names the part and the fix."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A link fixed to a moving link. All fields are in the moving link's frame."""

    name: str
    position: Array
    rotation: Array
    inertial: Inertial
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, kw_only=True)
class Joint:
    """A hinge or a slide in the frame of its link. ``stiffness`` and ``springref`` belong to a spring, not a motor."""

    name: str
    slide: bool
    position: Array
    axis: Array
    limits: tuple[float, float] | None
    ref: float
    stiffness: Array | float
    springref: float
    damping: Array | float
    frictionloss: float
    armature: float


@dataclass(frozen=True, kw_only=True)
class Link:
    """A moving body, placed in its parent's frame. Its ``frames`` begin with the body itself."""

    name: str
    parent: str | None
    position: Array
    rotation: Array
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...]

    @property
    def inertial(self) -> Inertial:
        return total(frame.inertial for frame in self.frames)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(shape for frame in self.frames for shape in frame.shapes)


@dataclass(frozen=True, kw_only=True)
class Foot:
    """A foot. All positions are in the frame of ``link``, the last moving link of the leg."""

    link: str
    frame: Frame
    """The link itself, a link fixed to it, or a made one without mass."""
    supports: Array
    """Points that carry it, (S, 3): the corners of a flat sole, or the lowest point of a ball."""
    shapes: tuple[Shape, ...]
    note: str

    @property
    def name(self) -> str:
        return self.frame.name

    @property
    def own_body(self) -> bool:
        """True if the foot becomes a body of its own, with the mass of its frame."""
        return self.name != self.link

    @property
    def sole(self) -> Array:
        """Middle of the sole."""
        return np.asarray(self.supports.mean(0))

    @property
    def flat(self) -> bool:
        return len(self.supports) > 1


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Two links that meet in ``points``, each in its link's frame."""

    names: tuple[str, str]
    points: tuple[Array, Array]


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A robot's links, the base first and parents before children."""

    path: Path
    links: tuple[Link, ...]
    loops: tuple[Loop, ...]
    followers: frozenset[str]
    """Joints that another joint moves, as a finger's mimic."""
    driven: frozenset[str]
    """Joints with motors: those with actuators if the file has any."""
    efforts: Mapping[str, float] = field(default_factory=dict)
    """Largest torque of a joint's motor in the file [N m]."""
    velocities: Mapping[str, float] = field(default_factory=dict)
    """Largest speed of a joint in a URDF [rad/s]."""
    key: Mapping[str, float] = field(default_factory=dict)
    """Joint positions of the file's keyframe named home or stand [rad]."""

    @property
    def base(self) -> str:
        return self.links[0].name

    @cached_property
    def by_name(self) -> dict[str, Link]:
        return {link.name: link for link in self.links}

    @cached_property
    def joints(self) -> dict[str, Joint]:
        return {joint.name: joint for link in self.links for joint in link.joints}

    @cached_property
    def mass(self) -> float:
        return sum(link.inertial.mass for link in self.links)

    def neutral(self) -> dict[str, float]:
        """Joint positions in the file's own pose, or at zero, within their ranges."""
        ranges = {name: joint.limits or (-np.inf, np.inf) for name, joint in self.joints.items()}
        return {name: float(np.clip(self.key.get(name, 0.0), *ends)) for name, ends in ranges.items()}

    def children(self, name: str) -> list[Link]:
        return [link for link in self.links if link.parent == name]

    def mass_below(self, name: str) -> float:
        """Mass of a link and of all links that hang on it [kg]."""
        return self.by_name[name].inertial.mass + sum(self.mass_below(child.name) for child in self.children(name))

    def chain(self, name: str) -> list[Link]:
        """Links from below the base to ``name``."""
        link = self.by_name[name]
        return [] if link.parent is None else [*self.chain(link.parent), link]

    def limb(self, name: str) -> list[str]:
        """Joints that move the link ``name``: its chain's, and those of chains that loops tie to it."""
        links = {link.name: link for link in self.chain(name)}
        for loop in self.loops:
            if any(end in links for end in loop.names):
                links |= {link.name: link for end in loop.names for link in self.chain(end)}
        return [joint.name for link in links.values() for joint in link.joints]

    def with_joints(self, field_name: str, values: Mapping[str, Any]) -> Tree:
        """Copy of the tree with ``values`` {joint: value} of one field."""

        def changed(joint: Joint) -> Joint:
            return replace(joint, **{field_name: values[joint.name]}) if joint.name in values else joint

        return replace(self, links=tuple(replace(k, joints=tuple(map(changed, k.joints))) for k in self.links))


def total(parts: Iterable[Inertial]) -> Inertial:
    """Mass properties of several bodies as one, all in the same frame."""
    found = list(parts)
    mass = sum(part.mass for part in found)
    com = sum((part.mass * part.com for part in found), np.zeros(3)) / mass if mass else np.zeros(3)
    return Inertial(mass, com, sum((part.about(com) for part in found), np.zeros((3, 3))))
