"""Settings of rsl_rl, refusal of environments that it cannot learn from, and a missing package."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import inspect
import sys
from typing import Any

import numpy as np
import pytest
import torch
from gaitway_agents.core.optimizer import NonFiniteError
from gaitway_agents.rsl_rl.config import (
    ACTIVATIONS,
    OPTIMIZERS,
    RslRlActorConfig,
    RslRlAlgorithmConfig,
    RslRlConfig,
    RslRlModelConfig,
)
from gaitway_agents.rsl_rl.trainer import RslRlTrainer
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from tiny_worlds import TinyWorld, never, signs, zeros
from torch import Tensor

pytest.importorskip("rsl_rl")
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.modules.distribution import GaussianDistribution
from rsl_rl.utils import resolve_nn_activation, resolve_optimizer
from rsl_rl_by_itself import LOG_STD, SMALL, bits, make_world, trained, walk


def test_the_defaults_are_isaac_labs_for_the_flat_anymal_c():
    model = {"class_name": "MLPModel", "hidden_dims": (128, 128, 128), "activation": "elu", "obs_normalization": False}
    config = RslRlConfig()
    cfg = config.train_cfg(config.obs_groups(["policy"]))
    assert (cfg["num_steps_per_env"], cfg["save_interval"]) == (24, 50)
    assert cfg["obs_groups"] == {"actor": ["policy"], "critic": ["policy"]}
    distribution = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
    assert cfg["actor"] == model | {"distribution_cfg": distribution}
    assert cfg["critic"] == model
    values = {"value_loss_coef": 1.0, "use_clipped_value_loss": True, "clip_param": 0.2, "entropy_coef": 0.005,
              "num_learning_epochs": 5, "num_mini_batches": 4, "learning_rate": 1e-3, "schedule": "adaptive",
              "gamma": 0.99, "lam": 0.95, "desired_kl": 0.01, "max_grad_norm": 1.0}  # fmt: skip
    assert cfg["algorithm"].items() >= values.items()


def parameters(cls: type) -> set[str]:
    return set(inspect.signature(cls).parameters)


def test_settings_are_rsl_rls_arguments():
    cfg = RslRlConfig().train_cfg({})
    others = {
        "actor",
        "critic",
        "storage",
        "device",
        "rnd_cfg",
        "symmetry_cfg",
        "multi_gpu_cfg",
        "grad_reduce_bucket_mb",
    }
    assert set(cfg["algorithm"]) - {"class_name"} == parameters(PPO) - others
    for network in ("actor", "critic"):
        assert set(cfg[network]) - {"class_name"} <= parameters(MLPModel)
    assert set(cfg["actor"]["distribution_cfg"]) - {"class_name"} <= parameters(GaussianDistribution)
    assert all(isinstance(resolve_nn_activation(name), torch.nn.Module) for name in ACTIVATIONS)
    assert all(issubclass(resolve_optimizer(name), torch.optim.Optimizer) for name in OPTIMIZERS)


def test_settings_reach_rsl_rl():
    algorithm = RslRlTrainer(make_world(), LOG_STD, seed=0).algorithm
    for field in dataclasses.fields(RslRlAlgorithmConfig):
        if field.name != "optimizer":
            assert getattr(algorithm, field.name) == getattr(LOG_STD.algorithm, field.name), field.name
    assert isinstance(algorithm.optimizer, torch.optim.RMSprop)
    small = RslRlTrainer(make_world(), SMALL, seed=0).algorithm
    assert [layer.out_features for layer in small.actor.mlp if hasattr(layer, "out_features")] == [16, 8, 1]
    assert isinstance(
        small.critic.mlp[1], torch.nn.Tanh
    ) and small.actor.distribution.std_param.item() == pytest.approx(0.7)
    assert (small.actor.obs_groups, small.critic.obs_groups) == (["policy"], ["critic"])
    both = dataclasses.replace(SMALL, actor_groups=("critic", "policy"), critic_groups=("policy",))
    networks = trained(make_world(), 1, both).algorithm
    assert (networks.actor.obs_dim, networks.critic.obs_dim) == (2, 1)


BAD = [
    (RslRlConfig, {"num_steps_per_env": 0}),
    (RslRlConfig, {"actor_groups": ()}),
    (RslRlConfig, {"critic_groups": ()}),
    (RslRlModelConfig, {"hidden_dims": ()}),
    (RslRlModelConfig, {"hidden_dims": (8, 0)}),
    (RslRlModelConfig, {"activation": "sine"}),
    (RslRlActorConfig, {"activation": "sine"}),
    (RslRlActorConfig, {"init_std": 0.0}),
    (RslRlActorConfig, {"std_type": "softplus"}),
    (RslRlAlgorithmConfig, {"num_mini_batches": 0}),
    (RslRlAlgorithmConfig, {"gamma": 1.01}),
    (RslRlAlgorithmConfig, {"desired_kl": float("nan")}),
    (RslRlAlgorithmConfig, {"entropy_coef": -0.1}),
    (RslRlAlgorithmConfig, {"schedule": "constant"}),
    (RslRlAlgorithmConfig, {"optimizer": "lion"}),
]


@pytest.mark.parametrize(("cls", "change"), BAD, ids=str)
def test_a_bad_setting_is_refused_by_name(cls, change):
    (name,) = change
    with pytest.raises(ValueError, match=name):
        cls(**change)


# ---- environments it cannot learn from -------------------------------------------------------------------------------


def test_environments_of_another_kind_are_refused():
    def refusal(config: RslRlConfig = SMALL, **changes: Any) -> str:
        world = make_world()
        for name, value in changes.items():
            setattr(world, name, value)
        with pytest.raises(ValueError) as caught:
            RslRlTrainer(world, config, seed=0)
        return str(caught.value)

    box = make_world().single_observation_space["policy"]
    image = spaces.Dict({"policy": spaces.Box(0, 255, (3, 8, 8), np.uint8)})
    assert "use ppo or dqn" in refusal(single_action_space=spaces.Discrete(2))
    assert "'policy' is Box(0, 255, (3, 8, 8), uint8): use ppo" in refusal(single_observation_space=image)
    assert "'policy' is Discrete(3)" in refusal(single_observation_space=spaces.Dict({"policy": spaces.Discrete(3)}))
    assert "takes a Dict" in refusal(single_observation_space=box)
    assert "SAME_STEP" in refusal(metadata={"autoreset_mode": AutoresetMode.NEXT_STEP})
    named = spaces.Dict({"observation": box, "goal": box})
    assert "no observation 'policy'; it has goal, observation" in refusal(single_observation_space=named)
    wrong = dataclasses.replace(SMALL, critic_groups=("critic", "secret"))
    assert "critic_groups" in refusal(wrong) and "'secret'" in refusal(wrong)


def test_a_rollout_too_small_for_its_minibatches_is_refused_before_it_is_collected():
    trainer = RslRlTrainer(make_world(num_envs=1), dataclasses.replace(SMALL, num_steps_per_env=5), seed=0)
    with pytest.raises(ValueError, match=r"num_mini_batches 3.*has 5 rows"):
        trainer.iterate()
    assert trainer.steps == 0 and not trainer.env.taken


def test_single_rows_that_are_no_transitions_are_refused():
    class Pausing(TinyWorld):
        def step(self, actions: Tensor) -> tuple[Any, ...]:
            *result, info = super().step(actions)
            return *result, info | {"valid": torch.arange(self.num_envs) > 0}

    with pytest.raises(ValueError, match="no transitions"):
        trained(Pausing(signs, walk), 1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stops_the_run_before_it_is_learnt_from(bad):
    def rule(state: Tensor, action: Tensor, age: Tensor):
        reward = torch.zeros(len(state))
        reward[5] = bad
        return state, reward, never(len(state))

    trainer = RslRlTrainer(TinyWorld(zeros, rule), SMALL, seed=0)
    before = bits(trainer.algorithm.save())
    with pytest.raises(NonFiniteError, match="reward of environment 5"):
        trainer.iterate()
    assert bits(trainer.algorithm.save()) == before

    def blind(state: Tensor, action: Tensor, age: Tensor):
        return torch.full_like(state, bad), torch.zeros(len(state)), never(len(state))

    with pytest.raises(NonFiniteError, match="observation 'policy' of environment 0"):
        trained(TinyWorld(zeros, blind), 1)


# ---- the package -----------------------------------------------------------------------------------------------------


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "rsl_rl.runners", None)
    with pytest.raises(ImportError, match="pip install 'rsl-rl-lib"):
        RslRlTrainer(make_world(), SMALL, seed=0)


def test_an_older_package_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.0.1")
    with pytest.raises(ImportError, match=r"5\.5 or later, not 3\.0\.1: pip install"):
        RslRlTrainer(make_world(), SMALL, seed=0)


def test_it_is_imported_only_when_it_is_used(monkeypatch):
    for name in ("rsl_rl", "tensordict", "gaitway_agents.rsl_rl.env"):
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.find_spec("gaitway_agents.rsl_rl.trainer")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.RslRlTrainer is not RslRlTrainer
