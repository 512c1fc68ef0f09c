"""Which bodies of a robot are its feet, and the sensors that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_tasks.robots.mjcf import ModelError

from .model import add_contact_sensor, ancestors, distance_to_ground, last_links

_FIELDS = mujoco.mjtConDataField
FORCE = (_FIELDS.mjCONDATA_FORCE,)
SOLE = (_FIELDS.mjCONDATA_FOUND, _FIELDS.mjCONDATA_FORCE, _FIELDS.mjCONDATA_LINVEL)
FOOT_FIELDS = 7  # of SOLE: found, force (3) in the contact frame, linvel (3) of the sole against the ground
SOLE_CONTACTS = 4  # contacts of a foot that are read, the hardest: a box has four corners
OUT_OF_REACH = 2.0  # [m], the greatest clearance that is told apart
LEVEL = 0.25  # feet reach within this share of the robot's height of the lowest foot in the default pose


@dataclass(frozen=True, kw_only=True)
class FootSensors:
    """Addresses in ``sensordata`` of what :class:`.robots.RobotBatch` reads of F feet at every physics step."""

    force: np.ndarray  # (F,) net force of the ground, world frame, 3 fields
    contacts: np.ndarray  # (F,) SOLE_CONTACTS times FOOT_FIELDS, hardest first
    clearance: tuple[np.ndarray, ...]  # F arrays: distance of each of a foot's shapes from the ground, 1 field


def foot_bodies(spec: Any, joint_names: Sequence[str], foot_names: Sequence[str]) -> list[str]:
    """``foot_names`` if the model has them all, with shapes that can touch, else the last driven link of every limb."""
    if all(spec.body(name) is not None and shapes_below(spec, name) for name in foot_names):
        return list(foot_names)
    return last_links(spec, joint_names)


def feet_on_the_ground(
    spec: Any, links: Sequence[str], stance: mujoco.MjData, expected: Sequence[str], path: Path
) -> list[str]:
    """Those of ``links`` that reach the ground in the pose of ``stance``, level and above it: a hand is no foot.

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


def add_gait_sensors(spec: Any, shapes: dict[str, list[str]]) -> None:
    """Sensors for :class:`FootSensors`; ``shapes`` are the names of each foot's geoms."""
    for foot, geoms in shapes.items():
        add_contact_sensor(spec, f"load/{foot}", foot, FORCE, subtree=True, net=True)
        add_contact_sensor(spec, f"sole/{foot}", foot, SOLE, subtree=True, net=False, count=SOLE_CONTACTS)
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


def gait_sensors(model: mujoco.MjModel, shapes: dict[str, list[str]]) -> FootSensors:
    """Where the sensors of :func:`add_gait_sensors` are in the compiled model."""

    def address(kind: str, names: Iterable[str]) -> np.ndarray:
        return np.array([model.sensor(f"{kind}/{name}").adr[0] for name in names], dtype=int)

    return FootSensors(
        force=address("load", shapes),
        contacts=address("sole", shapes),
        clearance=tuple(address("clearance", geoms) for geoms in shapes.values()),
    )
