"""The same tensors into Stable-Baselines3 and into Gaitway: advantages and a whole PPO update.

Stable-Baselines3 normalises advantages per minibatch, which our optimiser leaves to whoever makes the batch: the
update is compared without it and, as one minibatch per epoch, with it. Its clipped value loss has no maximum over the
unclipped one as ours has (after OpenAI's and rsl_rl's), so value losses are compared unclipped, which is its default.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gaitway_agents.core.advantage import gae, normalise
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.models.mlp import ActorCritic, ActorCriticConfig, gaussian_log_prob
from torch import Tensor, nn

pytest.importorskip("stable_baselines3")
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.logger import Logger

STEPS, ENVS, OBS, ACTIONS, HIDDEN = 8, 4, 5, 3, (16, 8)
OBS_SPACE, ACTION_SPACE = (gymnasium.spaces.Box(-9.0, 9.0, (n,), np.float32) for n in (OBS, ACTIONS))


class Still(gymnasium.Env):
    """Stable-Baselines3 wants an environment for its spaces; nothing is ever stepped."""

    observation_space, action_space = OBS_SPACE, ACTION_SPACE


@pytest.mark.parametrize(("gamma", "lam"), [(0.97, 0.9), (0.99, 1.0), (0.9, 0.0)])
def test_advantages_and_returns(gamma, lam):
    """Its collector adds g V(final observation) to the last reward of a truncated episode and calls that done."""
    rewards, values, finals = torch.randn(3, STEPS, ENVS)
    last_values = torch.randn(ENVS)
    truncated = torch.rand(STEPS, ENVS) < 0.2
    terminated = (torch.rand(STEPS, ENVS) < 0.2) & ~truncated
    done = terminated | truncated
    assert truncated.any() and terminated.any()
    buffer = RolloutBuffer(STEPS, OBS_SPACE, ACTION_SPACE, "cpu", gae_lambda=lam, gamma=gamma, n_envs=ENVS)
    starts = np.concatenate((np.ones((1, ENVS)), done.numpy()[:-1]))
    blank = np.zeros((ENVS, OBS)), np.zeros((ENVS, ACTIONS))
    for t in range(STEPS):
        reward = rewards[t] + gamma * finals[t] * truncated[t]
        buffer.add(*blank, reward.numpy(), starts[t], values[t], torch.zeros(ENVS))
    buffer.compute_returns_and_advantage(last_values, done[-1].numpy())

    next_values = torch.where(truncated, finals, torch.cat((values[1:], last_values[None])))
    advantages = gae(rewards, values, next_values, terminated, done, gamma, lam)
    torch.testing.assert_close(torch.from_numpy(buffer.advantages), advantages, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.from_numpy(buffer.returns), advantages + values, rtol=1e-5, atol=1e-5)


class LogStdActorCritic(ActorCritic):
    """Ours with Stable-Baselines3's parameter: the logarithm of the standard deviation."""

    def __init__(self) -> None:
        config = ActorCriticConfig(
            actor_hidden=HIDDEN, critic_hidden=HIDDEN, activation="tanh", normalize_observations=False
        )
        super().__init__({"policy": OBS}, ACTIONS, config)
        del self.std
        self.log_std = nn.Parameter(torch.full((ACTIONS,), -0.5))

    @property
    def std(self) -> Tensor:
        return self.log_std.exp()

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        return [list(self.parameters())]  # one norm over everything


def make_sb3(ours: LogStdActorCritic, minibatches: int, **settings: object) -> PPO:
    """Its PPO in float64 with our weights."""
    ppo = PPO(
        "MlpPolicy",
        Still(),
        n_steps=STEPS * ENVS,
        batch_size=STEPS * ENVS // minibatches,
        policy_kwargs={"net_arch": {"pi": list(HIDDEN), "vf": list(HIDDEN)}, "log_std_init": -0.5},
        device="cpu",
        **settings,
    )
    ppo.policy.double()
    # It casts observations to float32 on their way in; ours are made to survive that.
    ppo.policy.mlp_extractor.register_forward_pre_hook(lambda module, inputs: (inputs[0].double(),))
    modules = networks(ppo)
    for module, source in zip(modules, (ours.actor, ours.critic), strict=True):
        nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(source.parameters()), module.parameters())
    ppo.policy.log_std.data = ours.log_std.data.clone()
    ppo.policy.optimizer = torch.optim.Adam(ppo.policy.parameters(), lr=ppo.learning_rate, eps=1e-5)
    ppo.set_logger(Logger(None, []))
    return ppo


def networks(ppo: PPO) -> tuple[nn.Sequential, nn.Sequential]:
    extractor = ppo.policy.mlp_extractor
    return (
        nn.Sequential(extractor.policy_net, ppo.policy.action_net),
        nn.Sequential(extractor.value_net, ppo.policy.value_net),
    )


@torch.no_grad()
def make_batch(policy: ActorCritic) -> Batch:
    rows = STEPS * ENVS
    observations = {"policy": torch.randn(rows, OBS).float().double()}
    mean, std = policy.distribution(observations)
    actions = mean + std * torch.randn(rows, ACTIONS)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=gaussian_log_prob(mean, std, actions),
        advantages=2.0 * torch.randn(rows) + 1.0,
        values=policy.value(observations),
        returns=torch.randn(rows),
        distribution=(mean, std.expand_as(mean)),
    )


def fill(ppo: PPO, batch: Batch) -> None:
    """Put our batch where its collector leaves a rollout."""
    buffer = ppo.rollout_buffer
    tensors = {
        "observations": batch.observations["policy"],
        "actions": batch.actions,
        **{name: getattr(batch, name) for name in ("log_probs", "advantages", "values", "returns")},
    }
    for name, value in tensors.items():
        setattr(buffer, name, value.double().numpy().reshape(len(batch), 1, *value.shape[1:]))
    buffer.full = True


@pytest.fixture
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize(
    ("minibatches", "normalize", "grad_norm"),
    [(4, False, 0.5), (1, True, 0.5), (4, False, 0.01)],
    ids=["minibatches", "normalised advantages", "tight gradient clip"],
)
def test_parameters_after_an_update(minibatches, normalize, grad_norm, monkeypatch):
    policy = LogStdActorCritic()
    batch = make_batch(policy)
    ppo = make_sb3(
        policy,
        minibatches,
        n_epochs=3,
        learning_rate=3e-3,
        ent_coef=0.01,
        vf_coef=0.5,
        max_grad_norm=grad_norm,
        normalize_advantage=normalize,
    )
    fill(ppo, batch)
    order = torch.randperm(len(batch))
    monkeypatch.setattr(torch, "randperm", lambda n, **_: order)
    monkeypatch.setattr(np.random, "permutation", lambda n: order.numpy())
    config = OptimizerConfig(
        epochs=3,
        minibatches=minibatches,
        learning_rate=3e-3,
        schedule="constant",
        entropy_coefficient=0.01,
        value_coefficient=0.5,
        clip_value_loss=False,
        max_grad_norm=grad_norm,
        adam_eps=1e-5,
    )
    start = nn.utils.parameters_to_vector(policy.parameters()).detach()
    ours = batch.replace(advantages=normalise(batch.advantages)) if normalize else batch
    statistics = PolicyOptimizer(policy, config).update(ours)
    ppo.train()
    for module, source in zip(networks(ppo), (policy.actor, policy.critic), strict=True):
        for found, expected in zip(source.parameters(), module.parameters(), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(policy.log_std, ppo.policy.log_std, rtol=1e-6, atol=1e-6)
    assert (nn.utils.parameters_to_vector(policy.parameters()) - start).abs().max() > 1e-3
    logged = ppo.logger.name_to_value
    assert statistics["value_loss"] == pytest.approx(logged["train/value_loss"], rel=1e-4)
    assert statistics["policy_loss"] == pytest.approx(logged["train/policy_gradient_loss"], rel=1e-3, abs=1e-6)
    assert statistics["clip_fraction"] == pytest.approx(logged["train/clip_fraction"], abs=1e-6)
    assert statistics["entropy"] == pytest.approx(-logged["train/entropy_loss"], rel=1e-5)
