"""Feet of a robot: their bodies and the sensors that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_onboard.rotation import quat_apply, quat_apply_inverse, quat_from_axis, quat_mul
from gaitway_tasks.robots.mjcf import ModelError

from .model import add_contact_sensor, ancestors, distance_to_ground, last_links
from .shapes import foot_shapes, lowest_point

_FIELDS = mujoco.mjtConDataField
FORCE = (_FIELDS.mjCONDATA_FORCE,)
SOLE = (_FIELDS.mjCONDATA_FOUND, _FIELDS.mjCONDATA_FORCE, _FIELDS.mjCONDATA_LINVEL)
FOOT_FIELDS = 7  # of SOLE: found, force (3) in the contact frame, linvel (3) of the sole against the ground
POINT = (_FIELDS.mjCONDATA_FOUND, _FIELDS.mjCONDATA_FORCE, _FIELDS.mjCONDATA_POS, _FIELDS.mjCONDATA_LINVEL)
POINT_FIELDS = 10  # of POINT: those of SOLE, with the point (3) in the world before linvel
SOLE_CONTACTS = 4  # contacts of a foot that are read, the hardest: a box has four corners
OUT_OF_REACH = 2.0  # [m], the greatest clearance that is told apart
LEVEL = 0.25  # feet reach within this share of the robot's height of the lowest foot in the default pose
ROCK = 0.3  # [rad], by which a foot is rocked to find the ends of its sole: a ball rolls by 0.6 of its radius
SHORTEST_SOLE = 0.1  # of the standing height; balls and pads have 0.06 at most, Unitree's G1 0.22, H1 0.31


@dataclass(frozen=True, kw_only=True)
class Sole:
    """The ends of a foot's support in the default pose, in the frame of the foot's body."""

    heel: np.ndarray
    """(3,) [m]"""
    toe: np.ndarray
    """(3,) [m]"""
    forward: np.ndarray
    """Direction that the base faces, (3,)."""

    @property
    def middle(self) -> np.ndarray:
        """(3,) [m]"""
        return (self.heel + self.toe) / 2

    @property
    def length(self) -> float:
        """Length from heel to toe [m]; next to nothing for a ball."""
        return float((self.toe - self.heel) @ self.forward)


@dataclass(frozen=True, kw_only=True)
class FootSensors:
    """Addresses in ``sensordata`` of what :class:`.robots.RobotBatch` reads of F feet at every physics step."""

    force: np.ndarray  # (F,) net force of the ground, world frame, 3 fields
    contacts: np.ndarray  # (F,) SOLE_CONTACTS times POINT_FIELDS, hardest first
    clearance: tuple[np.ndarray, ...]  # F arrays: distance of each of a foot's shapes from the ground, 1 field
    middle: np.ndarray  # (F,) middle of the sole, world frame, 3 fields
    forward: np.ndarray  # (F,) direction from heel to toe, world frame, 3 fields
    place: np.ndarray  # (F,) middle of the sole from the model's base, in its frame, 3 fields


def foot_bodies(spec: Any, joint_names: Sequence[str], foot_names: Sequence[str]) -> list[str]:
    """``foot_names`` if the model has them all, with shapes that can touch, else the last driven link of every limb."""
    if all(spec.body(name) is not None and shapes_below(spec, name) for name in foot_names):
        return list(foot_names)
    return last_links(spec, joint_names)


def feet_on_the_ground(
    spec: Any, links: Sequence[str], stance: mujoco.MjData, expected: Sequence[str], path: Path
) -> list[str]:
    """Members of ``links`` that reach the ground in the pose of ``stance``, level and above it: a hand is no foot.

    Raises :class:`ModelError` if they are not as many as ``expected``, the contract's feet.
    """
    height = {
        link: min(distance_to_ground(stance, geom.id) for geom in shapes)
        for link in links
        if (shapes := shapes_below(spec, link))
    }
    lowest = min(height.values(), default=0.0)
    reach = lowest + LEVEL * float(stance.xpos[:, 2].max() - lowest)
    feet = [link for link in links if height.get(link, np.inf) <= reach]
    if len(feet) != len(expected):
        bare = [link for link in links if link not in height]
        why = f"; no shape that can touch the ground on: {', '.join(bare)}" if bare else ""
        raise ModelError(
            f"{path}: found {len(feet)} feet ({', '.join(feet)}), and the contract has {len(expected)} "
            f"({', '.join(expected)}){why}: name the feet like the contract's, and give each a collision geom that "
            "reaches the ground in the default pose"
        )
    return feet


def shapes_below(spec: Any, name: str) -> list[Any]:
    """Geoms of the body ``name``, and of those below it, that can touch the ground."""
    bodies = [body for body in spec.bodies if name in (body.name, *ancestors(body))]
    return [geom for body in bodies for geom in body.geoms if geom.contype or geom.conaffinity]


def named_shapes(spec: Any, foot: str) -> list[Any]:
    """:func:`shapes_below`; those without a name get one."""
    shapes = shapes_below(spec, foot)
    for number, geom in enumerate(shapes):
        geom.name = geom.name or f"{foot}/shape_{number}"
    return shapes


def find_soles(data: mujoco.MjData, feet: Sequence[str], shapes: dict[str, list[str]]) -> tuple[Sole, ...]:
    """The soles of ``feet`` in the pose of ``data``, in which the base faces along x; ``shapes`` are names of geoms."""
    model, found = data.model, []
    for foot in feet:
        geoms = [model.geom(name).id for name in shapes[foot]]
        (own,) = foot_shapes(model, [foot], geoms)
        body = data.body(foot)
        across = float(data.geom_xpos[geoms, 1].mean() - body.xpos[1])
        ends = []
        for angle in (-ROCK, ROCK):
            rocked = quat_mul(quat_from_axis(1, np.array(angle)), body.xquat)
            point = lowest_point(own, np.zeros(3), rocked) if own else np.zeros(3)
            in_world = quat_apply(body.xquat, quat_apply_inverse(rocked, point))
            ends.append(quat_apply_inverse(body.xquat, np.array([in_world[0], across, in_world[2]])))
        forward = quat_apply_inverse(body.xquat, np.array([1.0, 0.0, 0.0]))
        found.append(Sole(heel=ends[0], toe=ends[1], forward=forward))
    return tuple(found)


def add_gait_sensors(spec: Any, base: str, shapes: dict[str, list[str]]) -> None:
    """Sensors for :class:`FootSensors`; ``shapes`` are the names of each foot's geoms.

    Sites ``sole/FOOT`` still have to be put in their places, by :func:`place_soles`.
    """
    site, axis = mujoco.mjtSensor.mjSENS_FRAMEPOS, mujoco.mjtSensor.mjSENS_FRAMEXAXIS
    for foot, geoms in shapes.items():
        add_contact_sensor(spec, f"load/{foot}", foot, FORCE, subtree=True, net=True)
        add_contact_sensor(spec, f"sole/{foot}", foot, POINT, subtree=True, net=False, count=SOLE_CONTACTS)
        spec.body(foot).add_site(name=f"sole/{foot}", group=5)
        of = {"objtype": mujoco.mjtObj.mjOBJ_SITE, "objname": f"sole/{foot}"}
        spec.add_sensor(name=f"middle/{foot}", type=site, **of)
        spec.add_sensor(name=f"forward/{foot}", type=axis, **of)
        spec.add_sensor(name=f"place/{foot}", type=site, reftype=mujoco.mjtObj.mjOBJ_XBODY, refname=base, **of)
        for geom in geoms:
            spec.add_sensor(
                name=f"clearance/{geom}",
                type=mujoco.mjtSensor.mjSENS_GEOMDIST,
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                objname="world",  # which is all ground
                reftype=mujoco.mjtObj.mjOBJ_GEOM,
                refname=geom,
                cutoff=OUT_OF_REACH,
            )


def place_soles(model: mujoco.MjModel, feet: Sequence[str], soles: Sequence[Sole]) -> None:
    """Put the sites of :func:`add_gait_sensors` in the middle of the soles, their x axes towards the toes."""
    for foot, sole in zip(feet, soles, strict=True):
        site = model.site(f"sole/{foot}").id
        up = np.array([0.0, 0.0, 1.0]) if abs(sole.forward[2]) < 0.9 else np.array([0.0, 1.0, 0.0])
        left = np.cross(up, sole.forward)
        left /= np.linalg.norm(left)
        axes = np.stack([sole.forward, left, np.cross(sole.forward, left)], 1)
        model.site_pos[site] = sole.middle
        mujoco.mju_mat2Quat(model.site_quat[site], axes.ravel())
        model.site_sameframe[site] = 0  # it is no longer at the origin of its body


def gait_sensors(model: mujoco.MjModel, shapes: dict[str, list[str]]) -> FootSensors:
    """Addresses of the sensors of :func:`add_gait_sensors` in the compiled model."""

    def address(kind: str, names: Iterable[str]) -> np.ndarray:
        return np.array([model.sensor(f"{kind}/{name}").adr[0] for name in names], dtype=int)

    return FootSensors(
        force=address("load", shapes),
        contacts=address("sole", shapes),
        clearance=tuple(address("clearance", geoms) for geoms in shapes.values()),
        middle=address("middle", shapes),
        forward=address("forward", shapes),
        place=address("place", shapes),
    )
