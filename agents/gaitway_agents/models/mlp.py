"""Multi-layer perceptrons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from .linear import Linear, is_quick, product, weight_gradient

LOG2_E = 1.0 / math.log(2.0)
BLOCK = 1024
"""Rows that pass through a network's layers together, so that what one operation writes the next reads from a cache."""
ACTIVATIONS: dict[str, type[nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}


class MLP(nn.Sequential):
    """A sequence of layers without hooks: calling each layer's ``forward`` alone is quicker in small networks.

    On a CPU a network of ELUs is one operation, whose passes over memory are fewer than those of its layers.
    """

    def forward(self, x: Tensor) -> Tensor:
        layers = list(self)
        one = is_quick(x) and _precision(x) is not None and all(isinstance(layer, nn.ELU) for layer in layers[1::2])
        if one and len(layers) > 1:
            parameters: list[Any] = [p for layer in layers[::2] for p in (layer.weight, layer.bias)]
            if torch.is_grad_enabled():
                return _EluNetwork.apply(x, *parameters)
            return torch.cat([_outputs(block, parameters)[-1] for block in _blocks(x)])
        for layer in layers:
            x = layer.forward(x)
        return x


def _precision(x: Tensor) -> torch.dtype | None:
    """The type that a network computes in; None for those that only ordinary layers know."""
    if torch.is_autocast_enabled("cpu"):
        return torch.bfloat16 if torch.get_autocast_dtype("cpu") == torch.bfloat16 else None
    return torch.float32 if x.dtype == torch.float32 else None


def _blocks(x: Tensor) -> Sequence[Tensor]:
    """Rows that pass through a network together, in the type that it computes in."""
    dtype = _precision(x)
    # Gradients of weights are sums over blocks, for which bfloat16 is too coarse.
    return x.tensor_split(-(-len(x) // BLOCK)) if dtype == torch.float32 else [x.to(dtype)]


def _outputs(x: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Inputs and each layer's outputs, after its ELU, of a block of rows."""
    outputs = [x]
    for i in range(0, len(parameters), 2):
        y = product(outputs[-1], parameters[i].to(x.dtype), parameters[i + 1].to(x.dtype))
        outputs.append(y if i + 2 == len(parameters) else _elu(y))
    return outputs


def _elu(x: Tensor) -> Tensor:
    y = x.float()
    below = y.clamp(max=0.0).mul_(LOG2_E).exp2_().sub_(1.0)  # quicker than torch's expm1, and off by rounding alone
    return torch.maximum(y, below, out=below).to(x.dtype)


class _EluNetwork(torch.autograd.Function):
    """Linear layers, given as weight and bias in turn, with ELUs between them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        blocks = [_outputs(block, parameters) for block in _blocks(x)]
        ctx.layers = len(parameters) // 2
        ctx.save_for_backward(x, *parameters, *(y for block in blocks for y in block[:-1]))
        return torch.cat([block[-1] for block in blocks])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        layers = ctx.layers
        x, *saved = ctx.saved_tensors
        parameters, inputs = saved[: 2 * layers], saved[2 * layers :]
        if torch.is_grad_enabled():  # the gradient will be differentiated again
            return _differentiable(x, parameters, grad, ctx.needs_input_grad)
        totals: list[Any] = [None] * (2 * layers)
        grads_x = []
        for block, rows in enumerate(grad.tensor_split(len(inputs) // layers)):
            grad_x = _gradients(rows, parameters, inputs[layers * block :][:layers], totals, ctx.needs_input_grad[0])
            grads_x.append(grad_x)
        return (
            torch.cat(grads_x).to(x.dtype) if ctx.needs_input_grad[0] else None,
            *(total.to(parameter.dtype) for total, parameter in zip(totals, parameters, strict=True)),
        )


def _gradients(
    grad: Tensor, parameters: Sequence[Tensor], inputs: Sequence[Tensor], totals: list[Any], back_to_x: bool
) -> Tensor:
    """Add the gradients of the parameters to ``totals``, from those of a block's outputs and each layer's inputs;
    return that of the first layer's inputs, or if this is not needed of its outputs."""
    for layer in reversed(range(len(inputs))):
        weight, of = parameters[2 * layer], inputs[layer]
        bias_gradient, total = grad.sum(0), totals[2 * layer + 1]
        totals[2 * layer] = weight_gradient(grad, of, totals[2 * layer])
        totals[2 * layer + 1] = bias_gradient if total is None else total.add_(bias_gradient)
        if layer or back_to_x:
            grad = product(grad, weight.to(grad.dtype).t())
        if layer:
            # From the output of the ELU, which spares the exponential.
            torch.ops.aten.elu_backward.grad_input(grad, 1.0, 1.0, 1.0, True, of, grad_input=grad)
    return grad


def _differentiable(
    x: Tensor, parameters: Sequence[Tensor], grad: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """The gradients of the network, by operations that can be differentiated."""
    y = x
    for i in range(0, len(parameters), 2):
        y = nn.functional.linear(nn.functional.elu(y) if i else y, parameters[i], parameters[i + 1])
    wanted = [tensor for tensor, need in zip((x, *parameters), needed, strict=True) if need]
    found = iter(torch.autograd.grad(y, wanted, grad.to(y.dtype), create_graph=True))
    return tuple(next(found) if need else None for need in needed)


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
