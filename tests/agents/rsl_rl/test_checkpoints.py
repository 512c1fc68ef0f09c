"""Checkpoints of rsl_rl go both ways."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.critics import DreamerTricks
from gaitway_agents.models.estimator import EstimatorColumns, EstimatorConfig
from gaitway_agents.rsl_rl import checkpoint as rsl_rl_checkpoint
from gaitway_agents.rsl_rl.config import RslRlActorConfig, RslRlModelConfig
from gaitway_agents.rsl_rl.trainer import RslRlTrainer

pytest.importorskip("rsl_rl")
from rsl_rl_by_itself import SMALL, Plain, bits, make_runner, make_world, trained


def test_rsl_rl_continues_from_our_checkpoint(tmp_path):
    trainer = trained(make_world(), 3)
    trainer.save_rsl_rl_checkpoint(tmp_path / "model_2.pt")
    runner = make_runner(Plain(make_world()), SMALL, seed=5)
    assert bits(runner.alg.save()) != bits(trainer.algorithm.save())
    runner.load(str(tmp_path / "model_2.pt"))
    assert bits(runner.alg.save()) == bits(trainer.algorithm.save())
    assert runner.alg.learning_rate == trainer.algorithm.learning_rate != SMALL.algorithm.learning_rate
    assert runner.current_learning_iteration == 2
    runner.learn(1)
    again = RslRlTrainer(make_world(), SMALL, seed=5)
    again.load_rsl_rl_checkpoint(tmp_path / "model_2.pt")
    again.iterate()
    assert bits(again.algorithm.save()) == bits(runner.alg.save())


def test_we_continue_from_a_checkpoint_of_rsl_rl(tmp_path):
    path = tmp_path / "model_1.pt"
    runner = make_runner(Plain(make_world()), SMALL)
    runner.learn(2)
    runner.save(str(path))
    trainer = RslRlTrainer(make_world(), SMALL, seed=4)
    trainer.load_rsl_rl_checkpoint(path)
    assert bits(trainer.algorithm.save()) == bits(runner.alg.save())
    assert (trainer.iterations, trainer.steps) == (2, 0)
    assert trainer.algorithm.learning_rate == runner.alg.learning_rate != SMALL.algorithm.learning_rate
    trainer.save_rsl_rl_checkpoint(tmp_path / "again.pt")
    theirs, ours = (torch.load(name, weights_only=True) for name in (path, tmp_path / "again.pt"))
    assert list(theirs) == list(ours) and bits(theirs) == bits(ours)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actor": RslRlActorConfig(hidden_dims=(16, 9), obs_normalization=True)}, r"actor mlp.2.weight is \(8, 16\)"),
        ({"actor": RslRlActorConfig(hidden_dims=(16, 8))}, "actor obs_normalizer._mean is .* there and none here"),
        ({"critic": RslRlModelConfig(hidden_dims=(12,))}, "critic obs_normalizer"),
        ({"actor": dataclasses.replace(SMALL.actor, std_type="log")}, "actor distribution.std_param"),
    ],
    ids=["layers", "actor_normaliser", "critic_normaliser", "std"],
)
def test_a_checkpoint_of_other_networks_is_refused_and_changes_nothing(change, message, tmp_path):
    trained(make_world(), 1).save_rsl_rl_checkpoint(tmp_path / "model_0.pt")
    other = RslRlTrainer(make_world(), dataclasses.replace(SMALL, **change), seed=1)
    before = bits(other.algorithm.save())
    with pytest.raises(ValueError, match=message):
        other.load_rsl_rl_checkpoint(tmp_path / "model_0.pt")
    assert bits(other.algorithm.save()) == before


def test_files_that_are_no_checkpoints_are_refused(tmp_path):
    trainer = RslRlTrainer(make_world(), SMALL, seed=0)
    path = tmp_path / "model.pt"
    torch.save({"model_state_dict": {}, "optimizer_state_dict": {}, "iter": 3, "infos": None}, path)
    with pytest.raises(ValueError, match=r"no checkpoint of rsl_rl 5.*older"):
        trainer.load_rsl_rl_checkpoint(path)
    torch.save([1.0], path)
    with pytest.raises(ValueError, match="no actor_state_dict"):
        trainer.load_rsl_rl_checkpoint(path)
    torch.save({"actor_state_dict": Path("x")}, path)  # a pickle that names a class might run anything
    with pytest.raises(ValueError, match="can be read"):
        trainer.load_rsl_rl_checkpoint(path)
    for content in (b"", b"not a checkpoint"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="can be read"):
            trainer.load_rsl_rl_checkpoint(path)


# ---- policies of our own agents --------------------------------------------------------------------------------------


def policy_of(**model):
    settings = {"actor_hidden": (16, 8), "critic_hidden": (12,), "init_std": 0.7} | model
    columns = EstimatorColumns((0,), {"base_lin_vel": (0,)})
    policy = ActorCritic(boxes(policy=1, critic=1), box(1), ActorCriticConfig(**settings), columns)
    policy.update_normalizers({"policy": 3.0 + 2.0 * torch.randn(500, 1), "critic": torch.randn(500, 1) - 4.0})
    return policy


@pytest.mark.parametrize(("log_std", "normalized"), [(False, True), (True, False)])
def test_rsl_rl_loads_a_policy_of_ours_and_learns_on(log_std, normalized, tmp_path):
    policy = policy_of(log_std=log_std, normalize_observations=normalized)
    networks = rsl_rl_checkpoint.networks_of(policy)
    path = tmp_path / "model_7.pt"
    torch.save(rsl_rl_checkpoint.checkpoint(networks, iteration=7, learning_rate=2e-4), path)
    config = dataclasses.replace(
        SMALL,
        actor=RslRlActorConfig(
            hidden_dims=(16, 8), obs_normalization=normalized, std_type="log" if log_std else "scalar"
        ),
        critic=RslRlModelConfig(hidden_dims=(12,), obs_normalization=normalized),
    )
    runner = make_runner(Plain(make_world()), config, seed=5)
    runner.load(str(path))
    act = runner.get_inference_policy()
    observation = runner.env.get_observations() + 2.5
    with torch.no_grad():
        mean, std = policy.distribution(observation)
        assert (act(observation) - mean).abs().max() <= 1e-6 and mean.abs().max() > 1e-3
        act(observation, stochastic_output=True)
        assert torch.allclose(act.output_std, std, rtol=1e-6)
        assert (runner.alg.critic(observation)[:, 0] - policy.value(observation)).abs().max() <= 1e-6
    assert (runner.current_learning_iteration, runner.alg.learning_rate) == (7, 2e-4)
    runner.learn(1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"recurrent": "gru"}, "model.recurrent 'gru': only feed-forward"),
        ({"estimator": EstimatorConfig()}, "model.estimator: rsl_rl has no actor that reads estimates"),
        ({"clip_observations": 5.0}, "model.clip_observations 5.0: rsl_rl's normaliser does not clip"),
        ({"dreamer": DreamerTricks(critic="two_hot")}, "a critic that says one number"),
        (
            {"dreamer": DreamerTricks(symlog_observations=True)},
            "policy reads policy: rsl_rl needs one plain vector",
        ),
    ],
    ids=["memory", "estimator", "clip", "critic", "symlog"],
)
def test_policies_that_rsl_rl_has_no_model_of_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        rsl_rl_checkpoint.networks_of(policy_of(**model))
