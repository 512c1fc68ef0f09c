"""The robot that a policy is validated on: any MJCF with the contract's joints, made ready for control by the contract.

The file says what the robot *is* (bodies, inertias, shapes, joint friction, contact parameters). Everything that says
how it is *driven or judged* comes from the bundle: actuators, sensors, floor, keyframes, gravity, time step and solver
accuracy of the file are dropped and replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_from_axis, quat_mul
from gaitway_tasks.ground import LEVEL, Ground
from gaitway_tasks.objects import add_objects
from gaitway_tasks.objects import addresses as object_addresses
from gaitway_tasks.robots.mjcf import ModelError, compensate_gravity, ground_geoms, set_actuators

from .alignment import align_base
from .feet import (
    FORCE,
    SHORTEST_SOLE,
    SOLE,
    FootSensors,
    Sole,
    add_gait_sensors,
    feet_on_the_ground,
    find_soles,
    foot_bodies,
    gait_sensors,
    named_shapes,
    place_soles,
)
from .laws import actuator_laws
from .limbs import Arm, add_hand_sensors, find_arms, hand_links, hands
from .model import (
    RobotModel,
    add_contact_sensor,
    addresses,
    ancestors,
    check_feet,
    colliding_geoms,
    compile_robot,
    last_links,
    lay_ground,
    prepare_robot,
)
from .physics import NOMINAL_PHYSICS, PHYSICS_DT, Physics, alter_feet, can_alter, soles

__all__ = [
    "NOMINAL_PHYSICS", "PHYSICS_DT", "FixedFeet", "Physics", "Plant", "actuator_laws", "build_plant",
]  # fmt: skip
UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


class FixedFeet(ModelError):
    """Feet of a shape that cannot be altered as asked for."""


@dataclass(frozen=True, kw_only=True)
class Plant(RobotModel):
    """A robot as its contract drives it. J joints in contract order, F feet."""

    decimation: int
    soles: np.ndarray  # ids of all geoms of the robot that can collide; theirs is the friction that counts
    foot_sensor: np.ndarray  # (F,) addresses of the feet's contact sensors
    feet: FootSensors | None  # what a gait is measured with, if asked for
    stand_height: float  # [m], contract's base origin above the ground when the default pose first touches it
    foot_places: np.ndarray  # (F, 2) [m], x and y of the feet from the base in the default pose, contract's base frame
    foot_soles: tuple[Sole, ...]  # F
    hands: tuple[str, ...]  # H bodies at the ends of arms
    hand_sensor: np.ndarray  # (H,) addresses of where they are in the frame of the model's base
    arms: tuple[Arm, ...]  # those that swing
    fall_bodies: tuple[str, ...]
    objects: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # addresses in qpos and qvel, by name
    fall_sensor: np.ndarray  # (B,) addresses of the net contact force on each body that must not touch the ground

    @property
    def has_soles(self) -> bool:
        """True if its feet have a heel and a toe: a support longer than a tenth of the standing height."""
        return min(sole.length for sole in self.foot_soles) > SHORTEST_SOLE * self.stand_height

    @property
    def mass(self) -> float:
        """Mass of the robot [kg]."""
        return float(self.model.body_subtreemass[self.base_body])


def build_plant(
    contract: Contract,
    path: Path,
    reference: Path,
    *,
    ground: Ground = LEVEL,
    visual: bool = False,
    physics: Physics = NOMINAL_PHYSICS,
    gait: bool = False,
) -> Plant:
    """Compile ``path`` for the contract; ``reference`` is the bundle's own robot.xml, which defines the base frame.

    ``ground`` is what it stands on. ``visual`` keeps what only a camera sees. ``gait`` adds the
    sensors of :class:`FootSensors`. Raises :class:`ModelError` if the file is no such robot or its feet are not found,
    and :class:`FixedFeet` if its feet cannot be what ``physics`` asks for.
    """
    dt = min(physics.timestep, contract.physics_dt)
    decimation = int(np.ceil(contract.control_dt / dt - 1e-9))
    names = contract.joint_names
    timestep, fixed = contract.control_dt / decimation, bool(contract.fixed_base)
    spec, base = prepare_robot(path, names, timestep=timestep, visual=visual, fixed_base=fixed)
    if fixed:
        return _fixed(contract, spec, base, path, ground, physics, decimation)
    check_feet(spec, path)
    physics.apply(spec)
    feet = foot_bodies(spec, names, contract.foot_bodies)
    if physics.alters_feet or feet != list(contract.foot_bodies):
        stance = _stance(spec, contract, path, reference, base)
        if feet != list(contract.foot_bodies):
            feet = feet_on_the_ground(spec, feet, stance, contract.foot_bodies, path)
        _alter_feet(spec, feet, physics, stance, path)
    if ground != LEVEL:
        lay_ground(spec, ground)
    shapes = {name: [geom.name for geom in named_shapes(spec, name)] for name in feet}
    set_actuators(spec, names, actuator_laws(contract))
    fall_bodies = _bodies_that_must_not_touch(spec, contract)
    for name in feet:  # a foot is the named body and all below it
        add_contact_sensor(spec, f"foot/{name}", name, SOLE, subtree=True, net=False)
    for name in fall_bodies:
        add_contact_sensor(spec, f"fall/{name}", name, FORCE, subtree=False, net=True)
    if gait:
        add_gait_sensors(spec, base, shapes)
    links = hand_links(spec, names, feet)
    add_hand_sensors(spec, base, links)
    model = compile_robot(spec, path)
    bare = RobotModel(
        **addresses(model, base, names),
        frame=align_base(model, base, path, reference, contract.base_body, names),
        start_height=0.0,
        foot_names=tuple(feet),
        ground=ground,
    )
    touch = _touch_height(bare, contract)
    standing, quat = np.array([0.0, 0.0, touch]), bare.frame.model_orientation(UPRIGHT)
    origin = bare.frame.position(standing, quat)
    data = _posed(bare, contract, standing, quat)
    places = np.array([data.geom_xpos[[model.geom(geom).id for geom in shapes[name]]].mean(0) for name in feet])
    foot_soles = find_soles(data, feet, shapes)
    if gait:
        place_soles(model, feet, foot_soles)
    found = hands(data, bare.base_body, links, float(origin[2]))
    return Plant(
        **vars(replace(bare, start_height=_start_height(touch, contract, path, reference))),
        decimation=decimation,
        soles=colliding_geoms(model),
        foot_sensor=np.array([model.sensor(f"foot/{name}").adr[0] for name in feet]),
        feet=gait_sensors(model, shapes) if gait else None,
        stand_height=float(origin[2]),
        foot_places=(places - origin)[:, :2],
        foot_soles=foot_soles,
        hands=tuple(found),
        hand_sensor=np.array([model.sensor(f"hand/{name}").adr[0] for name in found], dtype=int),
        arms=find_arms(data, bare.base_body, found, feet, names),
        fall_bodies=tuple(fall_bodies),
        fall_sensor=np.array([model.sensor(f"fall/{name}").adr[0] for name in fall_bodies], dtype=int),
    )


def _fixed(
    contract: Contract, spec: Any, base: str, path: Path, ground: Ground, physics: Physics, decimation: int
) -> Plant:
    """A robot whose base is fixed: it has drives, maybe objects beside it, and neither feet nor falls."""
    physics.apply(spec)
    if ground != LEVEL:
        lay_ground(spec, ground)
    set_actuators(spec, contract.joint_names, actuator_laws(contract))
    if contract.gravity_compensation:
        compensate_gravity(spec, base)
    objects = contract.objects or {}
    add_objects(spec, objects)
    model = compile_robot(spec, path)
    none = np.zeros(0, int)
    shapes = colliding_geoms(model)
    return Plant(
        **addresses(model, base, contract.joint_names),
        start_height=contract.init_height,
        ground=ground,
        decimation=decimation,
        soles=shapes[~np.isin(model.geom_bodyid[shapes], [model.body(name).id for name in objects])],
        objects=object_addresses(model, tuple(objects)),
        foot_sensor=none,
        feet=None,
        stand_height=contract.init_height,
        foot_places=np.zeros((0, 2)),
        foot_soles=(),
        hands=(),
        hand_sensor=none,
        arms=(),
        fall_bodies=(),
        fall_sensor=none,
    )


def _stance(spec: Any, contract: Contract, path: Path, reference: Path, base: str) -> mujoco.MjData:
    """The default pose, upright above a level ground."""
    model = compile_robot(spec, path)
    frame = align_base(model, base, path, reference, contract.base_body, contract.joint_names)
    at = addresses(model, base, contract.joint_names)
    stance = mujoco.MjData(model)
    stance.qpos[at["base_qpos"] : at["base_qpos"] + 3] = [0.0, 0.0, 2.0]
    stance.qpos[at["base_qpos"] + 3 : at["base_qpos"] + 7] = frame.model_orientation(UPRIGHT)
    stance.qpos[at["joint_qpos"]] = contract.default_joint_pos
    mujoco.mj_kinematics(model, stance)
    return stance


def _alter_feet(spec: Any, feet: list[str], physics: Physics, stance: mujoco.MjData, path: Path) -> None:
    """Alter the shapes that touch the ground in the default pose, if ``physics`` says so."""
    if not physics.alters_feet:
        return
    shapes = soles(spec, feet, stance)
    if not can_alter(shapes, physics):
        raise FixedFeet(f"{path}: its feet are no balls, so that their size or shape cannot be changed")
    alter_feet(shapes, physics, stance)


def _bodies_that_must_not_touch(spec: Any, contract: Contract) -> list[str]:
    """Colliding bodies above the last driven link of each leg: touching the ground with one of them is a fall."""
    ends = set(last_links(spec, contract.joint_names))
    return [
        body.name
        for body in spec.bodies
        if body.name != "world"
        and any(geom.contype or geom.conaffinity for geom in body.geoms)
        and not ends.intersection([body.name, *ancestors(body)])
    ]


def _start_height(touch: float, contract: Contract, path: Path, reference: Path) -> float:
    """Base height [m] that leaves the feet as far above the ground as the contract's initial height does its own.

    ``touch`` is the :func:`_touch_height` of the model.
    """
    clear = 0.002
    if path.resolve() == reference.resolve():
        return max(contract.init_height, touch + clear)
    gap = contract.init_height - _touch_height(build_plant(contract, reference, reference), contract)
    return touch + max(gap, clear)


def _touch_height(plant: RobotModel, contract: Contract) -> float:
    """Height of the base origin above the ground [m] at which the default pose, level with it, first touches it."""
    ground, data = ground_geoms(plant.model), mujoco.MjData(plant.model)
    low, high = 0.0, 5.0
    for _ in range(40):
        height = (low + high) / 2
        pos, quat = start_pose(plant, height, np.zeros(1))
        _pose(plant, contract, data, pos[0], quat[0])
        mujoco.mj_kinematics(plant.model, data)
        mujoco.mj_collision(plant.model, data)
        touching = bool(np.isin(data.contact.geom, ground).any())
        low, high = (height, high) if touching else (low, height)
    return high


def start_pose(plant: RobotModel, height: float, yaw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Base of the model ``height`` [m] above where robots start, square on the ground, turned by ``yaw`` [rad], (N,).

    Position (N, 3) [m] and orientation (N, 4).
    """
    origin = plant.ground.origin(np.arange(len(yaw)))
    normal, tilt = plant.ground.normal(origin[:, :2]), plant.ground.tilt(origin[:, :2])
    return origin + height * normal, plant.frame.model_orientation(quat_mul(tilt, quat_from_axis(2, yaw)))


def _posed(plant: RobotModel, contract: Contract, pos: np.ndarray, quat: np.ndarray) -> mujoco.MjData:
    """The default pose with the model's base at ``pos`` [m], turned by ``quat``."""
    data = mujoco.MjData(plant.model)
    _pose(plant, contract, data, pos, quat)
    mujoco.mj_fwdPosition(plant.model, data)
    return data


def _pose(plant: RobotModel, contract: Contract, data: mujoco.MjData, pos: np.ndarray, quat: np.ndarray) -> None:
    data.qpos[plant.base_qpos : plant.base_qpos + 3] = pos
    data.qpos[plant.base_qpos + 3 : plant.base_qpos + 7] = quat
    data.qpos[plant.joint_qpos] = contract.default_joint_pos
