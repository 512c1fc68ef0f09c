"""MJCF files, looked through before MuJoCo compiles them: a word such as ``count`` can ask for anything."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from .reading import GIB, MIB, FileError, MissingFile, read_bytes, size

MODEL_BYTES = 64 * MIB
"""Most of a file; meshes lie in files of their own, which only MuJoCo reads."""
FILES = 50
"""Most files that include each other."""
ELEMENTS = 50_000
"""Most elements, with repetitions written out; a humanoid with hands and all its meshes has some 2,000."""
LEVELS = 200
"""Most elements within each other."""
CELLS = 2**26
"""Most cells of a height field, and pixels of a texture."""
URDF_ELEMENTS = ("link", "joint", "material", "mujoco")
"""Elements of a URDF's robot that MuJoCo reads; ``<gazebo>``, ``<ros2_control>`` and others are other programs'."""
ARENA_BYTES = 4 * GIB
"""Most memory that a file reserves for its simulation."""
SIZES = 10_000_000
"""Largest of the other numbers in ``<size>``; user numbers of each element are 1,000 at most."""
SAMPLES = 10_000
"""Most samples of a delay."""

_PARTS = re.compile(rb"""<!--.*?-->|<\?[^<]*?\?>|<(?![!?])(?:[^<>"']|"[^<"]*"|'[^<']*')*>|[^<]+""", re.DOTALL)
"""A comment, a declaration, an element's tag, or text. In no other place does XML allow a ``<``; MuJoCo does."""
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


def check_mjcf(path: str | Path) -> bytes:
    """The content of an MJCF file that asks for no more than a robot needs. Raises :class:`FileError`.

    Files that it includes must lie in its folder and are checked with it. What the meshes hold is for a contained
    compilation to find out.
    """
    path = Path(path)
    return _Walk(path).file(path, 1)


def names_a_urdf(path: Path, content: bytes) -> bool:
    """True if a robot's file is a URDF, by its ending or its first element."""
    first = re.search(rb"<([A-Za-z]\w*)", re.sub(rb"<!--.*?-->", b"", content[:4096], flags=re.DOTALL))
    return path.suffix.lower() == ".urdf" or (first is not None and first[1] == b"robot")


def names_files(content: bytes) -> bool:
    """True if an MJCF or URDF takes anything from other files: parts of it, meshes, pictures."""
    return re.search(rb"\bfile\w*\s*=", content) is not None


def read_mjcf(path: str | Path) -> ElementTree.Element:
    """The elements of an MJCF file, as :func:`check_mjcf` lets it pass; included files are not put in."""
    plain = without_comments(check_mjcf(path), Path(path))
    try:
        return ElementTree.fromstring(plain, ElementTree.XMLParser(encoding="utf-8"))
    except ElementTree.ParseError as error:  # of a colon in a name, which it takes for a namespace
        raise FileError(path, f"is not XML, or cut off ({error})") from None


def without_comments(content: bytes, path: Path) -> bytes:
    """The file as expat reads it: MuJoCo takes comments that XML forbids.

    Raises :class:`FileError` for what the two would read differently: a comment within a value, a NUL, an encoding.
    """
    if b"\0" in content:
        raise FileError(path, "holds a NUL: MJCF is text in UTF-8")
    parts, at = [], 0
    while at < len(content):
        if not (part := _PARTS.match(content, at)):
            line = content.count(b"\n", 0, at) + 1
            raise FileError(
                path, f"declares entities or a document type, or has an open tag or comment, in line {line}"
            )
        at = part.end()
        parts.append(b"\n" * part[0].count(b"\n") if part[0].startswith(b"<!") else part[0])
    return b"".join(parts)


class _Walk:
    """The elements of a model, those of included files among them."""

    def __init__(self, path: Path):
        self.folder = path.absolute().parent
        self.elements, self.files = 0.0, 0

    def file(self, path: Path, copies: float) -> bytes:
        """Check a file whose content stands ``copies`` times in the model."""
        self.files += 1
        if self.files > FILES:
            raise FileError(path, f"more than {FILES} files include each other")
        content = read_bytes(path, MODEL_BYTES)
        plain = without_comments(content, path)
        parser = expat.ParserCreate("utf-8")  # as MuJoCo, whatever the file says of itself
        stack, names = [copies], [""]
        included: list[tuple[str, float]] = []

        def start(name: str, attributes: Mapping[str, str]) -> None:
            if len(stack) > LEVELS:
                raise FileError(path, f"more than {LEVELS} elements within each other")
            names[len(stack) :] = [name]
            foreign = names[1] == "robot" and len(names) > 2 and names[2] not in URDF_ELEMENTS
            try:
                times = 1.0 if foreign else self._element(name, attributes)
            except FileError as error:
                raise FileError(path, f"{error.reason} in line {parser.CurrentLineNumber}") from None
            if name in ("include", "model") and not foreign and (file := attributes.get("file")) is not None:
                included.append((file, stack[-1]))
            stack.append(stack[-1] * times)
            self.elements += stack[-1]
            if self.elements > ELEMENTS:
                raise FileError(path, f"more than {ELEMENTS} elements, with repetitions written out")

        parser.StartElementHandler = start
        parser.EndElementHandler = lambda _: stack.pop()
        try:
            parser.Parse(plain, True)
        except (expat.ExpatError, ValueError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(path, f"is not XML, or cut off ({error})") from None
        for file, times in included:
            with contextlib.suppress(MissingFile):  # which MuJoCo says best
                self.file(self._inside(path, file), times)
        return content

    def _inside(self, path: Path, file: str) -> Path:
        found = self.folder / file
        if "\0" in file or not found.resolve().is_relative_to(self.folder.resolve()):
            raise FileError(path, f"includes {file[:80]!r}, which is not in its folder: copy it there")
        return found

    def _element(self, name: str, given: Mapping[str, str]) -> float:
        """Raise if an element asks for too much; how often what it holds is repeated."""
        if name in ("extension", "plugin"):
            raise FileError("", f"has <{name}>: a robot is read without plugins of MuJoCo's")
        if name == "hfield":
            _at_most(name, "nrow x ncol", _number(given, "nrow") * _number(given, "ncol"), CELLS)
        elif name == "texture":
            _at_most(name, "width x height", _number(given, "width") * _number(given, "height"), CELLS)
        elif name == "size":
            for key in given:
                if key == "memory":
                    if (asked := _number(given, key)) > ARENA_BYTES:
                        raise FileError("", f"reserves {size(asked)}; at most {size(ARENA_BYTES)} are")
                else:
                    _at_most(name, key, _number(given, key), 1000 if key.startswith("nuser_") else SIZES)
        if "nsample" in given:
            _at_most(name, "nsample", _number(given, "nsample"), SAMPLES)
        if name in ("replicate", "composite", "flexcomp") and "count" in given:
            # A grid counts its lengths in each direction; every point of it is an element at least.
            return max(1.0, math.prod(max(1.0, _value(word)) for word in given["count"].split()[:4]))
        return 1.0


def _number(given: Mapping[str, str], key: str) -> float:
    """The number of an attribute, 0 without it."""
    text = given.get(key, "0").strip()
    unit = _UNITS.get(text[-1:].upper(), 1) if key == "memory" else 1
    return _value(text[:-1] if unit > 1 else text) * unit


def _value(text: str) -> float:
    """The largest number that MuJoCo could read; MuJoCo itself refuses text that is no number."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return math.inf if math.isnan(value) else value


def _at_most(name: str, key: str, value: float, most: int) -> None:
    if value > most:
        raise FileError("", f"has <{name}> with {key} {value:g}; at most {most} are read")
