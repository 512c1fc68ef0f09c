"""Evaluation of a whole batch, in forward passes as small as the optimiser's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..core.batch import Batch
from ..core.optimizer import OptimizerConfig
from ..core.policy import Evaluation, computing, idle_passes


@torch.no_grad()
def evaluate(policy: nn.Module, batch: Batch, config: OptimizerConfig) -> Evaluation:
    """Log-probabilities, entropies and values, in the forward passes and the precision that the policy is trained in.

    What it says of a batch that the optimiser does not cut into minibatches is bit by bit what it will say there.
    """
    device = batch.actions.device
    found: dict[str, Tensor] = {}
    rows = torch.arange(len(batch), device=device)
    parts = _parts(policy, batch, config.chunk_size)
    idle = idle_passes(policy, batch, len(parts))
    for part in parts:
        with computing(device, config.precision):
            new: Evaluation = policy.evaluate(batch[part])  # type: ignore[operator]
        for name in ("log_probs", "entropy", "values"):
            value = getattr(new, name)
            if value is not None:
                found.setdefault(name, value.new_zeros(len(batch), *value.shape[1:]))[rows[part]] = value
    for row in idle:
        with computing(device, config.precision):
            policy.evaluate(row)  # type: ignore[operator]
    return Evaluation(log_probs=found["log_probs"], entropy=found["entropy"], values=found.get("values"))


def _parts(policy: Any, batch: Batch, size: int) -> list[Tensor | slice]:
    chunks = getattr(policy, "chunks", None)
    if chunks is not None:
        return list(chunks(batch, size))
    return [slice(start, start + size) for start in range(0, len(batch), size)]
