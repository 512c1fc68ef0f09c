"""Gymnasium environments as tasks, by short names or by id."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass, field
from typing import Annotated, Any

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt, one_of
from gaitway_tasks.registry import UnknownNameError

PREFIX = "gym:"


@dataclass(frozen=True, kw_only=True)
class GymTask(Checked):
    """An environment by its Gymnasium id."""

    name: str
    env_id: str
    """Id in Gymnasium's registry or among EnvPool's; ``module:Id`` imports the module that registers it."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment, with its backend's names."""
    backend: Annotated[str, one_of("auto", "envpool", "gymnasium")] = "auto"
    """"auto" is EnvPool if it is installed, has the same task and ``kwargs`` are empty; else Gymnasium."""
    max_episode_steps: PositiveInt | None = None
    """Time limit [steps]; None uses that of the id."""
    vectorization: Annotated[str, one_of("sync", "async")] = "sync"
    """Gymnasium's vectorisation: "async" has one process per environment and pays only for slow steps (> 1 ms)."""
    call_time_limit: PositiveFloat = 600.0
    """Longest constructor, ``reset`` or ``step`` of all environments [s]; one that takes longer is an error."""


IDS = {
    "cartpole": "CartPole-v1",
    "acrobot": "Acrobot-v1",
    "mountain-car": "MountainCar-v0",
    "mountain-car-continuous": "MountainCarContinuous-v0",
    "pendulum": "Pendulum-v1",
    "lunar-lander": "LunarLander-v3",
    "lunar-lander-continuous": "LunarLanderContinuous-v3",
    "bipedal-walker": "BipedalWalker-v3",
    "hopper": "Hopper-v5",
    "half-cheetah": "HalfCheetah-v5",
    "walker2d": "Walker2d-v5",
    "ant": "Ant-v5",
    "humanoid": "Humanoid-v5",
    "humanoid-standup": "HumanoidStandup-v5",
    "reacher": "Reacher-v5",
    "swimmer": "Swimmer-v5",
    "pusher": "Pusher-v5",
    "inverted-pendulum": "InvertedPendulum-v5",
    "inverted-double-pendulum": "InvertedDoublePendulum-v5",
    "frozen-lake": "FrozenLake-v1",
    "frozen-lake-8x8": "FrozenLake8x8-v1",
    "cliff-walking": "CliffWalking-v1",
    "taxi": "Taxi-v4",
    "blackjack": "Blackjack-v1",
}
"""Short names of the catalogue and their ids."""
LIMITS = {"cliff-walking": 1000}
"""Time limits [steps] for ids without one, in which a learning policy could run for ever."""
ALIASES = {"halfcheetah": "half-cheetah"}


def task_names() -> list[str]:
    """Short names, in the order of the catalogue."""
    return list(IDS)


def task_named(name: str) -> GymTask:
    """The task of a short name, or of any id as in ``gym:LunarLander-v3``.

    Raises ValueError with the nearest name if neither the catalogue nor Gymnasium nor EnvPool has it.
    """
    if name.startswith(PREFIX):
        env_id = name.removeprefix(PREFIX)
        check_id(env_id)
        return GymTask(name=name, env_id=env_id)
    short = ALIASES.get(name, name)
    if short not in IDS:
        raise UnknownNameError("task", name, [*IDS, f"{PREFIX}<any Gymnasium id>"])
    return GymTask(name=short, env_id=IDS[short], max_episode_steps=LIMITS.get(short))


def check_id(env_id: str) -> None:
    """Raise ValueError if neither Gymnasium nor EnvPool has the id."""
    import gymnasium

    from .envpool_env import envpool_ids

    module, _, rest = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UserError(f"environment id {env_id!r}: its module {error.name!r} is not installed") from error
    if rest in gymnasium.registry or env_id in envpool_ids():
        return
    near = difflib.get_close_matches(rest, [*gymnasium.registry, *sorted(envpool_ids())], n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UserError(
        f"unknown environment id {env_id!r}: {hint}Known are those in gymnasium.registry and envpool.list_all_envs(), "
        "and module:Id of modules that register their own"
    )
