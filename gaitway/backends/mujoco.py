"""MuJoCo on all cores of a CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .backend import Backend

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from ..config.train_config import TrainConfig


class Mujoco(Backend):
    shares_cores = True

    def make_env(self, config: TrainConfig, num_envs: int, seed: int) -> VectorEnv:
        import gaitway_mujoco

        assert config.physics is not None
        physics = dataclasses.asdict(config.physics)
        return gaitway_mujoco.make_env(config.task, num_envs, seed=seed, num_threads=config.num_threads, **physics)

    def notes(self, config: TrainConfig, *, continued: bool) -> Iterable[str]:
        if not continued and config.preset in (None, "isaaclab3"):
            yield (
                "these are Isaac Lab's settings, meant for a GPU; --preset cpu learns to walk in minutes on two cores"
            )
