"""Stressors of objects, and of what tells where they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial.stressors import Signals, Stressor


def _bodies(world: RobotBatch) -> Iterator[tuple[int, int]]:
    """Body and geom of each object."""
    for name in world.plant.objects:
        yield world.plant.model.body(name).id, world.plant.model.geom(name).id


@dataclass(frozen=True)
class ObjectMass(Stressor):
    """Factor on the mass and inertia of objects, from ``least`` to ``most``."""

    least: float
    most: float

    def start(self, world: RobotBatch, rng: np.random.Generator) -> None:
        for body, _ in _bodies(world):
            factor = rng.uniform(self.least, self.most, len(world.mass))
            world.batch.expand("body_mass")[:, body] *= factor
            world.batch.expand("body_inertia")[:, body] *= factor[:, None]
        world.batch.set_const()


@dataclass(frozen=True)
class ObjectFriction(Stressor):
    """Sliding friction of objects, from ``least`` to ``most``, with their torsional friction in proportion."""

    least: float
    most: float

    def start(self, world: RobotBatch, rng: np.random.Generator) -> None:
        friction = world.batch.expand("geom_friction")
        for _, geom in _bodies(world):
            drawn = rng.uniform(self.least, self.most, len(world.mass))
            friction[:, geom, 1] *= drawn / friction[:, geom, 0]
            friction[:, geom, 0] = drawn


@dataclass(frozen=True)
class ObjectSize(Stressor):
    """Factor on the edges of objects, from ``least`` to ``most``; their mass stays."""

    least: float
    most: float

    def start(self, world: RobotBatch, rng: np.random.Generator) -> None:
        for body, geom in _bodies(world):
            factor = rng.uniform(self.least, self.most, len(world.mass))
            world.batch.expand("geom_size")[:, geom] *= factor[:, None]
            world.batch.expand("geom_rbound")[:, geom] *= factor
            world.batch.expand("geom_aabb")[:, geom] *= factor[:, None]
            world.batch.expand("body_inertia")[:, body] *= factor[:, None] ** 2
        world.batch.set_const()


@dataclass(frozen=True)
class ObjectNoise(Stressor):
    """Errors of what tells where the object is: one that stays, and one in each control step, up to these [m]."""

    bias: float
    noise: float

    def start(self, world: RobotBatch, rng: np.random.Generator) -> tuple[np.random.Generator, np.ndarray]:
        return rng, rng.uniform(-self.bias, self.bias, (len(world.mass), 3))

    def sensed(self, signals: Signals, kept: tuple[np.random.Generator, np.ndarray]) -> Signals:
        rng, bias = kept
        noise = rng.uniform(-self.noise, self.noise, bias.shape)
        return signals | {"object_pos": signals["object_pos"] + bias + noise}
