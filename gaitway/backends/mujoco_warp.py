"""MuJoCo Warp: the model of MuJoCo's world on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .backend import Backend
from .on_gpu import check_agent, in_one_go

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task
    from gymnasium.vector import VectorEnv

    from ..train_config import TrainConfig


class MujocoWarp(Backend):
    gpu = True
    portable = False
    steps_model = True

    def defaults(self, settings: dict[str, Any], task: Task, *, preset: bool) -> dict[str, Any]:
        return settings | {"tf32": True, "agent": in_one_go(settings["agent"])}

    def check(self, config: TrainConfig) -> None:
        check_agent(config, "MuJoCo Warp")

    def preflight(self, config: TrainConfig) -> bool:
        from gaitway_mujoco.warp import device_of

        device_of(config.device)
        return True

    def make_env(self, config: TrainConfig, num_envs: int, seed: int) -> VectorEnv:
        from gaitway_mujoco.warp import make_env

        return make_env(config.task, num_envs, device=config.device, seed=seed, options=config.simulator)

    def notes(self, config: TrainConfig, *, continued: bool) -> Iterable[str]:
        if not continued:
            yield "the first start on a machine compiles MuJoCo Warp's kernels, which takes a minute or two"
        if config.device == "cpu":
            yield "MuJoCo Warp on a CPU is for tests: --world mujoco simulates the same robots there many times faster"
