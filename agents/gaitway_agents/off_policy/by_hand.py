"""Small networks without autograd, whose bookkeeping costs as much as the arithmetic of a batch of 32."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..models.encoders import Encoder, Vector
from ..trainer import Observation
from .learner import Learner


class ByAutograd:
    """Outputs of any network and the gradients of its parameters."""

    def __init__(self, learner: Learner):
        self.learner = learner

    def __call__(self, observations: Observation) -> Tensor:
        return self.learner.network(observations)

    def backward(self, outputs: Tensor, gradient: Tensor) -> None:
        """Leave the parameters' gradients for that of the ``outputs`` of the last call in the parameters."""
        self.learner.zero_grad()
        outputs.backward(gradient)


class ByHand:
    """The same for one vector, linear layers and rectifiers between them; gradients overwrite ``parameter.grad``."""

    def __init__(self, key: str, layers: list[nn.Linear]):
        self.key = key
        self.weights = [layer.weight.data for layer in layers]
        self.transposed = [weight.t() for weight in self.weights]
        self.biases = [layer.bias.data for layer in layers]
        self.gradients = [(layer.weight.grad, layer.bias.grad) for layer in layers]
        self.inputs: list[Tensor] = []

    def __call__(self, observations: Observation) -> Tensor:
        x = observations[self.key]
        x = x if x.dim() == 2 else x.flatten(1)
        self.inputs = [x]
        last = len(self.weights) - 1
        for i in range(last):
            x = torch.addmm(self.biases[i], x, self.transposed[i]).relu_()
            self.inputs.append(x)
        return torch.addmm(self.biases[last], x, self.transposed[last])

    def backward(self, outputs: Tensor, gradient: Tensor) -> None:
        for i in range(len(self.weights) - 1, -1, -1):
            x = self.inputs[i]
            weight, bias = self.gradients[i]
            torch.mm(gradient.t(), x, out=weight)
            torch.sum(gradient, 0, out=bias)
            if i:
                gradient = torch.ops.aten.threshold_backward(gradient @ self.weights[i], x, 0.0)


def computation(learner: Learner, encoder: Encoder, outputs: nn.Sequential | None) -> ByHand | ByAutograd:
    """``ByHand`` for a network of ``encoder`` and ``outputs`` that it can compute, else ``ByAutograd``."""
    part = next(iter(encoder.parts.values()))
    one_vector = len(encoder.keys) == 1 and isinstance(part, Vector) and isinstance(part.normalizer, nn.Identity)
    if outputs is None or not one_vector:
        return ByAutograd(learner)
    linear = [layer for layer in outputs if isinstance(layer, nn.Linear)]
    between = [layer for layer in outputs if not isinstance(layer, nn.Linear)]
    if len(between) != len(linear) - 1 or not all(isinstance(layer, nn.ReLU) for layer in between):
        return ByAutograd(learner)
    return ByHand(encoder.keys[0], linear)
