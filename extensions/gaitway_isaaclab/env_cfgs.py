"""Environment configurations by name: ``VelocityFlatAnymalCEnvCfg``, ``VelocityFlatAnymalCEnvCfg_PLAY`` and so on.

Classes as Isaac Lab's own: to subclass, copy, replace and pickle. Each is made when it is first asked for.
"""

from __future__ import annotations

from typing import Any

from gaitway_tasks.registry import UnknownNameError, get_task
from gaitway_tasks.spec import Task

from .registration import ENV_CFG, PLAY, cfg_name, task_of


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        task = get_task(task_of(name.removesuffix(PLAY), ENV_CFG))
    except ValueError as error:
        raise AttributeError(str(error)) from None
    from . import build

    full = cfg_name(task.name) + ENV_CFG
    cls = globals().get(full) or globals().setdefault(full, build.env_cfg_class(task, __name__))
    if not name.endswith(PLAY):
        return cls
    return globals().setdefault(name, build.for_watching(cls))


def of_registered(task: Task) -> Any:
    """The class of ``task`` if it is registered and unchanged, else None."""
    try:
        if get_task(task.name) != task:
            return None
    except UnknownNameError:
        return None
    return globals().get(cfg_name(task.name) + ENV_CFG) or __getattr__(cfg_name(task.name) + ENV_CFG)
