"""The bytes of a file, read within limits: a file may come from a stranger, and be a pipe, a device, or without end."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import UserError

KIB, MIB, GIB = 2**10, 2**20, 2**30
TEXT_BYTES = 16 * MIB
"""Most of a file of text that is read whole."""
FILE_BYTES = 2 * GIB
"""Most of a file of arrays or of a graph that is read whole."""
NAME, VALUE, SENTENCE = 200, 80, 500
"""Most characters of a stranger's name, value or sentence on a line of ours."""
LINE_BYTES = 16 * MIB
"""Most of one line of a file of rows."""

STAND_INS = {
    b"version https://git-lfs": "is a pointer of Git LFS, not the file: run git lfs pull in its repository",
    b"/annex/objects/": "is a pointer of git-annex, not the file: run git annex get in its repository",
    b"<!doctype html": "is a web page, not the file: download the raw file",
    b"<html": "is a web page, not the file: download the raw file",
    b"404: not found": "is a server's answer that it has no such file: download it again, from the right address",
    b"entry not found": "is a server's answer that it has no such file: download it again, from the right address",
}
"""Beginnings, in small letters, of what downloads and checkouts leave in the place of a file of numbers."""

KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}


class FileError(UserError):
    """A file that is not read, with its name, what is wrong with it, and the limit where there is one."""

    def __init__(self, name: object, reason: str):
        self.name, self.reason = str(name), printable(reason)
        super().__init__(f"{printable(self.name)}: {self.reason}")


def printable(text: object, limit: int | None = None) -> str:
    """``text`` on one line, with the characters that control a terminal written out: it may come from a stranger.

    At most ``limit`` characters of it, if it is given; :data:`NAME` for a name, :data:`VALUE` for a value in a message.
    """
    shown = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in str(text))
    return shown if limit is None or len(shown) <= limit else shown[: limit - 3] + "..."


def check_texts(data: Any, name: object, limit: int) -> Any:
    """``data``, if every text in it is one printable line of at most ``limit`` characters. Raises :class:`FileError`.

    Such a text cannot pass itself off as lines of ours on a terminal, in a page or in a log.
    """
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and not (value.isprintable() and len(value) <= limit):
            raise FileError(
                name, f"has the text {value[:VALUE]!r}, and one printable line of {limit} characters is read"
            )
        if isinstance(value, Mapping):
            waiting += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value
    return data


class DamagedFile(FileError):
    """A file that was cut short or altered since it was written."""


def check_stand_in(content: bytes | memoryview, name: object) -> None:
    """Raise :class:`FileError` if ``content``, of a file of numbers, is only something in its place, with the cure."""
    start = bytes(content[:1024]).lstrip().lower()
    for begin, reason in STAND_INS.items():
        if start.startswith(begin):
            raise FileError(name, reason)


class MissingFile(FileError):
    """There is no such file."""


def read_bytes(path: str | Path, limit: int = FILE_BYTES) -> bytes:
    """The content of a regular file of at most ``limit`` bytes, as it was at one moment. Raises :class:`FileError`.

    Links are followed. A pipe, a device or a folder is refused without waiting for it, and so is a file that changes
    while it is read.
    """
    with os.fdopen(open_regular(path, limit), "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        try:
            parts, left = [], before.st_size + 1
            while left > 0 and (part := file.read(min(left, 64 * MIB))):
                parts.append(part)
                left -= len(part)
        except OSError as error:
            raise FileError(path, f"cannot be read: {error.strerror}") from None
        after = os.fstat(file.fileno())
    if left != 1 or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise FileError(path, "changed while it was read: try again when nothing writes to it")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_text(path: str | Path, limit: int = TEXT_BYTES) -> str:
    """The content of a regular file as UTF-8 text; as :func:`read_bytes`."""
    return as_text(read_bytes(path, limit), path)


def as_text(content: bytes, name: object) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(name, f"is no text in UTF-8: byte {error.start} is 0x{content[error.start]:02x}") from None


def read_lines(path: str | Path, limit: int | None = None) -> Iterator[bytes]:
    """The lines of a regular file that may grow meanwhile, each of at most 16 MiB; the last may lack its end."""
    with os.fdopen(open_regular(path, limit), "rb") as file:
        number = 0
        while line := file.readline(LINE_BYTES + 1):
            number += 1
            if len(line) > LINE_BYTES:
                raise FileError(path, f"line {number} has more than {size(LINE_BYTES)}, the most of a line")
            yield line


def open_regular(path: str | Path, limit: int | None = None) -> int:
    """A descriptor of a regular file of at most ``limit`` bytes. Raises :class:`FileError`."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFile(path, "no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = next((name for test, name in KINDS.items() if test(status.st_mode)), "something else")
            raise FileError(path, f"is {kind}, not a file")
        if limit is not None and status.st_size > limit:
            raise FileError(path, f"has {size(status.st_size)}; at most {size(limit)} are read")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def size(count: float) -> str:
    """Bytes in the unit that suits them, such as ``16 MiB``."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
    power = min(int(math.log2(max(count, 1))) // 10, len(units) - 1)
    return f"{count / 1024**power:.4g} {units[power]}"


def one_line(error: object, limit: int = 300) -> str:
    """A library's error message on one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
