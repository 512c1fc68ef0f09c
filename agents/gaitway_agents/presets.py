"""Named configurations of the learning core, each with its source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from .core.optimizer import OptimizerConfig
from .models.actor_critic import ActorCriticConfig


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """PPO on a vector environment. Defaults are rsl_rl's for Isaac Lab's flat ANYmal-C task."""

    num_steps: int = 24
    """Environment steps per rollout."""
    gamma: float = 0.99
    lam: float = 0.95
    scale_rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""
    recompute_advantages: bool = False
    """Estimate advantages anew before every epoch (Andrychowicz et al. 2021, "What matters in on-policy RL")."""
    random_episode_start: bool = True
    """Start episodes at random ages, so that time-outs do not come all at once."""
    symmetry: str = "none"
    """"none", "canonical" (act in one fundamental domain of the mirror group) or "augment" (learn from images)."""
    learning_rate_final: float | None = None
    """Anneal a constant learning rate linearly to this over the whole training; None keeps it."""
    model: ActorCriticConfig = field(default_factory=ActorCriticConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        if self.symmetry not in ("none", "canonical", "augment"):
            raise ValueError(f"symmetry {self.symmetry!r}: use 'none', 'canonical' or 'augment'")
        if self.learning_rate_final is not None and self.optimizer.schedule == "adaptive":
            raise ValueError("learning_rate_final needs optimizer.schedule 'constant': an adaptive rate steers itself")
        if self.symmetry != "none" and self.model.recurrent != "none":
            raise ValueError(
                f"symmetry {self.symmetry!r} with model.recurrent {self.model.recurrent!r}: use only one of them"
            )
        if self.num_steps < 1:
            raise ValueError(f"num_steps {self.num_steps}: must be at least 1")
        for name in ("gamma", "lam"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} {getattr(self, name)}: must lie in [0, 1]")


def cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 natively; without that, bfloat16 is slower than float32."""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


PPO_CLASSIC = PPOConfig(
    num_steps=128,
    learning_rate_final=0.0,
    random_episode_start=False,
    model=ActorCriticConfig(
        actor_hidden=(64, 64), critic_hidden=(64, 64), activation="tanh", orthogonal=True, normalize_observations=True
    ),
    optimizer=OptimizerConfig(
        epochs=10,
        minibatches=4,
        learning_rate=3e-4,
        schedule="constant",
        clip_value_loss=False,
        value_coefficient=0.5,
        entropy_coefficient=0.0,
        normalize_advantages="minibatch",
        max_grad_norm=0.5,
        clip_groups=False,
        eps=1e-5,
    ),
)
"""Classic control and whatever else has vectors: Stable-Baselines3's defaults, on 8 environments."""

PPO_CARTPOLE = replace(
    PPO_CLASSIC,
    num_steps=32,
    gamma=0.98,
    lam=0.8,
    model=replace(PPO_CLASSIC.model, normalize_observations=False),
    optimizer=replace(PPO_CLASSIC.optimizer, epochs=20, minibatches=1, learning_rate=1e-3),
)
"""rl-baselines3-zoo's settings of CartPole-v1: 8 environments, 100,000 steps."""

PPO_MUJOCO = replace(
    PPO_CLASSIC,
    num_steps=32,
    recompute_advantages=True,
    scale_rewards=True,
    model=replace(PPO_CLASSIC.model, clip_observations=10.0, init_std=0.6065, log_std=True),
    optimizer=replace(PPO_CLASSIC.optimizer, minibatches=32, value_coefficient=0.25),
)
"""Gymnasium's MuJoCo tasks on 64 environments, after Tianshou's benchmark (Weng et al. 2022)."""

PPO_ATARI = PPOConfig(
    num_steps=128,
    learning_rate_final=0.0,
    random_episode_start=False,
    model=ActorCriticConfig(
        actor_hidden=(), critic_hidden=(), share_encoder=True, orthogonal=True, normalize_observations=False
    ),
    optimizer=OptimizerConfig(
        epochs=4,
        minibatches=4,
        learning_rate=2.5e-4,
        schedule="constant",
        clip=0.1,
        clip_value_loss=True,
        value_coefficient=0.5,
        entropy_coefficient=0.01,
        normalize_advantages="minibatch",
        max_grad_norm=0.5,
        clip_groups=False,
        eps=1e-5,
        chunk_size=256,
    ),
)
"""Atari games on 8 environments: the settings of Baselines (Schulman et al. 2017), as in CleanRL's ppo_atari."""
