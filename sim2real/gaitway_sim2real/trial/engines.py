"""The suite in other simulators than MuJoCo: what they are asked for, and what they recorded in the suite's terms.

Falls, feet and metrics are those of MuJoCo's recordings: only the physics differs. Contacts with parts of the robot
itself count as contacts here, since other engines report net forces on bodies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import mujoco
import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_apply, quat_apply_inverse, quat_from_axis
from gaitway_tasks.robots.mjcf import ModelError

from ..mujoco.physics import LOWEST
from ..mujoco.plant import Plant
from ..mujoco.robots import CONTACT_FORCE, MAX_STATE, NOT_FINITE, fall_causes
from ..mujoco.shapes import KINDS, foot_shapes, lineage, lowest_point
from .feet import FootTrace
from .scenario import NOMINAL_FRICTION
from .simulate import Trajectory, foot_trace

if TYPE_CHECKING:
    from .conditions import Conditions

FOOT = ("pos", "quat", "lin_vel", "ang_vel", "force")
"""Quantities that are recorded of each foot, after ``foot_``."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """N robots that walk over flat ground for T control steps, as another simulator must know it."""

    bundle: Path
    contract: Contract
    physics_dt: float
    """[s]; a control step has ``decimation`` of them."""
    decimation: int
    friction: float
    body_names: tuple[str, ...]
    """All bodies of the robot, the base first."""
    feet: tuple[tuple[str, ...], ...]
    """Bodies of each foot: its own, then those below it, whose contacts are the foot's too."""
    fall_bodies: tuple[str, ...]
    """Bodies whose contact forces are reported at control steps."""
    start: Mapping[str, np.ndarray]
    """Start of each robot: ``base_pos`` [m] (N, 3), ``base_quat`` (N, 4, w x y z), ``joint_pos`` [rad] (N, J) and
    ``lin_vel`` [m/s] (N, 3) of the base in the world."""
    command: np.ndarray
    """(T, N, 3) vx, vy [m/s], yaw rate [rad/s]"""


class Engine(Protocol):
    """A simulator that robots can walk in."""

    name: str
    """Name in verdicts, such as ``physx``."""
    title: str
    """Title for readers, such as ``PhysX``."""
    software: Mapping[str, str]
    """Versions of its packages."""

    def record(self, walk: Walk) -> dict[str, np.ndarray]:
        """Recording, as ``gaitway_isaaclab.walk.Walk.record`` returns it."""


def plan(bundle: Path, contract: Contract, plant: Plant, conditions: Conditions) -> Walk:
    """The walk of ``conditions``. Raises :class:`ValueError` for conditions that only MuJoCo can give.

    Raises :class:`ModelError` for feet of a shape that engines cannot be given.
    """
    _check_shapes(plant)
    ordinary = (
        not conditions.push.any() and not conditions.payload.any() and not conditions.delay.any()
        and not conditions.stressors and plant.ground.flat
        and (conditions.strength == 1.0).all() and (conditions.friction == NOMINAL_FRICTION).all()
    )  # fmt: skip
    if not ordinary:
        raise UserError("other engines walk on flat ground without disturbances: give them a scenario without any")
    model, n = plant.model, len(conditions.yaw)
    bodies = {model.body(body).name: lineage(model, body) for body in range(1, model.nbody)}
    limits = np.array(contract.joint_pos_limits)
    base_pos, lin_vel = np.zeros((n, 3)), np.zeros((n, 3))
    base_pos[:, 2], lin_vel[:, :2] = plant.start_height, conditions.velocity
    return Walk(
        bundle=bundle,
        contract=contract,
        physics_dt=float(model.opt.timestep),
        decimation=plant.decimation,
        friction=NOMINAL_FRICTION,
        body_names=tuple(bodies),
        feet=tuple(
            (foot, *(name for name, above in bodies.items() if model.body(foot).id in above[1:]))
            for foot in plant.foot_names
        ),
        fall_bodies=plant.fall_bodies,
        start={
            "base_pos": base_pos,
            "base_quat": quat_from_axis(2, conditions.yaw),
            "joint_pos": np.clip(
                np.array(contract.default_joint_pos) + conditions.joint_offset, limits[:, 0], limits[:, 1]
            ),
            "lin_vel": lin_vel,
        },
        command=conditions.command,
    )


def _check_shapes(plant: Plant) -> None:
    model, feet = plant.model, {plant.model.body(name).id: name for name in plant.foot_names}
    for geom in plant.soles:
        above, kind = lineage(model, model.geom_bodyid[geom]), mujoco.mjtGeom(model.geom_type[geom])
        if kind not in KINDS and (foot := feet.keys() & above):
            raise ModelError(
                f"foot {feet[foot.pop()]!r} has a collision shape of type {kind.name}, and other engines measure feet "
                f"of the types {', '.join(KINDS.values())} only: leave out --engine"
            )


def together(conditions: Sequence[Conditions]) -> Conditions:
    """Robots of several scenarios side by side, all as long as the longest; the last command of a shorter one stays."""
    steps = max(len(each.command) for each in conditions)

    def longer(values: np.ndarray, mode: Any) -> np.ndarray:
        return np.pad(values, ((0, steps - len(values)), (0, 0), (0, 0)), mode=mode)

    robots = ("friction", "payload", "strength", "delay", "yaw", "joint_offset", "velocity")
    joined: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in conditions]) for name in robots}
    joined["command"] = np.concatenate([longer(each.command, "edge") for each in conditions], 1)
    joined["push"] = np.concatenate([longer(each.push, "constant") for each in conditions], 1)
    joined["stressors"] = tuple(stressor for each in conditions for stressor in each.stressors)
    return replace(conditions[0], **joined)


def part(recorded: Mapping[str, np.ndarray], robots: slice, steps: int, decimation: int) -> dict[str, np.ndarray]:
    """The ``robots`` of a recording in its first control ``steps``."""
    return {
        name: values[: steps * (decimation if name.startswith("foot_") else 1), robots]
        for name, values in recorded.items()
    }


def trajectory_of(
    recorded: Mapping[str, np.ndarray], conditions: Conditions, contract: Contract, plant: Plant
) -> Trajectory:
    """Trajectory that an engine ``recorded`` in these conditions, in the form of :func:`.simulate.simulate`."""
    steps, n = conditions.command.shape[:2]
    finite = np.all([_is_physics(recorded[name]) for name in ("base_pos", "joint_pos", "lin_vel", "joint_vel")], axis=0)
    height = recorded["base_pos"][..., 2]
    causes = [
        (~np.isfinite(recorded["target"]).all(-1), NOT_FINITE),
        *fall_causes(plant, finite, recorded["press"], recorded["base_quat"], height),
    ]
    fallen = np.any([who for who, _ in causes], axis=0)  # (T, N)
    fall_step = np.where(fallen.any(0), fallen.argmax(0), -1)
    alive = np.arange(steps)[:, None] <= np.where(fall_step < 0, steps, fall_step)
    robots = np.arange(n)
    first = [next((cause for who, cause in causes if fall_step[i] >= 0 and who[fall_step[i], i]), "") for i in robots]
    feet = trace_of(recorded, plant, steps, n)
    last = feet.decimation * (np.arange(steps) + 1) - 1
    kept: dict[str, Any] = {
        name: np.where(alive[..., None], np.nan_to_num(recorded[name]), 0).astype(np.float32)
        for name in ("base_pos", "base_quat", "lin_vel", "ang_vel", "joint_pos", "joint_vel", "torque", "target")
    }
    start = np.zeros((n, 3))
    start[:, 2] = plant.start_height
    return Trajectory(
        control_dt=contract.control_dt,
        mass=np.full(n, plant.mass),
        command=conditions.command,
        push=conditions.push.astype(np.float32),
        alive=alive,
        fall_step=fall_step,
        fall_cause=tuple(first),
        start_pos=start,
        foot_contact=feet.contact[last] & alive[..., None],
        foot_slip=feet.slip[last] * alive[..., None],
        qpos=None,
        feet=feet,
        height=kept["base_pos"][..., 2],
        arms=plant.arms,
        **kept,
    )


def trace_of(recorded: Mapping[str, np.ndarray], plant: Plant, steps: int, robots: int) -> FootTrace:
    """The feet of a recording. Its contact point is the lowest point of the foot, whose speed is the slip.

    A foot that is loaded touches with its heel or toe if that is within 5 mm of the ground. Bases between control steps
    are those at the end of the control step.

    Engines report the force of a step and the pose after it; a trace has the pose before it beside the force.
    """
    trace = foot_trace(plant, steps, robots)
    base = np.repeat(_held(recorded["base_quat"]), plant.decimation, 0)
    base_pos = np.repeat(np.nan_to_num(recorded["base_pos"]), plant.decimation, 0)
    for foot, shapes in enumerate(foot_shapes(plant.model, plant.foot_names, plant.soles.tolist())):
        pos, quat, lin_vel, ang_vel, force = (
            np.nan_to_num(recorded[f"foot_{name}"][:, :, foot])
            for name in ("pos", "quat", "lin_vel", "ang_vel", "force")
        )
        point = lowest_point(shapes, pos, quat)
        speed = np.linalg.norm((lin_vel + np.cross(ang_vel, point - pos))[..., :2], axis=-1)
        normal = np.maximum(force[..., 2], 0.0)
        contact = normal > CONTACT_FORCE
        trace.contact[..., foot] = contact
        trace.clearance[..., foot] = _before(point[..., 2])
        trace.slip[..., foot] = _before(speed) * contact
        trace.normal_force[..., foot] = normal
        # PhysX reports friction for a step or two after a foot has left the ground, which no floor can give.
        trace.horizontal_force[..., foot] = np.linalg.norm(force[..., :2], axis=-1) * contact
        sole = plant.foot_soles[foot]
        for end, place in (("heel", sole.heel), ("toe", sole.toe)):
            getattr(trace, end)[..., foot] = contact & (_before((pos + quat_apply(quat, place))[..., 2]) < LOWEST)
        middle = pos + quat_apply(quat, sole.middle) - base_pos
        trace.left[..., foot] = _before(quat_apply_inverse(base, middle)[..., 1])
    return trace


def _held(quat: np.ndarray) -> np.ndarray:
    """Orientations (..., 4), upright where nothing is known."""
    return np.where(np.isfinite(quat).all(-1, keepdims=True), quat, [1.0, 0.0, 0.0, 0.0])


def _before(values: np.ndarray) -> np.ndarray:
    """Values (S, ...) at the start of each step, from those at the ends; of the first step, its own."""
    return np.concatenate([values[:1], values[:-1]])


def _is_physics(values: np.ndarray) -> np.ndarray:
    return (np.abs(values) < MAX_STATE).all(-1)  # NaN is not less
