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


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.T + bias`` by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _OneDnnLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        # Gradients are recorded in here only when they will be differentiated again, which oneDNN's products cannot.
        product = nn.functional.linear if torch.is_grad_enabled() else _product
        grad_x = product(grad, weight.t()) if ctx.needs_input_grad[0] else None
        return grad_x, product(grad.t(), x.t()), grad.sum(0)


class Linear(nn.Linear):
    """``nn.Linear`` whose float32 products on a CPU go through oneDNN.

    Torch sends them to MKL, which on AMD's CPUs reaches less than half of what oneDNN does. bfloat16 goes through
    oneDNN anyway, and small batches, exported graphs and other devices keep the ordinary operator.
    """

    def forward(self, x: Tensor) -> Tensor:
        plain = (
            torch.compiler.is_compiling()
            or not ONEDNN
            or x.dim() != 2
            or len(x) < MIN_ROWS
            or x.numel() * self.out_features < MIN_SIZE
            or x.device.type != "cpu"
            or x.dtype != torch.float32
            or torch.is_autocast_enabled("cpu")
        )
        return super().forward(x) if plain else _OneDnnLinear.apply(x, self.weight, self.bias)
