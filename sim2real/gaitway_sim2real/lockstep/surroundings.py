"""Floor and payload of a walking robot, which may change from one step to the next, and the forces of its contacts."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_files.errors import UserError
from gaitway_tasks.robots.mjcf import ground_geoms

from ..mujoco.physics import CONES, INTEGRATORS, NOMINAL_PHYSICS, Physics
from ..mujoco.plant import Plant

AT_LIMIT = 0.98  # of the largest friction force: the contact slides, or is about to


@dataclass(frozen=True, kw_only=True)
class Contacts:
    """Contacts of the robot with the ground at one moment, C of them."""

    point: np.ndarray
    """Contact points in the world [m], (C, 3)."""
    force: np.ndarray
    """Forces of the ground on the robot, in the world [N], (C, 3)."""
    sliding: np.ndarray
    """Mask of the contacts whose friction is at its limit, (C,) bool."""
    foot: np.ndarray
    """Index of the foot, (C,); -1 for any other part of the robot."""


class Surroundings:
    """Alters the model that a simulation steps; what it has not altered stays as compiled."""

    def __init__(self, plant: Plant):
        self._plant, self._model = plant, plant.model
        model, soles, base = plant.model, plant.soles, plant.base_body
        self._control_dt = plant.decimation * model.opt.timestep
        self._compiled = model.geom_solref[soles].copy(), model.geom_solimp[soles].copy()
        self._solver = model.opt.timestep, model.opt.integrator, model.opt.cone, model.opt.impratio
        self._base = float(model.body_mass[base]), model.body_inertia[base].copy()
        self._ground = set(ground_geoms(model))
        self._foot_of_geom = _feet(model, plant.foot_names)[model.geom_bodyid]

    @property
    def friction(self) -> float:
        """Coefficient of sliding friction, the mean of the shapes that can touch the ground."""
        return float(self._model.geom_friction[self._plant.soles, 0].mean())

    @friction.setter
    def friction(self, value: float) -> None:
        if not 0.0 < value < np.inf:
            raise UserError(f"friction {value}: must be above 0")
        self._model.geom_friction[self._plant.soles, 0] = value

    def lay_floor(self, physics: Physics) -> None:
        """Solve contacts as ``physics`` says; friction stays.

        Raises ValueError for altered feet, which need a model of their own.
        """
        if physics.alters_feet:
            raise UserError("feet of another size or shape need a model of their own: give it to build_plant")
        model, option, soles = self._model, self._model.opt, self._plant.soles
        step, integrator, cone, impratio = self._solver
        if physics != NOMINAL_PHYSICS:
            step = self._control_dt / int(np.ceil(self._control_dt / min(physics.timestep, step) - 1e-9))
            integrator = INTEGRATORS[physics.integrator]
        option.timestep, option.integrator = step, integrator
        option.cone = cone if physics.cone is None else CONES[physics.cone]
        option.impratio = impratio if physics.impratio is None else physics.impratio
        model.geom_solref[soles], model.geom_solimp[soles] = self._compiled
        if physics.solref is not None:
            model.geom_solref[soles] = physics.solref
        if physics.solimp is not None:
            model.geom_solimp[soles, :3] = physics.solimp

    def set_payload(self, kilograms: float) -> None:
        """Make the base heavier by ``kilograms``, as training and validation do; its inertia grows in proportion.

        Raises ValueError if the base would lose its mass.
        """
        mass, inertia = self._base
        if not -mass < kilograms < np.inf:
            raise UserError(f"payload {kilograms} kg: the base weighs {mass:.1f} kg and must keep a mass")
        base, factor = self._plant.base_body, (mass + kilograms) / mass
        self._model.body_mass[base], self._model.body_inertia[base] = factor * mass, factor * inertia
        mujoco.mj_setConst(self._model, mujoco.MjData(self._model))

    @property
    def weight(self) -> float:
        """Weight of robot and payload [N]."""
        mass = self._model.body_subtreemass[self._plant.base_body]
        return float(mass * np.linalg.norm(self._model.opt.gravity))

    def contacts(self, data: mujoco.MjData) -> Contacts:
        """Contacts with the ground in the last step."""
        rows, wrench = [], np.zeros(6)
        for index, contact in enumerate(data.contact):
            if not self._ground.intersection(contact.geom):
                continue
            mujoco.mj_contactForce(self._model, data, index, wrench)
            normal, across = wrench[0], float(np.linalg.norm(wrench[1:3]))
            if normal <= 0.0:
                continue
            first = contact.geom[0] in self._ground  # the contact frame points from the first geom to the second
            force = contact.frame.reshape(3, 3).T @ wrench[:3] * (1.0 if first else -1.0)
            sliding = across >= AT_LIMIT * contact.friction[0] * normal
            rows.append((contact.pos.copy(), force, sliding, self._foot_of_geom[contact.geom[int(first)]]))
        point, force, sliding, foot = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Contacts(
            point=np.reshape(point, (-1, 3)),
            force=np.reshape(force, (-1, 3)),
            sliding=np.array(sliding, dtype=bool),
            foot=np.array(foot, dtype=int),
        )


def _feet(model: mujoco.MjModel, names: tuple[str, ...]) -> np.ndarray:
    """Index of the foot that each body belongs to, (nbody,); -1 for none."""
    feet = np.full(model.nbody, -1)
    numbers = {model.body(name).id: number for number, name in enumerate(names)}
    for body in range(1, model.nbody):  # parents come first
        feet[body] = numbers.get(body, feet[model.body_parentid[body]])
    return feet
