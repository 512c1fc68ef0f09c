"""Configuration classes that are made from data, and are what a module that wrote them down would have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isaaclab.utils import configclass


def declared(name: str, fields: Mapping[str, Any], base: type = object) -> Any:
    """An instance of a new configuration class ``name`` with these ``fields``, whose values are its defaults."""
    cls = configclass(type(name, (base,), dict(fields)))
    cls.__declared__ = [type(value) for value in fields.values()]
    return cls()


def belong(cls: type, owner: type) -> None:
    """Let ``owner`` own ``cls`` and what is declared in it, if :func:`declared` made it: ``Owner.RewardsCfg``.

    So it is found by that name, as pickle looks for it. A class has one owner.
    """
    if cls.__module__ != __name__:
        return
    cls.__module__, cls.__qualname__ = owner.__module__, f"{owner.__qualname__}.{cls.__name__}"
    setattr(owner, cls.__name__, cls)
    for part in vars(cls)["__declared__"]:
        belong(part, cls)
