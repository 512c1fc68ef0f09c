"""Networks of others as one ONNX graph: graphs with weights in a second file, and TorchScript read as data."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
from gaitway_files.graphs import check_graph
from gaitway_files.reading import FileError, check_stand_in, read_bytes
from gaitway_onboard.bundle.contract import FILE_BYTES, sha256

from .bundle import Found
from .description import Description
from .errors import PolicyImportError
from .graph import network_graph
from .networks import Actor, RecurrentActor, network_of
from .torchscript import read_torchscript


def read_network(d: Description, path: Path) -> Found:
    """The policy of the description ``d``, whose network is the file ``path``: ONNX, or TorchScript."""
    if path.suffix == ".onnx":
        graph = whole_onnx(path)
        return Found(description=d, graph=graph, weights_sha256=sha256(graph))
    module, content = torchscript_network(path)
    graph, network = network_graph(module, module.in_features, path.name)  # a width that d has wrong is told later
    return Found(description=d.replace(network=network), graph=graph, weights_sha256=sha256(content))


def torchscript_network(path: Path) -> tuple[Actor | RecurrentActor, bytes]:
    """The network in the TorchScript file ``path``, rebuilt, and the file's content."""
    try:
        content = read_bytes(path, FILE_BYTES)
    except FileError as error:
        raise PolicyImportError(str(error)) from None
    return network_of(read_torchscript(content, path)), content


def whole_onnx(path: Path) -> bytes:
    """The graph at ``path``, with its weights if they lie in a file beside it."""
    try:
        content = read_bytes(path, FILE_BYTES)
        check_graph(content, path, external=True)
    except FileError as error:
        raise PolicyImportError(str(error)) from None
    model = onnx.load_from_string(content)
    outside: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        said = {entry.key: entry.value for entry in tensor.external_data}
        name = said.get("location", "")
        if Path(name).name != name or not name:
            raise PolicyImportError(f"{path} keeps weights at {name!r}: only files beside it are read")
        if name not in outside:
            try:
                outside[name] = read_bytes(path.with_name(name), FILE_BYTES)
                check_stand_in(outside[name], path.with_name(name))
            except FileError as error:
                raise PolicyImportError(str(error)) from None
        start, size = (_count(said.get(key, "0")) for key in ("offset", "length"))
        part = outside[name][start : start + size]
        if start < 0 or size <= 0 or len(part) != size:
            raise PolicyImportError(f"{path}: {name} does not hold {tensor.name} ({size} bytes from {start})")
        tensor.raw_data = part
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT
    return bytes(model.SerializeToString()) if outside else content


def _count(text: str) -> int:
    """The number of bytes in ``text``; -1 if it is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else -1
