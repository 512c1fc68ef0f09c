"""Files of ``torch.save``, checked before torch reads them: nothing compressed, every byte there, no code, no claims.

``torch.load(weights_only=True)`` runs no code, but takes the lengths that a file claims for granted.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from .archives import open_zip, read_member
from .reading import GIB, MIB, DamagedFile, FileError, check_stand_in, one_line, open_regular, size

CHECKPOINT_BYTES = 1024 * GIB
"""Most of a checkpoint; a language model of 70 billion parameters with its optimiser has 840 GB."""
MEMBERS = 200_000
"""Most tensors."""
DESCRIPTION_BYTES = 256 * MIB
"""Most of the pickle that says which tensors there are."""

ITEM_BYTES = {
    "DoubleStorage": 8, "FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8, "IntStorage": 4,
    "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1, "UntypedStorage": 1,
    "ComplexFloatStorage": 8, "ComplexDoubleStorage": 16,
}  # fmt: skip
_ODD = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError, OverflowError, struct.error,
    RecursionError, MemoryError, AssertionError, NotImplementedError,
)  # fmt: skip


def load_checkpoint(path: str | Path, device: Any = "cpu") -> Any:
    """The tensors and plain values that ``torch.save`` wrote to a file, on ``device``. Raises :class:`FileError`."""
    import torch

    try:
        with open(open_regular(path, CHECKPOINT_BYTES), "rb") as file:
            _check(file, path)
            file.seek(0)
            with torch.serialization.safe_globals(NUMBERS):
                return torch.load(file, map_location=device, weights_only=True)
    except FileError:
        raise
    except torch.OutOfMemoryError:  # of a GPU: a RuntimeError
        raise
    except MemoryError:
        raise FileError(path, f"needs more memory than there is, {size(Path(path).stat().st_size)}") from None
    except pickle.UnpicklingError as error:
        raise FileError(path, f"holds more than tensors and plain data, or is altered: {one_line(error)}") from None
    except OSError as error:  # of the disk, not of the file
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None
    except Exception as error:  # torch raises what its reader meets
        raise DamagedFile(path, one_line(error)) from None


class _Kind:
    """Stand-in for numpy's type of a single number."""

    def __init__(self, code: str, *_: Any) -> None:
        if code not in ("f2", "f4", "f8", "i4", "i8", "b1"):
            raise pickle.UnpicklingError(f"a number of numpy's type {str(code)[:20]}")
        self.code = f"<{code}"

    def __setstate__(self, _: Any) -> None: ...


def _number(kind: _Kind, content: bytes) -> float:
    """A single number of numpy, such as the best reward in rl_games' checkpoints, as Python's."""
    import numpy as np

    value: float = np.frombuffer(content, kind.code, 1)[0].item()
    return value


NUMBERS: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    (_number, "numpy.core.multiarray.scalar"),
    (_number, "numpy._core.multiarray.scalar"),
    (_Kind, "numpy.dtype"),
]
"""Stand-ins for what a pickle calls to make a number of numpy, by its name there."""


def _check(file: IO[bytes], path: str | Path) -> None:
    if not (begin := file.read(1024)):
        raise DamagedFile(path, "it is empty")
    check_stand_in(begin, path)
    if begin[:4] != b"PK\3\4":
        raise DamagedFile(path, "it does not begin as a checkpoint does")
    with open_zip(file, path, members=MEMBERS, limit=CHECKPOINT_BYTES, stored=True) as archive:
        sizes = {info.filename: info for info in archive.infolist()}
        _check_contents(file, archive, path)
        _check_places(sizes, path)
        if (bad := archive.testzip()) is not None:
            raise DamagedFile(path, f"{bad[:60]} does not match its checksum")
        described = [name for name in sizes if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(described) != 1:
            raise DamagedFile(path, "it has no data.pkl: torch.save did not write it")
        info = sizes[described[0]]
        if info.file_size > DESCRIPTION_BYTES:
            raise DamagedFile(
                path, f"its data.pkl has {size(info.file_size)}; at most {size(DESCRIPTION_BYTES)} are read"
            )
        content = read_member(archive, info, path)
    folder = described[0].removesuffix("data.pkl")
    _Inert(content, path, {name.removeprefix(folder): info.file_size for name, info in sizes.items()}).check()


def _check_contents(file: IO[bytes], archive: zipfile.ZipFile, path: str | Path) -> None:
    """The table of contents may be found in one way only: zipfile and torch look for it by different rules."""
    infos = archive.infolist()
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 98))
    tail = file.read().rjust(98, b"\0")
    large, place, last = tail[:56], tail[56:76], tail[76:]
    mark, *_, count, length, begin, comment = struct.unpack("<4s4H2LH", last)
    good, at = mark == b"PK\5\6" and not comment, end - 22
    if place[:4] == b"PK\6\7":
        (at,) = struct.unpack_from("<Q", place, 8)
        count, length, begin = struct.unpack_from("<3Q", large, 32)
        good = good and large[:4] == b"PK\6\6" and at == end - 98
    good = good and begin == archive.start_dir and begin + length == at and count == len(infos)
    names = {info.filename.lower() for info in infos}
    if not good or len(names) != len(infos) or not all(name.isascii() and name.isprintable() for name in names):
        raise DamagedFile(path, "its table of contents is not as torch.save writes it")


def _check_places(infos: dict[str, zipfile.ZipInfo], path: str | Path) -> None:
    """Members may not share bytes."""
    end = 0
    for info in sorted(infos.values(), key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise DamagedFile(path, f"its member {info.filename[:60]!r} overlaps another")
        end = info.header_offset + 30 + info.compress_size


class _Thing:
    """Stand-in for any object of a pickle. Calling it, setting it up and filling it do nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> _Thing:
        return _Thing()

    def __setstate__(self, _: Any) -> None: ...

    def __setitem__(self, _: Any, __: Any) -> None: ...

    def append(self, _: Any) -> None: ...

    def extend(self, _: Any) -> None: ...

    def add(self, _: Any) -> None: ...


class _Storage(_Thing):
    """The class of a storage, by its name."""

    def __init__(self, name: str):
        self.name = name


class _Inert(pickle._Unpickler):  # the one in C trusts the file with its memory
    """Goes through a pickle without building any of its objects, and checks each tensor that it names."""

    def __init__(self, content: bytes, path: str | Path, sizes: dict[str, int]):
        super().__init__(io.BytesIO(content))
        self.path, self.sizes = path, sizes

    def check(self) -> None:
        try:
            self.load()
        except FileError:
            raise
        except _ODD as error:
            raise DamagedFile(self.path, f"its data.pkl cannot be read ({one_line(error)})") from None

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("torch") and name in ITEM_BYTES:
            return _Storage(name)
        if (module, name) in (("builtins", "bytearray"), ("__builtin__", "bytearray")):
            raise DamagedFile(self.path, "it holds a bytearray; tensors and plain values are read")
        return _Thing

    def get_extension(self, code: int) -> None:
        raise DamagedFile(self.path, f"it asks for the pickle extension {code}; tensors and plain values are read")

    def persistent_load(self, pid: Any) -> type[_Thing]:
        kind, storage, key, _, count = pid
        if kind != "storage" or not isinstance(storage, _Storage) or not isinstance(key, str | int):
            raise DamagedFile(self.path, "it names a tensor in a way that torch.save does not")
        claimed = ITEM_BYTES[storage.name] * count if isinstance(count, int) else math.nan
        if (there := self.sizes.get(f"data/{key}")) is None or claimed != there:
            raise DamagedFile(
                self.path, f"it claims a tensor of {size(claimed)} under data/{key}, and holds "
                f"{'none' if there is None else size(there)}"
            )  # fmt: skip
        return _Thing
