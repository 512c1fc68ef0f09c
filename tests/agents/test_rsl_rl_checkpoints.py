"""Checkpoints of rsl_rl go both ways."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from gaitway_agents.rsl_rl_config import RslRlActorConfig, RslRlModelConfig
from gaitway_agents.rsl_rl_trainer import RslRlTrainer

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
