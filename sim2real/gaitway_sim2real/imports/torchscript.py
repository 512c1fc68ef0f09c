"""TorchScript policies as data: the tree of their modules with weights and the text of their code, which is never run.

``network_of(read_torchscript(content, path))`` (:mod:`.networks`) is such a policy as an ordinary torch module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gaitway_files.reading import DamagedFile, FileError
from gaitway_files.torchscript import ScriptObject, parse_torchscript

MODULES = 1000
"""Most modules of a policy; 10 to 20 are usual."""

_BLOCK = re.compile(r"^(?=class |def )", re.MULTILINE)
_HEAD = re.compile(r"(class|def) (\w+)")
MANGLED = re.compile(r"___torch_mangle_\d+\.")


@dataclass(frozen=True, eq=False)
class Module:
    """A module of a TorchScript archive."""

    kind: str
    """Its class, such as ``Linear``."""
    where: str
    """The file, and the module's place in it: ``policy.pt: actor.0``."""
    attributes: Mapping[str, Any]
    """Numbers, strings, bools, None, tensors, and tuples of these."""
    children: Mapping[str, Module]
    code: str
    """Text of its class, as the archive has it."""
    functions: Mapping[str, str] = field(repr=False)
    """Text of each function of the archive by its full name; ``__torch__.torch.nn.functional.elu``."""


def read_torchscript(content: bytes, where: object) -> Module:
    """The modules in the content of a file of ``torch.jit.save``. Raises :class:`FileError`, which names ``where``."""
    archive = parse_torchscript(content, where)
    classes: dict[str, str] = {}
    functions: dict[str, str] = {}
    for module, text in archive.code.items():
        for block in _BLOCK.split(text):
            if head := _HEAD.match(block):
                known = classes if head[1] == "class" else functions
                if known.setdefault(name := f"{module}.{head[2]}", block) is not block:
                    raise DamagedFile(where, f"it defines {name[:60]} twice")
    left = [MODULES]

    def module_of(found: ScriptObject, path: str) -> Module:
        left[0] -= 1
        if left[0] < 0:
            raise FileError(where, f"has more than {MODULES} modules, the most that are read")
        if found.name not in classes:
            raise DamagedFile(where, f"it has no code for {plain_name(found.name)[:60]}")
        children = {name: value for name, value in found.attributes.items() if isinstance(value, ScriptObject)}
        values = {name: _plain(value) for name, value in found.attributes.items() if name not in children}
        return Module(
            kind=plain_name(found.name).rpartition(".")[2],
            where=f"{where}: {path}" if path else str(where),
            attributes={name: value for name, value in values.items() if value is not NotImplemented},
            children={name: module_of(child, f"{path}.{name}".lstrip(".")) for name, child in children.items()},
            code=classes[found.name],
            functions=functions,
        )

    return module_of(archive.root, "")


def plain_name(name: str) -> str:
    """A class's full name as its author wrote it: without torch's marks that tell classes of one name apart."""
    return MANGLED.sub("", name).removeprefix("__torch__.")


def _plain(value: Any) -> Any:
    """An attribute; NotImplemented for what is none of the kinds that a module keeps."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple) and all(
        isinstance(item, np.ndarray | bool | int | float | str) for item in value
    ):
        return tuple(_plain(item) for item in value)
    return NotImplemented
