"""Linear layers that are fast on every CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

MIN_ROWS = 256
MIN_SIZE = 256 * 96 * 96
"""Rows, and rows x inputs x outputs, below which the call costs more than it saves."""


def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


ONEDNN = _has_onednn()
MKL = torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"
"""True where MKL multiplies float32 at the core's full speed: it has no AVX-512 for AMD, but AVX2 for every maker."""


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias`` for matrices on a CPU, without a gradient: float32 by oneDNN where that pays."""
    if MKL or x.dtype != torch.float32 or x.numel() * len(weight) < MIN_SIZE:
        return nn.functional.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def weight_gradient(grad: Tensor, x: Tensor, total: Tensor | None = None) -> Tensor:
    """``total + grad.T @ x``: the gradient of a weight from that of the outputs (B, O) and the inputs (B, I).

    ``total`` is the sum so far, which is changed.
    """
    if total is None:
        # Both libraries are quickest with the longer side of the result as its columns.
        return product(grad.t(), x.t()) if x.shape[1] >= grad.shape[1] else product(x.t(), grad.t()).t()
    return total.addmm_(grad.t(), x) if MKL else total.add_(weight_gradient(grad, x))


def is_traced() -> bool:
    """True in a forward pass that is compiled or exported: plain operations are wanted then."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def is_quick(x: Tensor) -> bool:
    """True if ``x`` is a batch large enough for the products of this module, in an ordinary forward pass on a CPU."""
    return not is_traced() and ONEDNN and x.dim() == 2 and len(x) >= MIN_ROWS and x.device.type == "cpu"


class _OneDnnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        # Gradients are recorded in here only when they will be differentiated again, which oneDNN's products cannot.
        again = torch.is_grad_enabled()
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = grad @ weight if again else product(grad, weight.t())
        return grad_x, grad.t() @ x if again else weight_gradient(grad, x), grad.sum(0)


class Linear(nn.Linear):
    """``nn.Linear`` whose float32 products on a CPU go through oneDNN.

    Torch sends them to MKL, which on AMD's CPUs with AVX-512 reaches less than half of what oneDNN does. bfloat16 goes
    through oneDNN anyway, and small batches, exported graphs and other devices keep the ordinary operator.
    """

    def forward(self, x: Tensor) -> Tensor:
        quick = (
            is_quick(x)
            and x.numel() * self.out_features >= MIN_SIZE
            and x.dtype == torch.float32
            and not torch.is_autocast_enabled("cpu")
        )
        return _OneDnnLinear.apply(x, self.weight, self.bias) if quick else super().forward(x)
