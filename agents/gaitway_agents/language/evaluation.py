"""Evaluation of a whole batch, in forward passes as small as the optimiser's."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.batch import Batch
from ..core.optimizer import OptimizerConfig
from ..core.policy import Evaluation, Policy, computing, idle_passes


@torch.no_grad()
def evaluate(policy: Policy, batch: Batch, config: OptimizerConfig) -> Evaluation:
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
            new = policy.evaluate(batch[part])
        for name in ("log_probs", "entropy", "values"):
            value = getattr(new, name)
            if value is not None:
                found.setdefault(name, value.new_zeros(len(batch), *value.shape[1:]))[rows[part]] = value
    for row in idle:
        with computing(device, config.precision):
            policy.evaluate(row)
    return Evaluation(log_probs=found["log_probs"], entropy=found["entropy"], values=found.get("values"))


def _parts(policy: Policy, batch: Batch, size: int) -> Sequence[Tensor | slice]:
    if (own := policy.chunks(batch, size)) is not None:
        return own
    return [slice(start, start + size) for start in range(0, len(batch), size)]
