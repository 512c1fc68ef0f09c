"""Read a LEAPP package: one YAML that describes the graph's tensors, one ONNX file, the feedback's initial values."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from gaitway_files.errors import UserError
from gaitway_files.graphs import check_graph, open_graph
from gaitway_files.reading import FileError, MissingFile, read_bytes
from gaitway_files.yaml_files import parse_yaml, read_yaml
from gaitway_onboard.bundle.contract import FILE_BYTES, sha256
from numpy.typing import NDArray

CONNECTION = "isaaclab_connection"
TARGET_KIND = "target/joint/position"

DTYPES = {"float32": np.float32, "float64": np.float64, "int32": np.int32, "int64": np.int64, "bool": np.bool_}


MAX_WIDTH = 1_000_000
"""Most numbers of a tensor of one robot; a height scan has some hundreds."""


class LeappError(UserError):
    """A LEAPP package that cannot be read or cannot be run as a velocity policy, with what to change."""


@dataclass(frozen=True, kw_only=True)
class LeappTensor:
    """One input or output of the package's graph, as its YAML describes it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str | None
    elements: tuple[str, ...] | None
    """Names along the last axis that has any."""
    connection: str | None
    """Isaac Lab's ``state:<entity>:<property>``, ``command:<name>`` or ``write:<entity>:<method>``."""

    @property
    def width(self) -> int:
        """Numbers of one robot."""
        return int(np.prod(self.shape))

    @property
    def source(self) -> str:
        """The property of Isaac Lab's data that it is, such as ``root_ang_vel_b``; without a connection, its name."""
        return (self.connection or self.name).rpartition(":")[2]

    def __str__(self) -> str:
        said = [f"kind {self.kind}" if self.kind else "no kind"]
        said += [self.connection] if self.connection else []
        return f"{self.name} ({', '.join(said)})"


@dataclass(frozen=True, kw_only=True)
class LeappPackage:
    """A package with one model."""

    path: Path
    """Its folder."""
    name: str
    """Name of the graph; in Isaac Lab's packages the task's id."""
    node: str
    inputs: tuple[LeappTensor, ...]
    """Inputs of the graph from outside, without the feedback."""
    outputs: tuple[LeappTensor, ...]
    feedback: tuple[tuple[LeappTensor, LeappTensor], ...]
    """(input, the output that it has at the next step)."""
    initial: dict[str, NDArray[Any]]
    """Value of each feedback input after a reset."""
    model: bytes
    frequency: float | None
    """Steps per second [Hz], where the package says so."""
    fingerprint: str
    """SHA-256 of the description, which has the model's."""

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Every output of the graph, feedback included, for ``inputs`` of one robot; what is not given is zero."""
        tensors = (*self.inputs, *(pair[0] for pair in self.feedback))
        feed: dict[str, NDArray[Any]] = {}
        for t in tensors:
            feed[t.name] = np.asarray(inputs.get(t.name, np.zeros(t.shape)), DTYPES[t.dtype])
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, feed), strict=True))

    @functools.cached_property
    def _session(self) -> onnxruntime.InferenceSession:
        return open_model(self.model)

    @classmethod
    def load(cls, path: str | Path) -> LeappPackage:
        """Read the package in the folder ``path``, or the one that the YAML ``path`` describes, and check its files."""
        description = find_description(Path(path))
        if description is None:
            raise LeappError(f"{path} is no LEAPP package: it has no YAML with the keys models and pipeline")
        text = _read_file(description)
        try:
            data = parse_yaml(text, description)
        except FileError as error:
            raise LeappError(str(error)) from None
        models, pipeline = data["models"], data["pipeline"]
        if len(models) != 1:
            raise LeappError(
                f"{description} describes {len(models)} models ({', '.join(models)}); a policy that can be run here is "
                f"one, as Isaac Lab's export of a locomotion task is"
            )
        node, model = next(iter(models.items()))
        try:
            return cls._read(description, node, model, pipeline, sha256(text))
        except LeappError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise LeappError(f"{description} is not as leapp writes it ({error!r}): export the policy again") from None

    @classmethod
    def _read(
        cls, description: Path, node: str, model: dict[str, Any], pipeline: dict[str, Any], fingerprint: str
    ) -> LeappPackage:
        folder = description.parent
        inputs = {row["name"]: _tensor(row) for row in model["inputs"]}
        outputs = {row["name"]: _tensor(row) for row in model["outputs"]}
        feedback = []
        for source, targets in (pipeline.get("feedback_flow") or {}).items():
            feedback += [(inputs[t.rpartition("/")[2]], outputs[source.rpartition("/")[2]]) for t in targets]
        fed_back = {name for pair in feedback for name in (pair[0].name, pair[1].name)}
        parameters = model["parameters"]
        if parameters["backend"] != "onnx":
            raise LeappError(
                f"{description}: the model is {parameters['backend']}, and only onnx is run here: export it again with "
                f"--export_method onnx-dynamo"
            )
        content = _read_file(folder / parameters["model_path"])
        if sha256(content) != parameters["sha256sum"]:
            raise LeappError(f"{folder / parameters['model_path']} is not the file that {description.name} describes")
        try:
            check_graph(content, folder / parameters["model_path"])
        except FileError as error:
            raise LeappError(str(error)) from None
        frequency = (pipeline.get("configs") or {}).get("frequency")
        if frequency is not None and not 1.0 <= float(frequency) <= 10_000.0:
            raise LeappError(f"{description} names a frequency of {float(frequency):g} Hz; policies have 1 to 10000")
        return cls(
            path=folder,
            name=description.stem,
            node=node,
            inputs=tuple(tensor for name, tensor in inputs.items() if name not in fed_back),
            outputs=tuple(tensor for name, tensor in outputs.items() if name not in fed_back),
            feedback=tuple(feedback),
            initial=_initial_values(folder, pipeline.get("initial_values"), [pair[0] for pair in feedback]),
            model=content,
            frequency=None if frequency is None else float(frequency),
            fingerprint=fingerprint,
        )


def open_model(model: bytes) -> onnxruntime.InferenceSession:
    """A quiet session of one thread."""
    try:
        return open_graph(model, "the package's model")
    except FileError as error:
        raise LeappError(str(error)) from None


def find_description(path: Path) -> Path | None:
    """The YAML of the package: ``path`` itself, or the only one in the folder that describes a graph."""
    candidates = sorted(path.glob("*.yaml")) if path.is_dir() else [path] if path.suffix == ".yaml" else []
    found = [candidate for candidate in candidates if candidate.is_file() and _describes_graph(candidate)]
    if len(found) > 1:
        raise LeappError(f"{path} has several LEAPP graphs ({', '.join(f.name for f in found)}): give the YAML of one")
    return found[0] if found else None


def _describes_graph(path: Path) -> bool:
    try:
        data = read_yaml(path)
    except FileError:
        return False
    return isinstance(data, dict) and isinstance(data.get("models"), dict) and isinstance(data.get("pipeline"), dict)


def _tensor(row: dict[str, Any]) -> LeappTensor:
    shape = tuple(int(size) for size in row["shape"])
    if not all(0 < size <= MAX_WIDTH for size in shape) or math.prod(shape) > MAX_WIDTH:
        raise LeappError(f"tensor {row['name']} has the shape {list(shape)}; at most {MAX_WIDTH} numbers are read")
    for key in ("name", "dtype", "kind", CONNECTION):
        if not isinstance(row.get(key), str if key in ("name", "dtype") else str | None):
            raise LeappError(f"{key} of tensor {row['name']} is {row.get(key)!r}, expected text")
    axes = [axis for axis in row.get("element_names") or [] if isinstance(axis, list)]
    return LeappTensor(
        name=row["name"],
        shape=shape,
        dtype=row["dtype"],
        kind=row.get("kind"),
        elements=tuple(map(str, axes[-1])) if axes else None,
        connection=row.get(CONNECTION),
    )


def _initial_values(folder: Path, name: str | None, tensors: list[LeappTensor]) -> dict[str, NDArray[Any]]:
    """Zero for a feedback input that the file does not name, as leapp's own runtime has it."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        stored = load(_read_file(folder / name)) if name else {}
    except SafetensorError as error:
        raise LeappError(f"{folder / str(name)} is no file of tensors: {error}") from None
    values = {key.rpartition("/")[2]: value for key, value in stored.items()}
    initial = {}
    for tensor in tensors:
        if tensor.dtype not in DTYPES:
            raise LeappError(f"feedback {tensor.name} is {tensor.dtype}; run here are {', '.join(DTYPES)}")
        initial[tensor.name] = np.asarray(values.get(tensor.name, np.zeros(tensor.shape, DTYPES[tensor.dtype])))
        if initial[tensor.name].shape != tensor.shape:
            raise LeappError(
                f"{folder / str(name)}: {tensor.name} has shape {list(initial[tensor.name].shape)}, and the graph's "
                f"input {list(tensor.shape)}"
            )
    return initial


def _read_file(path: Path) -> bytes:
    try:
        return read_bytes(path, FILE_BYTES)
    except MissingFile:
        raise LeappError(f"the LEAPP package lacks {path.name} ({path})") from None
    except FileError as error:
        raise LeappError(str(error)) from None
