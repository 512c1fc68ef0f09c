"""Running normalisation of observations, kept inside the model so that it travels with it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningNormalizer(nn.Module):
    """(x - mean) / (std + eps) with the mean and variance of everything seen by :meth:`update`.

    Statistics change only in ``update``, so a policy is one function from the first to the last step of a rollout.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, dim: int, eps: float = 1e-2):
        super().__init__()
        self.eps = eps
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / (self.var.sqrt() + self.eps)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Merge the statistics of ``x`` (B, dim) into the running ones (Chan et al.'s parallel update)."""
        n = len(x)
        total = self.count + n
        batch_mean, batch_var = x.mean(0), x.var(0, unbiased=False)
        delta = batch_mean - self.mean
        share = (n / total).to(x.dtype)
        self.mean += delta * share
        self.var += (batch_var - self.var) * share + delta.square() * share * (1.0 - share)
        self.count.copy_(total)
