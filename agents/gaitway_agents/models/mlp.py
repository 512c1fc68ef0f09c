"""Multi-layer perceptrons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from .linear import Linear

ACTIVATIONS: dict[str, type[nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}


class MLP(nn.Sequential):
    """A sequence of layers without hooks: calling each layer's ``forward`` alone is quicker in small networks."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in self:
            x = layer.forward(x)
        return x


def mlp(dims: Sequence[int], activation: str, *, output_gain: float | None = None) -> MLP:
    """Linear layers of sizes ``dims`` with ``activation`` between them.

    With ``output_gain`` weights are orthogonal, of gain sqrt(2) before the last layer and ``output_gain`` there, and
    biases zero (Baselines' initialisation); without, torch's own initialisation stays, as in rsl_rl.
    """
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(dims)):
        if i:
            layers.append(ACTIVATIONS[activation]())
        layers.append(Linear(a, b))
    if output_gain is not None:
        linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        for layer in linear:
            nn.init.orthogonal_(layer.weight, output_gain if layer is linear[-1] else 2.0**0.5)
            nn.init.zeros_(layer.bias)
    return MLP(*layers)
