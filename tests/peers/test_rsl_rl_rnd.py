"""The same tensors into rsl_rl 5.5's random network distillation and into Gaitway's: rewards, and the predictor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from box_spaces import boxes
from gaitway_agents.rnd import RND, RNDConfig
from gaitway_agents.rollout import EnvRollout
from torch import Tensor

pytest.importorskip("rsl_rl")
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

STEPS, ENVS, OBS, ACTIONS, OUT = 6, 16, 5, 3, 4
EPOCHS, MINIBATCHES = 3, 4


@pytest.fixture(autouse=True)
def _float64():
    """Rounding hides differences; with 53 bits what is left is a difference of method."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def seen(observations: Tensor) -> TensorDict:
    return TensorDict({"policy": observations}, batch_size=[ENVS])


def peer_of(ours: RND, **settings: Any) -> PPO:
    """rsl_rl's PPO with RND of the same weights."""
    example, groups = seen(torch.zeros(ENVS, OBS)), {"actor": ["policy"], "critic": ["policy"], "rnd_state": ["policy"]}
    noise = {"class_name": "GaussianDistribution", "init_std": 0.6}
    actor = MLPModel(example, groups, "actor", ACTIONS, [8], "elu", distribution_cfg=noise)
    critic = MLPModel(example, groups, "critic", 1, [8], "elu")
    rnd = {
        "num_states": OBS, "obs_groups": groups, "num_outputs": OUT, "predictor_hidden_dims": [8, 7],
        "target_hidden_dims": [6], **settings,
    }  # fmt: skip
    storage = RolloutStorage("rl", ENVS, STEPS, example, [ACTIONS])
    ppo = PPO(actor, critic, storage, rnd_cfg=rnd, num_learning_epochs=EPOCHS, num_mini_batches=MINIBATCHES)
    ppo.rnd.predictor.load_state_dict(ours.parts["predictor"].state_dict())
    ppo.rnd.target.load_state_dict(ours.parts["target"].state_dict())
    return ppo


def rollout_of(observations: Tensor, rewards: Tensor) -> EnvRollout:
    no = torch.zeros(STEPS, ENVS, dtype=torch.bool)
    return EnvRollout(
        observations={"policy": observations[:-1]}, actions=torch.zeros(STEPS, ENVS, ACTIONS), distribution=(),
        rewards=rewards, learnt_rewards=rewards, terminated=no, truncated=no, valid=~no, finals=[],
        following={"policy": observations[-1]}, episodes=[], log={}, timing={}, complete=True,
    )  # fmt: skip


SCHEDULES = [
    ({}, None),
    (
        {"weight_schedule": "step", "final_step": 9 * ENVS, "final_value": 0.05},
        {"mode": "step", "final_step": 9, "final_value": 0.05},
    ),
    (
        {"weight_schedule": "linear", "initial_step": 2 * ENVS, "final_step": 15 * ENVS, "final_value": 1.0},
        {"mode": "linear", "initial_step": 2, "final_step": 15, "final_value": 1.0},
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), SCHEDULES, ids=["constant", "step", "linear"])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("reward", [False, True])
def test_rewards_and_predictor_over_updates(ours, theirs, state, reward, monkeypatch):
    """Three rollouts, each with an update. Their steps are of one environment, ours of all."""
    both = {"weight": 0.3, "state_normalization": state, "reward_normalization": reward, "learning_rate": 3e-3}
    config = RNDConfig(
        **both, **ours, num_outputs=OUT, predictor_hidden_dims=(8, 7), target_hidden_dims=(6,), epochs=EPOCHS,
        minibatches=MINIBATCHES,
    )  # fmt: skip
    rnd = RND(config, boxes(policy=OBS), ENVS, torch.device("cpu"), torch.Generator())
    peer = peer_of(rnd, **both, weight_schedule=theirs)
    before = {name: part.clone() for name, part in rnd.parts.state_dict().items()}
    order = torch.randperm(STEPS * ENVS)
    monkeypatch.setattr(torch, "randperm", lambda n, **_: order[order < n])
    observations = 3.0 * torch.randn(3, STEPS + 1, ENVS, OBS)
    observations[1:, 0] = observations[:-1, -1]
    for part in observations:
        rewards = torch.randn(STEPS, ENVS)
        for t in range(STEPS):
            peer.act(seen(part[t]))
            peer.process_env_step(seen(part[t + 1]), rewards[t], torch.zeros(ENVS, dtype=torch.bool), {})
        learnt = rnd.rewards(rollout_of(part, rewards)).learnt_rewards
        torch.testing.assert_close(learnt, peer.storage.rewards[..., 0], rtol=1e-9, atol=1e-9)
        assert (learnt - rewards).abs().min() > 1e-6
        peer.compute_returns(seen(part[-1]))
        losses, statistics = peer.update(), rnd.update(None)
        assert statistics["rnd_loss"] == pytest.approx(losses["rnd"], rel=1e-9)
        assert statistics["rnd_weight"] == pytest.approx(peer.rnd.weight, rel=1e-12)
    for mine, others in ((rnd.parts["predictor"], peer.rnd.predictor), (rnd.parts["target"], peer.rnd.target)):
        for name, value in mine.state_dict().items():
            torch.testing.assert_close(value, others.state_dict()[name], rtol=1e-9, atol=1e-9, msg=name)
    if state:
        torch.testing.assert_close(rnd.parts["state"].mean, peer.rnd.state_normalizer.mean, rtol=1e-9, atol=1e-9)
    moved = {name for name, part in rnd.parts.state_dict().items() if not torch.equal(part, before[name])}
    assert any(name.startswith("predictor") for name in moved)
    assert not any(name.startswith("target") for name in moved)
