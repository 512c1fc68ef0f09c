"""Environment configurations by name, for Gymnasium's registry: ``VelocityFlatAnymalC``, ``VelocityFlatAnymalC_PLAY``.

Each is a function without arguments; Isaac Lab's scripts call it as they call a configuration class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .registration import factory

PLAY = "_PLAY"


def __getattr__(name: str) -> Callable[[], Any]:
    def make(task_name: str) -> Any:
        from gaitway_tasks.registry import get_task

        from . import build

        cfg = build.env_cfg(get_task(task_name))
        return build.for_play(cfg) if name.endswith(PLAY) else cfg

    return factory(name, make, PLAY)
