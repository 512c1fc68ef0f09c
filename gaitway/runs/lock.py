"""Lock of a run folder, so that one process at a time writes it."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import platform
import stat
import warnings
from pathlib import Path

from ..errors import RunError
from .files import disk_error
from .rows import RunWarning

LOCK = ".lock"
"""Held by the process that trains the run; its text says which. The system frees it when that process dies."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class RunLock:
    """Locks a run folder within ``with``. Blocks within one another are one, those of another object are not."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._depth = 0
        self._file: int | None = None

    def __enter__(self) -> None:
        """Raises :class:`RunError`, which names the process, if another one holds the folder."""
        if self._depth == 0:
            self._file = self._take()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def check(self) -> None:
        """Within ``with``: raise :class:`RunError` if the folder, or its lock, is not the one that was locked.

        Somebody who removed it, and perhaps trains into a new one of its name, would get what this process writes.
        """
        if self._file is not None and not _is_at(self._file, self.folder / LOCK):
            raise RunError(
                f"{self.folder} was removed or replaced, or its {LOCK} was, while this process trained into it: it "
                "writes nothing there any more; train anew, into another folder"
            )

    def _take(self) -> int:
        path = self.folder / LOCK
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise disk_error(path, error) from None
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise RunError(f"{path} is not a file: remove it")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise self._taken(file, error) from None
                warnings.warn(
                    f"the filesystem of {self.folder} has no locks ({error.strerror}): take care that no second "
                    "process trains this run",
                    RunWarning,
                    stacklevel=4,
                )
            if not _is_at(file, path):
                raise RunError(f"{path} was replaced just now: try again")
            me = {"pid": os.getpid(), "host": platform.node(), "since": _now()}
            os.ftruncate(file, 0)
            os.pwrite(file, json.dumps(me).encode() + b"\n", 0)
        except OSError as error:
            os.close(file)
            raise disk_error(path, error) from None
        except BaseException:
            os.close(file)
            raise
        return file

    def _taken(self, file: int, error: OSError) -> RunError:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return disk_error(self.folder / LOCK, error)
        try:
            holder = json.loads(os.pread(file, 4096, 0))
            since = datetime.datetime.fromisoformat(holder["since"])
            who = f"process {int(holder['pid'])} on {str(holder['host'])!r} since {since}"
        except (OSError, ValueError, KeyError, TypeError):
            who = "another process"
        return RunError(f"{self.folder} is being trained by {who}: wait until it has ended, or stop it, then try again")


def is_held(folder: Path) -> bool:
    """True while a process trains into ``folder``, as far as its filesystem has locks."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(file)
    return False


def _is_at(file: int, path: Path) -> bool:
    """True if ``path`` still names the open ``file``."""
    try:
        return os.path.samestat(os.fstat(file), os.lstat(path))
    except OSError:
        return False


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
