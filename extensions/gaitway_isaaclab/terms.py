"""Gaitway's term functions as Isaac Lab's: ``func(env, **params)`` instead of ``func(world, **params)``.

Isaac Lab writes a term into files as ``module:name`` and reads it back by ``getattr``. Here the name is the dotted path
of Gaitway's function, as in ``gaitway_isaaclab.terms:gaitway_tasks.mdp.rewards.lin_vel_z_l2``. Pickle, which goes
from dot to dot, is given that path with slashes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from .world import world_of


@functools.cache
def isaac_term(func: Callable[..., Any]) -> Callable[..., Any]:
    """``func(world, *args, **params)`` as a term of Isaac Lab's managers, which call it with their environment."""

    @functools.wraps(func)
    def term(env: Any, *args: Any, **params: Any) -> Any:
        return func(world_of(env), *args, **params)

    term.__module__, term.__name__ = __name__, f"{func.__module__}.{func.__name__}"
    term.__qualname__ = term.__name__.replace(".", "/")
    return term


def __getattr__(name: str) -> Callable[..., Any]:
    module, _, function = name.replace("/", ".").rpartition(".")
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return isaac_term(getattr(importlib.import_module(module), function))
