"""Configurations of the off-policy agents and the published ones for known tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..models.mlp import ACTIVATIONS


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Fully connected layers on top of the observations, or of NatureCNN where these are images."""

    hidden: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    layer_norm: bool = False
    """Normalise every hidden layer before its activation."""
    normalize_observations: bool = False
    """Running normalisation of vectors."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation {self.activation!r}: use one of {', '.join(ACTIVATIONS)}")
        if any(size < 1 for size in self.hidden):
            raise ValueError(f"hidden {self.hidden}: layer sizes must be at least 1")


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig:
    """What agents with a replay buffer share. Steps are environment steps, all environments together."""

    learning_rate: float
    learning_rate_final: float | None = None
    """Anneal the learning rate linearly to this over the whole training; None keeps it."""
    buffer_size: int = 1_000_000
    """Transitions that the replay buffer holds."""
    learning_starts: int = 100
    """Steps to gather with random actions before the first update."""
    batch_size: int
    gamma: float = 0.99
    n_step: int = 1
    """Steps over which rewards are summed before the value of what follows is taken."""
    train_frequency: int
    """Steps between updates."""
    gradient_steps: int = 1
    """Updates for every ``train_frequency`` steps; -1 is one for each step."""
    iteration_steps: int
    """Steps of one iteration: how often progress is reported. Learning does not depend on it."""
    checkpoint_replay: bool = True
    """Write the replay buffer into checkpoints. Without it a continued training fills a new one first."""

    def __post_init__(self) -> None:
        at_least_one = ("buffer_size", "batch_size", "n_step", "train_frequency", "iteration_steps")
        for name in at_least_one:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least 1")
        if self.learning_starts < 0:
            raise ValueError(f"learning_starts {self.learning_starts}: must not be negative")
        if self.gradient_steps < 1 and self.gradient_steps != -1:
            raise ValueError(f"gradient_steps {self.gradient_steps}: must be at least 1, or -1 for one for each step")
        if not self.learning_rate > 0.0:
            raise ValueError(f"learning_rate {self.learning_rate}: must be positive")
        if self.learning_rate_final is not None and not self.learning_rate_final >= 0.0:
            raise ValueError(f"learning_rate_final {self.learning_rate_final}: must not be negative")
        if not 0.0 <= self.gamma <= 1.0:
            raise ValueError(f"gamma {self.gamma}: must lie in [0, 1]")


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig):
    """Deep Q-network (Mnih et al. 2015). Defaults are Stable-Baselines3's."""

    learning_rate: float = 1e-4
    batch_size: int = 32
    train_frequency: int = 4
    tau: float = 1.0
    """How far the target network moves towards the network at an update of its own: 1 is all the way."""
    target_update_interval: int = 10_000
    """Steps between updates of the target network."""
    exploration_fraction: float = 0.1
    """Part of the training over which the chance of a random action falls linearly to its final value."""
    exploration_initial: float = 1.0
    exploration_final: float = 0.05
    max_grad_norm: float = 10.0
    double: bool = False
    """Choose the best next action by the network and value it by the target network (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Separate streams for state value and advantages (Wang et al. 2016)."""
    prioritized: bool = False
    """Draw transitions with large errors more often (Schaul et al. 2016)."""
    priority_alpha: float = 0.6
    """Exponent of priorities: 0 draws uniformly."""
    priority_beta: float = 0.4
    """Exponent of the importance weights at the start of the training, from where it grows linearly to 1."""
    iteration_steps: int = 1000
    model: NetworkConfig = field(default_factory=NetworkConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_update_interval < 1:
            raise ValueError(f"target_update_interval {self.target_update_interval}: must be at least 1")
        if not 0.0 < self.tau <= 1.0:
            raise ValueError(f"tau {self.tau}: must lie in (0, 1]")
        if not self.max_grad_norm > 0.0:
            raise ValueError(f"max_grad_norm {self.max_grad_norm}: must be positive")
        unit = ("exploration_fraction", "exploration_initial", "exploration_final", "priority_alpha", "priority_beta")
        for name in unit:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} {getattr(self, name)}: must lie in [0, 1]")
        if self.dueling and not self.model.hidden:
            raise ValueError(
                "dueling needs a hidden layer for its two streams: set model.hidden, for example to (512,)"
            )


@dataclass(frozen=True, kw_only=True)
class SACConfig(OffPolicyConfig):
    """Soft actor-critic with twin critics and automatic temperature (Haarnoja et al. 2018b).

    Defaults are Stable-Baselines3's.
    """

    learning_rate: float = 3e-4
    batch_size: int = 256
    train_frequency: int = 1
    tau: float = 0.005
    """How far the target critics move towards the critics after every update."""
    learn_temperature: bool = True
    initial_temperature: float = 1.0
    target_entropy: float | None = None
    """Entropy that the temperature keeps up; None is minus the number of action dimensions."""
    clipped_double: bool = True
    """Use the smaller of the two critics (Fujimoto et al. 2018); otherwise their mean."""
    policy_frequency: int = 1
    """Updates of the critics for each one of actor and temperature."""
    log_std_range: tuple[float, float] = (-20.0, 2.0)
    """Of the policy's standard deviation before squashing."""
    smooth_log_std: bool = False
    """Press it into the range by tanh instead of clipping, so that its gradient never ends. Needed if 0 is a bound."""
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    iteration_steps: int = 200
    actor: NetworkConfig = field(default_factory=lambda: NetworkConfig(hidden=(256, 256)))
    critic: NetworkConfig = field(default_factory=lambda: NetworkConfig(hidden=(256, 256)))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.tau <= 1.0:
            raise ValueError(f"tau {self.tau}: must lie in (0, 1]")
        if not self.initial_temperature > 0.0:
            raise ValueError(f"initial_temperature {self.initial_temperature}: must be positive")
        if self.policy_frequency < 1:
            raise ValueError(f"policy_frequency {self.policy_frequency}: must be at least 1")
        if not self.log_std_range[0] < self.log_std_range[1]:
            raise ValueError(f"log_std_range {self.log_std_range}: must be (low, high) with low < high")
        if not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise ValueError(f"betas {self.betas}: must lie in [0, 1)")
        if self.weight_decay < 0.0:
            raise ValueError(f"weight_decay {self.weight_decay}: must not be negative")
        if self.max_grad_norm is not None and not self.max_grad_norm > 0.0:
            raise ValueError(f"max_grad_norm {self.max_grad_norm}: must be positive; None does not clip")
