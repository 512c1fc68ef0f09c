"""Named configurations of the learning core, each with its source."""

from __future__ import annotations

from dataclasses import dataclass, field

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
