"""One core for robots and language: the same numbers through both, and the same update comes out.

A robot's actor-critic chooses among the tokens of a vocabulary; what it observes is how often each token has come
before. A causal language model whose decoder counts its tokens is the same function of whole sequences. Robots' data
are rows of single steps, those of language are sequences with prompts, a tool's tokens between decisions, and padding.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from box_spaces import boxes
from counting_lm import VOCABULARY, WIDTH, CountingLM, counted
from gaitway_agents.core.advantage import gae
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.losses import ReferenceKL
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.core.surrogates import CISPO, SAPO, ClippedSurrogate, ImportanceSampling, Reinforce
from gaitway_agents.core.token_advantage import token_gae
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.causal_lm import CausalLMPolicy
from gaitway_agents.models.token_critic import TokenCritic
from gymnasium import spaces
from torch import Tensor, nn

LENGTH = 9
MASK = torch.tensor(
    [
        [0, 0, 1, 1, 1, 1, 1, 1, 1],
        [0, 1, 1, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0, 0],
        [0, 1, 1, 1, 1, 1, 0, 0, 0],
    ],
    dtype=torch.float64,
)
LENGTHS = torch.tensor([9, 7, 4, 6])


def make_language() -> CausalLMPolicy:
    torch.manual_seed(0)
    model = CountingLM()
    critic = TokenCritic(model).double()
    for parameter in critic.parameters():
        nn.init.normal_(parameter, 0.0, 0.5)
    return CausalLMPolicy(model, critic=critic, entropy="gradient")


def make_robot(language: CausalLMPolicy) -> ActorCritic:
    """With the parameters of the language model and of its critic."""
    config = ActorCriticConfig(actor_hidden=(WIDTH,), critic_hidden=(WIDTH,), normalize_observations=False)
    robot = ActorCritic(boxes(policy=VOCABULARY), spaces.Discrete(VOCABULARY), config).double()
    for mine, other in zip(parameters(robot), parameters(language), strict=True):
        mine.data.copy_(other.data)
    return robot


def parameters(policy: nn.Module) -> list[nn.Parameter]:
    return [parameter for group in policy.parameter_groups() for parameter in group]


def make_sequences() -> tuple[Batch, Tensor]:
    """Samples of an older policy, and the reward of each token; advantages are still missing."""
    g = torch.Generator().manual_seed(1)
    tokens = torch.randint(VOCABULARY, (4, LENGTH), generator=g)
    noise, reference, values, rewards, weights = torch.randn(5, 4, LENGTH, generator=g, dtype=torch.float64)
    old = torch.log(torch.tensor(1.0 / VOCABULARY)) + 0.3 * noise
    batch = Batch(
        observations={"lengths": LENGTHS},
        actions=tokens,
        log_probs=old * MASK,
        advantages=torch.zeros(4, LENGTH, dtype=torch.float64),
        values=values * MASK,
        mask=MASK,
        reference=(old + 0.2 * reference) * MASK,
        weights=(0.2 * weights).exp() * MASK,
    )
    return batch, rewards * MASK


def with_token_advantages(batch: Batch, rewards: Tensor) -> Batch:
    advantages = token_gae(rewards, batch.values, MASK, 0.97, 0.9)
    return batch.replace(advantages=advantages, returns=(advantages + batch.values) * MASK)


def as_steps(batch: Batch, rewards: Tensor) -> Batch:
    """The same decisions as steps of robots, each sequence an episode; their advantages are those of rollouts."""
    kept = MASK.bool()
    advantages = []
    for row in range(4):
        reward, value = rewards[row][kept[row]][:, None], batch.values[row][kept[row]][:, None]
        done = torch.zeros_like(reward, dtype=torch.bool)
        done[-1] = True
        following = torch.cat((value[1:], torch.full((1, 1), 1e6, dtype=torch.float64)))  # never looked at
        advantages.append(gae(reward, value, following, done, done, 0.97, 0.9)[:, 0])
    rows = torch.cat(advantages)
    before = nn.functional.pad(counted(batch.actions)[:, :-1], (0, 0, 1, 0))
    return Batch(
        observations={"policy": before[kept]},
        actions=batch.actions[kept],
        log_probs=batch.log_probs[kept],
        advantages=rows,
        values=batch.values[kept],
        returns=rows + batch.values[kept],
        reference=batch.reference[kept],
        weights=batch.weights[kept],
    )


PPO = OptimizerConfig(
    epochs=4,
    minibatches=1,
    learning_rate=3e-2,
    schedule="constant",
    max_grad_norm=0.5,
    entropy_coefficient=0.02,
    reference_kl=ReferenceKL(coefficient=0.1),
)
SETTINGS = {
    "ppo": PPO,
    "adaptive": replace(PPO, schedule="adaptive", desired_kl=0.002),
    "clip-higher, dual clip": replace(
        PPO,
        surrogate=ClippedSurrogate(clip_high=0.3, dual_clip=1.5),
        reference_kl=ReferenceKL(coefficient=0.1, estimator="k3+", importance=True),
    ),
    "cispo": replace(PPO, surrogate=CISPO(), clip_value_loss=False),
    "sapo": replace(PPO, surrogate=SAPO(), value_clip=0.5),
    "reinforce": replace(PPO, surrogate=Reinforce(), normalize_advantages="minibatch"),
    "importance sampling": replace(PPO, surrogate=ImportanceSampling(), clip_groups=False),
}


@pytest.mark.parametrize("chunk_size", [4096, 12])
@pytest.mark.parametrize("name", SETTINGS)
def test_robots_and_language_take_the_same_steps(name, chunk_size):
    config = replace(SETTINGS[name], chunk_size=chunk_size)
    language = make_language()
    robot = make_robot(language)
    start = [parameter.detach().clone() for parameter in parameters(language)]
    sequences, rewards = make_sequences()
    said = PolicyOptimizer(language, config).update(with_token_advantages(sequences, rewards))
    walked = PolicyOptimizer(robot, config).update(as_steps(sequences, rewards))
    for mine, other, before in zip(parameters(robot), parameters(language), start, strict=True):
        torch.testing.assert_close(mine, other, rtol=0.0, atol=1e-12)
        assert (mine - before).abs().max() > 1e-3
    assert walked == pytest.approx(said, rel=1e-6)
    assert said["clip_fraction"] > 0.0 or not hasattr(config.surrogate, "clip")


def test_they_say_the_same_of_every_decision():
    language = make_language()
    sequences, rewards = make_sequences()
    steps = make_robot(language).evaluate(as_steps(sequences, rewards))
    tokens = language.evaluate(with_token_advantages(sequences, rewards))
    for name in ("log_probs", "entropy", "values"):
        torch.testing.assert_close(getattr(steps, name), getattr(tokens, name)[MASK.bool()], rtol=0.0, atol=1e-14)
