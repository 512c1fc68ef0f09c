"""A mean over policies: what is evaluated and exported, while rollouts stay the newest policy's."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from bit_by_bit import differences
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.models.estimator import EstimatorConfig
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from hidden_worlds import COLUMNS, HiddenSpeed, left_and_right
from on_policy import on_policy_trainer
from torch import Tensor

MODEL = ActorCriticConfig(
    actor_hidden=(16,), critic_hidden=(16,), estimator=EstimatorConfig(signals=("speed",), hidden=(8,))
)
CONFIG = PPOConfig(num_steps=8, average_steps=1000, model=MODEL, optimizer=OptimizerConfig(epochs=2, minibatches=2))
ENVS = 32


def make_trainer(config: PPOConfig = CONFIG) -> OnPolicyTrainer:
    symmetry = None if config.symmetry == "none" else left_and_right()
    return on_policy_trainer(HiddenSpeed(ENVS), config, seed=3, symmetry=symmetry, total_steps=100_000, columns=COLUMNS)


def parameters(policy: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in policy.named_parameters()}


def saved(state: dict[str, Any]) -> Any:
    """``state`` as it comes back from a file."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("symmetry", ["none", "canonical"])
def test_weights_are_an_exponential_mean_and_nothing_learns_from_it(symmetry):
    trainer, plain = (make_trainer(replace(CONFIG, symmetry=symmetry, average_steps=n)) for n in (1000, None))
    decay, wanted = math.exp(-8 * ENVS / 1000), None
    for _ in range(5):
        trainer.iterate()
        plain.iterate()
        newest = parameters(trainer.policy)
        wanted = newest if wanted is None else {k: decay * wanted[k] + (1 - decay) * newest[k] for k in newest}
    assert not differences(newest, parameters(plain.policy))
    mean = trainer.mature_policy
    for name, value in parameters(mean).items():
        torch.testing.assert_close(value, wanted[name])
    buffers = dict(trainer.policy.named_buffers())
    assert not differences(dict(mean.named_buffers()), buffers) and buffers


def test_the_mean_is_what_acts_where_nothing_is_explored():
    trainer = make_trainer()
    for _ in range(4):
        trainer.iterate()
    seen = trainer.source.observations
    assert seen is not None
    actor, (predicted, _) = trainer.actor(), trainer.predict(seen)
    torch.testing.assert_close(predicted, trainer.policy.head.to_env(actor(seen["policy"])))
    newest = trainer.policy.export_actor()(seen["policy"])
    assert (actor(seen["policy"]) - newest).abs().max() > 1e-4


def test_a_training_resumes_with_its_mean_bit_by_bit():
    whole = make_trainer()
    for _ in range(3):
        whole.iterate()
    state = saved(whole.state_dict())
    resumed, shown = make_trainer(), make_trainer()
    resumed.load_state_dict(state)
    resumed.env.load_state_dict(saved(whole.env.state_dict()))
    shown.load_policy(state)
    assert not differences(parameters(shown.mature_policy), parameters(whole.mature_policy))
    for _ in range(2):
        whole.iterate()
        resumed.iterate()
    assert not differences(whole.state_dict(), resumed.state_dict())


def test_without_one_the_newest_policy_is_it():
    trainer = make_trainer(replace(CONFIG, average_steps=None))
    assert trainer.mature_policy is trainer.policy and trainer.state_dict()["average"] is None


def test_a_window_of_no_steps_is_refused():
    with pytest.raises(ValueError, match="average_steps"):
        replace(CONFIG, average_steps=0)
