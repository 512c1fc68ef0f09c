"""Environment configurations by name, for Gymnasium's registry: ``VelocityFlatAnymalC``, ``VelocityFlatAnymalC_PLAY``.

Each is a function without arguments; Isaac Lab's scripts call it as they call a configuration class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .registration import task_of


def __getattr__(name: str) -> Callable[[], Any]:
    if name.startswith("__"):
        raise AttributeError(name)
    play = name.endswith("_PLAY")
    try:
        task_name = task_of(name.removesuffix("_PLAY"))
    except ValueError as error:
        raise AttributeError(str(error)) from None

    def make() -> Any:
        from gaitway_tasks.registry import get_task

        from . import build

        cfg = build.env_cfg(get_task(task_name))
        return build.for_play(cfg) if play else cfg

    make.__name__ = make.__qualname__ = name
    return make
