"""Files and folders that are either whole or absent, written into places that a stranger may have prepared.

Everything is made in a folder of its own beside the target: new, private, of a random name, so that no link that lies
there already is followed. It holds a lock while it is in use; what a killed process left of one is removed when the
same target is next written. The last step is a rename: it replaces a link at the target and never follows it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
NAME_LENGTH = 48
"""Characters of the target's name in that of the folder: together they stay below what file systems allow."""


def write_file(path: str | Path, write: Callable[[IO[bytes]], object]) -> Path:
    """Have ``write`` fill the file ``path``; a crash at any moment leaves the old file or the new one.

    Raises :class:`OSError`, and leaves the old file, if the disk is full or ``path`` is a folder, pipe or device.
    """
    with whole_file(path) as partial, open(partial, "xb") as file:
        write(file)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """:func:`write_file` of ``text`` in UTF-8."""
    return write_file(path, lambda file: file.write(text.encode("utf-8")))


@contextlib.contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path, with the suffix of ``path``, for libraries that write to a name: at the end it takes ``path``'s place.

    Nothing is left of it if the body raises.
    """
    path = Path(path).absolute()
    _check_target(path)
    with _workshop(path) as folder:
        partial = folder / path.name
        yield partial
        _flush(partial)
        os.replace(partial, path)
        _flush(path.parent.resolve())  # the folder may be a link, to a larger disk for example


@contextlib.contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder that at the end takes the place of ``path``, and of a folder or link that is there by then.

    Nothing is left of it if the body raises, and the folder that was there before stays.
    """
    path = Path(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _workshop(path) as folder:
        partial = folder / "new"
        partial.mkdir()
        yield partial
        for root, _, names in os.walk(partial):
            for name in names:
                _flush(Path(root, name))
            _flush(Path(root))
        _swap(partial, path, folder)
        _flush(path.parent.resolve())


def open_to_append(path: str | Path) -> IO[bytes]:
    """The file ``path``, made if it is not there, to write at its end.

    Raises :class:`OSError` for a link, which could lead anywhere, a pipe or a device.
    """
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(errno.EINVAL, "it is a link or a device, not a plain file", str(path))
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open(os.open(path, flags, 0o666), "ab")


def _check_target(path: Path) -> None:
    """A rename would replace a device such as /dev/null as willingly as a file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # absent, or a link to nothing: it will be replaced
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a plain file", str(path))


@contextlib.contextmanager
def _workshop(path: Path) -> Iterator[Path]:
    """A new private folder beside ``path``, locked while it is in use and removed at the end."""
    _sweep(path)
    folder, lock = _make_workshop(path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make_workshop(path: Path) -> tuple[Path, int]:
    while True:
        folder = path.with_name(f".{path.name[:NAME_LENGTH]}.{secrets.token_hex(8)}.partial")
        try:
            folder.mkdir(0o700)
        except FileExistsError:
            continue
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):  # another process took it for a leftover before it was locked
            continue
        except OSError:  # a file system without locks: leftovers stay there
            return folder, os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        if folder.exists():
            return folder, lock
        os.close(lock)


def _sweep(path: Path) -> None:
    """Remove what killed processes left of ``path``."""
    ours = re.compile(re.escape(f".{path.name[:NAME_LENGTH]}.") + r"[0-9a-f]{16}\.partial")
    with contextlib.suppress(OSError):
        for name in [name for name in os.listdir(path.parent) if ours.fullmatch(name)]:
            with contextlib.suppress(OSError):
                lock = _lock(path.with_name(name))
                try:
                    shutil.rmtree(path.with_name(name), ignore_errors=True)
                finally:
                    os.close(lock)


def _lock(folder: Path) -> int:
    """The descriptor of ``folder``, locked; raises :class:`BlockingIOError` if a process that lives has the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _swap(new: Path, path: Path, folder: Path) -> None:
    """Move ``new`` to ``path``; what is there steps aside into ``folder`` and comes back if the move fails."""
    aside: Path | None = None
    while True:
        try:
            os.replace(new, path)
            return
        except OSError as error:
            if error.errno not in OCCUPIED:
                if aside is not None:
                    os.replace(aside, path)
                raise
        aside = folder / f"old-{secrets.token_hex(8)}"
        with contextlib.suppress(FileNotFoundError):  # another writer of the same folder was faster
            os.replace(path, aside)


def _flush(path: Path) -> None:
    """Have the disk hold what the operating system holds of a file or folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
