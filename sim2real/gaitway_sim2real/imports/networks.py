"""Networks of TorchScript policies, rebuilt from their weights and from what their forwards compute.

Three are known: chains of layers, whatever their wrapper is called (``Sequential``, rsl_rl's exporters of MLPs,
``ActorCriticMLP``, ``PolicyWrapper``, linear ``GraphModule``); an LSTM or GRU between two chains (rsl_rl's recurrent
exporters, Unitree's ``PolicyExporterLSTM``); and HIMLoco's encoder with its actor (``PolicyExporterHIM``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from gaitway_files.reading import FileError
from torch import Tensor, nn
from torch.nn import functional

from .isaaclab.networks import Normalizer, Recurrent
from .meaning import Attribute, Call, Child, Input, Item, Meaning, Term, UnknownNetwork, meaning_of
from .torchscript import MANGLED, Module

LAYERS = 100
"""Most layers and modules of a policy; 10 to 20 are usual."""

ACTIVATIONS: dict[str, tuple[Callable[..., nn.Module], int]] = {
    "torch.elu": (nn.ELU, 1),
    "torch.selu": (nn.SELU, 0),
    "torch.relu": (nn.ReLU, 0),
    "torch.celu": (nn.CELU, 1),
    "torch.leaky_relu": (nn.LeakyReLU, 1),
    "torch.tanh": (nn.Tanh, 0),
    "torch.sigmoid": (nn.Sigmoid, 0),
    "torch.softplus": (nn.Softplus, 2),
    "torch.silu": (nn.SiLU, 0),
    "torch.mish": (nn.Mish, 0),
}
"""The module of each, and how many numbers both may take."""

RECURRENT = {
    "lstm": "a2a6465e5e9abcb711df4f23e629543c085b41d465ab8d991797f79b08679b90",
    "gru": "e030f52e7b7ccf62be51eefa89815b1ef616e673fc77513c46622036cb241979",
}
"""SHA-256 of the code of ``nn.LSTM`` and ``nn.GRU`` as :func:`recurrent_code` gives it."""

FLOAT32_MAX = torch.finfo(torch.float32).max


class Actor(nn.Module):
    """Observation (N, ``in_features``) -> action (N, ``num_actions``)."""

    def __init__(self, layers: Sequence[nn.Module], in_features: int, num_actions: int):
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.in_features, self.num_actions = in_features, num_actions

    def forward(self, observation: Tensor) -> Tensor:
        return self.layers(observation)


class RecurrentActor(nn.Module):
    """Observation (N, ``in_features``) and memory (N, ``memory_size``), zero at first -> action and next memory."""

    def __init__(
        self, before: Sequence[nn.Module], rnn: Recurrent, after: Sequence[nn.Module], in_features: int,
        num_actions: int,
    ):  # fmt: skip
        super().__init__()
        self.before, self.rnn, self.after = nn.Sequential(*before), rnn, nn.Sequential(*after)
        self.in_features, self.num_actions, self.memory_size = in_features, num_actions, rnn.memory_size

    def forward(self, observation: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        x, memory = self.rnn(self.before(observation), memory)
        return self.after(x), memory


class Encoded(nn.Module):
    """Input of HIMLoco's actor (N, E): the newest frame, and an encoding of the history.

    The encoder's first ``speeds`` columns are the base's velocity in the policy's scale; the others are a latent
    vector, which gets unit length. ``newest`` and ``history`` are ranges of columns of the input (N, ``in_features``).
    """

    def __init__(self, encoder: nn.Sequential, newest: range, history: range, speeds: int, eps: float):
        super().__init__()
        self.encoder, self.newest, self.history = encoder, newest, history
        self.speeds, self.eps = speeds, eps

    def forward(self, x: Tensor) -> Tensor:
        encoded = self.encoder(x[:, self.history.start : self.history.stop])
        latent = functional.normalize(encoded[:, self.speeds :], dim=1, eps=self.eps)
        return torch.cat((x[:, self.newest.start : self.newest.stop], encoded[:, : self.speeds], latent), 1)


def network_of(module: Module) -> Actor | RecurrentActor:
    """The policy that ``module`` computes, in float32 and without gradients.

    Raises :class:`UnknownNetwork` for any other computation, with the module's class and what to do.
    """
    network = _Building().policy(module)
    return network.requires_grad_(False).eval()


class _Building:
    def __init__(self) -> None:
        self.left = LAYERS

    def policy(self, module: Module) -> Actor | RecurrentActor:
        meaning = meaning_of(module)
        if meaning.writes:
            return self._recurrent(module, meaning)
        layers, inner = self._chain(meaning.result, module)
        _check_input(inner, module)
        return Actor(layers, *_widths(layers, module))

    def _chain(self, term: Term, module: Module) -> tuple[list[nn.Module], Term]:
        """The layers that a term applies one after the other, and the term that the first of them reads."""
        layers: list[nn.Module] = []  # the last first
        while True:
            match term:
                case Child(name, "forward", (x,)):
                    layers += reversed(self._layers(module.children[name]))
                case Call("torch.linear", (x, Attribute(weight), (Attribute() | None) as bias)):
                    layers.append(_linear(module, weight, bias.name if bias else None))
                case Call(function, (x, *numbers)) if function in ACTIVATIONS:
                    activation, most = ACTIVATIONS[function]
                    if len(numbers) > most or not all(_finite(number) for number in numbers):
                        raise UnknownNetwork(module, f"it calls {function} in a way that is not read")
                    layers.append(activation(*numbers))
                case Call(
                    "torch.div",
                    (Call("torch.sub", (x, Attribute(mean))), Call("torch.add", (Attribute(std), eps))),
                ) if _finite(eps):
                    layers.append(_normalizer(module, mean, std, eps))
                case Call("torch.cat", ((newest, velocity, latent), 1)):
                    layers.append(self._encoded(module, newest, velocity, latent))
                    x = Input()
                case _:
                    return layers[::-1], term
            self._count(module)
            term = x

    def _layers(self, module: Module) -> list[nn.Module]:
        """The layers of a module that is a chain."""
        self._count(module)
        meaning = meaning_of(module)
        if meaning.writes:
            raise UnknownNetwork(module, "it has a memory, and is not the outermost module")
        layers, inner = self._chain(meaning.result, module)
        _check_input(inner, module)
        return layers

    def _count(self, module: Module) -> None:
        self.left -= 1
        if self.left < 0:
            raise UnknownNetwork(module, f"the policy has more than {LAYERS} layers and modules")

    def _recurrent(self, module: Module, meaning: Meaning) -> RecurrentActor:
        after, inner = self._chain(meaning.result, module)
        match inner:
            case Call(
                "torch.squeeze",
                (Item(Child(name, "forward__0", (Call("torch.unsqueeze", (x, 0)), past)) as step, 0), 0),
            ):
                pass
            case _:
                raise UnknownNetwork(module, "its memory is not that of an LSTM or GRU")
        before, first = self._chain(x, module)
        _check_input(first, module)
        rnn = _rnn(module.children[name])
        match past, rnn.kind:
            case (Attribute(hidden), Attribute(cell)), "lstm" if hidden != cell:
                kept = {hidden: [1, 0], cell: [1, 1]}
            case Attribute(hidden), "gru":
                kept = {hidden: [1]}
            case _:
                raise UnknownNetwork(module, f"its {rnn.kind} does not begin with the memory that it left")
        for tensor, indices in kept.items():
            left = meaning.writes.get(tensor)
            for index in reversed(indices):
                left = left.of if isinstance(left, Item) and left.index == index else None
            if left is not step or len(kept) != len(meaning.writes):
                raise UnknownNetwork(module, f"it keeps in {tensor[:60]} another memory than that of its {rnn.kind}")
        return RecurrentActor(before, rnn, after, *_widths([*before, rnn, *after], module))

    def _encoded(self, module: Module, newest: Term, velocity: Term, latent: Term) -> Encoded:
        unknown = UnknownNetwork(
            module, "its actor reads something else than HIMLoco's: newest frame, velocity, latent"
        )
        match velocity, latent:
            case (
                Call("torch.slice", (parts, -1, None, int(speeds))),
                Call("torch.div", (
                    Call("torch.slice", (same, -1, int(begin))) as z,
                    Call("torch.expand_as", (
                        Call("torch.clamp_min", (Call("torch.norm", (z1, 2.0, (-1,), True)), float(eps))), z2)),
                )),
            ) if same is parts and z1 is z and z2 is z and begin == speeds:  # fmt: skip
                pass
            case _:
                raise unknown
        count = None
        if isinstance(parts, Call) and parts.function == "torch.slice" and parts.arguments[1:3] == (1, 0):
            parts, _, _, count = parts.arguments
        match parts:
            case Child(name, "forward", (history,)):
                encoder = self._layers(module.children[name])
            case _:
                raise unknown
        width, outputs = _widths(encoder, module.children[name])
        match newest, history:
            case Call("torch.slice", (Input(), 1, 0, int(end))), Input():  # frames from the newest on
                ranges = range(end), range(width)
            case (
                Call("torch.select", (Call("torch.view", (Input(), (1, int(frames), int(size)))) as view, 1, -1)),
                Call("torch.reshape", (Call("torch.slice", (same, 1, int(skipped))), (1, -1))),
            ) if same is view:  # up to the newest; the encoder leaves out the oldest
                ranges = range((frames - 1) * size, frames * size), range(skipped * size, frames * size)
            case _:
                raise unknown
        first, last = ranges
        inside = 0 <= first.start < first.stop <= last.stop and last.start >= 0 and last.stop - last.start == width
        if not inside or not 0 < speeds < outputs or count not in (None, outputs):
            raise FileError(
                module.where,
                f"has an encoder of {width} inputs and {outputs} outputs, which does not fit to its input and actor",
            )
        return Encoded(nn.Sequential(*encoder), *ranges, speeds, eps)


def _finite(number: object) -> bool:
    return isinstance(number, int | float) and -FLOAT32_MAX < number < FLOAT32_MAX


def _check_input(inner: Term, module: Module) -> None:
    if inner == Input():
        return
    shown = getattr(inner, "function", None) or getattr(inner, "method", None) or type(inner).__name__
    raise UnknownNetwork(module, f"its forward has a step that is not read, {shown[:60]}")


def _widths(layers: Sequence[nn.Module], module: Module) -> tuple[int, int]:
    """Columns that a chain reads and gives."""
    widths: list[tuple[int, int]] = []
    for layer in layers:
        match layer:
            case nn.Linear():
                widths.append((layer.in_features, layer.out_features))
            case Normalizer():
                widths.append((layer.mean.shape[1], layer.mean.shape[1]))
            case Recurrent():
                widths.append((layer.width, layer.size))
            case Encoded():
                encoded = _widths(list(layer.encoder), module)[1]
                widths.append((max(layer.history.stop, layer.newest.stop), len(layer.newest) + encoded))
    if not widths:
        raise UnknownNetwork(module, "it has no weights")
    for (_, given), (taken, _) in pairwise(widths):
        if given != taken:
            raise FileError(module.where, f"has a layer of {taken} inputs after one of {given} outputs")
    return widths[0][0], widths[-1][1]


def _weights(module: Module, name: str, shape: tuple[int | None, ...]) -> Tensor:
    """A tensor of a module, of float32 and of this shape, where None is any length but 0."""
    return _checked(module, name, module.attributes.get(name), shape)


def _checked(module: Module, name: str, value: object, shape: tuple[int | None, ...]) -> Tensor:
    if not isinstance(value, Tensor):
        raise FileError(module.where, f"has no tensor {name[:60]}")
    if value.dtype != torch.float32:
        raise FileError(
            module.where, f"has {name[:60]} in {value.dtype}; weights of torch.float32 are read, since others are "
            "rounded differently: save the policy after policy.float()"
        )  # fmt: skip
    found = tuple(value.shape)
    if len(found) != len(shape) or not all(
        length and wanted in (None, length) for length, wanted in zip(found, shape, strict=True)
    ):
        wanted = ["any" if length is None else length for length in shape]
        raise FileError(module.where, f"has {name[:60]} of shape {list(found)}; expected {wanted}")
    if not value.isfinite().all():
        raise FileError(module.where, f"has numbers in {name[:60]} that are not finite: its training diverged")
    return value


def _linear(module: Module, weight: str, bias: str | None) -> nn.Linear:
    rows = _weights(module, weight, (None, None))
    layer = nn.utils.skip_init(nn.Linear, rows.shape[1], rows.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(rows)
        if bias is not None:
            layer.bias.copy_(_weights(module, bias, (len(rows),)))
    return layer


def _normalizer(module: Module, mean: str, std: str, eps: float) -> Normalizer:
    value = module.attributes.get(mean)
    one = (1,) if isinstance(value, Tensor) and value.ndim == 2 else ()
    middle = _weights(module, mean, (*one, None))
    width = middle.shape[-1]
    layer = Normalizer(width, eps)
    layer.mean.copy_(middle.reshape(1, width))
    layer.std.copy_(_weights(module, std, (*one, width)).reshape(1, width))
    return layer


def _rnn(module: Module) -> Recurrent:
    """The LSTM or GRU of a module whose code is torch's own."""
    weights = module.attributes.get("_flat_weights")
    if not isinstance(weights, tuple) or len(weights) < 4 or len(weights) % 4:
        raise UnknownNetwork(module, "it has no weights of an LSTM or GRU")
    layers = len(weights) // 4
    width = _checked(module, "weight_ih_l0", weights[0], (None, None)).shape[1]
    size = _checked(module, "weight_hh_l0", weights[1], (None, None)).shape[1]
    digest = hashlib.sha256(recurrent_code(module.code, layers, width, size).encode()).hexdigest()
    kind = next((kind for kind, known in RECURRENT.items() if known == digest), None)
    if kind is None:
        raise UnknownNetwork(
            module, "its code is not that of torch's nn.LSTM or nn.GRU, of one direction and without dropout"
        )
    rnn = Recurrent(kind, width, size, layers)
    named = [f"{name}_l{layer}" for layer in range(layers) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    for name, value in zip(named, weights, strict=True):
        target = getattr(rnn, name)
        target.copy_(_checked(module, name, value, tuple(target.shape)))
    return rnn


def recurrent_code(code: str, layers: int, width: int, size: int) -> str:
    """The methods of a class ``nn.LSTM`` or ``nn.GRU``, with letters for its sizes and names numbered from 0."""
    methods = MANGLED.sub("", code[max(code.find("\n  def "), 0) :])
    for text in ("[{L}, max_batch_size, {H}]", "[{L}, annotate(int, max_batch_size), {H}]", "({L}, mini_batch, {H})",
                 "_flat_weights, True, {L}, 0., training", "torch.ne({I}, torch.size(input, -1))",
                 ", {I}, torch.size(input, -1))"):  # fmt: skip
        methods = methods.replace(text.format(L=layers, I=width, H=size), text)
    numbers: dict[str, str] = {}
    methods = re.sub(r"\b_\d+\b", lambda found: numbers.setdefault(found[0], f"_{len(numbers)}"), methods)
    return " ".join(methods.split())
