"""A bundle's graph around the graph of a LEAPP package: named signals of N robots in, targets in the robot's order out.

The package's graph is for one robot, with its shapes fixed, so a Scan runs it for each robot of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, compose, helper, inliner, numpy_helper

from .connect import Connections, Source
from .package import LeappError, LeappPackage, LeappTensor
from .semantics import TARGET_KIND

PREFIX = "leapp/"
ELEMENT = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int32": TensorProto.INT32,
           "int64": TensorProto.INT64, "bool": TensorProto.BOOL}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ActionMap:
    """The action of a package that does not output it: (target - offset) / scale, per joint."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass
class _Nodes:
    """ONNX nodes under construction, their constants apart."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        out = out or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [out], **attributes))
        return out

    def constant(self, value: object, dtype: type[np.generic] = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"constant_{len(self.constants)}"))
        return self.constants[-1].name

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        return self.add("Reshape", value, self.constant(shape, np.int64))

    def gather(self, value: str, indices: Sequence[int]) -> str:
        return self.add("Gather", value, self.constant(indices, np.int64), axis=0)


def state_dim(package: LeappPackage) -> int:
    """Width of the bundle's state: a flag, zero after a reset, and every feedback tensor."""
    return 1 + sum(tensor.width for tensor, _ in package.feedback)


def last_action(package: LeappPackage, joints: int) -> LeappTensor | None:
    """The output that is fed back as the last action, if the package has it.

    Its order is that of the one output of targets; with several outputs it is not known.
    """
    if sum(tensor.kind == TARGET_KIND for tensor in package.outputs) != 1:
        return None
    for tensor, source in package.feedback:
        if tensor.name.startswith("last_action") and tensor.width == joints:
            return source
    return None


def bundle_graph(
    package: LeappPackage, connections: Connections, widths: dict[str, int], action: ActionMap | None
) -> onnx.ModelProto:
    """The graph of a bundle with the inputs ``widths`` but ``state``; ``action`` None takes the package's own."""
    inner = _inner(package)
    body = _Nodes()
    state = state_dim(package)
    for tensor in package.inputs:
        _feed(body, tensor, connections.sources[tensor.name])
    for tensor, value in zip((pair[0] for pair in package.feedback), _past(body, package), strict=True):
        _cast(body, value, tensor)
    body.nodes += inner.graph.node
    targets = _collect(body, connections.targets)
    body.add("Identity", targets, out="joint_pos_target_row")
    if action is None:
        output = last_action(package, len(connections.targets))
        assert output is not None
        flat = body.reshape(PREFIX + output.name, (-1,))
        body.add("Identity", body.gather(flat, [column for _, column in connections.targets]), out="action_row")
    else:
        centred = body.add("Sub", targets, body.constant(action.offset))
        body.add("Div", centred, body.constant(action.scale), out="action_row")
    following = [body.constant([1.0])]
    for tensor, source in package.feedback:
        value = body.reshape(PREFIX + source.name, (tensor.width,))
        following.append(body.add("Cast", value, to=TensorProto.FLOAT))
    body.add("Concat", *following, axis=0, out="next_state_row")

    sizes = {**widths, "state": state}
    joints = len(connections.targets)
    results = {"joint_pos_target": joints, "action": joints, "next_state": state}

    def rows(items: dict[str, int]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(f"{n}_row", TensorProto.FLOAT, [w]) for n, w in items.items()]

    def batches(items: dict[str, int]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", w]) for n, w in items.items()]

    one = helper.make_graph(body.nodes, "one_robot", rows(sizes), rows(results))
    scan = helper.make_node("Scan", list(sizes), list(results), body=one, num_scan_inputs=len(sizes))
    graph = helper.make_graph(
        [scan], "policy", batches(sizes), batches(results), [*inner.graph.initializer, *body.constants]
    )
    model = helper.make_model(graph, opset_imports=inner.opset_import, ir_version=inner.ir_version)
    try:
        onnx.checker.check_model(model, full_check=True)
    except onnx.checker.ValidationError as error:
        raise LeappError(f"the graph of {package.path} cannot be put into a bundle: {error}") from error
    return model


def _inner(package: LeappPackage) -> onnx.ModelProto:
    """The package's graph, its names kept apart from ours."""
    try:
        model = onnx.load_from_string(package.model)
    except Exception as error:  # protobuf's own, which has no public base
        raise LeappError(f"the model of {package.path} is not ONNX: {error}") from None
    if model.functions:
        model = inliner.inline_local_functions(model)
    for item in (model, model.graph, *model.graph.node, *model.graph.initializer):
        item.ClearField("metadata_props")
    return compose.add_prefix(model, PREFIX)


def _feed(body: _Nodes, tensor: LeappTensor, source: Source) -> None:
    """Compute an input of the package's graph from the signals of one robot."""
    row = f"{source.signal}_row"
    if source.form == "take":
        value = body.gather(row, source.indices)
    elif source.form == "gravity":
        value = body.gather(_gravity(body, row), source.indices)
    elif source.form == "origin":
        value = body.constant(np.zeros(tensor.shape))
    else:  # under a sensor at the origin, the ground is as far down as the base is above it
        down = body.reshape(body.add("Neg", row), (tensor.shape[1], 1))
        value = body.add("Concat", body.constant(np.zeros((tensor.shape[1], 2))), down, axis=1)
    _cast(body, body.reshape(value, tensor.shape), tensor)


def _gravity(body: _Nodes, quat: str) -> str:
    """Unit gravity in the base frame, (3,), from an orientation w, x, y, z, (4,): minus the rotation's last row."""
    w, x, y, z = (body.gather(quat, [i]) for i in range(4))

    def product(a: str, b: str) -> str:
        return body.add("Mul", a, b)

    two, one = body.constant([2.0]), body.constant([1.0])
    gx = product(two, body.add("Sub", product(w, y), product(x, z)))
    gy = body.add("Neg", product(two, body.add("Add", product(w, x), product(y, z))))
    gz = body.add("Sub", product(two, body.add("Add", product(x, x), product(y, y))), one)
    return body.add("Concat", gx, gy, gz, axis=0)


def _past(body: _Nodes, package: LeappPackage) -> list[str]:
    """The feedback inputs from ``state``; after a reset, the package's initial values."""
    if not package.feedback:
        return []
    sizes = [1, *(tensor.width for tensor, _ in package.feedback)]
    starts = np.cumsum([0, *sizes])
    started = body.add("Greater", body.gather("state_row", [0]), body.constant([0.5]))
    values = []
    for k, (tensor, _) in enumerate(package.feedback, start=1):
        kept = body.gather("state_row", range(starts[k], starts[k + 1]))
        initial: NDArray[np.float32] = package.initial[tensor.name].astype(np.float32).reshape(-1)
        values.append(body.reshape(body.add("Where", started, kept, body.constant(initial)), tensor.shape))
    return values


def _cast(body: _Nodes, value: str, tensor: LeappTensor) -> None:
    body.add("Cast", value, out=PREFIX + tensor.name, to=ELEMENT[tensor.dtype])


def _collect(body: _Nodes, columns: Sequence[tuple[str, int]]) -> str:
    """One row from columns of several outputs."""
    flat = {name: body.reshape(PREFIX + name, (-1,)) for name in dict.fromkeys(name for name, _ in columns)}
    if len(flat) == 1:
        return body.gather(next(iter(flat.values())), [column for _, column in columns])
    picked = [body.gather(flat[name], [column]) for name, column in columns]
    return body.add("Concat", *picked, axis=0)
