"""Multi-layer perceptrons and the Gaussian actor-critic made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from ..core.batch import Batch
from ..core.optimizer import Evaluation
from .linear import Linear
from .normalizer import RunningNormalizer

ACTIVATIONS: dict[str, type[nn.Module]] = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}
LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, kw_only=True)
class ActorCriticConfig:
    """Separate actor and critic MLPs with a state-independent action standard deviation."""

    actor_hidden: tuple[int, ...] = (128, 128, 128)
    critic_hidden: tuple[int, ...] = (128, 128, 128)
    activation: str = "elu"
    init_std: float = 1.0
    min_std: float = 1e-3
    actor_output_gain: float | None = None
    """Orthogonal gain of the actor's last layer; None keeps torch's initialisation, as rsl_rl does."""
    normalize_observations: bool = True
    recurrent: str = "none"
    """"gru" puts a memory of ``memory_size`` in front of each network; "none" is feed-forward."""
    memory_size: int = 64

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r}: use one of {', '.join(ACTIVATIONS)}")
        if self.recurrent not in ("none", "gru"):
            raise ValueError(f"recurrent {self.recurrent!r}: use 'none' or 'gru'")
        if self.memory_size < 1:
            raise ValueError(f"memory_size {self.memory_size}: must be at least 1")
        for name in ("actor_hidden", "critic_hidden"):
            if any(size < 1 for size in getattr(self, name)):
                raise ValueError(f"{name} {getattr(self, name)}: layer sizes must be at least 1")
        for name in ("init_std", "min_std"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} {getattr(self, name)}: must be positive")


def mlp(dims: Sequence[int], activation: str) -> nn.Sequential:
    """Linear layers of sizes ``dims`` with ``activation`` between them."""
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(dims)):
        if i:
            layers.append(ACTIVATIONS[activation]())
        layers.append(Linear(a, b))
    return nn.Sequential(*layers)


class ActorCritic(nn.Module):
    """Gaussian policy on the ``policy`` observation and a value function on ``critic``, or ``policy`` without one."""

    def __init__(self, observation_dims: dict[str, int], action_dim: int, config: ActorCriticConfig):
        super().__init__()
        self.critic_group = "critic" if "critic" in observation_dims else "policy"
        actor_dim, critic_dim = observation_dims["policy"], observation_dims[self.critic_group]
        self.config = config
        self.actor = mlp([actor_dim, *config.actor_hidden, action_dim], config.activation)
        self.critic = mlp([critic_dim, *config.critic_hidden, 1], config.activation)
        self.std = nn.Parameter(torch.full((action_dim,), config.init_std))
        if config.actor_output_gain is not None:
            last = self.actor[-1]
            assert isinstance(last, nn.Linear)
            nn.init.orthogonal_(last.weight, config.actor_output_gain)
            nn.init.zeros_(last.bias)
        self.actor_normalizer = make_normalizer(actor_dim, config)
        self.critic_normalizer = make_normalizer(critic_dim, config)

    def initial_memory(self, num_envs: int) -> dict[str, Tensor]:
        """What the policy remembers at the start of an episode: further observations, (N, ...), all zero."""
        return {}

    def act(self, observations: dict[str, Tensor]) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Mean (N, A) and standard deviation (A,) of the action, and what the policy remembers for the next step."""
        return *self.distribution(observations), {}

    def rows(self, x: Tensor) -> Tensor:
        """A rollout's (T, N, ...) as rows of a batch; here every step is one, (T * N, ...)."""
        return x.flatten(0, 1)

    def distribution(self, observations: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Mean (B, A) and standard deviation (A,) of the action."""
        mean = self.actor(self.actor_normalizer(observations["policy"])).to(self.std.dtype)
        return mean, self.action_std()

    def action_std(self) -> Tensor:
        """Standard deviation of the action, (A,)."""
        return self.std.clamp(min=self.config.min_std)

    def value(self, observations: dict[str, Tensor]) -> Tensor:
        """State values, (B,)."""
        return self.critic(self.critic_normalizer(observations[self.critic_group])).to(self.std.dtype).squeeze(-1)

    def evaluate(self, batch: Batch) -> Evaluation:
        mean, std = self.distribution(batch.observations)
        entropy = (0.5 + 0.5 * LOG_2PI + std.log()).sum().expand(len(mean))
        return Evaluation(
            log_probs=gaussian_log_prob(mean, std, batch.actions),
            entropy=entropy,
            values=self.value(batch.observations),
            distribution=(mean, std.expand_as(mean)),
        )

    def update_normalizers(self, observations: dict[str, Tensor]) -> None:
        """Feed observations (B, D) to the running statistics."""
        for normalizer, group in ((self.actor_normalizer, "policy"), (self.critic_normalizer, self.critic_group)):
            if isinstance(normalizer, RunningNormalizer):
                normalizer.update(observations[group])

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Actor and critic are clipped apart, as in rsl_rl: a value explosion leaves the policy's step alone."""
        return [[*self.actor.parameters(), self.std], list(self.critic.parameters())]

    def export_actor(self) -> nn.Module:
        """Policy observation (N, D) to deterministic action (N, A), with the normaliser inside."""
        return nn.Sequential(self.actor_normalizer, self.actor)


def make_normalizer(dim: int, config: ActorCriticConfig) -> nn.Module:
    return RunningNormalizer(dim) if config.normalize_observations else nn.Identity()


def gaussian_log_prob(mean: Tensor, std: Tensor, actions: Tensor) -> Tensor:
    """Log-density of ``actions`` under a diagonal Gaussian, summed over the last dimension."""
    return (-0.5 * ((actions - mean) / std).square() - std.log() - 0.5 * LOG_2PI).sum(-1)
