"""Configurations of the off-policy agents and the published ones for known tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gaitway_files.errors import UserError
from gaitway_files.ranges import (
    Betas,
    Checked,
    LayerSizes,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PositiveShare,
    Range,
    Share,
    one_of,
)

from ..models.mlp import ACTIVATIONS

_ORDERED = Range(lambda pair: pair[0] < pair[1], "must be (low, high) with low < high")


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(Checked):
    """Fully connected layers on top of the observations, or of NatureCNN where these are images."""

    hidden: LayerSizes = (64, 64)
    """Sizes of hidden layers; typically two of 64 to 512."""
    activation: Annotated[str, one_of(*ACTIVATIONS)] = "relu"
    """Activation of hidden layers."""
    layer_norm: bool = False
    """Normalise every hidden layer before its activation."""
    normalize_observations: bool = False
    """Running normalisation of vectors."""


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig(Checked):
    """Settings that all agents with a replay buffer have. Steps are environment steps, all environments together."""

    learning_rate: PositiveFloat
    """Learning rate; typically 1e-4 to 1e-3."""
    learning_rate_final: NonNegativeFloat | None = None
    """Anneal the learning rate linearly to this over the whole training; None keeps it."""
    buffer_size: PositiveInt = 1_000_000
    """Transitions that the replay buffer holds; typically 100,000 to a million."""
    learning_starts: NonNegativeInt = 100
    """Steps to gather with random actions before the first update; typically 100 to 50,000."""
    batch_size: PositiveInt
    """Transitions of each update; typically 32 to 256."""
    gamma: Share = 0.99
    """Discount factor; typically 0.98 to 0.999."""
    n_step: PositiveInt = 1
    """Steps whose rewards are summed before the value of the next state; typically 1 to 5."""
    train_frequency: PositiveInt
    """Steps between updates; typically 1 to 16."""
    gradient_steps: Annotated[int, Range(lambda n: n >= 1 or n == -1, "must be at least 1, or -1 for one a step")] = 1
    """Updates for every ``train_frequency`` steps; -1 is one for each step."""
    iteration_steps: PositiveInt
    """Steps of one iteration, after which progress is reported. Learning does not depend on it."""
    checkpoint_replay: bool = True
    """Write the replay buffer into checkpoints. Without it a continued training fills a new one first."""


@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig):
    """Deep Q-network (Mnih et al. 2015). Defaults are Stable-Baselines3's."""

    learning_rate: PositiveFloat = 1e-4
    batch_size: PositiveInt = 32
    train_frequency: PositiveInt = 4
    tau: PositiveShare = 1.0
    """Share of the way that the target network moves towards the network in its updates; 1 copies it."""
    target_update_interval: PositiveInt = 10_000
    """Steps between updates of the target network; typically 10 to 10,000."""
    exploration_fraction: Share = 0.1
    """Part of the training over which the chance of a random action falls linearly to its final value; typically 0.1 to
    0.5."""
    exploration_initial: Share = 1.0
    """Chance of a random action in the beginning."""
    exploration_final: Share = 0.05
    """Final chance of a random action; typically 0.01 to 0.1."""
    max_grad_norm: PositiveFloat = 10.0
    """Largest norm of a gradient."""
    double: bool = False
    """Choose the best next action by the network and value it by the target network (van Hasselt et al. 2016)."""
    dueling: bool = False
    """Separate streams for state value and advantages (Wang et al. 2016)."""
    prioritized: bool = False
    """Draw transitions with large errors more often (Schaul et al. 2016)."""
    priority_alpha: Share = 0.6
    """Exponent of priorities, typically 0.5 to 0.7; 0 draws uniformly."""
    priority_beta: Share = 0.4
    """Exponent of the importance weights at the start, typically 0.4; it grows linearly to 1 by the end of the
    training."""
    iteration_steps: PositiveInt = 1000
    model: NetworkConfig = field(default_factory=NetworkConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dueling and not self.model.hidden:
            raise UserError("dueling needs a hidden layer for its two streams: set model.hidden, for example to (512,)")


@dataclass(frozen=True, kw_only=True)
class SACConfig(OffPolicyConfig):
    """Soft actor-critic with twin critics and automatic temperature (Haarnoja et al. 2018b).

    Defaults are Stable-Baselines3's.
    """

    learning_rate: PositiveFloat = 3e-4
    batch_size: PositiveInt = 256
    train_frequency: PositiveInt = 1
    tau: PositiveShare = 0.005
    """Share of the way that the target critics move towards the critics after every update; typically 0.005 to 0.02."""
    learn_temperature: bool = True
    """True learns the temperature, False keeps the initial one."""
    initial_temperature: PositiveFloat = 1.0
    """Initial weight of the entropy; typically 0.1 to 1."""
    target_entropy: float | None = None
    """Entropy that the temperature maintains, in nats; None is minus the number of action dimensions."""
    clipped_double: bool = True
    """Use the smaller of the two critics (Fujimoto et al. 2018); otherwise their mean."""
    policy_frequency: PositiveInt = 1
    """Updates of the critics for each update of actor and temperature; typically 1 or 2."""
    log_std_range: Annotated[tuple[float, float], _ORDERED] = (-20.0, 2.0)
    """Lowest and highest logarithm of the policy's standard deviation before squashing."""
    smooth_log_std: bool = False
    """True maps it into the range by tanh, with a gradient everywhere, instead of clipping. Needed if 0 is a bound."""
    betas: Betas = (0.9, 0.999)
    """Decay rates of Adam's moments."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay, decoupled from the gradient."""
    max_grad_norm: PositiveFloat | None = None
    """Largest norm of a gradient; None does not clip."""
    action_limit: PositiveFloat | None = None
    """Bound of actions in an action space without bounds, typically 2 to 5 for a robot's joint targets. Joints with
    narrower ranges have narrower bounds. None refuses such a space."""
    symmetry: Annotated[str, one_of("none", "canonical")] = "none"
    """"canonical" learns and acts in one fundamental domain of the robot's mirror group."""
    average_steps: PositiveInt | None = None
    """Steps over which actors are averaged for evaluation and export, typically 100,000; None takes the newest."""
    precision: Annotated[str, one_of("float32", "bfloat16")] = "float32"
    """Type of the networks' products in updates. bfloat16 is quicker on CPUs that have it."""
    iteration_steps: PositiveInt = 200
    actor: NetworkConfig = field(default_factory=lambda: NetworkConfig(hidden=(256, 256)))
    """Network of the actor."""
    critic: NetworkConfig = field(default_factory=lambda: NetworkConfig(hidden=(256, 256)))
    """Network of each critic."""
