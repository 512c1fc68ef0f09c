"""rsl_rl 3, which Isaac Lab 2.3 trains with, loads what Gaitway writes for it."""

from __future__ import annotations

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.rsl_rl import checkpoint as rsl_rl_checkpoint
from rsl_rl.algorithms import PPO
from rsl_rl.modules import ActorCritic as RslRlActorCritic


@pytest.mark.parametrize(("log_std", "normalized"), [(False, True), (True, False)])
def test_the_same_actions_and_values(log_std, normalized):
    """As ``OnPolicyRunner.load`` does it: the model, strictly, then the optimiser."""
    settings = ActorCriticConfig(
        actor_hidden=(16, 8), critic_hidden=(12,), init_std=0.7, log_std=log_std, normalize_observations=normalized
    )
    ours = ActorCritic(boxes(policy=5, critic=7), box(3), settings)
    seen = {"policy": 2.0 * torch.randn(300, 5) + 1.0, "critic": torch.randn(300, 7) - 4.0}
    ours.update_normalizers(seen)
    networks = rsl_rl_checkpoint.networks_of(ours)
    written = rsl_rl_checkpoint.checkpoint(networks, iteration=7, learning_rate=2e-4)
    told = rsl_rl_checkpoint.settings_of(networks, actor="elu", critic="elu")["2.3"]
    assert f"agent.policy.noise_std_type={'log' if log_std else 'scalar'}" in told

    theirs = RslRlActorCritic(
        seen, {"policy": ["policy"], "critic": ["critic"]}, 3, normalized, normalized, [16, 8], [12],
        noise_std_type="log" if log_std else "scalar",
    )  # fmt: skip
    algorithm = PPO(theirs, learning_rate=1e-3)
    assert theirs.load_state_dict(written["model_state_dict"])
    algorithm.optimizer.load_state_dict(written["optimizer_state_dict"])
    assert algorithm.optimizer.param_groups[0]["lr"] == 2e-4
    theirs.eval()
    with torch.no_grad():
        mean, std = ours.distribution(seen)
        assert (theirs.act_inference(seen) - mean).abs().max() <= 1e-6 and mean.abs().max() > 1e-3
        theirs.act(seen)
        assert torch.allclose(theirs.action_std, std, rtol=1e-6)
        assert (theirs.evaluate(seen)[:, 0] - ours.value(seen)).abs().max() <= 1e-6
    theirs.evaluate(seen).sum().backward()
    algorithm.optimizer.step()  # from moments of its own
