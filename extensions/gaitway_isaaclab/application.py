"""Isaac Sim's application where it has to start before anything else: Isaac Lab 2.3, before numpy and torch are loaded.

A configuration is checked with torch, so a process that has checked it replaces itself by one that starts the
application first: :func:`restart` leaves word in the environment, and the new process calls :func:`start_if_told`.
Isaac Lab 3.0 has a launcher of its own, which needs none of this. Nothing heavy is imported here.
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
"""The application, of which a process can have one."""


def is_running() -> bool:
    return bool(_running)


def is_first_to_start() -> bool:
    """Whether this process was told to start the application, and has not done so yet."""
    return VARIABLE in os.environ


def settings(device: str, **more: Any) -> dict[str, Any]:
    """What the application is told: ``device`` and, of several processes, that this one is not alone."""
    alone = int(os.environ.get("WORLD_SIZE", 1)) == 1
    return {"headless": True, "device": device, "distributed": not alone and device != "cpu", **more}


def restart(told: dict[str, Any]) -> NoReturn:
    """Begin this process anew with the same command line; there the application is the first thing to start."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ[VARIABLE] = json.dumps(told)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def start_if_told() -> None:
    """Start the application if :func:`restart` has asked for it."""
    told = os.environ.pop(VARIABLE, None)
    if told is not None:
        start(parse_json(told, VARIABLE))


def start(told: dict[str, Any]) -> None:
    """Start the application; once in a process."""
    if _running:
        return
    from isaaclab.app import AppLauncher

    with no_arguments():
        _running.append(AppLauncher(told).app)


def stop(code: int) -> None:
    """Close the application, if there is one, and end the process: it would end with 0 whatever had happened.

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
    """Isaac Sim reads the command line of the process for arguments of its own; ours are none."""
    arguments = sys.argv
    sys.argv = arguments[:1]
    try:
        yield
    finally:
        sys.argv = arguments
