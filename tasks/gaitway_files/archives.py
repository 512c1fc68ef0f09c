"""Zip archives within limits: how many members, how large once unpacked; and the numpy archives among them."""

from __future__ import annotations

import errno
import io
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from .reading import GIB, DamagedFile, FileError, check_stand_in, one_line, read_bytes, size

ARRAYS = 256
"""Most arrays of an archive."""
ARRAY_BYTES = 2 * GIB
"""Most that an archive of arrays unpacks to."""
KINDS = "biufU"
"""Kinds of number and text that an array may hold; objects would be code."""

_ENTRY_BYTES = 1024
"""Bytes of the table of contents for one member; 46 and its name are usual."""
_ODD = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, TypeError, LookupError,
    NotImplementedError, RuntimeError, OverflowError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError,
)  # fmt: skip
"""Errors of zipfile and numpy on malformed input."""


@contextmanager
def open_zip(
    file: IO[bytes], name: object, *, members: int, limit: int, stored: bool = False
) -> Iterator[zipfile.ZipFile]:
    """An archive of at most ``members`` that unpack to at most ``limit`` bytes. Raises :class:`FileError`.

    With ``stored``, nothing in it may be compressed. Errors of what is done with it become a :class:`FileError` too.
    """
    try:
        if (listed := _contents_bytes(file)) > members * _ENTRY_BYTES:
            raise DamagedFile(name, f"has a table of contents of {size(listed)}; at most {members} members are read")
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            if len(infos) > members:
                raise DamagedFile(name, f"has {len(infos)} members; at most {members} are read")
            if twice := len(infos) - len({info.filename for info in infos}):
                raise DamagedFile(name, f"lists {twice} of its members twice")
            total = sum(info.file_size for info in infos)
            if total > limit:
                raise DamagedFile(name, f"unpacks to {size(total)}; at most {size(limit)} are read")
            for info in infos:
                packed = info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size
                if packed and (stored or info.compress_type != zipfile.ZIP_DEFLATED):
                    raise DamagedFile(name, f"its member {info.filename[:60]!r} is compressed, as no such file's is")
            yield archive
    except FileError:
        raise
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # not of a place that the archive names wrongly
            raise FileError(name, f"cannot be read: {error.strerror}") from None
        raise DamagedFile(name, f"it is damaged ({one_line(error)})") from None
    except _ODD as error:
        raise DamagedFile(
            name, f"it was cut short after {file.seek(0, os.SEEK_END):,} bytes ({one_line(error)})"
        ) from None


def _contents_bytes(file: IO[bytes]) -> int:
    """Bytes of the table of contents, as the record at the end of the archive says; 0 without one."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 2**16 - 22))
    tail = file.read()
    file.seek(0)
    if tail[-22:-18] == b"PK\5\6" and tail[-2:] == b"\0\0":
        at = len(tail) - 22
    elif (at := tail.rfind(b"PK\5\6")) < 0 or at + 22 > len(tail):
        return 0
    found = int(struct.unpack_from("<L", tail, at + 12)[0])
    if at >= 76 and tail[at - 20 : at - 16] == b"PK\6\7" and tail[at - 76 : at - 72] == b"PK\6\6":
        found = max(found % (2**32 - 1), struct.unpack_from("<Q", tail, at - 76 + 40)[0])
    return min(found, end)


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: object) -> bytes:
    """A member, of no more bytes than the archive declares, checked against its checksum."""
    with archive.open(info) as member:
        content = member.read(info.file_size)
        if len(content) != info.file_size or member.read(1):
            raise DamagedFile(
                name, f"its member {info.filename[:60]!r} is not of the {size(info.file_size)} it declares"
            )
    return content


def read_npz(path: str | Path, *, limit: int = ARRAY_BYTES) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.npz`` file by name; no objects. Raises :class:`FileError`."""
    return parse_npz(read_bytes(path, limit), path, limit=limit)


def parse_npz(content: bytes, name: object, *, limit: int = ARRAY_BYTES) -> dict[str, NDArray[Any]]:
    """The arrays in the content of a ``.npz`` file; ``name`` is what a :class:`FileError` calls it."""
    check_stand_in(content, name)
    with open_zip(io.BytesIO(content), name, members=ARRAYS, limit=limit) as archive:
        infos = archive.infolist()
        return {
            info.filename.removesuffix(".npy"): _parse_npy(
                read_member(archive, info, name), f"{name}: {info.filename[:60]}"
            )
            for info in infos
        }


def _parse_npy(content: bytes, name: str) -> NDArray[Any]:
    """The array of a ``.npy`` file whose size is exactly what its header says."""
    stream = io.BytesIO(content)
    try:
        version = npy.read_magic(stream)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in readers:
            raise FileError(name, f"is an array file of version {version[0]}.{version[1]}; 1.0 and 2.0 are read")
        shape, fortran, dtype = readers[version](stream)
    except FileError:
        raise
    except _ODD as error:
        raise FileError(name, f"is no array ({one_line(error)})") from None
    if dtype.kind not in KINDS or dtype.hasobject or dtype.shape:
        raise FileError(name, f"holds {dtype}; arrays of plain numbers and text are read")
    there = len(content) - stream.tell()
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize != there:
        raise FileError(name, f"claims the shape {_shown(shape)} of {dtype}, and holds {size(there)}")
    if max(shape, default=0) > max(2**20, len(content)) or len(shape) > 16:  # lengths that no element stands for
        raise FileError(name, f"claims the shape {_shown(shape)}")
    array = np.frombuffer(content, dtype, offset=stream.tell()) if there else np.zeros(math.prod(shape), dtype)
    return array.reshape(shape, order="F" if fortran else "C").copy()


def _shown(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 80 else text[:77] + "..."
