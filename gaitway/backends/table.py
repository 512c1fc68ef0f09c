"""Table of simulators, one row each; a simulator is imported when it is used, or asked for its options."""

from __future__ import annotations

import functools
import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import Backend


@dataclass(frozen=True)
class Row:
    """Entry of a simulator: its class as ``module:Class``, and all that must be known before anything is imported."""

    backend: str
    title: str
    variable: str | None = None
    """Environment variable of a process that has been started anew as this simulator."""
    engines: tuple[str, ...] = ()
    """Physics engines that ``--physics`` and ``--engine`` choose from."""
    options: str | None = None
    """Dataclass of its settings, as ``module:Class``: ``simulator`` in a configuration."""


BACKENDS = {
    "mujoco": Row("gaitway.backends.mujoco:Mujoco", "MuJoCo", options="gaitway_mujoco.options:PhysicsOptions"),
    "mujoco-warp": Row(
        "gaitway.backends.mujoco_warp:MujocoWarp", "MuJoCo Warp", options="gaitway_mujoco.options:WarpOptions"
    ),
    "isaaclab": Row(
        "gaitway.backends.isaaclab:IsaacLab",
        "Isaac Lab",
        "GAITWAY_ISAAC_SIM",
        ("physx", "newton"),
        "gaitway_isaaclab.options:IsaacLabOptions",
    ),
}
"""The usual one first."""


@functools.cache
def _made(path: str) -> Backend:
    made: Backend = _named(path)()
    return made


def backend(world: str) -> Backend:
    """The simulator called ``world``."""
    return _made(BACKENDS[world].backend)


def options(world: str) -> Any:
    """Settings of the simulator called ``world``, at their defaults; None if it has none."""
    path = BACKENDS[world].options
    return None if path is None else _named(path)()


def _named(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def engines() -> dict[str, str]:
    """Every physics engine to choose from, and the simulator that has it."""
    return {engine: world for world, row in BACKENDS.items() for engine in row.engines}


def with_options() -> dict[str, Backend]:
    """The simulators with options of their own to play in."""
    return {world: found for world in BACKENDS if (found := backend(world)).own_options}


def make_way(world: str | None) -> None:
    """Prepare the process for the simulator that is asked for, or that this process was started as."""
    for name, row in BACKENDS.items():
        if name == world or (row.variable or "") in os.environ:
            backend(name).make_way()
