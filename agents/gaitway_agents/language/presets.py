"""Policy gradients of the literature, with the settings that make each what it is.

Batches and rates are the published ones, for models of a billion parameters and more; a small model wants smaller
batches and a larger rate. Objectives do not depend on that.
"""

from __future__ import annotations

from ..core import surrogates
from ..core.losses import ReferenceKL
from ..core.surrogates import ClippedSurrogate, Reinforce
from .config import PolicyGradientConfig
from .fixed_data import one_step
from .kl_control import KLControlConfig
from .preference import PreferenceConfig
from .schedule import LearningRateSchedule

GRPO = PolicyGradientConfig(
    prompts_per_step=16,
    group_size=64,
    optimizer=one_step(learning_rate=1e-6, aggregation="sequence", reference_kl=ReferenceKL(coefficient=0.04)),
)
"""Group relative policy optimisation (Shao et al. 2024, DeepSeekMath): the mean reward of other answers to the same
prompt in place of a critic, divided by their standard deviation; means over answers of their means over tokens."""

DR_GRPO = PolicyGradientConfig(
    prompts_per_step=16,
    group_size=8,
    scale="none",
    optimizer=one_step(learning_rate=1e-6, aggregation="constant", horizon=3000),
)
"""GRPO done right (Liu et al. 2025): neither standard deviation nor length divides anything, which had favoured easy
prompts and long wrong answers. ``optimizer.horizon`` is the longest answer, whatever that is."""

DAPO = PolicyGradientConfig(
    prompts_per_step=512,
    group_size=16,
    zero_variance="resample",
    overlong_start=16_384,
    overlong_end=20_480,
    schedule=LearningRateSchedule(warmup=0.01),
    optimizer=one_step(
        learning_rate=1e-6, minibatches=16, surrogate=ClippedSurrogate(clip_high=0.28), weight_decay=0.1
    ),
)
"""Decoupled clip and dynamic sampling (Yu et al. 2025): clip-higher, prompts with no signal replaced, means over
tokens, long answers punished softly and no KL penalty."""

GSPO = PolicyGradientConfig(
    prompts_per_step=64,
    group_size=16,
    optimizer=one_step(
        learning_rate=1e-6,
        minibatches=4,
        surrogate=ClippedSurrogate(ratio="sequence", clip=3e-4, clip_high=4e-4),
        aggregation="sequence",
    ),
)
"""Group sequence policy optimisation (Zheng et al. 2025): ratio and clip of whole answers, by the geometric mean over
their tokens; a rollout is cut into four minibatches."""

CISPO = PolicyGradientConfig(
    prompts_per_step=64,
    group_size=16,
    optimizer=one_step(learning_rate=1e-6, minibatches=16, surrogate=surrogates.CISPO(clip=1.0, clip_high=4.0)),
)
"""Clipped importance sampling (MiniMax-M1, 2025): the weight is clipped and not the gradient, so rare tokens that
matter keep theirs. Free downwards, and 5 at most (ScaleRL, Khatri et al. 2025)."""

RLOO = PolicyGradientConfig(
    prompts_per_step=128,
    group_size=4,
    advantage="leave_one_out",
    kl=KLControlConfig(coefficient=0.05),
    optimizer=one_step(learning_rate=1e-6, surrogate=Reinforce(), aggregation="sequence_sum"),
)
"""REINFORCE, leave one out (Ahmadian et al. 2024): an answer is one decision, its baseline is the mean of the others,
and the KL penalty is part of its reward."""

REINFORCE_PLUS_PLUS = PolicyGradientConfig(
    prompts_per_step=1024,
    group_size=1,
    advantage="reinforce++",
    kl=KLControlConfig(coefficient=0.01),
    optimizer=one_step(learning_rate=5e-7, minibatches=8),
)
"""REINFORCE++ (Hu et al. 2025): no critic and no groups; every token's return, KL penalties included, whitened over
the whole batch, in PPO's clipped surrogate."""

PPO_RLHF = PolicyGradientConfig(
    prompts_per_step=512,
    group_size=1,
    advantage="gae",
    gamma=1.0,
    lam=0.95,
    missing_eos_reward=-1.0,
    kl=KLControlConfig(coefficient=0.05),
    schedule=LearningRateSchedule(shape="linear"),
    optimizer=one_step(
        learning_rate=3e-6,
        epochs=4,
        eps=1e-5,
        value_clip=0.2,
        value_coefficient=0.05,
        normalize_advantages="batch",
        clip_groups=False,
    ),
)
"""PPO from human feedback (Ziegler et al. 2019; Stiennon et al. 2020) with the settings and details of Huang et al.
2024: a critic that starts as the reward model, a KL penalty for every token, the score at the last one, -1 for answers
without an end, whitened advantages, and a clipped value loss. The value loss there is half of ours, so its weight of
0.1 is 0.05 here."""

DPO, IPO, KTO, SIMPO = (PreferenceConfig(loss=loss) for loss in ("dpo", "ipo", "kto", "simpo"))
"""The losses of :mod:`gaitway_agents.core.preference`, each with the settings of its paper."""
