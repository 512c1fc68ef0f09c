"""Stressors of a scenario: one class each, with its draws and its effect.

Each has random numbers of its own, so that the other draws of a scenario are the same with and without it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.rotation import quat_from_rotvec, quat_mul
from gaitway_tasks.robots.mjcf import compensate_known

from ..mujoco.robots import RobotBatch, body_id

Signals = dict[str, np.ndarray]


class Stressor:
    """A frozen dataclass; what :meth:`start` returns is what a run remembers of it, and comes back as ``kept``."""

    stream: ClassVar[int] = 0
    """Last word of the seed of its draws; 0 is one made from the name of the class."""

    def generator(self, seed: tuple[int, ...]) -> np.random.Generator:
        """Random numbers of this stressor alone, in a scenario whose other draws come from ``seed``."""
        return np.random.default_rng((*seed, self.stream or zlib.crc32(type(self).__name__.encode())))

    def start(self, world: RobotBatch, rng: np.random.Generator) -> Any:
        """Change the robots before they are placed: masses, gains, friction; ``rng`` is :meth:`generator`."""
        return rng

    def before_step(self, world: RobotBatch, step: int, kept: Any) -> None:
        """Change the world before the control step ``step``, such as velocities."""

    def sensed(self, signals: Signals, kept: Any) -> Signals:
        """Readings of encoders and IMU for the true ``signals``, (N, ...) each."""
        return signals

    def told(self, command: np.ndarray, world: RobotBatch, kept: Any) -> np.ndarray:
        """Command to the policy for the scenario's ``command``, (N, D) each."""
        return command

    def driven(self, target: np.ndarray, world: RobotBatch, kept: Any) -> np.ndarray:
        """Joint targets to the drives for the policy's ``target``, (N, J) each [rad]."""
        return target

    def noted(self, kept: Any) -> Mapping[str, np.ndarray]:
        """Numbers for the metrics, by name, (K, N) each: :attr:`.Trajectory.noted`."""
        return {}


NOISE = {
    "gyro": 0.2,  # [rad/s]
    "orientation": 0.05,  # [rad]
    "joint_pos": 0.01,  # [rad]
    "joint_vel": 1.5,  # [rad/s]
    "base_lin_vel": 0.1,  # [m/s]
    "height_scan": 0.1,  # [m]
}
"""Half-widths of the uniform noise of sensors and estimates, Isaac Lab's magnitudes."""


@dataclass(frozen=True)
class SensorNoise(Stressor):
    """Uniform noise of :data:`NOISE`; orientation noise is a small random rotation."""

    stream = 1

    def sensed(self, signals: Signals, kept: np.random.Generator) -> Signals:
        def uniform(name: str, shape: tuple[int, ...]) -> np.ndarray:
            return kept.uniform(-NOISE[name], NOISE[name], shape)

        noisy = {name: signals[name] + uniform(name, signals[name].shape) for name in signals if name in NOISE}
        if "gyro" not in signals:  # a fixed base has no IMU
            return noisy
        turn = quat_from_rotvec(uniform("orientation", signals["gyro"].shape))
        return {**noisy, "imu_quat_wxyz": quat_mul(signals["imu_quat_wxyz"], turn)}


@dataclass(frozen=True)
class Load(Stressor):
    """A mass at a body's centre of mass, such as what a hand holds."""

    body: str
    mass: float
    """[kg]"""

    def start(self, world: RobotBatch, rng: np.random.Generator) -> None:
        model = world.plant.model
        body = body_id(model, self.body, "load on")
        if model.body_mass[body] + self.mass <= 0:
            raise UserError(f"load of {self.mass:g} kg: {self.body} weighs {model.body_mass[body]:g} kg and must keep "
                            "a mass")  # fmt: skip
        world.batch.expand("body_mass")[:, body] += self.mass
        compensate_known(model, world.batch.expand)
        world.batch.set_const()
        world.mass += self.mass


@dataclass(frozen=True)
class Links(Stressor):
    """Mass and, by itself, inertia of each link are off by up to a share of them."""

    share: float
    stream = 2

    def start(self, world: RobotBatch, rng: np.random.Generator) -> np.ndarray:
        """Factors on mass and inertia of each of B bodies, drawn one by one, (2, N, B)."""
        model = world.plant.model
        factors = rng.uniform(1.0 - self.share, 1.0 + self.share, (2, len(world.mass), model.nbody))
        world.batch.expand("body_mass")[:] *= factors[0]
        world.batch.expand("body_inertia")[:] *= factors[1][..., None]
        compensate_known(model, world.batch.expand)
        world.batch.set_const()
        world.mass += (factors[0] - 1.0) @ model.body_mass
        return factors
