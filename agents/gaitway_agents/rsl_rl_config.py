"""The settings of rsl_rl's runner, algorithm and models, by rsl_rl's names. Needs neither torch nor rsl_rl."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ACTIVATIONS = (
    "elu", "selu", "relu", "crelu", "lrelu", "tanh", "sigmoid", "softplus", "gelu", "swish", "mish", "identity",
)  # fmt: skip
OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop")


@dataclass(frozen=True, kw_only=True)
class RslRlModelConfig:
    """``rsl_rl.models.MLPModel`` without a distribution: the critic."""

    hidden_dims: tuple[int, ...] = (128, 128, 128)
    activation: str = "elu"
    obs_normalization: bool = False

    def __post_init__(self) -> None:
        if not self.hidden_dims or min(self.hidden_dims) < 1:
            raise ValueError(f"hidden_dims {self.hidden_dims}: give at least one layer, each of at least one unit")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r}: use one of {', '.join(ACTIVATIONS)}")


@dataclass(frozen=True, kw_only=True)
class RslRlActorConfig(RslRlModelConfig):
    """``rsl_rl.models.MLPModel`` with a ``GaussianDistribution``."""

    init_std: float = 1.0
    std_type: str = "scalar"
    """"scalar" learns the standard deviation, "log" its logarithm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.init_std > 0.0:
            raise ValueError(f"init_std {self.init_std}: must be positive")
        if self.std_type not in ("scalar", "log"):
            raise ValueError(f"std_type {self.std_type!r}: use 'scalar' or 'log'")


@dataclass(frozen=True, kw_only=True)
class RslRlAlgorithmConfig:
    """Arguments of ``rsl_rl.algorithms.PPO``."""

    num_learning_epochs: int = 5
    num_mini_batches: int = 4
    clip_param: float = 0.2
    gamma: float = 0.99
    lam: float = 0.95
    value_loss_coef: float = 1.0
    entropy_coef: float = 0.005
    learning_rate: float = 1e-3
    max_grad_norm: float = 1.0
    optimizer: str = "adam"
    use_clipped_value_loss: bool = True
    schedule: str = "adaptive"
    """"adaptive" steers the learning rate to ``desired_kl``; "fixed" keeps it."""
    desired_kl: float = 0.01
    normalize_advantage_per_mini_batch: bool = False
    use_mixed_precision: bool = False

    def __post_init__(self) -> None:
        for name in ("num_learning_epochs", "num_mini_batches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least 1")
        for name in ("gamma", "lam"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} {getattr(self, name)}: must lie in [0, 1]")
        for name in ("clip_param", "learning_rate", "max_grad_norm", "desired_kl"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} {getattr(self, name)}: must be positive")
        for name in ("value_loss_coef", "entropy_coef"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} {getattr(self, name)}: must not be negative")
        if self.schedule not in ("adaptive", "fixed"):
            raise ValueError(f"schedule {self.schedule!r}: use 'adaptive' or 'fixed'")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer {self.optimizer!r}: use one of {', '.join(OPTIMIZERS)}")


@dataclass(frozen=True, kw_only=True)
class RslRlConfig:
    """rsl_rl's ``OnPolicyRunner`` with PPO. Defaults are Isaac Lab's for its flat ANYmal-C task."""

    num_steps_per_env: int = 24
    """Environment steps per iteration."""
    init_at_random_ep_len: bool = True
    """Start episodes at random ages, so that time-outs do not come all at once."""
    actor_groups: tuple[str, ...] = ("policy",)
    """Observations that the actor reads, one after the other."""
    critic_groups: tuple[str, ...] | None = None
    """Observations that the critic reads; None takes "critic" where there is one, else what the actor reads."""
    algorithm: RslRlAlgorithmConfig = field(default_factory=RslRlAlgorithmConfig)
    actor: RslRlActorConfig = field(default_factory=RslRlActorConfig)
    critic: RslRlModelConfig = field(default_factory=RslRlModelConfig)

    def __post_init__(self) -> None:
        if self.num_steps_per_env < 1:
            raise ValueError(f"num_steps_per_env {self.num_steps_per_env}: must be at least 1")
        for name in ("actor_groups", "critic_groups"):
            if getattr(self, name) == ():
                raise ValueError(f"{name} (): name at least one observation, such as ('policy',)")

    def check_rows(self, num_envs: int) -> None:
        """Refuse a rollout of ``num_envs`` environments that leaves a minibatch with less than two rows.

        rsl_rl divides advantages by their standard deviation, and would go on with a loss that is no number.
        """
        rows, minibatches = self.num_steps_per_env * num_envs, self.algorithm.num_mini_batches
        if rows < 2 * minibatches:
            raise ValueError(
                f"algorithm.num_mini_batches {minibatches}: a rollout of {self.num_steps_per_env} steps in {num_envs} "
                f"environments has {rows} rows, and two for each minibatch are needed: take fewer minibatches or more "
                "environments"
            )

    def obs_groups(self, available: Sequence[str]) -> dict[str, list[str]]:
        """Which of the ``available`` observations each network reads, as rsl_rl wants it said."""
        default = ("critic",) if "critic" in available else self.actor_groups
        groups = {"actor": list(self.actor_groups), "critic": list(self.critic_groups or default)}
        for network, names in groups.items():
            if missing := [name for name in names if name not in available]:
                raise ValueError(
                    f"{network}_groups {tuple(names)}: the environment has no observation {missing[0]!r}; "
                    f"it has {', '.join(available)}"
                )
        return groups

    def train_cfg(self, obs_groups: Mapping[str, list[str]]) -> dict[str, Any]:
        """The configuration that ``rsl_rl.runners.OnPolicyRunner`` takes; a new one each time, as it writes to it."""
        actor = dataclasses.asdict(self.actor)
        distribution = {name: actor.pop(name) for name in ("init_std", "std_type")}
        return {
            "num_steps_per_env": self.num_steps_per_env,
            "save_interval": 50,
            "obs_groups": {network: list(names) for network, names in obs_groups.items()},
            "algorithm": {"class_name": "PPO", **dataclasses.asdict(self.algorithm)},
            "actor": {
                "class_name": "MLPModel",
                **actor,
                "distribution_cfg": {"class_name": "GaussianDistribution", **distribution},
            },
            "critic": {"class_name": "MLPModel", **dataclasses.asdict(self.critic)},
        }
