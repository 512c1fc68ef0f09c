"""The networks of the off-policy agents: action values, twin critics and a squashed Gaussian actor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from torch import Tensor, nn

from ..models.encoders import Encoder
from ..models.heads import ACTION_MASK
from ..models.mlp import ACTIVATIONS, MLP
from ..trainer import Observation
from .config import NetworkConfig

LOG_2, LOG_2PI = math.log(2.0), math.log(2.0 * math.pi)


def network(dim: int, hidden: Sequence[int], outputs: int, config: NetworkConfig) -> MLP:
    """``hidden`` layers, each with its activation and, if asked for, normalised before it; then the outputs."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers.append(nn.Linear(dim, size))
        if config.layer_norm:
            layers.append(nn.LayerNorm(size))
        layers.append(ACTIVATIONS[config.activation]())
        dim = size
    return MLP(*layers, nn.Linear(dim, outputs)) if outputs else MLP(*layers)


def actor_keys(space: spaces.Dict) -> list[str]:
    """The observations that a policy sees: "policy", or all there are in an environment that names them otherwise."""
    return (
        ["policy"] if "policy" in space.spaces else [key for key in space.spaces if key not in (ACTION_MASK, "critic")]
    )


def critic_keys(space: spaces.Dict) -> list[str]:
    return ["critic"] if "critic" in space.spaces else actor_keys(space)


class QNetwork(nn.Module):
    """Values of all discrete actions, (B, A); duelling (Wang et al. 2016) parts them into state value and advantages.

    The two streams of a duelling network part before the last hidden layer.
    """

    def __init__(self, space: spaces.Dict, actions: int, config: NetworkConfig, *, dueling: bool):
        super().__init__()
        self.encoder = Encoder(space, actor_keys(space), normalize=config.normalize_observations)
        self.plain = None if dueling else network(self.encoder.dim, config.hidden, actions, config)
        if not dueling:
            return
        self.trunk = network(self.encoder.dim, config.hidden[:-1], 0, config)
        dim = config.hidden[-2] if len(config.hidden) > 1 else self.encoder.dim
        self.state = network(dim, config.hidden[-1:], 1, config)
        self.advantages = network(dim, config.hidden[-1:], actions, config)

    def forward(self, observations: Observation) -> Tensor:
        features = self.encoder(observations)
        if self.plain is not None:
            return self.plain(features)
        features = self.trunk(features)
        advantages = self.advantages(features)
        return self.state(features) + advantages - advantages.mean(1, keepdim=True)


class TwinCritic(nn.Module):
    """Two independent values (B,) of an action (B, A) in [-1, 1], on one encoding of the observations."""

    def __init__(self, space: spaces.Dict, action_dim: int, config: NetworkConfig):
        super().__init__()
        self.encoder = Encoder(space, critic_keys(space), normalize=config.normalize_observations)
        dim = self.encoder.dim + action_dim
        self.first, self.second = (network(dim, config.hidden, 1, config) for _ in range(2))

    def forward(self, observations: Observation, actions: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.cat((self.encoder(observations), actions), 1)
        return _full(self.first(x))[:, 0], _full(self.second(x))[:, 0]


class SquashedGaussian(nn.Module):
    """A normal distribution pressed into [-1, 1] by tanh, with a standard deviation for every state."""

    def __init__(
        self,
        space: spaces.Dict,
        action_dim: int,
        config: NetworkConfig,
        log_std_range: tuple[float, float],
        smooth: bool = False,
    ):
        super().__init__()
        self.encoder = Encoder(space, actor_keys(space), normalize=config.normalize_observations)
        self.outputs = network(self.encoder.dim, config.hidden, 2 * action_dim, config)
        self.log_std_range, self.smooth = log_std_range, smooth

    def forward(self, observations: Observation) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the standard deviation before squashing, (B, A) each."""
        mean, log_std = _full(self.outputs(self.encoder(observations))).chunk(2, 1)
        low, high = self.log_std_range
        if self.smooth:
            return mean, low + 0.5 * (high - low) * (log_std.tanh() + 1.0)
        return mean, log_std.clamp(low, high)

    def sample(self, observations: Observation, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions (B, A) made of standard normal ``noise`` (B, A), and their log-density (B,)."""
        mean, log_std = self(observations)
        raw = mean + log_std.exp() * noise
        # log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2 x)), which is exact where tanh(x) rounds to 1
        squashing = 2.0 * (LOG_2 - raw - nn.functional.softplus(-2.0 * raw))
        log_prob = (-0.5 * noise.square() - log_std - 0.5 * LOG_2PI - squashing).sum(1)
        return raw.tanh(), log_prob


class SquashedMean(nn.Module):
    """The deterministic actor of a :class:`SquashedGaussian`: observation ``policy`` (N, D) to action (N, A)."""

    def __init__(self, policy: SquashedGaussian, centre: Tensor, half_width: Tensor):
        super().__init__()
        if policy.encoder.keys != ["policy"]:
            raise UserError("only a policy from the observation 'policy' to continuous actions can be exported")
        self.encoder, self.outputs = policy.encoder.parts["policy"], policy.outputs
        self.register_buffer("centre", centre.flatten())
        self.register_buffer("half_width", half_width.flatten())

    def forward(self, observation: Tensor) -> Tensor:
        mean = self.outputs(self.encoder(observation))[:, : len(self.get_buffer("centre"))]
        return self.get_buffer("centre") + self.get_buffer("half_width") * mean.tanh()


def _full(x: Tensor) -> Tensor:
    """Outputs of a network that may have computed in bfloat16, in the type of its losses."""
    return x.float() if x.dtype == torch.bfloat16 else x
