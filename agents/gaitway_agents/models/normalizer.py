"""Running normalisation of observations, kept inside the model so that it travels with it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..core import distributed


class RunningNormalizer(nn.Module):
    """(x - mean) / (std + eps), clipped to +-``clip``, with the mean and variance of everything seen by :meth:`update`.

    Statistics change only in ``update``, so a policy is one function from the first to the last step of a rollout.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, dim: int, eps: float = 1e-2, clip: float | None = None):
        super().__init__()
        self.eps, self.clip = eps, clip
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @property
    def scale(self) -> Tensor:
        """Divisors of deviations from the mean, (dim,)."""
        return self.var.sqrt() + self.eps

    def forward(self, x: Tensor) -> Tensor:
        y = (x - self.mean) / self.scale
        return y if self.clip is None else y.clamp(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Merge the statistics of ``x`` (B, dim), of all processes, into the running ones (Chan et al.'s update)."""
        if len(x) == 0 and distributed.size() == 1:
            return
        n, batch_mean, batch_var = distributed.moments(x)
        total = self.count + n
        delta = batch_mean - self.mean
        share = (n / total).to(x.dtype)
        self.mean += delta * share
        self.var += (batch_var - self.var) * share + delta.square() * share * (1.0 - share)
        self.count.copy_(total)


class RewardScaler(nn.Module):
    """Divides rewards by the running standard deviation of the discounted return, clipped to +-``clip``.

    Baselines' reward scaling (Engstrom et al. 2020, "Implementation matters"). Statistics change once per rollout.
    """

    returns: Tensor

    def __init__(self, num_envs: int, gamma: float, clip: float = 10.0, eps: float = 1e-8):
        super().__init__()
        self.gamma, self.clip, self.eps = gamma, clip, eps
        self.register_buffer("returns", torch.zeros(num_envs))
        self.statistics = RunningNormalizer(1)

    def forward(self, rewards: Tensor, done: Tensor, valid: Tensor) -> Tensor:
        """Scaled rewards (T, N) of a rollout, of which those that are ``valid`` count; ``done`` ends a return."""
        seen = torch.empty_like(rewards)
        for t, reward in enumerate(rewards):
            seen[t] = torch.where(valid[t], self.returns * self.gamma + reward, self.returns)
            self.returns = seen[t] * ~done[t]
        self.statistics.update(seen[valid][:, None])
        return (rewards / (self.statistics.var + self.eps).sqrt()).clamp(-self.clip, self.clip)
