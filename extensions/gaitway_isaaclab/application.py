"""Isaac Sim's application, which for Isaac Lab 2.3 must start before numpy and torch are loaded.

A configuration is checked with torch, so a process that has checked it replaces itself by one that starts the
application first: :func:`restart` sets an environment variable, and the new process calls :func:`start_if_told`.
Isaac Lab 3.0 has its own launcher and does not need this. Nothing heavy is imported here.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from gaitway_files.json_files import parse_json

VARIABLE = "GAITWAY_ISAAC_SIM"
"""Settings of the application, as JSON, for the process that starts it first."""

_running: list[Any] = []
"""The application; a process can have only one."""


def is_running() -> bool:
    return bool(_running)


def is_first_to_start() -> bool:
    """True if this process must start the application and has not done so yet."""
    return VARIABLE in os.environ


def settings(device: str, **more: Any) -> dict[str, Any]:
    """Settings for the application: ``device``, and whether this is one of several processes."""
    alone = int(os.environ.get("WORLD_SIZE", 1)) == 1
    return {"headless": True, "device": device, "distributed": not alone and device != "cpu", **more}


def restart(told: dict[str, Any]) -> NoReturn:
    """Restart this process with the same command line; the new process starts the application first."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ[VARIABLE] = json.dumps(told)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def start_if_told() -> None:
    """Start the application if :func:`restart` requested it."""
    told = os.environ.pop(VARIABLE, None)
    if told is not None:
        start(parse_json(told, VARIABLE))


def start(told: dict[str, Any]) -> None:
    """Start the application, once per process."""
    if _running:
        return
    from isaaclab.app import AppLauncher

    with no_arguments():
        _running.append(AppLauncher(told).app)


def stop(code: int) -> None:
    """Close the application, if there is one, and end the process with ``code``; Isaac Sim would always return 0.

    After an error the operating system closes it.
    """
    if not _running:
        return
    if code == 0:
        _running.pop().close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def no_arguments() -> Iterator[None]:
    """Hide the command line within the block, because Isaac Sim would parse Gaitway's arguments as its own."""
    arguments = sys.argv
    sys.argv = arguments[:1]
    try:
        yield
    finally:
        sys.argv = arguments
