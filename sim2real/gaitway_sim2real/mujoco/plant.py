"""The robot that a policy is validated on: any MJCF with the contract's joints, made ready for control by the contract.

The file says what the robot *is* (bodies, inertias, shapes, joint friction, contact parameters). Everything that says
how it is *driven or judged* comes from the bundle: actuators, sensors, floor, keyframes, gravity, time step and solver
accuracy of the file are dropped and replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import Actuator, Contract
from gaitway_tasks.robots import ActuatorLaw, DCMotor, ImplicitPD
from gaitway_tasks.robots.mjcf import ModelError, set_actuators, strip_visuals

from .alignment import BaseFrame, align_base
from .model import ancestors, compile_robot, foot_bodies, last_links, load_robot, set_world
from .stage import set_stage

PHYSICS_DT = 0.005  # [s], the coarsest step that a verdict is worth
FOOT_FIELDS = 7  # found, force (3) in the contact frame, linvel (3) of the sole against the ground


@dataclass(frozen=True, kw_only=True)
class Plant:
    """A compiled model and where the contract's quantities sit in it. J joints in contract order, F feet."""

    model: mujoco.MjModel
    decimation: int
    joint_qpos: np.ndarray  # (J,) addresses in qpos
    joint_dof: np.ndarray  # (J,) addresses in qvel
    base_body: int
    base_qpos: int
    base_dof: int
    frame: BaseFrame
    soles: np.ndarray  # ids of all geoms of the robot that can collide; theirs is the friction that counts
    slope: float  # [rad], the ground falls along -x by this angle
    start_height: float  # [m], base origin above the ground, measured along its normal
    foot_names: tuple[str, ...]
    foot_sensor: np.ndarray  # (F,) addresses of the feet's contact sensors
    fall_bodies: tuple[str, ...]
    fall_sensor: np.ndarray  # (B,) addresses of the net contact force on each body that must not touch the ground

    @property
    def mass(self) -> float:
        """Mass of the robot [kg]."""
        return float(self.model.body_subtreemass[self.base_body])


def actuator_laws(contract: Contract) -> list[ActuatorLaw]:
    """The contract's actuators as the laws that worlds attach to a model, one per joint.

    Without armature: what a robot's joints weigh is the model's to say, whatever training assumed.
    """
    return [_law(actuator) for actuator in contract.joint_actuators]


def _law(actuator: Actuator) -> ActuatorLaw:
    kp, kd, effort = actuator.stiffness, actuator.damping, actuator.effort_limit
    if actuator.law == "implicit_pd":
        return ImplicitPD(stiffness=kp, damping=kd, effort_limit=effort)
    stall, no_load = actuator.saturation_effort, actuator.velocity_limit
    assert stall is not None and no_load is not None  # by the contract's schema
    return DCMotor(stiffness=kp, damping=kd, effort_limit=effort, saturation_effort=stall, velocity_limit=no_load)


def build_plant(contract: Contract, path: Path, reference: Path, *, slope: float = 0.0, visual: bool = False) -> Plant:
    """Compile ``path`` for the contract; ``reference`` is the bundle's own robot.xml, which defines the base frame.

    ``slope`` [rad] tilts the ground about y: x is uphill. ``visual`` keeps what only a camera sees.
    """
    spec, base_name = load_robot(path, contract.joint_names)
    feet = foot_bodies(spec, contract.joint_names, contract.foot_bodies)
    set_world(spec, slope)
    dt = min(PHYSICS_DT, contract.physics_dt)
    decimation = int(np.ceil(contract.control_dt / dt - 1e-9))
    spec.option.timestep = contract.control_dt / decimation
    if visual:
        set_stage(spec)
    elif all(body.explicitinertial for body in spec.bodies if body.name != "world" and len(body.geoms)):
        strip_visuals(spec)
    if not any(g.contype or g.conaffinity for body in spec.bodies if body.name != "world" for g in body.geoms):
        raise ModelError(f"{path}: no geom of the robot can collide (contype and conaffinity are 0): it has no feet")
    set_actuators(spec, contract.joint_names, actuator_laws(contract))
    fall_bodies = _bodies_that_must_not_touch(spec, contract)
    _add_sensors(spec, feet, fall_bodies)
    model = compile_robot(spec, path)
    base = model.body(base_name)
    root = int(model.body_jntadr[base.id])
    joints = [model.joint(name).id for name in contract.joint_names]
    plant = Plant(
        model=model,
        decimation=decimation,
        joint_qpos=model.jnt_qposadr[joints],
        joint_dof=model.jnt_dofadr[joints],
        base_body=int(base.id),
        base_qpos=int(model.jnt_qposadr[root]),
        base_dof=int(model.jnt_dofadr[root]),
        frame=align_base(model, base_name, path, reference, contract.base_body, contract.joint_names),
        soles=np.flatnonzero((model.geom_bodyid > 0) & ((model.geom_contype > 0) | (model.geom_conaffinity > 0))),
        slope=slope,
        start_height=0.0,
        foot_names=tuple(feet),
        foot_sensor=np.array([model.sensor(f"foot/{name}").adr[0] for name in feet]),
        fall_bodies=tuple(fall_bodies),
        fall_sensor=np.array([model.sensor(f"fall/{name}").adr[0] for name in fall_bodies], dtype=int),
    )
    return replace(plant, start_height=_start_height(plant, contract, path, reference))


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


def _add_sensors(spec: Any, feet: list[str], fall_bodies: list[str]) -> None:
    fields, reduce = mujoco.mjtConDataField, {"maxforce": 2, "netforce": 3}
    found, force, linvel = (
        1 << int(f) for f in (fields.mjCONDATA_FOUND, fields.mjCONDATA_FORCE, fields.mjCONDATA_LINVEL)
    )

    def add(name: str, body: str, objtype: Any, data: int, how: str) -> None:
        spec.add_sensor(
            name=name,
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=objtype,
            objname=body,
            reftype=mujoco.mjtObj.mjOBJ_BODY,
            refname="world",
            intprm=[data, reduce[how], 1],
        )

    for name in feet:  # a foot is the named body and all below it
        add(f"foot/{name}", name, mujoco.mjtObj.mjOBJ_XBODY, found | force | linvel, "maxforce")
    for name in fall_bodies:
        add(f"fall/{name}", name, mujoco.mjtObj.mjOBJ_BODY, force, "netforce")


def _start_height(plant: Plant, contract: Contract, path: Path, reference: Path) -> float:
    """Base height [m] that leaves the feet as far above the ground as the contract's initial height does its own."""
    touch, clear = _touch_height(plant, contract), 0.002
    if path.resolve() == reference.resolve():
        return max(contract.init_height, touch + clear)
    gap = contract.init_height - _touch_height(build_plant(contract, reference, reference), contract)
    return touch + max(gap, clear)


def _touch_height(plant: Plant, contract: Contract) -> float:
    """Height of the base origin above the ground [m] at which the default pose, level with it, first touches it."""
    model, data = plant.model, mujoco.MjData(plant.model)
    ground = model.geom("ground")
    normal, quat = np.zeros(3), np.zeros(4)
    mujoco.mju_rotVecQuat(normal, np.array([0.0, 0.0, 1.0]), ground.quat)
    mujoco.mju_mulQuat(quat, ground.quat, plant.frame.quat_wxyz * np.array([1.0, -1.0, -1.0, -1.0]))
    low, high = 0.0, 5.0
    for _ in range(40):
        height = (low + high) / 2
        data.qpos[:] = model.qpos0
        data.qpos[plant.base_qpos : plant.base_qpos + 3] = height * normal
        data.qpos[plant.base_qpos + 3 : plant.base_qpos + 7] = quat
        data.qpos[plant.joint_qpos] = contract.default_joint_pos
        mujoco.mj_fwdPosition(model, data)
        touching = any(ground.id in pair for pair in data.contact.geom)
        low, high = (height, high) if touching else (low, height)
    return high
