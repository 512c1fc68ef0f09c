"""Register Gaitway's tasks with Gymnasium, under names in Isaac Lab's style.

Everything that needs Isaac Lab is given as text, ``"module:name"``, and resolved by Isaac Lab's own scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .preflight import IsaacLabError, find

if TYPE_CHECKING:
    from gaitway_tasks.spec import Task

BUILD = "gaitway_isaaclab.env_cfgs"
AGENTS = "gaitway_isaaclab.agents"
ENV_CFG, PLAY = "EnvCfg", "_PLAY"
"""Ends of the names of configuration classes, and of their variants for watching."""
PRESET = "isaaclab3"
"""The preset whose tasks have names of their own in Isaac Lab 3.0, which end in it."""


def env_id(task_name: str, play: bool = False, *, release: str = "3.0") -> str:
    """``velocity-flat-anymal-c`` -> ``Gaitway-Velocity-Flat-Anymal-C``, in the style of a release of Isaac Lab.

    That of 2.3 ends in ``-v0``, or ``-Play-v0`` for watching; 3.0 has dropped both, and its ``play`` changes any task.
    Gymnasium does not register a name with and without a version.
    """
    name = f"Gaitway-{task_name.title()}"
    return f"{name}{'-Play' if play else ''}-v0" if release == "2.3" else name


def cfg_name(task_name: str) -> str:
    """``velocity-flat-anymal-c`` -> ``VelocityFlatAnymalC``, with which names of its configurations begin."""
    return task_name.title().replace("-", "")


def names(release: str) -> list[str]:
    """Names of the tasks that a release of Isaac Lab gets; ``velocity-flat-go2-isaaclab3`` is one with the preset."""
    from gaitway_tasks.registry import presets, task_names
    from gaitway_tasks.robots import DESCRIPTIONS

    rows = ((each.robot.name, name, row) for each in DESCRIPTIONS.values() for name, row in each.tasks.items())
    lacks = {name.format(robot=robot) for robot, name, row in rows if not row.isaaclab}
    tasks = [task for task in task_names() if task not in lacks]
    own = [f"{task}-{PRESET}" for task in tasks if release != "2.3" and PRESET in presets(task)]
    return [*tasks, *own]


def named(name: str) -> Task:
    """The task of one of these :func:`names`."""
    from gaitway_tasks.registry import get_task

    task, end, _ = name.partition(f"-{PRESET}")
    return get_task(task, PRESET if end else None)


def task_of(name: str, end: str = "") -> str:
    """Inverse of :func:`cfg_name`, followed by ``end``: the task's name."""
    from gaitway_tasks.registry import UnknownNameError

    by_name = {cfg_name(task) + end: task for task in names("3.0")}
    if name not in by_name:
        raise UnknownNameError("configuration", name, by_name)
    return by_name[name]


def factory(name: str, make: Callable[[str], Any], end: str = "") -> Callable[[], Any]:
    """The configuration ``name`` of a module: a function that calls ``make`` with the task of that name and ``end``.

    Raises :class:`AttributeError`, as a module's ``__getattr__`` must.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        task_name = task_of(name, end)
    except ValueError as error:
        raise AttributeError(str(error)) from None

    def configuration() -> Any:
        return make(task_name)

    configuration.__name__ = configuration.__qualname__ = name
    return configuration


def installed_release() -> str:
    """Isaac Lab's release whose names are used: that of what is installed, 3.0 where nothing or another version is."""
    try:
        return find().release or "3.0"
    except IsaacLabError:
        return "3.0"


def register() -> None:
    """Register every robot's task, and its variant for watching it play, with Gymnasium. Safe to call twice.

    Isaac Lab 3.0's scripts take it as ``--external_callback gaitway_isaaclab.register``.
    """
    import gymnasium

    release = installed_release()
    variants = {"": "", "_with_symmetry": "WithSymmetry", "_recurrent": "Recurrent"}
    for task in names(release):
        for play in (False, True) if release == "2.3" else (False,):
            name = env_id(task, play, release=release)
            if name in gymnasium.registry:
                continue
            distilled = {"_distillation": "Distillation"} if task.partition(f"-{PRESET}")[0].endswith("-blind") else {}
            terrain = "rough" if "rough" in task else "flat"
            gymnasium.register(
                id=name,
                entry_point="isaaclab.envs:ManagerBasedRLEnv",
                disable_env_checker=True,
                kwargs={
                    "env_cfg_entry_point": f"{BUILD}:{cfg_name(task)}{ENV_CFG}{PLAY if play else ''}",
                    "default_agent": "rsl_rl",
                    **{
                        f"rsl_rl{key}_cfg_entry_point": f"{AGENTS}.rsl_rl_ppo_cfg:{cfg_name(task)}{end}"
                        for key, end in (variants | (distilled if release != "2.3" else {})).items()
                    },
                    "skrl_cfg_entry_point": f"{AGENTS}:skrl_{terrain}_ppo_cfg.yaml",
                    "rl_games_cfg_entry_point": f"{AGENTS}.rl_games_cfg:{cfg_name(task)}",
                    "sb3_cfg_entry_point": f"{AGENTS}.sb3_cfg:{cfg_name(task)}",
                },
            )
