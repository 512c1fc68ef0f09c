"""Where a task happens: the worlds, their tasks by name, and the environments that a training needs."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from gaitway_ale import AtariTask
from gaitway_files.trust import import_trusted, trust
from gaitway_gymnasium import GymTask
from gaitway_tasks.language.files import is_file_name
from gaitway_tasks.language.spec import LanguageTask
from gaitway_tasks.language.tasks import get_language_task, language_task_names
from gaitway_tasks.registry import UnknownNameError, get_task
from gaitway_tasks.registry import task_names as robot_task_names
from gaitway_tasks.spec import Task, Terrain

from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gymnasium.vector import VectorEnv

    from ..config.train_config import TrainConfig

AnyTask = Task | GymTask | AtariTask | LanguageTask
WORLDS_OF = {Task: ("mujoco", "isaaclab"), GymTask: ("gymnasium",), AtariTask: ("ale",), LanguageTask: ("language",)}
"""Where tasks of each kind can happen, the usual place first."""


def world_of(task: AnyTask) -> str:
    """The name of the world that a task happens in unless told otherwise."""
    return WORLDS_OF[type(task)][0]


def learning_device(world: str, device: str) -> torch.device:
    """The kind of device that an agent learns on if the configuration says ``device``."""
    gpu = world in ("isaaclab", "language") and device != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if gpu else "cpu")


def usual_agent(task: AnyTask) -> str:
    """Who learns a task unless told otherwise."""
    return "grpo" if isinstance(task, LanguageTask) else "ppo"


def in_mujoco(config: TrainConfig) -> TrainConfig:
    """A robot's run as MuJoCo can show it, wherever it learns: there, the ground is flat."""
    if config.world != "isaaclab":
        return config
    task = config.robot_task
    flat = task.replace(terrain=Terrain(friction=task.terrain.friction), curriculum={})
    return dataclasses.replace(config, world="mujoco", isaaclab=None, device="auto", task=flat)


def as_begun(config: TrainConfig, record: Mapping[str, Any]) -> TrainConfig:
    """``config`` with the robot and the engine of Isaac Lab that a run's record says it began with."""
    if config.isaaclab is None or "isaaclab" not in record:
        return config
    begun = {name: record["isaaclab"][name] for name in ("asset", "physics") if name in record["isaaclab"]}
    return dataclasses.replace(config, isaaclab=dataclasses.replace(config.isaaclab, **begun))


def find_task(name: str, preset: str | None = None) -> AnyTask:
    """A robot's task, a language task or file, an Atari game, or a Gymnasium environment by name or as ``gym:<id>``."""
    import gaitway_ale
    import gaitway_gymnasium

    if name in robot_task_names():
        return get_task(name, preset)
    if preset is not None:
        raise UnknownNameError(f"preset of {name}", preset, ())
    if name in language_task_names() or is_file_name(name):
        return get_language_task(name)
    if name.startswith("gym:"):
        _import_named(name.removeprefix("gym:"))
        try:
            return gaitway_gymnasium.task_named(name)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    known = [*robot_task_names(), *language_task_names(), *gaitway_gymnasium.task_names(), "gym:<id>"]
    with contextlib.suppress(UnknownNameError):
        return gaitway_gymnasium.task_named(name)
    with contextlib.suppress(ImportError):  # without ale-py there are no games
        known += [game.replace("_", "-") for game in gaitway_ale.games()]
        with contextlib.suppress(UnknownNameError):
            return gaitway_ale.task_named(name)
    raise UnknownNameError("task", name, known)


def _import_named(env_id: str) -> None:
    """The module of ``module:Id``: the user has named it, so it may also lie in the folder that the user is in."""
    if module := env_id.rpartition(":")[0]:
        trust(module)
        try:
            import_trusted(module, f"gym:{env_id}")
        except ImportError as error:
            raise ConfigError(f"gym:{env_id}: cannot import {module!r}: {error}") from None


def make_envs(config: TrainConfig, num_envs: int, groups: int, seed: int) -> Sequence[VectorEnv]:
    """``groups`` vector environments of ``num_envs`` in all, in the shape that agents know."""
    from gaitway_agents.vector import adapt

    if config.world == "isaaclab":
        from gaitway_isaaclab.launch import make_env

        robot = config.robot_task
        return [make_env(robot, num_envs, device=config.device, seed=seed, options=config.isaaclab)]
    task, threads = config.task, config.num_threads
    if isinstance(task, Task):
        import gaitway_mujoco

        assert config.physics is not None
        physics = dataclasses.asdict(config.physics)
        return [
            gaitway_mujoco.make_env(task, num_envs // groups, seed=seed * groups + g, num_threads=threads, **physics)
            for g in range(groups)
        ]
    if isinstance(task, GymTask):
        import gaitway_gymnasium

        return [
            adapt(gaitway_gymnasium.make_env(task, num_envs // groups, seed=seed * groups + g, num_threads=threads))
            for g in range(groups)
        ]
    import gaitway_ale

    assert isinstance(task, AtariTask)
    return [
        adapt(gaitway_ale.make_env(task, num_envs // groups, seed=seed * groups + g, num_threads=threads))
        for g in range(groups)
    ]
