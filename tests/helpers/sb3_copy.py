"""Stable-Baselines3's actor-critic algorithms with the weights of one of our policies, in float64.

Nothing of theirs is rewritten: their policies, buffers, losses and optimisers, in a wider number format.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.models.actor_critic import ActorCritic
from gaitway_agents.models.heads import ACTION_MASK
from gymnasium import spaces
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor, nn


class Still(gymnasium.Env):
    """Stable-Baselines3 wants an environment for its spaces; nothing is ever stepped."""

    def __init__(self, dim: int, action_space: spaces.Space):
        self.observation_space = spaces.Box(-9.0, 9.0, (dim,), np.float32)
        self.action_space = action_space


def sb3_copy(
    kind: type[OnPolicyAlgorithm],
    ours: ActorCritic,
    action_space: spaces.Space,
    steps: int,
    num_envs: int = 1,
    **settings: Any,
) -> Any:
    """An algorithm with our weights and a buffer for ``steps`` decisions in each environment."""
    world = DummyVecEnv([lambda: Still(ours.actor_encoder.dim, action_space)] * num_envs)
    layers = {"pi": list(ours.config.actor_hidden), "vf": list(ours.config.critic_hidden)}
    algorithm: Any = kind(
        "MlpPolicy", world, n_steps=steps, policy_kwargs={"net_arch": layers}, device="cpu", **settings
    )
    algorithm.policy.double()
    # It casts observations to float32 on their way in; whoever makes them sees to it that they survive that.
    algorithm.policy.features_extractor.register_forward_hook(lambda module, inputs, output: output.double())
    with torch.no_grad():
        for mine, theirs in _pairs(ours, algorithm):
            theirs.copy_(mine)
    algorithm.set_logger(Logger(None, []))
    return algorithm


def _pairs(ours: ActorCritic, algorithm: Any) -> list[tuple[Tensor, Tensor]]:
    """Our parameters with theirs."""
    policy = algorithm.policy
    theirs = [
        *(p for part in (policy.mlp_extractor.policy_net, policy.action_net) for p in part.parameters()),
        *(p for part in (policy.mlp_extractor.value_net, policy.value_net) for p in part.parameters()),
        *([policy.log_std] if hasattr(policy, "log_std") else []),
    ]
    assert {id(p) for p in theirs} == {id(p) for p in policy.parameters()}
    mine = [*ours.actor.parameters(), *ours.critic.parameters(), *ours.head.parameters()]
    assert {id(p) for p in mine} == {id(p) for p in ours.parameters()}
    return list(zip(mine, theirs, strict=True))


@torch.no_grad()
def make_batch(policy: ActorCritic, rows: int, mask: Tensor | None = None) -> Batch:
    """Batch as a rollout of ``policy`` would leave it, in numbers that survive a cast to float32."""
    observations = {"policy": torch.randn(rows, policy.actor_encoder.dim).float().double()}
    if mask is not None:
        observations[ACTION_MASK] = mask
    distribution = policy.distribution(observations)
    actions = policy.head.sample(distribution, torch.Generator().manual_seed(1))
    if actions.is_floating_point():
        actions = actions.float().double()
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=policy.head.log_prob(distribution, actions),
        advantages=2.0 * torch.randn(rows) + 1.0,
        values=policy.value(observations),
        returns=torch.randn(rows),
        distribution=distribution,
    )


def fill(algorithm: Any, batch: Batch) -> None:
    """Put our batch where its collector leaves a rollout."""
    buffer = algorithm.rollout_buffer
    buffer.reset()
    names = ("actions", "log_probs", "advantages", "values", "returns")
    tensors = {"observations": batch.observations["policy"], **{name: getattr(batch, name) for name in names}}
    tensors["actions"] = tensors["actions"].reshape(len(batch), -1)
    for name, value in tensors.items():
        setattr(buffer, name, value.double().numpy().reshape(len(batch), 1, *value.shape[1:]))
    buffer.full = True


def assert_same_parameters(ours: ActorCritic, algorithm: Any, tolerance: float) -> None:
    for mine, theirs in _pairs(ours, algorithm):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def vector(policy: nn.Module) -> Tensor:
    """All parameters, copied."""
    return nn.utils.parameters_to_vector(policy.parameters()).detach().clone()
