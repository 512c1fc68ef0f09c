"""Quantities that several terms read, computed once in each pass over the terms of an unchanged world."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from .world import World

P = ParamSpec("P")
R = TypeVar("R")

COMPUTED = "computed"
"""Attribute of a world with the results so far while there is a pass, and else None or missing."""


@contextmanager
def one_pass(world: World) -> Iterator[None]:
    """Nothing in here changes what terms read of ``world``."""
    setattr(world, COMPUTED, {})
    try:
        yield
    finally:
        setattr(world, COMPUTED, None)


def once(func: Callable[Concatenate[World, P], R]) -> Callable[Concatenate[World, P], R]:
    """``func(world, *args)`` computed once in each :func:`one_pass`; whoever reads the result must not write to it.

    Outside of a pass, as in simulators with managers of their own, every call computes it.
    """

    @functools.wraps(func)
    def read(world: World, *args: P.args, **kwargs: P.kwargs) -> R:
        computed: dict[Any, Any] | None = getattr(world, COMPUTED, None)
        if computed is None or kwargs:
            return func(world, *args, **kwargs)
        key = (func, *args)
        if key not in computed:
            computed[key] = func(world, *args, **kwargs)
        return computed[key]

    return read
