"""Environment configurations by name: ``VelocityFlatAnymalCEnvCfg``, ``VelocityFlatAnymalCEnvCfg_PLAY`` and so on.

Classes as Isaac Lab's own: to subclass, copy, replace and pickle. Each is made when it is first asked for.
"""

from __future__ import annotations

from typing import Any

from .registration import ENV_CFG, PLAY, task_of


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        task = task_of(name.removesuffix(PLAY), ENV_CFG)
    except ValueError as error:
        raise AttributeError(str(error)) from None
    from . import build

    return build.class_for_watching(task) if name.endswith(PLAY) else build.class_of(task)
