"""A bundle's graph around the graph of a LEAPP package: named signals of N robots in, targets in the robot's order out.

The package's graph is for one robot, with its shapes fixed. Many such graphs compute many robots all the same, and some
do not, so there are two ways around it: all robots at once, or a Scan over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, inliner, numpy_helper

from .connect import Connections, Source
from .package import TARGET_KIND, LeappError, LeappPackage, LeappTensor, open_model

PREFIX = "leapp/"
BATCH, STEPS = 5, 6  # of the comparison of two graphs
ELEMENT = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int32": TensorProto.INT32,
           "int64": TensorProto.INT64, "bool": TensorProto.BOOL}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ActionMap:
    """The action of a package that does not output it: (target - offset) / scale, per joint."""

    offset: tuple[float, ...]
    scale: tuple[float, ...]


@dataclass
class _Nodes:
    """ONNX nodes under construction, their constants apart; on rows (d,) of one robot, or (N, d) of a ``batch``."""

    batch: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        out = out or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [out], **attributes))
        return out

    def constant(self, value: object, dtype: type[np.generic] = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"constant_{len(self.constants)}"))
        return self.constants[-1].name

    def shaped(self, row: str, shape: Sequence[int]) -> str:
        """A row as a tensor of the package; its first dimension, one robot, is the batch's."""
        return self.add("Reshape", row, self.constant((-1, *shape[1:]) if self.batch else shape, np.int64))

    def row(self, value: str, width: int) -> str:
        """The row of a tensor of the package; what is the same for all robots is repeated."""
        flat = self.add("Reshape", value, self.constant((-1, width) if self.batch else (width,), np.int64))
        return self.repeated(flat, width)

    def repeated(self, row: str, width: int) -> str:
        if not self.batch:
            return row
        count = self.add("Shape", "state_row", start=0, end=1)
        return self.add("Expand", row, self.add("Concat", count, self.constant([width], np.int64), axis=0))

    def fixed(self, values: object) -> str:
        """A constant row."""
        row = np.asarray(values, np.float32).reshape(-1)
        return self.repeated(self.constant(row[None] if self.batch else row), row.size)

    def gather(self, row: str, indices: Sequence[int]) -> str:
        return self.add("Gather", row, self.constant(indices, np.int64), axis=int(self.batch))

    def joined(self, *rows: str, out: str | None = None) -> str:
        return self.add("Concat", *rows, axis=int(self.batch), out=out)


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
    package: LeappPackage,
    connections: Connections,
    widths: dict[str, int],
    action: ActionMap | None,
    *,
    at_once: bool = False,
) -> onnx.ModelProto:
    """The graph of a bundle with the inputs ``widths`` but ``state``; ``action`` None takes the package's own.

    ``at_once`` runs the package's graph on all robots together, which it may not be able to; see :func:`same_graphs`.
    """
    inner = _inner(package)
    body = _body(package, inner, connections, action, at_once)
    sizes = {**widths, "state": state_dim(package)}
    joints = len(connections.targets)
    results = {"joint_pos_target": joints, "action": joints, "next_state": sizes["state"]}

    def values(items: dict[str, int], suffix: str, batch: list[Any]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n + suffix, TensorProto.FLOAT, [*batch, w]) for n, w in items.items()]

    if at_once:
        nodes = [helper.make_node("Identity", [name], [f"{name}_row"]) for name in sizes] + body.nodes
        nodes += [helper.make_node("Identity", [f"{name}_row"], [name]) for name in results]
    else:
        one = helper.make_graph(body.nodes, "one_robot", values(sizes, "_row", []), values(results, "_row", []))
        nodes = [helper.make_node("Scan", list(sizes), list(results), body=one, num_scan_inputs=len(sizes))]
    constants = [*inner.graph.initializer, *body.constants]
    graph = helper.make_graph(nodes, "policy", values(sizes, "", ["N"]), values(results, "", ["N"]), constants)
    model = helper.make_model(graph, opset_imports=inner.opset_import, ir_version=inner.ir_version)
    try:
        onnx.checker.check_model(model, full_check=not at_once)
    except onnx.checker.ValidationError as error:
        raise LeappError(f"the graph of {package.path} cannot be put into a bundle: {error}") from error
    return model


def _body(
    package: LeappPackage,
    inner: onnx.ModelProto,
    connections: Connections,
    action: ActionMap | None,
    batch: bool,
) -> _Nodes:
    """Graph from the rows of the bundle's inputs to those of its outputs, through the package's graph."""
    body = _Nodes(batch)
    for tensor in package.inputs:
        _feed(body, tensor, connections.sources[tensor.name])
    for tensor, value in zip((pair[0] for pair in package.feedback), _past(body, package), strict=True):
        _cast(body, value, tensor)
    if batch:
        _repeat_constants(body, inner.graph)
    body.nodes += inner.graph.node
    widths = {tensor.name: tensor.width for tensor in package.outputs}
    targets = _collect(body, connections.targets, widths)
    body.add("Identity", targets, out="joint_pos_target_row")
    if action is None:
        output = last_action(package, len(connections.targets))
        assert output is not None
        row = body.row(PREFIX + output.name, output.width)
        body.add("Identity", body.gather(row, [column for _, column in connections.targets]), out="action_row")
    else:
        centred = body.add("Sub", targets, body.constant(action.offset))
        body.add("Div", centred, body.constant(action.scale), out="action_row")
    following = [body.fixed([1.0])]
    for tensor, source in package.feedback:
        value = body.add("Cast", PREFIX + source.name, to=TensorProto.FLOAT)
        following.append(body.row(value, tensor.width))
    body.joined(*following, out="next_state_row")
    return body


def _repeat_constants(body: _Nodes, graph: onnx.GraphProto) -> None:
    """Join each constant row that the graph joins to one robot's row to every robot's row."""
    widths = {constant.name: constant.dims[1] for constant in graph.initializer if list(constant.dims[:-1]) == [1]}
    for node in graph.node:
        if node.op_type == "Concat":
            for k, name in enumerate(node.input):
                if name in widths:
                    node.input[k] = body.repeated(name, widths[name])


def same_graphs(one: onnx.ModelProto, other: onnx.ModelProto, seed: int = 0) -> bool:
    """True if two graphs of a bundle compute the same for several robots, one of which is reset on its own."""
    sessions = []
    for model in (one, other):
        try:
            sessions.append(open_model(model.SerializeToString()))
        except LeappError:
            return False
    widths = {i.name: i.shape[1] for i in sessions[0].get_inputs()}
    names = [output.name for output in sessions[0].get_outputs()]
    rng, states = np.random.default_rng(seed), [np.zeros((BATCH, widths["state"]), np.float32)] * 2
    for step in range(STEPS):
        feed = {name: rng.standard_normal((BATCH, width)).astype(np.float32) for name, width in widths.items()}
        results = []
        for k, session in enumerate(sessions):
            state = states[k].copy()
            state[1] *= step != STEPS // 2
            try:
                results.append(session.run(names, {**feed, "state": state}))
            except Exception:  # shapes that only one robot fits; onnxruntime's exceptions share no base class
                return False
        if not all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*results, strict=True)
        ):
            return False
        states = [result[names.index("next_state")] for result in results]
    return True


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
    """Compute an input of the package's graph from the signals."""
    row = f"{source.signal}_row"
    if source.form == "take":
        value = body.gather(row, source.indices)
    elif source.form == "gravity":
        value = body.gather(_gravity(body, row), source.indices)
    elif source.form == "origin":
        value = body.fixed(np.zeros(tensor.width))
    else:  # under a sensor at the origin, the ground is as far down as the base is above it
        rays = tensor.shape[1]
        sideways, down = body.fixed(np.zeros(rays)), body.add("Neg", row)
        interleaved = [index for ray in range(rays) for index in (ray, ray, rays + ray)]
        value = body.gather(body.joined(sideways, down), interleaved)
    _cast(body, body.shaped(value, tensor.shape), tensor)


def _gravity(body: _Nodes, quat: str) -> str:
    """Unit gravity in the base frame from an orientation w, x, y, z: minus the last row of its rotation."""
    w, x, y, z = (body.gather(quat, [i]) for i in range(4))

    def product(a: str, b: str) -> str:
        return body.add("Mul", a, b)

    two, one = body.constant([2.0]), body.constant([1.0])
    gx = product(two, body.add("Sub", product(w, y), product(x, z)))
    gy = body.add("Neg", product(two, body.add("Add", product(w, x), product(y, z))))
    gz = body.add("Sub", product(two, body.add("Add", product(x, x), product(y, y))), one)
    return body.joined(gx, gy, gz)


def _past(body: _Nodes, package: LeappPackage) -> list[str]:
    """The feedback inputs from ``state``; after a reset, the package's initial values."""
    if not package.feedback:
        return []
    starts = np.cumsum([0, 1, *(tensor.width for tensor, _ in package.feedback)])
    started = body.add("Greater", body.gather("state_row", [0]), body.constant([0.5]))
    values = []
    for k, (tensor, _) in enumerate(package.feedback, start=1):
        kept = body.gather("state_row", range(starts[k], starts[k + 1]))
        initial = body.fixed(package.initial[tensor.name])
        values.append(body.shaped(body.add("Where", started, kept, initial), tensor.shape))
    return values


def _cast(body: _Nodes, value: str, tensor: LeappTensor) -> None:
    if tensor.dtype not in ELEMENT:
        raise LeappError(f"{tensor.name} is {tensor.dtype}; run here are {', '.join(ELEMENT)}")
    body.add("Cast", value, out=PREFIX + tensor.name, to=ELEMENT[tensor.dtype])


def _collect(body: _Nodes, columns: Sequence[tuple[str, int]], widths: dict[str, int]) -> str:
    """One row from columns of several outputs."""
    rows = {name: body.row(PREFIX + name, widths[name]) for name in dict.fromkeys(name for name, _ in columns)}
    if len(rows) == 1:
        return body.gather(next(iter(rows.values())), [column for _, column in columns])
    return body.joined(*(body.gather(rows[name], [column]) for name, column in columns))
