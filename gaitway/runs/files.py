"""Writing of files as in :mod:`gaitway_files.writing`, with disk errors turned into messages to the user."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from gaitway_files.writing import write_file

from ..errors import RunError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)
DISK_ERRORS = (*DISK_FULL, *NO_PERMISSION)


class NoSpace(RunError):
    """A disk that is full; ``reason`` says so in a few words."""

    def __init__(self, path: Path):
        self.reason = f"no space left to write {path}"
        super().__init__(f"{self.reason}: free some, or choose another disk with --out")


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """:func:`gaitway_files.writing.write_file`; an :class:`OSError` becomes a :class:`RunError`."""
    try:
        write_file(path, write)
    except OSError as error:
        raise disk_error(path, error) from None


def write_text_atomically(path: Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def write_tensors_atomically(path: Path, data: Any) -> None:
    """``torch.save``, straight to the disk: a large model has no room in memory for a second copy."""
    import torch

    def write(file: IO[bytes]) -> None:
        heard = _Heard(file)
        try:
            torch.save(data, cast("IO[bytes]", heard))
        except Exception:
            # Its zip writer hides what the disk says behind an error of its own.
            if heard.error is not None:
                raise heard.error from None
            raise

    write_atomically(path, write)


class _Heard:
    """File wrapper that keeps the error of a failed write."""

    def __init__(self, file: IO[bytes]):
        self.file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self.file.flush()


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(path, error) from None


def refuse_links(*paths: Path) -> None:
    """Raise :class:`RunError` for a link among places to write to in a run or bundle, which may be a stranger's."""
    for path in paths:
        if path.is_symlink():
            raise RunError(
                f"{path} is a link, and what is written there would go elsewhere: put what it leads to in its place"
            )


def disk_error(path: Path, error: OSError) -> RunError:
    """One sentence on why ``path`` cannot be written and what to do about it."""
    number = error.errno
    if number in DISK_FULL:
        return NoSpace(path)
    if number in NO_PERMISSION:
        return RunError(f"no permission to write {path}: choose another folder with --out, or change its permissions")
    if link := next((each for each in (path, *path.parents) if each.is_symlink() and not each.exists()), None):
        return RunError(f"cannot create {path}: {link} is a link to {os.readlink(link)}, which is not there")
    if number in (errno.ENOTDIR, errno.EEXIST):
        return RunError(f"cannot create {path}: a file is in the way; choose another folder with --out")
    return RunError(f"cannot write {path}: {error.strerror or error}")
