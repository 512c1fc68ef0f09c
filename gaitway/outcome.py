"""Classify the error of a command as a message to the user or a bug.

Classes decide: :class:`UserError` and :class:`NotDone` are messages. What an operation or a library raises is
unexpected and keeps its traceback, but for a few with a remedy: a missing package, a full disk, too little memory.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from gaitway_files.errors import NotDone, UserError

from .catalogue import CORE, OPENGL, entry_with, install_line
from .runs.files import DISK_ERRORS, disk_error

NOT_DONE, WRONG_INPUT, BUG = 1, 2, 70


def outcome(error: Exception) -> tuple[int, str]:
    """Exit code and message; for a bug the message explains what to do with the traceback above it."""
    for judge in (_missing_package, _opengl, _disk, _unreadable, _memory, _depth, _ours):
        if (found := judge(error)) is not None:
            return found
    return BUG, "this is a bug: please report the lines above, and the command that led to them"


def _ours(error: Exception) -> tuple[int, str] | None:
    if isinstance(error, UserError):
        return WRONG_INPUT, str(error)
    return (NOT_DONE, str(error)) if isinstance(error, NotDone) else None


def _missing_package(error: Exception) -> tuple[int, str] | None:
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    if package in CORE:
        return WRONG_INPUT, f"{package} is missing, a part of every installation: pip install gaitway"
    entry = entry_with(package)
    if entry is None:
        return None
    return WRONG_INPUT, f"{package} is needed and not installed here: {install_line(entry.extras)}"


def opengl_that_is_asked_for(error: Exception) -> str | None:
    """Message for ``import mujoco`` failing on the OpenGL that MUJOCO_GL names; None for any other error."""
    asked = os.environ.get("MUJOCO_GL")
    loading = any(frame.f_globals.get("__name__", "").endswith(".gl_context") for frame in _frames(error.__traceback__))
    if asked is None or not loading:
        return None
    return f"MUJOCO_GL={asked}: MuJoCo cannot load this OpenGL: unset MUJOCO_GL, or set it to egl and {OPENGL}"


def _opengl(error: Exception) -> tuple[int, str] | None:
    message = opengl_that_is_asked_for(error)
    return None if message is None else (WRONG_INPUT, message)


def _disk(error: Exception) -> tuple[int, str] | None:
    if not isinstance(error, OSError):
        return None
    if error.errno in DISK_ERRORS:
        return WRONG_INPUT, str(disk_error(Path(_name_of(error) or "a file"), error))
    if error.filename is not None:
        return WRONG_INPUT, f"{_name_of(error)}: {error.strerror or error}"
    return None


def _name_of(error: OSError) -> str | None:
    return None if error.filename is None else str(error.filename)


def _unreadable(error: Exception) -> tuple[int, str] | None:
    """Bytes that are no text, in a file that should be."""
    if not isinstance(error, UnicodeDecodeError):
        return None
    opened = (frame.f_locals.get("self") for frame in _frames(error.__traceback__))
    path = next((str(value) for value in opened if isinstance(value, Path)), "a file that should hold text")
    return WRONG_INPUT, f"{path} is not text in UTF-8: {error.reason} at byte {error.start}"


def _memory(error: Exception) -> tuple[int, str] | None:
    said = str(error)
    torch = isinstance(error, RuntimeError) and (
        "allocate memory" in said or type(error).__name__ == "OutOfMemoryError"
    )
    if not (torch or isinstance(error, MemoryError)):
        return None
    why = said.partition("\n")[0].rpartition("] ")[2].rstrip(". ")
    return NOT_DONE, f"out of memory{f' ({why})' if why else ''}: make the task, the model or the batch smaller"


def _depth(error: Exception) -> tuple[int, str] | None:
    """Only a reader of files runs out of depth by what it reads."""
    readers = {"json", "yaml", "omegaconf"}
    if not isinstance(error, RecursionError):
        return None
    modules = {frame.f_globals.get("__name__", "").partition(".")[0] for frame in _frames(error.__traceback__)}
    return (WRONG_INPUT, "a file or setting is nested too deeply to be read") if modules & readers else None


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    return (frame for frame, _ in traceback.walk_tb(trace))
