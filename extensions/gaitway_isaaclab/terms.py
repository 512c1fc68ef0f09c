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

import torch

from .world import world_of


@functools.cache
def isaac_term(func: Callable[..., Any]) -> Callable[..., Any]:
    """``func(world, *args, **params)`` as a term of Isaac Lab's managers, which call it with their environment."""

    term = _class_of(func) if isinstance(func, type) else _function_of(func)
    term.__module__, term.__name__ = __name__, f"{func.__module__}.{func.__name__}"
    term.__qualname__ = term.__name__.replace(".", "/")
    return term


def _function_of(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def term(env: Any, *args: Any, **params: Any) -> Any:
        return func(world_of(env), *args, **params)

    return term


def _class_of(ours: Any) -> type:
    from isaaclab.managers import ManagerTermBase  # other terms are read without Isaac Lab

    class Term(ManagerTermBase):
        __doc__ = ours.__doc__

        def __init__(self, cfg: Any, env: Any):
            super().__init__(cfg, env)
            self._ours = ours(cfg, world_of(env))
            self._all = torch.arange(self.num_envs, device=self.device)

        @functools.wraps(ours.__call__)
        def __call__(self, env: Any, *args: Any, **params: Any) -> Any:
            return self._ours(world_of(env), *args, **params)

        def reset(self, env_ids: Any = None) -> None:
            self._ours.reset(self._all if env_ids is None or isinstance(env_ids, slice) else env_ids)

    return Term


def __getattr__(name: str) -> Callable[..., Any]:
    module, _, function = name.replace("/", ".").rpartition(".")
    if not module:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return isaac_term(getattr(importlib.import_module(module), function))
