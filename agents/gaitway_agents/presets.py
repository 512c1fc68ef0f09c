"""Named configurations of the learning core, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt, Share, one_of

from .additions import AdditionConfig
from .core.critic import CriticConfig
from .core.optimizer import OptimizerConfig
from .core.surrogates import ClippedSurrogate
from .core.trust_region import TrustRegionConfig
from .models.actor_critic import ActorCriticConfig
from .models.critics import DreamerTricks


@dataclass(frozen=True, kw_only=True)
class PPOConfig(Checked):
    """PPO on a vector environment. Defaults are rsl_rl's for Isaac Lab's flat ANYmal-C task."""

    num_steps: PositiveInt = 24
    """Environment steps per rollout; typically 16 to 64 with thousands of environments, 128 to 2048 with a few."""
    gamma: Share = 0.99
    """Discount factor; typically 0.97 to 0.999."""
    lam: Share = 0.95
    """Lambda of generalised advantage estimation; typically 0.9 to 0.98."""
    advantage: Annotated[str, one_of("gae", "vtrace", "monte_carlo")] = "gae"
    """"gae"; "vtrace", which corrects for rollouts of an older policy; or "monte_carlo", returns without a baseline."""
    scale_rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""
    recompute_advantages: bool = False
    """Estimate advantages anew before every epoch (Andrychowicz et al. 2021, "What matters in on-policy RL")."""
    random_episode_start: bool = True
    """Start episodes at random ages, so that time-outs do not come all at once."""
    symmetry: Annotated[str, one_of("none", "canonical", "augment", "loss")] = "none"
    """"none", "canonical" (act in one fundamental domain of the mirror group), "augment" (learn from images) or "loss"
    (be drawn to act in an image as the image of the action)."""
    mirror_loss_coefficient: PositiveFloat = 1.0
    """Weight of the squared distance between the action in an image and the image of the action, of the symmetry
    "loss" (Yu et al. 2018); rsl_rl's ``mirror_loss_coeff``. Typically 0.1 to 4."""
    learning_rate_final: float | None = None
    """Learning rate at the end of its decay; None keeps it constant."""
    anneal_steps: PositiveInt | None = None
    """Steps over which the learning rate decays, and then stays; None takes the whole training."""
    anneal: Annotated[str, one_of("linear", "exponential")] = "linear"
    """Decay of the learning rate: by the same amount at each step ("linear"), or by the same factor ("exponential")."""
    average_steps: PositiveInt | None = None
    """Number of steps over which the evaluated and exported policy is averaged (Polyak and Juditsky 1992), each policy
    weighted by exp(-age / average_steps); None takes the newest. Rollouts always use the newest."""
    model: ActorCriticConfig = field(default_factory=ActorCriticConfig)
    """Networks of actor and critic."""
    first_guess: bool = False
    """Fit the policy, before its first update, to what is known of the task: steps by the clock for legged robots."""
    decoupled: bool = False
    """Gather the next rollout while learning from the last, with the policy from before that (Huang et al. 2023)."""
    additions: Mapping[str, AdditionConfig] = field(default_factory=dict)
    """Additions by a name of your choice, such as a reward for what is new; not for several processes."""
    optimizer: OptimizerConfig | TrustRegionConfig = field(default_factory=OptimizerConfig)
    """Update: with PPO's clipping, or in a trust region."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_critic()
        if isinstance(self.optimizer, TrustRegionConfig):
            if self.symmetry == "loss":
                raise UserError("symmetry 'loss' with a trust region: it bounds the policy's own loss; use 'augment'")
            if self.recompute_advantages:
                raise UserError("recompute_advantages with a trust region: its policy takes one step; set it false")
        elif self.anneal == "exponential" and not (self.learning_rate_final and self.learning_rate_final > 0.0):
            raise UserError(
                f"anneal 'exponential' with learning_rate_final {self.learning_rate_final}: set one above 0"
            )
        elif self.learning_rate_final is not None and self.optimizer.schedule == "adaptive":
            raise UserError("learning_rate_final needs optimizer.schedule 'constant': an adaptive rate steers itself")
        if self.symmetry != "none" and self.model.recurrent != "none":
            raise UserError(
                f"symmetry {self.symmetry!r} with model.recurrent {self.model.recurrent!r}: use only one of them"
            )
        self._check_tricks()

    def _check_critic(self) -> None:
        if self.model.share_encoder and self.optimizer.critic is not None:
            raise UserError(
                "model.share_encoder with a critic that is trained by itself (optimizer.critic): it would move the "
                "policy; set it false"
            )

    def _check_tricks(self) -> None:
        tricks, normalize = self.model.dreamer, self.optimizer.normalize_advantages
        if tricks.percentile_scaling and normalize != "none":
            raise UserError(
                f"optimizer.normalize_advantages {normalize!r} undoes model.dreamer.percentile_scaling: use 'none'"
            )
        if tricks.own_value_losses and isinstance(self.optimizer, OptimizerConfig) and self.optimizer.clip_value_loss:
            raise UserError(
                f"optimizer.clip_value_loss is for a critic with squared errors alone, but model.dreamer.critic is "
                f"{tricks.critic!r} and critic_ema {tricks.critic_ema}: set it false"
            )


def has_bfloat16(device: torch.device) -> bool:
    """True if ``device`` multiplies bfloat16 natively; without that, bfloat16 is slower than float32."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def in_bfloat16(config: PPOConfig) -> PPOConfig:
    """``config`` with networks in bfloat16, for CPUs that have it. On a GPU small ones lose more by the conversions."""
    assert isinstance(config.optimizer, OptimizerConfig)
    return replace(config, optimizer=replace(config.optimizer, precision="bfloat16"))


_BASELINES = OptimizerConfig(
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
)

_ONE_STEP = replace(
    _BASELINES,
    epochs=1,
    minibatches=1,
    algorithm="rmsprop",
    learning_rate=7e-4,
    betas=(0.9, 0.99),
    normalize_advantages="none",
)

PPO_CLASSIC = PPOConfig(
    num_steps=128,
    learning_rate_final=0.0,
    random_episode_start=False,
    model=ActorCriticConfig(
        actor_hidden=(64, 64), critic_hidden=(64, 64), activation="tanh", orthogonal=True, normalize_observations=True
    ),
    optimizer=_BASELINES,
)
"""Classic control and whatever else has vectors: Stable-Baselines3's defaults, on 8 environments."""

PPO_CARTPOLE = replace(
    PPO_CLASSIC,
    num_steps=32,
    gamma=0.98,
    lam=0.8,
    model=replace(PPO_CLASSIC.model, normalize_observations=False),
    optimizer=replace(_BASELINES, epochs=10, minibatches=1, learning_rate=1e-3),
)
"""CartPole on 8 environments: rl-baselines3-zoo's settings with half its epochs, which are enough."""

PPO_DREAMER = replace(
    PPO_CLASSIC,
    model=replace(
        PPO_CLASSIC.model,
        normalize_observations=False,
        unimix=0.01,
        dreamer=DreamerTricks(
            symlog_observations=True, critic="two_hot", critic_zero_init=True, critic_ema=True, percentile_scaling=True
        ),
    ),
    optimizer=replace(_BASELINES, normalize_advantages="none", eps=1e-8),
)
"""Rewards of unknown scale: DreamerV3's tricks on PPO, after Sullivan et al. (2023). Advantages of small rewards are
left small, so Adam's epsilon must be smaller still."""

PPO_MUJOCO = replace(
    PPO_CLASSIC,
    num_steps=32,
    scale_rewards=True,
    model=replace(PPO_CLASSIC.model, clip_observations=10.0, init_std=0.6065, log_std=True),
    optimizer=replace(_BASELINES, minibatches=32, value_coefficient=0.25),
)
"""Gymnasium's MuJoCo tasks on 64 environments, after Tianshou's benchmark (Weng et al. 2022)."""

PPO_MUJOCO_QUICK = replace(
    PPO_MUJOCO,
    num_steps=64,
    recompute_advantages=True,
    optimizer=replace(_BASELINES, minibatches=8, learning_rate=7e-4, value_coefficient=0.25),
)
"""Minibatches of 512 instead of 64, which learn a million steps in a third of the time; enough for the easier tasks."""

PPO_CHEETAH = replace(
    PPO_MUJOCO,
    gamma=0.98,
    lam=0.92,
    model=replace(PPO_MUJOCO.model, init_std=0.37),
    optimizer=replace(_BASELINES, minibatches=32, value_coefficient=0.25, surrogate=ClippedSurrogate(clip=0.1)),
)
"""HalfCheetah and Ant: rl-baselines3-zoo's discount, lambda and clip. Small steps keep the cheetah off its back."""

A2C = PPOConfig(
    num_steps=5,
    lam=1.0,
    random_episode_start=False,
    model=replace(PPO_CLASSIC.model, log_std=True, normalize_observations=False),
    optimizer=_ONE_STEP,
)
"""Advantage actor-critic (Mnih et al. 2016): Stable-Baselines3's defaults. One step on the whole rollout, so the
surrogate's ratio is 1, nothing is clipped, and its gradient is that of the log-probabilities (Huang et al. 2022)."""

TRPO = replace(
    PPO_MUJOCO, num_steps=64, optimizer=TrustRegionConfig(critic=CriticConfig(epochs=20, learning_rate=1e-3))
)
"""Trust-region policy optimisation (Schulman et al. 2015) on 16 environments, after Tianshou's benchmark."""

VPG = PPOConfig(
    num_steps=500,
    lam=0.97,
    random_episode_start=False,
    model=ActorCriticConfig(
        actor_hidden=(64, 64), critic_hidden=(64, 64), activation="tanh", init_std=0.6065, log_std=True,
        normalize_observations=False,
    ),
    optimizer=OptimizerConfig(
        epochs=1,
        minibatches=1,
        learning_rate=3e-4,
        schedule="constant",
        clip_value_loss=False,
        value_coefficient=0.0,
        entropy_coefficient=0.0,
        max_grad_norm=1e3,
        critic=CriticConfig(epochs=80, learning_rate=1e-3),
    ),
)  # fmt: skip
"""The policy gradient with a learnt baseline: Spinning Up's settings (Achiam 2018) on 8 environments. One step a
rollout, so the surrogate's ratio is 1 and its gradient that of the log-probabilities; the critic takes 80."""

REINFORCE = replace(VPG, advantage="monte_carlo")
"""Williams (1992): returns as they came, less their mean. The critic only closes returns that a rollout cuts off."""

IMPALA = replace(
    PPO_CLASSIC,
    num_steps=20,
    lam=1.0,
    advantage="vtrace",
    decoupled=True,
    optimizer=replace(_ONE_STEP, entropy_coefficient=0.01),
)
"""V-trace (Espeholt et al. 2018) on rollouts one update old, gathered while learning as Cleanba does (Huang et al.
2023). With one minibatch the surrogate's ratio is 1 and V-trace's weights are those of the policy gradient."""

PPO_ATARI = PPOConfig(
    num_steps=128,
    learning_rate_final=0.0,
    random_episode_start=False,
    model=ActorCriticConfig(
        actor_hidden=(), critic_hidden=(), share_encoder=True, orthogonal=True, normalize_observations=False
    ),
    optimizer=replace(
        _BASELINES,
        epochs=4,
        learning_rate=2.5e-4,
        surrogate=ClippedSurrogate(clip=0.1),
        clip_value_loss=True,
        entropy_coefficient=0.01,
        chunk_size=256,
    ),
)
"""Atari games on 8 environments: the settings of Baselines (Schulman et al. 2017), as in CleanRL's ppo_atari."""
