"""ONNX graphs traced once for policies that differ in their weights only: a trace takes most of an export's time."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from once import made_once
from onnx import numpy_helper
from torch import nn

State = dict[str, np.ndarray]
TOLERANCE = 1e-5


class Structure(pickle.Pickler):
    """Pickles a module with shapes in place of its weights, every other tensor by value, and no path of a file."""

    def __init__(self, file: io.BytesIO, module: nn.Module):
        super().__init__(file)
        self.fast = True  # equal objects look the same whether or not they are one object
        self.names = {id(tensor): name for name, tensor in module.state_dict(keep_vars=True).items()}
        last = getattr(getattr(module, "manager", None), "world", None)  # a calibration's, and each call sets another
        self.last = None if last is getattr(module, "world", None) else last

    def persistent_id(self, thing: object) -> object:
        if isinstance(thing, Path) or (thing is self.last and thing is not None):
            return type(thing).__name__
        if not isinstance(thing, torch.Tensor):
            return None
        value = self.names.get(id(thing)) or thing.detach().numpy().tobytes()
        return value, tuple(thing.shape), str(thing.dtype)

    def reducer_override(self, thing: object) -> Any:
        if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
            return NotImplemented
        return type(thing), tuple(getattr(thing, field.name) for field in dataclasses.fields(thing))


def structure(module: nn.Module, *others: object) -> str:
    """Hash of all that a graph depends on except the weights. Raises an exception for what cannot be pickled."""
    file = io.BytesIO()
    Structure(file, module).dump((module, *others))
    return hashlib.sha256(file.getvalue()).hexdigest()[:16]


def state_of(module: nn.Module) -> State:
    """Weights by their names, and the deviations that a normaliser computes of its variances."""
    state = {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}
    return state | {f"{name} root": np.sqrt(value) for name, value in state.items() if name.endswith(".var")}


def with_state(proto: onnx.ModelProto, old: State, new: State) -> onnx.ModelProto:
    """``proto`` with other weights, also where the exporter has added a constant to them."""
    for tensor in proto.graph.initializer:
        value = numpy_helper.to_array(tensor)
        for name, weights in old.items():
            if weights.size < 2 or weights.shape != value.shape or weights.dtype != value.dtype:
                continue
            added = (value - weights) if weights.dtype == np.float32 else np.where(value == weights, 0, np.nan)
            if tensor.name == name or np.ptp(added) <= 1e-6:
                tensor.CopyFrom(numpy_helper.from_array(new[name] + added.flat[0].astype(value.dtype), tensor.name))
                break
    return proto


def agrees(proto: onnx.ModelProto, module: nn.Module, example: tuple[torch.Tensor, ...]) -> bool:
    """Whether a graph computes what the module does, on noise."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        inputs = [torch.randn(part.shape, generator=generator) for part in example]
        feed = {entry.name: value.numpy() for entry, value in zip(session.get_inputs(), inputs, strict=True)}
        with torch.inference_mode():
            wanted = module(*inputs)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for found, value in zip(session.run(None, feed), wanted, strict=True):
            if not np.allclose(found, value.numpy(), rtol=TOLERANCE, atol=TOLERANCE):
                return False
    return True


def sharing(factory: pytest.TempPathFactory, export: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.onnx.export`` that traces a structure once and then exchanges the weights, if the result agrees."""

    def traced(name: str, module: nn.Module, example: tuple[torch.Tensor, ...], options: dict[str, Any]) -> Path:
        def write(folder: Path) -> None:
            np.savez(folder / "state.npz", **state_of(module))
            onnx.save(export(module, example, **options).model_proto, folder / "graph.onnx")

        return made_once(factory, f"graph-{name}", write)

    def shared(module: nn.Module, example: tuple[torch.Tensor, ...], *others: Any, **options: Any) -> Any:
        if others:  # a call of another library's
            return export(module, example, *others, **options)
        try:
            name = structure(module, example, str(options))
        except (pickle.PicklingError, AttributeError, TypeError, ValueError, RuntimeError):  # as for a function's class
            return export(module, example, **options)
        folder, new = traced(name, module, example, options), state_of(module)
        with np.load(folder / "state.npz") as old:
            proto = with_state(onnx.load(folder / "graph.onnx"), dict(old), new)
        if not agrees(proto, module, example):
            exactly = hashlib.sha256(b"".join(value.tobytes() for value in new.values())).hexdigest()[:16]
            proto = onnx.load(traced(f"{name}-{exactly}", module, example, options) / "graph.onnx")
        return SimpleNamespace(model_proto=proto)

    return shared


@pytest.fixture(autouse=True, scope="module")
def graphs_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.onnx, "export", sharing(tmp_path_factory, torch.onnx.export))
        yield
