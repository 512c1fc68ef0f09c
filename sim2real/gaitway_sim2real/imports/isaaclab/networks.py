"""Actors of runs, rebuilt from their weights for export: the deterministic action, and memory as an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "elu": nn.ELU,
    "selu": nn.SELU,
    "relu": nn.ReLU,
    "crelu": nn.CELU,
    "lrelu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "gelu": nn.GELU,
    "swish": nn.SiLU,
    "mish": nn.Mish,
    "identity": nn.Identity,
}
"""rsl_rl's names, ``crelu`` for CELU included (``rsl_rl.utils.resolve_nn_activation``)."""

NORMALIZER_EPS = 1e-2
"""Added to the standard deviation by ``EmpiricalNormalization`` in every rsl_rl from 3.x to 5.x."""


@dataclass(frozen=True, kw_only=True)
class ActorConfig:
    """The actor of an ``agent.yaml``, in the format of any supported rsl_rl version."""

    hidden_dims: tuple[int, ...]
    activation: str
    normalized: bool
    rnn_type: str | None = None
    """``"lstm"``, ``"gru"``, or None for an actor without memory."""
    rnn_dim: int = 0
    rnn_layers: int = 0
    state_dependent_std: bool = False
    """The last layer also gives the standard deviation, in its second half."""
    normalizer_eps: float = NORMALIZER_EPS
    normalizer_clip: float | None = None
    """Clamp of normalised observations."""
    observation_clip: float | None = None
    """Clamp of observations before they are normalised."""
    action_clip: float | None = None
    """Clamp of the network's output, which ``action_scale`` then multiplies."""
    action_scale: float = 1.0


class Normalizer(nn.Module):
    """(x - mean) / (std + eps), frozen; at most ``clip`` in size if it is given."""

    mean: Tensor
    std: Tensor

    def __init__(self, width: int, eps: float = NORMALIZER_EPS, clip: float | None = None):
        super().__init__()
        self.eps, self.clip = eps, clip
        self.register_buffer("mean", torch.zeros(1, width))
        self.register_buffer("std", torch.ones(1, width))

    def forward(self, x: Tensor) -> Tensor:
        return _clamped((x - self.mean) / (self.std + self.eps), self.clip)


def _clamped(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)


class Recurrent(nn.Module):
    """One step of ``nn.LSTM`` or ``nn.GRU``, whose memory (N, M) is an argument and starts at zero.

    M is layers * size for a GRU and twice that for an LSTM (all hidden states, then all cell states). Written out,
    since the ONNX exporter fixes the batch size of torch's own modules.
    """

    def __init__(self, kind: str, width: int, size: int, layers: int):
        super().__init__()
        self.kind, self.width, self.size, self.layers = kind, width, size, layers
        gates = 4 if kind == "lstm" else 3
        for layer in range(layers):
            inputs = width if layer == 0 else size
            for name, shape in (("weight_ih", (gates * size, inputs)), ("weight_hh", (gates * size, size)),
                                ("bias_ih", (gates * size,)), ("bias_hh", (gates * size,))):  # fmt: skip
                self.register_buffer(f"{name}_l{layer}", torch.zeros(shape))

    @property
    def memory_size(self) -> int:
        return self.layers * self.size * (2 if self.kind == "lstm" else 1)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Output (N, size) and next memory."""
        past = memory.split(self.size, 1)
        hidden, cells = [], []
        for layer in range(self.layers):
            gates_x = functional.linear(x, getattr(self, f"weight_ih_l{layer}"), getattr(self, f"bias_ih_l{layer}"))
            gates_h = functional.linear(
                past[layer], getattr(self, f"weight_hh_l{layer}"), getattr(self, f"bias_hh_l{layer}")
            )
            if self.kind == "lstm":
                i, f, g, o = (gates_x + gates_h).chunk(4, 1)
                cell = torch.sigmoid(f) * past[self.layers + layer] + torch.sigmoid(i) * torch.tanh(g)
                cells.append(cell)
                x = torch.sigmoid(o) * torch.tanh(cell)
            else:
                reset_x, update_x, new_x = gates_x.chunk(3, 1)
                reset_h, update_h, new_h = gates_h.chunk(3, 1)
                update = torch.sigmoid(update_x + update_h)
                new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
                x = (1.0 - update) * new + update * past[layer]
            hidden.append(x)
        return x, torch.cat((*hidden, *cells), 1)


class RunActor(nn.Module):
    """Observation (N, D) -> action (N, A); with a memory, observation and memory (N, M) -> action and next memory."""

    def __init__(self, config: ActorConfig, observation_dim: int, action_dim: int):
        super().__init__()
        self.config, self.action_dim = config, action_dim
        self.normalizer: nn.Module = nn.Identity()
        if config.normalized:
            self.normalizer = Normalizer(observation_dim, config.normalizer_eps, config.normalizer_clip)
        self.rnn = None
        width = observation_dim
        if config.rnn_type is not None:
            self.rnn = Recurrent(config.rnn_type, width, config.rnn_dim, config.rnn_layers)
            self.memory_size, width = self.rnn.memory_size, config.rnn_dim
        layers: list[nn.Module] = []
        for size in config.hidden_dims:
            layers += [nn.Linear(width, size), ACTIVATIONS[config.activation]()]
            width = size
        layers.append(nn.Linear(width, action_dim * (2 if config.state_dependent_std else 1)))
        self.mlp = nn.Sequential(*layers)

    def weights(self) -> dict[str, Tensor]:
        """Every tensor to fill, under rsl_rl 5's names without their prefixes."""
        named = {f"mlp.{name}": value for name, value in self.mlp.state_dict().items()}
        if self.rnn is not None:
            named |= {f"rnn.{name}": value for name, value in self.rnn.state_dict().items()}
        if isinstance(self.normalizer, Normalizer):
            named |= {"normalizer._mean": self.normalizer.mean, "normalizer._std": self.normalizer.std}
        return named

    def fill(self, weights: Mapping[str, Tensor]) -> None:
        """Copy ``weights`` (names and shapes as in :meth:`weights`) into the module."""
        for name, target in self.weights().items():
            target.copy_(weights[name])

    def forward(self, observation: Tensor, memory: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        x = self.normalizer(_clamped(observation, self.config.observation_clip))
        if self.rnn is None:
            return self._action(x)
        x, memory = self.rnn(x, memory)
        return self._action(x), memory

    def _action(self, x: Tensor) -> Tensor:
        action = _clamped(self.mlp(x)[:, : self.action_dim], self.config.action_clip)
        return action if self.config.action_scale == 1.0 else action * self.config.action_scale
