"""Action heads: distributions of actions from a policy network's outputs.

A head turns outputs into the parameters of a distribution, a tuple of tensors that a rollout can store, and computes
with such tuples. So the collector and the core need not know what kind of action they handle.
"""

from __future__ import annotations

import math

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from torch import Tensor, nn

from ..core.objective import categorical_kl, gaussian_kl

LOG_2PI = math.log(2.0 * math.pi)
ACTION_MASK = "action_mask"
"""The observation that says which discrete actions are possible."""
FORBIDDEN = -1e9
"""Logit of an impossible action: its probability is exactly 0, and products with it stay finite."""

Parameters = tuple[Tensor, ...]
Observations = dict[str, Tensor]


class Gaussian(nn.Module):
    """Independent normal distributions with a standard deviation that does not depend on the state.

    Parameters are mean and standard deviation, (..., A). ``log_std`` learns the logarithm of the latter.
    """

    def __init__(self, space: spaces.Box, init_std: float, min_std: float, log_std: bool):
        super().__init__()
        self.shape, self.num_outputs, self.min_std = space.shape, spaces.flatdim(space), min_std
        self.raw_std = nn.Parameter(torch.full((self.num_outputs,), math.log(init_std) if log_std else init_std))
        self.log_std = log_std

    @property
    def free_std(self) -> Tensor:
        """The deviations before their limit."""
        return self.raw_std.exp() if self.log_std else self.raw_std

    @property
    def std(self) -> Tensor:
        return self.free_std.clamp(min=self.min_std)

    def forward(self, outputs: Tensor, observations: Observations) -> Parameters:
        mean = outputs.to(self.raw_std.dtype)
        return mean, self.std.expand_as(mean)

    def sample(self, parameters: Parameters, generator: torch.Generator) -> Tensor:
        mean, std = parameters
        return mean + std * torch.randn(mean.shape, generator=generator, device=mean.device)

    def mode(self, parameters: Parameters) -> Tensor:
        return parameters[0]

    def log_prob(self, parameters: Parameters, actions: Tensor) -> Tensor:
        mean, std = parameters
        return gaussian_log_prob(mean, std, actions)

    def entropy(self, parameters: Parameters) -> Tensor:
        mean, _ = parameters  # the same in every state, so it is computed once
        return (0.5 + 0.5 * LOG_2PI + self.std.log()).sum().expand(mean.shape[:-1])

    def kl(self, old: Parameters, new: Parameters) -> Tensor:
        return gaussian_kl(*old, *new)

    def to_env(self, actions: Tensor) -> Tensor:
        """Actions (N, A) in the shape of the action space."""
        return actions.reshape(len(actions), *self.shape)

    def spread(self) -> dict[str, float]:
        return {"std": float(self.std.detach().mean())}


class Categorical(nn.Module):
    """One choice (Discrete) or several independent ones (MultiDiscrete), with impossible actions masked out.

    The only parameter is the log-probability of every choice, (..., K). ``unimix`` mixes in that much of the uniform
    distribution over the possible actions (DreamerV3, Hafner et al. 2023), so that no probability vanishes.
    """

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete, unimix: float):
        super().__init__()
        self.single = isinstance(space, spaces.Discrete)
        self.sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else [int(n) for n in space.nvec.flatten()]
        self.shape, self.start = space.shape or (), torch.as_tensor(space.start)
        self.num_outputs, self.unimix = sum(self.sizes), unimix

    def forward(self, outputs: Tensor, observations: Observations) -> Parameters:
        logits = outputs if outputs.dtype == torch.float64 else outputs.float()
        mask = observations.get(ACTION_MASK)
        if mask is not None:
            logits = logits.masked_fill(~mask.bool(), FORBIDDEN)
        parts = [part.log_softmax(-1) for part in self._split(logits)]
        if self.unimix:
            allowed = self._split(torch.ones_like(logits) if mask is None else mask.to(logits.dtype))
            parts = [
                torch.logaddexp(part + math.log1p(-self.unimix), (self.unimix * a / a.sum(-1, keepdim=True)).log())
                .masked_fill(a == 0.0, FORBIDDEN)
                for part, a in zip(parts, allowed, strict=True)
            ]  # fmt: skip
        return (parts[0] if self.single else torch.cat(parts, -1),)

    def sample(self, parameters: Parameters, generator: torch.Generator) -> Tensor:
        probabilities = parameters[0].exp()
        # The largest p / Exp(1) is distributed as p: one pass over all choices, quicker than multinomial.
        race = probabilities / torch.empty_like(probabilities).exponential_(generator=generator)
        return self._arg_max(race)

    def mode(self, parameters: Parameters) -> Tensor:
        return self._arg_max(parameters[0])

    def log_prob(self, parameters: Parameters, actions: Tensor) -> Tensor:
        if self.single:
            return parameters[0].gather(-1, actions[..., None])[..., 0]
        parts = self._split(parameters[0])
        picked = [part.gather(-1, actions[..., i : i + 1]) for i, part in enumerate(parts)]
        return torch.cat(picked, -1).sum(-1)

    def entropy(self, parameters: Parameters) -> Tensor:
        return -(parameters[0].exp() * parameters[0]).sum(-1)

    def kl(self, old: Parameters, new: Parameters) -> Tensor:
        return categorical_kl(old[0], new[0])

    def to_env(self, actions: Tensor) -> Tensor:
        """Actions (N,) or (N, k) in the shape and the numbering of the action space."""
        return actions.reshape(len(actions), *self.shape) + self.start.to(actions.device)

    def spread(self) -> dict[str, float]:
        return {}

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        return (x,) if self.single else x.split(self.sizes, -1)

    def _arg_max(self, x: Tensor) -> Tensor:
        if self.single:
            return x.argmax(-1)
        return torch.stack([part.argmax(-1) for part in self._split(x)], -1)


Head = Gaussian | Categorical


def make_head(space: spaces.Space, *, init_std: float, min_std: float, log_std: bool, unimix: float) -> Head:
    """The head for an action space; refuses spaces that policies cannot act in."""
    if isinstance(space, spaces.Box):
        return Gaussian(space, init_std, min_std, log_std)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return Categorical(space, unimix)
    raise UserError(f"action space {space}: use Box, Discrete or MultiDiscrete")


def gaussian_log_prob(mean: Tensor, std: Tensor, actions: Tensor) -> Tensor:
    """Log-density of ``actions`` under a diagonal Gaussian, summed over the last dimension."""
    return (-0.5 * ((actions - mean) / std).square() - std.log() - 0.5 * LOG_2PI).sum(-1)
