"""Environments of MuJoCo Warp for the tests of MuJoCo's world, which are run on them as they are."""

from __future__ import annotations

import copy
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import mujoco
import pytest
import torch
from gaitway_mujoco.options import WarpOptions
from gaitway_mujoco.warp import make_env as warp_env

DEVICE = os.environ.get("GAITWAY_WARP_DEVICE", "cpu")
ON_CPU = pytest.mark.skipif(DEVICE != "cpu", reason="MuJoCo Warp is to be on a CPU")
TESTS = Path(__file__).parents[2]


class Models:
    """What tests ask of ``mujoco.batch.Batch``: the model of one environment."""

    def __init__(self, world: Any):
        self._world = world

    def get_model(self, row: int) -> mujoco.MjModel:
        model = copy.copy(self._world.model)
        for name in self._world.randomised:
            getattr(model, name)[:] = self._world._field(name)[row].cpu().numpy().reshape(getattr(model, name).shape)
        return model


def make_env(task: Any, num_envs: int, *, seed: int = 0, num_threads: int = 1, **options: Any) -> Any:
    """As ``gaitway_mujoco.make_env``, in MuJoCo Warp."""
    env = warp_env(task, num_envs, device=DEVICE, seed=seed, options=WarpOptions(**options))
    env.world.batch = Models(env.world)
    return env


def module_on_warp(path: str) -> ModuleType:
    """The test module ``path`` below tests/, whose environments are those of MuJoCo Warp."""
    spec = importlib.util.spec_from_file_location(f"warp_{Path(path).stem}", TESTS / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make_env = make_env  # type: ignore[attr-defined]
    return module


def shared_tests(module: ModuleType, *left_out: str) -> dict[str, Any]:
    """The tests of ``module`` by name, without those ``left_out``, each of which must be there."""
    found = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    for name in left_out:
        del found[name]
    return found


def stepped(world: Any, action: torch.Tensor) -> None:
    """One control step of a bare world."""
    world.apply_action(action.to(world.device))
    world.step_physics()
    world.robot.update(world.step_dt)
