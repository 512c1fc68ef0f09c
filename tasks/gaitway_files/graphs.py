"""ONNX graphs of strangers: looked through first, tried in a process of its own, and only then opened.

The look is a walk through the file's own encoding (Protocol Buffers), since a robot's computer has onnxruntime and no
package to parse ONNX with. What two readers could take for different things, such as a number written with more bytes
than it needs, is refused: no program that writes ONNX does so.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .contained import contained
from .reading import GIB, MIB, FileError, check_stand_in, one_line, size

GRAPH_BYTES = 256 * MIB
"""Most of a policy's graph with its weights; one of 10 million parameters has 40 MB."""
NODES = 100_000
"""Most operations, each function counted wherever it is called."""
LEVELS = 10
"""Most graphs within each other."""
FIELDS = 2_000_000
"""Most fields of the encoding that are looked at."""
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
"""Domains of the operations that onnxruntime brings along."""
ENDLESS = {"Loop"}
"""Operations that repeat a graph as often as a number says. Scan repeats as often as a tensor has rows."""
MEMORY = 2 * GIB

_TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int16)": np.int16, "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8, "tensor(uint16)": np.uint16, "tensor(uint32)": np.uint32, "tensor(uint64)": np.uint64,
}  # fmt: skip


def open_graph(content: bytes, name: object, *, own: bool = False) -> Any:
    """A quiet ``onnxruntime.InferenceSession`` of one thread. Raises :class:`FileError`.

    Unless the graph is our ``own``, made in this process, it is loaded and run once in a child process with limits
    first: a few bytes can ask for any amount of memory and time.
    """
    if not own:
        check_graph(content, name)
        digest = hashlib.sha256(content).digest()
        if digest not in _tried:
            contained(functools.partial(_try, content), name, "loading and running it once", memory=MEMORY)
            _tried.add(digest)
    try:
        return _session(content)
    except Exception as error:  # onnxruntime's exceptions share no base class of their own
        import onnxruntime

        raise FileError(name, f"cannot be loaded by onnxruntime {onnxruntime.__version__}: {one_line(error)}") from None


_tried: set[bytes] = set()
"""Digests of graphs that were tried in this process."""


def _session(content: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.load_model_format", "ONNX")  # never its own format, by a mark in the file
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _try(content: bytes) -> None:
    session = _session(content)
    feed: dict[str, Any] = {}
    for given in session.get_inputs():
        if given.type not in _TYPES:
            return  # text or a sequence: no input of a policy
        shape = [length if isinstance(length, int) and length >= 0 else 1 for length in given.shape]
        feed[given.name] = np.zeros(shape, _TYPES[given.type])
    session.run(None, feed)


@dataclass(slots=True)
class _Body:
    """The operations of a graph or function, without its weights."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    """Domain and operation of each node."""


def check_graph(content: bytes, name: object, *, external: bool = False) -> None:
    """Raise :class:`FileError` for a graph that reads other files, repeats itself at will, or claims what is not there.

    It needs no library and runs nothing; :func:`open_graph` says whether onnxruntime can run it. ``external`` lets
    weights lie in another file, for a caller that reads it and puts them into the graph.
    """
    if len(content) > GRAPH_BYTES:
        raise FileError(name, f"has {size(len(content))}; graphs of at most {size(GRAPH_BYTES)} are read")
    check_stand_in(content, name)
    _Walk(memoryview(content), name, external).model()


class _Walk:
    """Goes through the messages of a ModelProto by the numbers of their fields in onnx.proto."""

    def __init__(self, content: memoryview, name: object, external: bool = False):
        self.content, self.name, self.external = content, name, external
        self.fields = 0

    def fail(self, reason: str) -> FileError:
        return FileError(self.name, reason)

    def model(self) -> None:
        main, functions, found = _Body(), {}, False
        for number, value in self._fields(self.content):
            if number == 7:  # graph
                self._graph(value, main, 1)
                found = True
            elif number == 25:  # functions
                key, body = self._function(value)
                if key in functions:
                    raise self.fail(f"defines the function {key[1][:60]!r} twice")
                functions[key] = body
            elif number == 20:  # training_info
                raise self.fail("holds a training graph: a policy's graph is read")
        if not found:
            raise self.fail("is no ONNX graph")
        self._count(main, functions)

    def _count(self, main: _Body, functions: dict[tuple[str, str], _Body]) -> None:
        """Operations with every function written out where it is called; none may call itself."""
        known = DOMAINS | {domain for domain, _ in functions}
        for domain, operation in (call for body in (main, *functions.values()) for call in body.calls):
            if domain not in known:
                raise self.fail(f"has the operation {operation[:60]!r} of {domain[:60]!r}, which onnxruntime has not")
        sizes: dict[tuple[str, str], int | None] = {}

        def cost(body: _Body, level: int) -> int:
            if level > LEVELS:
                raise self.fail(f"has functions that call each other more than {LEVELS} levels deep")
            total = 0
            for call in body.calls:
                total += 1
                if call in functions:
                    if (inner := sizes.get(call, 0)) is None:
                        raise self.fail(f"has the function {call[1][:60]!r}, which calls itself")
                    if not inner:
                        sizes[call] = None
                        inner = sizes[call] = cost(functions[call], level + 1)
                    total += inner
            return total

        if (total := cost(main, 0)) > NODES:
            raise self.fail(f"has {total} operations; at most {NODES} are read")

    def _graph(self, message: memoryview, into: _Body, level: int) -> None:
        if level > LEVELS:
            raise self.fail(f"has graphs within each other, more than {LEVELS} levels deep")
        for number, value in self._fields(message):
            if number == 1:  # node
                self._node(value, into, level)
            elif number == 5:  # initializer
                self._tensor(value)
            elif number == 15:  # sparse_initializer
                self._sparse(value)

    def _function(self, message: memoryview) -> tuple[tuple[str, str], _Body]:
        name = domain = ""
        body = _Body()
        for number, value in self._fields(message):
            if number == 1:
                name = self._text(value)
            elif number == 10:
                domain = self._text(value)
            elif number == 7:  # node
                self._node(value, body, 1)
            elif number == 11:  # attribute_proto
                self._attribute(value, body, 1)
        return (domain, name), body

    def _node(self, message: memoryview, into: _Body, level: int) -> None:
        operation = domain = ""
        for number, value in self._fields(message):
            if number == 4:
                operation = self._text(value)
            elif number == 7:
                domain = self._text(value)
            elif number == 5:
                self._attribute(value, into, level)
        if operation in ENDLESS:
            raise self.fail(f"has a {operation}, which may repeat without end: export the policy without it")
        into.calls.append((domain, operation))

    def _attribute(self, message: memoryview, into: _Body, level: int) -> None:
        for number, value in self._fields(message):
            if number in (5, 10):  # t, tensors
                self._tensor(value)
            elif number in (6, 11):  # g, graphs
                self._graph(value, into, level + 1)
            elif number in (22, 23):  # sparse_tensor, sparse_tensors
                self._sparse(value)

    def _sparse(self, message: memoryview) -> None:
        for number, value in self._fields(message):
            if number in (1, 2):  # values, indices
                self._tensor(value)
        # Its dimensions are those of the dense tensor that onnxruntime makes of it.
        self._check_size(self._lengths(message, 3), GRAPH_BYTES)

    def _tensor(self, message: memoryview) -> None:
        for number, value in self._fields(message, numbers=True):
            if number == 13 or (number == 14 and value == 1):  # external_data, data_location
                if self.external:
                    return
                raise self.fail("keeps weights in another file: a graph is read that holds all of its own")
        self._check_size(self._lengths(message, 1), 2 * len(message))  # two numbers of 4 bits fit into a byte

    def _check_size(self, lengths: list[int], most: int) -> None:
        if any(length < 0 or length >= 2**63 for length in lengths) or (count := math.prod(lengths)) > most:
            shown = ", ".join(map(str, lengths[:8]))
            raise self.fail(f"claims a tensor of shape [{shown}], which it does not hold")
        del count

    def _lengths(self, message: memoryview, field_number: int) -> list[int]:
        """A repeated int64, packed or not."""
        found: list[int] = []
        for number, value in self._fields(message, numbers=True):
            if number != field_number:
                continue
            if isinstance(value, int):
                found.append(value)
            else:
                at = 0
                while at < len(value):
                    length, at = self._varint(value, at)
                    found.append(length)
            if len(found) > 64:
                raise self.fail("claims a tensor of more than 64 dimensions")
        return found

    def _text(self, value: memoryview) -> str:
        return bytes(value[:1024]).decode("utf-8", "replace")

    def _fields(self, message: memoryview, numbers: bool = False) -> Iterator[tuple[int, Any]]:
        """Number and content of each field that is bytes; with ``numbers`` also of each varint."""
        at, end = 0, len(message)
        while at < end:
            self.fields += 1
            if self.fields > FIELDS:
                raise self.fail(f"has more than {FIELDS} fields")
            tag, at = self._varint(message, at)
            kind, number = tag & 7, tag >> 3
            if not 0 < number < 2**29:
                raise self.fail("is no ONNX graph, or cut off")
            if kind == 2:
                length, at = self._varint(message, at)
                if length > end - at:
                    raise self.fail("is no ONNX graph, or cut off")
                yield number, message[at : at + length]
                at += length
            elif kind == 0:
                value, at = self._varint(message, at)
                if numbers:
                    yield number, value
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                raise self.fail("is no ONNX graph, or cut off")
        if at > end:
            raise self.fail("is no ONNX graph, or cut off")

    def _varint(self, message: memoryview, at: int) -> tuple[int, int]:
        value = 0
        for position in range(10):
            if at >= len(message):
                break
            byte = message[at]
            at += 1
            value |= (byte & 127) << (7 * position)
            if byte < 128 and value < 2**64 and (byte or not position):  # else it has bytes that say nothing
                return value, at
            if byte < 128:
                break
        raise self.fail("is no ONNX graph, or cut off")
