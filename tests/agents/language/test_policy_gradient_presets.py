"""Presets: their settings, and that each of them learns."""

from dataclasses import replace

import pytest
import torch
from gaitway_agents.core.losses import ReferenceKL
from gaitway_agents.core.surrogates import CISPO, ClippedSurrogate, Reinforce
from gaitway_agents.language import presets
from gaitway_agents.language.kl_control import KLControlConfig
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_agents.models.token_critic import TokenCritic
from tiny_models import tiny_lm
from token_worlds import WantedToken

NAMES = ("GRPO", "DR_GRPO", "DAPO", "GSPO", "CISPO", "RLOO", "REINFORCE_PLUS_PLUS", "PPO_RLHF")
UPDATES = 16


def small(name):
    """The preset's objective, on a batch, at a rate and with a penalty for a small model."""
    config = getattr(presets, name)
    groups = config.group_size > 1
    changes = {"prompts_per_step": 8 if groups else 64, "group_size": 8 if groups else 1}
    optimizer = {"learning_rate": 3e-3, "minibatches": min(config.optimizer.minibatches, 4)}
    if name == "DR_GRPO":
        optimizer["horizon"] = 6
    if config.kl is not None:
        changes["kl"] = KLControlConfig(coefficient=0.01)
    if name == "PPO_RLHF":
        optimizer |= {"value_coefficient": 0.5}
        changes["missing_eos_reward"] = None  # here the best answers have no end
    return replace(config, **changes, optimizer=replace(config.optimizer, **optimizer))


def learn(config, updates=UPDATES):
    model = tiny_lm(vocab_size=12)
    critic = TokenCritic(model) if config.advantage == "gae" else None
    steps = updates * config.prompts_per_step * config.group_size
    learner = PolicyGradientTrainer(model, WantedToken(model), config, seed=0, total_steps=steps, critic=critic)
    return [learner.iterate() for _ in range(updates)], learner


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_to_say_the_wanted_token(name):
    metrics, _ = learn(small(name))
    rewards = [m["rollout/reward"] for m in metrics]
    assert rewards[0] < 0.2 and sum(rewards[-3:]) > 3 * 0.7, rewards


def test_what_makes_each_what_it_is():
    losses = {name: getattr(presets, name).optimizer for name in NAMES}
    aggregations = {name: losses[name].aggregation for name in NAMES}
    assert aggregations == {
        "GRPO": "sequence",
        "DR_GRPO": "constant",
        "DAPO": "decision",
        "GSPO": "sequence",
        "CISPO": "decision",
        "RLOO": "sequence_sum",
        "REINFORCE_PLUS_PLUS": "decision",
        "PPO_RLHF": "decision",
    }
    assert (presets.GRPO.scale, presets.DR_GRPO.scale) == ("group", "none")
    assert losses["GRPO"].reference_kl == ReferenceKL(coefficient=0.04) and losses["DR_GRPO"].reference_kl is None
    assert losses["DAPO"].surrogate == ClippedSurrogate(clip_high=0.28) and presets.DAPO.zero_variance == "resample"
    assert losses["GSPO"].surrogate == ClippedSurrogate(ratio="sequence", clip=3e-4, clip_high=4e-4)
    assert losses["CISPO"].surrogate == CISPO(clip=1.0, clip_high=4.0)
    assert (presets.RLOO.advantage, losses["RLOO"].surrogate) == ("leave_one_out", Reinforce())
    assert presets.REINFORCE_PLUS_PLUS.group_size == 1 and presets.REINFORCE_PLUS_PLUS.kl.coefficient == 0.01


def test_the_penalty_in_the_reward_of_rloo_is_that_of_the_whole_answer():
    config = replace(small("RLOO"), kl=KLControlConfig(coefficient=0.5))
    _, learner = learn(config, updates=2)
    samples, _ = learner._sample()
    metrics = {}
    batch = learner._prepare(samples, metrics)
    kl = ((batch.log_probs - batch.reference) * samples.mask).sum(1)
    assert float(kl.abs().max()) > 0.01
    earned = (samples.rewards - 0.5 * kl).view(-1, 8)
    expected = earned - (earned.sum(1, keepdim=True) - earned) / 7
    torch.testing.assert_close(batch.advantages.amax(1) + batch.advantages.amin(1), expected.flatten())
    assert metrics["rollout/reference_kl"] == pytest.approx(float(kl.mean()), rel=1e-4, abs=1e-6)
