"""The learner lives where its environments do. Told without a GPU by what would be on it; *not run* on one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.models.heads import Gaussian
from gaitway_agents.presets import PPOConfig
from gaitway_isaaclab.vector_env import IsaacLabVectorEnv
from isaac_like import IsaacLike
from on_policy import on_policy_trainer
from pretend_gpu import PretendGpu

OPTIMIZER = OptimizerConfig(epochs=1, minibatches=2, chunk_size=20)


def mixed(**settings: Any) -> list[str]:
    """Operations of two iterations that would fail on a GPU."""
    model = {"actor_hidden": (8,), "critic_hidden": (8,)} | settings.pop("model", {})
    config = PPOConfig(num_steps=6, model=ActorCriticConfig(**model), **{"optimizer": OPTIMIZER} | settings)
    env = IsaacLabVectorEnv(IsaacLike(16, episode_length=5, noise=0.1))
    trainer = on_policy_trainer(env, config, seed=0)
    gpu = PretendGpu()
    gpu.put(env, trainer.policy, trainer.optimizer.flat, trainer.reward_scaler)  # what is moved, or made, there
    with gpu.watching():
        trainer.iterate()
        trainer.iterate()
    return gpu.mixed


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model": {"recurrent": "gru"}},
        {"scale_rewards": True, "recompute_advantages": True},
        {"optimizer": OptimizerConfig(epochs=1, minibatches=1, normalize_advantages="minibatch", schedule="constant")},
        {"advantage": "vtrace"},
        {"advantage": "monte_carlo", "model": {"log_std": True, "init_std": 0.5}},
    ],
    ids=lambda settings: ", ".join(settings) or "defaults",
)
def test_nothing_is_made_beside_the_environments(settings):
    assert mixed(**settings) == []


def test_the_pretence_notices_noise_from_the_host(monkeypatch):
    def sample(self: Gaussian, parameters: Any, generator: torch.Generator) -> torch.Tensor:
        mean, std = parameters
        return mean + std * torch.randn(mean.shape, generator=generator)

    monkeypatch.setattr(Gaussian, "sample", sample)
    assert any("collector.py" in line or "heads.py" in line or "mul" in line for line in mixed())
