"""Log-probabilities of tokens on CPUs: logits exist once, in the type of the products, and become what a step needs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

BLOCK = 2**22
"""Logits that are in float32 at a time: 16 MiB, near the processor's cache."""


def token_log_probs(
    states: Tensor, targets: Tensor, weight: Tensor, temperature: float, *, entropy: bool, likeliest: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of targets (M,) after states (M, D), entropies, and 1.0 where targets are the likeliest.

    The latter two have no gradient, and are 0 if not asked for. ``weight`` is that of the output layer, shape (V, D).
    Products are in autocast's type where that is on. M V logits are in memory, and until the backward pass.
    """
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else states.dtype
    with torch.autocast("cpu", enabled=False):
        found: tuple[Tensor, Tensor, Tensor] = _TokenLogProbs.apply(
            states, weight, targets, dtype, temperature, entropy, likeliest, torch.is_grad_enabled()
        )
    return found


class _TokenLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        targets: Tensor,
        dtype: torch.dtype,
        temperature: float,
        entropy: bool,
        likeliest: bool,
        learning: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        inputs = states.to(dtype)
        logits = F.linear(inputs, weight.to(dtype))
        wide = torch.promote_types(dtype, torch.float32)
        found, spread, best = states.new_zeros(3, len(states), dtype=wide)
        rows = max(1, BLOCK // len(weight))
        for start in range(0, len(states), rows):
            part = slice(start, start + rows)
            block = logits[part].to(wide)
            # log p = z / T - log sum exp(z / T)
            said = (block if temperature == 1.0 else block / temperature).log_softmax(-1)
            found[part] = said.gather(1, targets[part, None])[:, 0]
            if likeliest:
                best[part] = found[part] >= said.amax(-1)
            if entropy or learning:
                chances = said.exp()
                if entropy:
                    spread[part] = -torch.linalg.vecdot(chances, said)
                if learning:
                    logits[part] = chances
        if learning:
            ctx.save_for_backward(inputs, weight, targets, logits)
            ctx.dtype, ctx.temperature = states.dtype, temperature
        ctx.mark_non_differentiable(spread, best)
        return found, spread, best

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, targets, chances = ctx.saved_tensors
        # d log p / dz = (1 at the target - p) / T
        scale = (grad / ctx.temperature)[:, None].to(chances.dtype)
        outer = chances.mul_(-scale).scatter_add_(1, targets[:, None], scale)
        own = (outer @ weight.to(outer.dtype)).to(ctx.dtype)
        learnt = (outer.t() @ inputs).to(weight.dtype) if ctx.needs_input_grad[1] else None
        return own, learnt, *[None] * 6
