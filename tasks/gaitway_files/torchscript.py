"""Archives of ``torch.jit.save`` as data: their objects, their arrays, and the text of their code, which is never run.

The description of the objects is a pickle. No unpickler reads it: a small machine knows the few steps that torch
writes, makes stand-ins where they name a class, and refuses every other step and name.
"""

from __future__ import annotations

import io
import math
import pickletools
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .archives import open_zip, read_member
from .reading import KIB, MIB, DamagedFile, FileError, as_text, check_stand_in, one_line, size

ARCHIVE_BYTES = 256 * MIB
"""Most of an archive, packed and unpacked; those of robots' policies have 0.1 to 5 MB."""
MEMBERS = 10_000
DESCRIPTION_BYTES = 256 * KIB
"""Most of the pickle that describes the objects; 2 kB is usual."""
CODE_BYTES = 2 * MIB
"""Most of all code together; 10 kB is usual."""
ARRAY_BYTES = 256 * MIB
"""Most of all arrays together; arrays may share a storage."""
DEPTH = 32
"""Most levels of objects, lists and dictionaries in each other; 6 are usual."""
DIMENSIONS, EMPTY_LENGTH = 8, 2**20
"""Most dimensions of an array, and most of the other lengths of one that is empty."""

KINDS = {
    "DoubleStorage": np.float64, "FloatStorage": np.float32, "HalfStorage": np.float16, "LongStorage": np.int64,
    "IntStorage": np.int32, "ShortStorage": np.int16, "CharStorage": np.int8, "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}  # fmt: skip
_LISTS = {f"torch.jit._pickle.build_{kind}list" for kind in ("int", "double", "bool", "tensor")}
_ODD = (ValueError, TypeError, LookupError, AttributeError, OverflowError, EOFError, MemoryError)


@dataclass(eq=False)
class ScriptObject:
    """An object of a scripted class: the class's full name, such as ``__torch__.policy.Actor``, and its attributes.

    Attributes are None, bools, numbers, strings, arrays, further objects, and lists, tuples and dictionaries of them.
    """

    name: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ScriptArchive:
    root: ScriptObject
    code: Mapping[str, str]
    """Text of each module of code, by its name, such as ``__torch__.torch.nn.modules.linear``."""


def parse_torchscript(content: bytes, name: object) -> ScriptArchive:
    """Contents of an archive of ``torch.jit.save``; a :class:`FileError` calls the archive ``name``."""
    if len(content) > ARCHIVE_BYTES:
        raise FileError(name, f"has {size(len(content))}; at most {size(ARCHIVE_BYTES)} are read")
    check_stand_in(content, name)
    if content[:4] != b"PK\3\4":
        raise DamagedFile(name, "it does not begin as an archive of torch.jit.save does")
    with open_zip(io.BytesIO(content), name, members=MEMBERS, limit=ARCHIVE_BYTES) as archive:
        members = _members(archive, name)
        if "data.pkl" not in members:
            raise DamagedFile(name, "it has no data.pkl: torch.jit.save did not write it")
        sources = {path: info for path, info in members.items() if path.startswith("code/") and path.endswith(".py")}
        if not sources:
            raise FileError(
                name, "holds weights without a network, as torch.save writes them; save the policy with torch.jit.save"
            )
        _limited(sources.values(), CODE_BYTES, "code", name)
        _limited([members["data.pkl"]], DESCRIPTION_BYTES, "description", name)
        if "byteorder" in members and members["byteorder"].file_size == 3:  # "big"
            raise FileError(name, "has its numbers in big-endian order; little-endian ones are read")
        code = {
            path.removeprefix("code/").removesuffix(".py").replace("/", "."): as_text(
                read_member(archive, info, name), f"{name}: {path[:60]}"
            )
            for path, info in sources.items()
        }
        return ScriptArchive(_Machine(archive, members, name).root(), code)


def _members(archive: zipfile.ZipFile, name: object) -> dict[str, zipfile.ZipInfo]:
    """Members by their path below the one folder that all of them lie in."""
    infos = archive.infolist()
    for info in infos:
        parts = info.filename.split("/")
        if len(parts) < 2 or not all(parts) or {".", ".."} & set(parts) or "\\" in info.filename:
            raise DamagedFile(name, f"its member {info.filename[:60]!r} does not lie in its folder")
    if len(folders := {info.filename.partition("/")[0] for info in infos}) != 1:
        raise DamagedFile(name, f"it has {len(folders)} folders; torch.jit.save makes one")
    return {info.filename.partition("/")[2]: info for info in infos}


def _limited(infos: Iterable[zipfile.ZipInfo], limit: int, what: str, name: object) -> None:
    if (total := sum(info.file_size for info in infos)) > limit:
        raise FileError(name, f"has {size(total)} of {what}; at most {size(limit)} are read")


@dataclass(frozen=True)
class _Name:
    """A class or function that the description names."""

    text: str


_MARK = object()


class _Machine:
    """The steps of a description, done without importing or calling anything that it names."""

    def __init__(self, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: object):
        self.archive, self.members, self.name = archive, members, name
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.storages: dict[str, NDArray[Any]] = {}
        self.bytes_left = ARRAY_BYTES

    def root(self) -> ScriptObject:
        content = read_member(self.archive, self.members["data.pkl"], self.name)
        try:
            for step, argument, _ in pickletools.genops(content):
                self._step(step.name, argument)
        except FileError:
            raise
        except _ODD as error:
            raise DamagedFile(self.name, f"its data.pkl cannot be read ({one_line(error)})") from None
        if len(self.stack) != 1 or not isinstance(self.stack[0], ScriptObject):
            raise DamagedFile(self.name, "its data.pkl describes no module")
        self._levels(self.stack[0], 0, {})
        return self.stack[0]

    def _step(self, step: str, argument: Any) -> None:
        stack = self.stack
        match step:
            case "PROTO" | "STOP":
                pass
            case "MARK":
                stack.append(_MARK)
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[step])
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT" | "BINUNICODE" | "SHORT_BINUNICODE":
                if isinstance(argument, int) and argument.bit_length() > 64:
                    raise DamagedFile(self.name, "its data.pkl has a number of more than 64 bits")
                stack.append(argument)
            case "GLOBAL":
                stack.append(_Name(argument))
            case "EMPTY_TUPLE" | "EMPTY_LIST" | "EMPTY_DICT":
                stack.append({"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}[step]())
            case "TUPLE":
                stack.append(tuple(self._marked()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack[-int(step[-1]) :] = [tuple(stack[-int(step[-1]) :])]
            case "APPEND":
                item = stack.pop()
                self._top(list).append(item)
            case "APPENDS":
                items = self._marked()
                self._top(list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = [stack.pop(-2), stack.pop()] if step == "SETITEM" else self._marked()
                if not all(isinstance(key, str | int) for key in items[::2]):
                    raise DamagedFile(self.name, "its data.pkl has a key that is neither text nor a whole number")
                self._top(dict).update(zip(items[::2], items[1::2], strict=True))
            case "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "BINPERSID":
                stack.append(self._storage(stack.pop()))
            case "NEWOBJ":
                stack.append(self._object(arguments=stack.pop(), kind=stack.pop()))
            case "BUILD":
                state, target = stack.pop(), self._top(ScriptObject)
                if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
                    raise FileError(self.name, f"packs the state of {target.name[:60]} in a way of its own")
                target.attributes.update(state)
            case "REDUCE":
                stack.append(self._call(arguments=stack.pop(), function=stack.pop()))
            case _:
                raise DamagedFile(self.name, f"its data.pkl has the step {step}, which torch.jit.save does not write")

    def _marked(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def _top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise DamagedFile(self.name, f"its data.pkl fills a {type(self.stack[-1]).__name__} like a {kind.__name__}")
        return self.stack[-1]

    def _object(self, kind: Any, arguments: Any) -> ScriptObject:
        name = _named(kind)
        if not name.startswith("__torch__.") or arguments != ():
            raise DamagedFile(self.name, f"its data.pkl makes an object of {name[:60]}; scripted modules are read")
        return ScriptObject(name)

    def _call(self, function: Any, arguments: Any) -> Any:
        name = _named(function)
        if not isinstance(arguments, tuple):
            raise DamagedFile(self.name, f"its data.pkl calls {name[:60]} without arguments")
        if name == "torch._utils._rebuild_tensor_v2":
            return self._array(*arguments[:4])
        if name == "collections.OrderedDict" and not arguments:
            return {}
        if name == "torch.jit._pickle.restore_type_tag":
            return arguments[0]
        if name in _LISTS and type(arguments[0]) is list:
            return arguments[0]
        raise DamagedFile(self.name, f"its data.pkl calls {name[:60]}; tensors are read, no calls")

    def _storage(self, described: Any) -> NDArray[Any]:
        kind, storage, key, _, count = described
        if kind != "storage" or not isinstance(storage, _Name) or not isinstance(key, str) or type(count) is not int:
            raise DamagedFile(self.name, "it names a tensor in a way that torch.jit.save does not")
        if (dtype := KINDS.get(_named(storage).removeprefix("torch."))) is None:
            raise FileError(self.name, f"has numbers in a {_named(storage)[:60]}, which is not read")
        if (info := self.members.get(f"data/{key}")) is None or info.compress_type != zipfile.ZIP_STORED:
            raise DamagedFile(self.name, f"it has no numbers under data/{key[:60]}")
        if info.file_size != count * np.dtype(dtype).itemsize:
            raise DamagedFile(
                self.name, f"it claims {count} numbers of data/{key[:60]}, and has {size(info.file_size)}"
            )
        if (whole := self.storages.get(key)) is None:
            whole = self.storages[key] = np.frombuffer(read_member(self.archive, info, self.name), np.uint8)
        return whole.view(dtype)

    def _array(self, storage: Any, offset: Any, shape: Any, strides: Any) -> NDArray[Any]:
        """The part of a storage that a tensor is, copied."""
        if not isinstance(storage, np.ndarray) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
            raise DamagedFile(self.name, "it names a tensor in a way that torch.jit.save does not")
        numbers = (offset, *shape, *strides)
        plain = len(shape) <= DIMENSIONS and all(type(number) is int and 0 <= number < 2**48 for number in numbers)
        if not plain or len(shape) != len(strides) or storage.ndim != 1:
            raise DamagedFile(self.name, "it claims a tensor whose shape, strides or offset are not possible")
        last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
        count = math.prod(shape)
        if (last >= len(storage)) if count else max(shape) > EMPTY_LENGTH:
            claim = f"shape {list(shape)} and strides {list(strides)} from number {offset} on"
            raise DamagedFile(self.name, f"it claims a tensor of {claim}, and has {len(storage)} numbers")
        self.bytes_left -= count * storage.itemsize
        if self.bytes_left < 0:
            raise FileError(self.name, f"claims tensors of more than {size(ARRAY_BYTES)}, the most that is read")
        if not count:
            return np.zeros(shape, storage.dtype)
        steps = [stride * storage.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps, writeable=False).copy()

    def _levels(self, value: Any, depth: int, known: dict[int, int | None]) -> int:
        """Levels of a value; None in ``known`` while it is counted, so that nothing may hold itself."""
        if isinstance(value, ScriptObject):
            parts: Iterable[Any] = value.attributes.values()
        elif isinstance(value, dict):
            parts = value.values()
        elif isinstance(value, list | tuple):
            parts = value
        elif value is None or isinstance(value, bool | int | float | str | np.ndarray):
            return 0
        else:
            raise DamagedFile(self.name, "its data.pkl has a class or a mark where a value belongs")
        levels = known.get(id(value), -1)
        if levels is None or depth + max(levels, 0) > DEPTH:
            raise DamagedFile(self.name, f"its objects hold each other over more than {DEPTH} levels")
        if levels < 0:
            known[id(value)] = None
            levels = 1 + max((self._levels(part, depth + 1, known) for part in parts), default=0)
            known[id(value)] = levels
        return levels


def _named(thing: Any) -> str:
    """The full name of a class or function; of what is neither, its kind."""
    return thing.text.replace(" ", ".") if isinstance(thing, _Name) else type(thing).__name__
