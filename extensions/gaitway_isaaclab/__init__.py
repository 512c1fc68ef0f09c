"""Gaitway's tasks inside Isaac Lab 2.3 and 3.0, as its own manager-based environments.

Importing this package registers ``Gaitway-Velocity-Flat-Anymal-C`` and the like with Gymnasium. It starts no
simulator and imports nothing of Isaac Lab; :func:`env_cfg` does, so call it after the simulator has started.
"""

from __future__ import annotations

from typing import Any

from . import application
from .registration import register

__all__ = ["env_cfg", "register"]


def __getattr__(name: str) -> Any:
    if name != "env_cfg":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .build import env_cfg

    return env_cfg


if not application.is_first_to_start():  # Gymnasium loads numpy
    register()
