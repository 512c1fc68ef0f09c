"""rl_games' PPO by task, ``VelocityFlatAnymalC()`` and so on: Isaac Lab's values for ANYmal C, the task's networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..registration import factory, named


def agent_cfg(task_name: str) -> dict[str, Any]:
    """Settings of rl_games for a task: 24 steps of 4096 environments in four minibatches.

    It reads the group "policy" only, for its value network too.
    """
    from gaitway_tasks.registry import learner_of

    learner = learner_of(named(task_name))
    initial = {"name": "default"}
    return {
        "params": {
            "seed": 42,
            "env": {"clip_actions": 1.0},
            "algo": {"name": "a2c_continuous"},
            "model": {"name": "continuous_a2c_logstd"},
            "network": {
                "name": "actor_critic",
                "separate": False,
                "space": {
                    "continuous": {
                        "mu_activation": "None",
                        "sigma_activation": "None",
                        "mu_init": initial,
                        "sigma_init": {"name": "const_initializer", "val": 0.0},
                        "fixed_sigma": True,
                    }
                },
                "mlp": {
                    "units": list(learner.hidden_dims),
                    "activation": "elu",
                    "d2rl": False,
                    "initializer": initial,
                    "regularizer": {"name": "None"},
                },
            },
            "load_checkpoint": False,
            "load_path": "",
            "config": {
                "name": "gaitway_" + task_name.replace("-", "_"),
                "env_name": "rlgpu",
                "device": "cuda:0",
                "device_name": "cuda:0",
                "multi_gpu": False,
                "ppo": True,
                "mixed_precision": True,
                "normalize_input": False,
                "normalize_value": True,
                "value_bootstrap": True,
                "num_actors": -1,
                "reward_shaper": {"scale_value": 0.6},
                "normalize_advantage": True,
                "gamma": 0.99,
                "tau": 0.95,
                "learning_rate": 1.0e-3,
                "lr_schedule": "adaptive",
                "schedule_type": "legacy",
                "kl_threshold": 0.01,
                "score_to_win": 20000,
                "max_epochs": learner.max_iterations,
                "save_best_after": 100,
                "save_frequency": 50,
                "grad_norm": 1.0,
                "entropy_coef": learner.entropy_coef,
                "truncate_grads": True,
                "e_clip": 0.2,
                "horizon_length": 24,
                "minibatch_size": 24 * 4096 // 4,
                "mini_epochs": 5,
                "critic_coef": 2.0,
                "clip_value": True,
                "seq_length": 4,
                "bounds_loss_coef": 0.0,
            },
        }
    }


def __getattr__(name: str) -> Callable[[], Any]:
    return factory(name, agent_cfg)
