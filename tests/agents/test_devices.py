"""The learner lives where its environments do: told without a GPU by what would be on it, and on one where there is."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.models.heads import Gaussian
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from gaitway_isaaclab.vector_env import IsaacLabVectorEnv
from isaac_like import IsaacLike
from on_policy import on_policy_trainer
from pretend_gpu import PretendGpu
from real_gpu import CUDA, needs_gpu

OPTIMIZER = OptimizerConfig(epochs=1, minibatches=2, chunk_size=20)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"model": {"recurrent": "gru"}},
    {"scale_rewards": True, "recompute_advantages": True},
    {"optimizer": OptimizerConfig(epochs=1, minibatches=1, normalize_advantages="minibatch", schedule="constant")},
    {"advantage": "vtrace"},
    {"advantage": "monte_carlo", "model": {"log_std": True, "init_std": 0.5}},
]
"""Of PPO beside its defaults."""


def learner(inner: IsaacLike, settings: dict[str, Any]) -> OnPolicyTrainer:
    model = {"actor_hidden": (8,), "critic_hidden": (8,)} | settings.get("model", {})
    chosen = {"num_steps": 6, "optimizer": OPTIMIZER} | settings | {"model": ActorCriticConfig(**model)}
    return on_policy_trainer(IsaacLabVectorEnv(inner), PPOConfig(**chosen), seed=0)


def mixed(**settings: Any) -> list[str]:
    """Operations of two iterations that would fail on a GPU."""
    trainer = learner(IsaacLike(16, episode_length=5, noise=0.1), settings)
    gpu, scales = PretendGpu(), trainer.additions.get("reward_scaler")
    scaler = None if scales is None else scales.scaler
    gpu.put(trainer.env, trainer.policy, trainer.optimizer.store, scaler)  # what is moved, or made, there
    with gpu.watching():
        trainer.iterate()
        trainer.iterate()
    return gpu.mixed


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: ", ".join(settings) or "defaults")
def test_nothing_is_made_beside_the_environments(settings):
    assert mixed(**settings) == []


def test_the_pretence_notices_noise_from_the_host(monkeypatch):
    def sample(self: Gaussian, parameters: Any, generator: torch.Generator) -> torch.Tensor:
        mean, std = parameters
        return mean + std * torch.randn(mean.shape, generator=generator)

    monkeypatch.setattr(Gaussian, "sample", sample)
    assert any("collector.py" in line or "heads.py" in line or "mul" in line for line in mixed())


class OnGpu(IsaacLike):
    """The same environments with all that they make on the GPU, as Isaac Lab's."""

    def __init__(self, *arguments: Any, **settings: Any):
        with CUDA:
            super().__init__(*arguments, **settings)
        self.device = str(CUDA)

    def step(self, action: torch.Tensor) -> Any:
        with CUDA:
            return super().step(action)

    def reset(self, **settings: Any) -> Any:
        with CUDA:
            return super().reset(**settings)


@needs_gpu
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: ", ".join(settings) or "defaults")
def test_a_robot_learns_on_a_gpu_and_continues_there(settings):
    trainer = learner(OnGpu(16, episode_length=5, noise=0.1), settings)
    before = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    trainer.iterate()
    again = learner(OnGpu(16, episode_length=5, noise=0.1), settings)
    again.load_state_dict(copy.deepcopy(trainer.state_dict()))
    for name, value in again.policy.state_dict().items():
        assert value.device.type == CUDA.type and torch.equal(value, trainer.policy.state_dict()[name])
    assert any(not torch.equal(value, before[name]) for name, value in again.policy.state_dict().items())
    metrics = again.iterate()
    assert all(math.isfinite(value) for name, value in metrics.items() if name.startswith("learn/"))
