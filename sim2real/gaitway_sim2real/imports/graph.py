"""A bundle's graph of a described policy: our two halves around the network's own, which stays as it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from gaitway_files.graphs import open_graph
from gaitway_files.reading import FileError, one_line
from onnx import compose, version_converter
from torch import Tensor, nn

from ..bundle.export import quiet_exporter, strip_origin
from ..bundle.golden import Signals
from .description import Network
from .errors import PolicyImportError
from .policy import Mover, Observer

BATCH = "N"
LEAST_OPSET = 18
"""The oldest that torch exports."""
TOLERANCE = 1e-5
"""Tolerance of the bundle's graph against its two halves and the network, run one after the other; relative above 1."""
STEPS = 30


@dataclass(frozen=True)
class OpenNetwork:
    """A network's graph, with the names and shapes of what our halves connect to."""

    name: str
    """Name of its file."""
    content: bytes
    observation: str
    action: str
    memory: tuple[tuple[str, str, int], ...]
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the recurrent states, without the axis that counts robots."""
    observation_dim: int
    action_dim: int
    session: Any

    @property
    def axes(self) -> tuple[int, ...]:
        """Robots' axis of the action and of each next memory."""
        return 0, *(axis for _, _, axis in self.memory)

    def run(self, observation: np.ndarray, memory: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Action and next memories of one robot after the other: the network as it was published."""
        rows: list[list[np.ndarray]] = []
        for n in range(len(observation)):
            feed = {self.observation: observation[n : n + 1]}
            for (name, _, axis), part in zip(self.memory, memory, strict=True):
                feed[name] = np.take(part, [n], axis)
            rows.append(self.session.run([self.action, *(out for _, out, _ in self.memory)], feed))
        return [np.concatenate(parts, axis) for parts, axis in zip(zip(*rows, strict=True), self.axes, strict=True)]


def open_network(content: bytes, network: Network) -> OpenNetwork:
    """Open the graph that ``network`` describes; raises :class:`PolicyImportError`.

    A graph for a fixed number of robots, such as the environments of its training, is opened for any number.
    """
    try:
        session = open_graph(content, network.file)
    except FileError as error:
        raise PolicyImportError(str(error)) from None
    inputs, outputs = ({t.name: t for t in tensors} for tensors in (session.get_inputs(), session.get_outputs()))
    observation = network.observation or next(iter(inputs))
    action = network.action or next(iter(outputs))
    wanted = [(observation, inputs), (action, outputs)]
    wanted += [pair for i, o, _ in network.memory for pair in ((i, inputs), (o, outputs))]
    for name, present in wanted:
        if name not in present:
            raise PolicyImportError(f"{network.file} has no tensor {name!r}; it has {', '.join((*inputs, *outputs))}")
        if (kind := present[name].type) != "tensor(float)":
            raise PolicyImportError(
                f"{network.file}: {name} is a {kind}, and float32 is run on robots: export the policy in float32"
            )
    if unfed := sorted(inputs.keys() - {observation, *(name for name, _, _ in network.memory)}):
        raise PolicyImportError(
            f"{network.file} also reads {', '.join(unfed)}: say under network: memory which recurrent state it is, as "
            f"[input, output, axis of the robots]"
        )
    shapes = []
    for name, _, axis in network.memory:
        shape = list(inputs[name].shape)
        if not 0 <= axis < len(shape):
            raise PolicyImportError(
                f"{network.file}: {name} has the shape {shape}, and no axis {axis} that counts robots"
            )
        del shape[axis]
        if not all(isinstance(length, int) for length in shape):
            raise PolicyImportError(f"{network.file}: the shape of {name} is {inputs[name].shape}, not known in full")
        shapes.append(tuple(shape))
    opened = OpenNetwork(
        network.file, content, observation, action, network.memory, tuple(shapes),
        _width(inputs[observation], network.file), _width(outputs[action], network.file), session,
    )  # fmt: skip
    robots = inputs[observation].shape[0]
    return _freed(opened, robots) if isinstance(robots, int) and robots > 1 else opened


def _freed(fixed: OpenNetwork, robots: int) -> OpenNetwork:
    """The network ``fixed``, which takes exactly ``robots`` robots, for any number; each robot's numbers stay."""
    unlike = PolicyImportError(
        f"{fixed.name}: {fixed.observation} has the fixed shape [{robots}, {fixed.observation_dim}], and the graph "
        f"cannot be run for another number of robots: export it for 1 robot, or for any number (dynamic_axes of "
        f"torch.onnx.export)"
    )
    content = _any_batch(onnx.load_from_string(fixed.content), fixed).SerializeToString()
    try:
        free = dataclasses.replace(fixed, content=content, session=open_graph(content, fixed.name))
    except FileError:
        raise unlike from None
    rng, chosen = np.random.default_rng(0), sorted({0, robots // 2, robots - 1})
    observation = rng.standard_normal((robots, fixed.observation_dim), np.float32)
    feed, memory = {fixed.observation: observation}, []
    for shape, (name, _, axis) in zip(fixed.shapes, fixed.memory, strict=True):
        feed[name] = rng.standard_normal((*shape[:axis], robots, *shape[axis:]), np.float32)
        memory.append(np.take(feed[name], chosen, axis))
    try:
        together = fixed.session.run([fixed.action, *(out for _, out, _ in fixed.memory)], feed)
        alone = free.run(observation[chosen], memory)
        rows = [np.take(part, chosen, axis) for part, axis in zip(together, fixed.axes, strict=True)]
        equal = [a.shape == b.shape and _difference(a, b) <= TOLERANCE for a, b in zip(alone, rows, strict=True)]
    except Exception:  # onnxruntime's exceptions share no base class of their own
        raise unlike from None
    if not all(equal):
        raise unlike
    return free


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference of two arrays, relative above 1."""
    return float((np.abs(a - b) / np.maximum(1.0, np.abs(b))).max())


def _width(tensor: Any, file: str) -> int:
    if len(tensor.shape) != 2 or not isinstance(tensor.shape[1], int):
        raise PolicyImportError(f"{file}: {tensor.name} has the shape {tensor.shape}, expected (robots, numbers)")
    return int(tensor.shape[1])


def network_graph(module: nn.Module, observation_dim: int, file: str) -> tuple[bytes, Network]:
    """The graph of a torch network: observation (N, D) to action, and with a ``memory_size`` memory to memory."""
    memory_size = int(getattr(module, "memory_size", 0))
    widths = {"observation": observation_dim} | ({"memory": memory_size} if memory_size else {})
    outputs = ["action"] + (["next_memory"] if memory_size else [])
    proto = _exported(module.eval(), {name: (2, width) for name, width in widths.items()}, {}, outputs)
    memory = (("memory", "next_memory", 0),) if memory_size else ()
    return proto.SerializeToString(), Network(file=file, observation="observation", action="action", memory=memory)


def bundle_graph(network: OpenNetwork, observer: Observer, mover: Mover) -> bytes:
    """Both halves and the network as one graph, for any number of robots."""
    memory = [f"memory_{k}" for k in range(len(network.memory))]
    axes = {name: axis for name, (_, _, axis) in zip(memory, network.memory, strict=True)}
    before = _exported(
        observer, {name: (2, width) for name, width in observer.input_widths.items()}, {},
        ["observation", "kept", *memory],
    )  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {"raw_action": (2, network.action_dim)}
    shapes["kept"] = (2, observer.kept_width)
    for name, shape in zip(memory, network.shapes, strict=True):
        shapes[name] = (*shape[: axes[name]], 2, *shape[axes[name] :])
    after = _exported(mover, shapes, axes, ["joint_pos_target", "action", "next_state"])
    inner = _any_batch(onnx.load_from_string(network.content), network)
    opset = max(LEAST_OPSET, *(_opset(model) for model in (before, inner, after)))
    parts = [version_converter.convert_version(m, opset) if _opset(m) != opset else m for m in (before, inner, after)]
    for part in parts:
        part.ir_version = max(p.ir_version for p in parts)
        strip_origin(part)
        del part.graph.value_info[:]
    before, inner, after = (compose.add_prefix(m, f"{n}/") for m, n in zip(parts, ("in", "net", "out"), strict=True))
    joints = [("in/observation", f"net/{network.observation}")]
    joints += [(f"in/{name}", f"net/{i}") for name, (i, _, _) in zip(memory, network.memory, strict=True)]
    first = compose.merge_models(
        before, inner, joints, outputs=[f"net/{network.action}", *(f"net/{o}" for _, o, _ in network.memory), "in/kept"]
    )
    del first.graph.value_info[:]
    joints = [(f"net/{network.action}", "out/raw_action"), ("in/kept", "out/kept")]
    joints += [(f"net/{o}", f"out/{name}") for name, (_, o, _) in zip(memory, network.memory, strict=True)]
    whole = compose.merge_models(first, after, joints)
    del whole.graph.value_info[:]  # shapes inferred for one robot
    _rename(whole, {f"in/{name}": name for name in observer.input_widths}
            | {f"out/{name}": name for name in ("joint_pos_target", "action", "next_state")})  # fmt: skip
    whole.graph.name = "policy"
    onnx.checker.check_model(whole, full_check=True)
    return bytes(whole.SerializeToString())


def check_equal(graph: bytes, network: OpenNetwork, observer: Observer, mover: Mover, signals: Signals) -> None:
    """Raise :class:`PolicyImportError` if the bundle's graph differs from its parts in a step of ``signals`` (T, N, d).

    Each step begins with the same state for both, and the next state is compared as well.
    """
    session = open_graph(graph, "the bundle's graph", own=True)
    names, steps, robots = list(observer.input_widths)[:-1], *signals["gyro"].shape[:2]
    state = np.zeros((robots, sum(observer.widths)), np.float32)
    worst = 0.0
    for step in range(steps):
        feed = {name: signals[name][step] for name in names}
        try:
            found = session.run(["joint_pos_target", "action", "next_state"], feed | {"state": state})
        except Exception as error:  # onnxruntime's exceptions share no base class of their own
            raise PolicyImportError(
                f"the policy's graph does not run for {robots} robots at once: {one_line(error)}"
            ) from None
        with torch.inference_mode():
            seen = observer(*(torch.from_numpy(feed[name]) for name in names), torch.from_numpy(state))
            out = network.run(seen[0].numpy(), [part.numpy() for part in seen[2:]])
            if not all(np.isfinite(part).all() for part in out):
                raise PolicyImportError(f"{network.name} gives numbers that are not finite: its weights are broken")
            wanted = mover(torch.from_numpy(out[0]), seen[1], *(torch.from_numpy(part) for part in out[1:]))
        for a, b in zip(found, (part.numpy() for part in wanted), strict=True):
            worst = max(worst, _difference(a, b))
        state = wanted[2].numpy()
    if not worst <= TOLERANCE:
        raise PolicyImportError(
            f"the bundle's graph differs by {worst:.2g} from the policy for {robots} robots (limit {TOLERANCE:g}): "
            f"export the policy for any batch size"
        )


def _exported(
    module: nn.Module, shapes: Mapping[str, tuple[int, ...]], axes: Mapping[str, int], outputs: Sequence[str]
) -> onnx.ModelProto:
    """The graph of a torch module; each input's axis of ``axes``, by default the first, counts robots."""
    example = tuple(torch.zeros(shape) for shape in shapes.values())
    module = _Positional(module)
    batch = torch.export.Dim(BATCH)
    with quiet_exporter(), torch.no_grad():
        program = torch.onnx.export(
            module, example, dynamo=True, dynamic_shapes=(tuple({axes.get(name, 0): batch} for name in shapes),),
            input_names=list(shapes), output_names=list(outputs), verbose=False,
        )  # fmt: skip
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    return proto


class _Positional(nn.Module):
    """A module whose arguments are all positional, as the exporter's dynamic shapes want them."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Any:
        return self.module(*inputs)


def _any_batch(model: onnx.ModelProto, network: OpenNetwork) -> onnx.ModelProto:
    """The network with any number of robots, whatever number it says."""
    axes = {network.observation: 0, network.action: 0}
    axes |= {name: axis for given, left, axis in network.memory for name in (given, left)}
    for tensor in (*model.graph.input, *model.graph.output):
        dims = tensor.type.tensor_type.shape.dim
        if (axis := axes.get(tensor.name, 0)) < len(dims):
            dims[axis].Clear()
            dims[axis].dim_param = BATCH
    del model.graph.value_info[:]  # shapes inferred for that number
    return model


def _opset(model: onnx.ModelProto) -> int:
    return max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def _rename(model: onnx.ModelProto, names: Mapping[str, str]) -> None:
    """Give tensors other names, wherever they stand in the main graph."""
    for node in model.graph.node:
        for values in (node.input, node.output):
            for k, name in enumerate(values):
                values[k] = names.get(name, name)
    tensors: list[Any] = [*model.graph.input, *model.graph.output, *model.graph.initializer]
    for tensor in tensors:
        tensor.name = names.get(tensor.name, tensor.name)


def memory_of(network: OpenNetwork) -> list[tuple[tuple[int, ...], int]]:
    """Shape for one robot and robots' axis of each recurrent state, as :class:`Observer` takes them."""
    return [(shape, axis) for shape, (_, _, axis) in zip(network.shapes, network.memory, strict=True)]
