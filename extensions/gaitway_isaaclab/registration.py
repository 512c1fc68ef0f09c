"""Register Gaitway's tasks with Gymnasium, under names in Isaac Lab's style.

Everything that needs Isaac Lab is given as text, ``"module:name"``, and resolved by Isaac Lab's own scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BUILD = "gaitway_isaaclab.env_cfgs"
AGENTS = "gaitway_isaaclab.agents"


def env_id(task_name: str, play: bool = False) -> str:
    """``velocity-flat-anymal-c`` -> ``Gaitway-Velocity-Flat-Anymal-C-v0`` (or ``...-Play-v0``)."""
    return f"Gaitway-{task_name.title()}{'-Play' if play else ''}-v0"


def cfg_name(task_name: str) -> str:
    """``velocity-flat-anymal-c`` -> ``VelocityFlatAnymalC``, its name in :mod:`gaitway_isaaclab.env_cfgs`."""
    return task_name.title().replace("-", "")


def task_of(name: str) -> str:
    """Inverse of :func:`cfg_name`: the task's name."""
    from gaitway_tasks.registry import UnknownNameError, task_names

    by_name = {cfg_name(task): task for task in task_names()}
    if name not in by_name:
        raise UnknownNameError("configuration", name, by_name)
    return by_name[name]


def factory(name: str, make: Callable[[str], Any], suffix: str = "") -> Callable[[], Any]:
    """The configuration ``name`` of a module: a function that calls ``make`` with the task of that name.

    ``suffix`` is removed from the name. Raises :class:`AttributeError`, as a module's ``__getattr__`` must.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        task_name = task_of(name.removesuffix(suffix))
    except ValueError as error:
        raise AttributeError(str(error)) from None

    def configuration() -> Any:
        return make(task_name)

    configuration.__name__ = configuration.__qualname__ = name
    return configuration


def register() -> None:
    """Register every robot's task, and its variant for watching it play, with Gymnasium. Safe to call twice.

    Isaac Lab 3.0's scripts take it as ``--external_callback gaitway_isaaclab.register``.
    """
    import gymnasium
    from gaitway_tasks.registry import task_names

    for task in task_names():
        for play in (False, True):
            if env_id(task, play) in gymnasium.registry:
                continue
            terrain = "rough" if "rough" in task else "flat"
            gymnasium.register(
                id=env_id(task, play),
                entry_point="isaaclab.envs:ManagerBasedRLEnv",
                disable_env_checker=True,
                kwargs={
                    "env_cfg_entry_point": f"{BUILD}:{cfg_name(task)}{'_PLAY' if play else ''}",
                    "rsl_rl_cfg_entry_point": f"{AGENTS}.rsl_rl_ppo_cfg:{cfg_name(task)}",
                    "skrl_cfg_entry_point": f"{AGENTS}:skrl_{terrain}_ppo_cfg.yaml",
                },
            )
