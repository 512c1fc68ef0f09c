"""Stable-Baselines3's PPO by task, ``VelocityFlatAnymalC()`` and so on: Isaac Lab's values for A1, the task's networks.

Isaac Lab's script evaluates values that are text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..registration import factory, named


def agent_cfg(task_name: str) -> dict[str, Any]:
    """Settings of Stable-Baselines3 for a task; it reads the group "policy" only, for its value network too."""
    from gaitway_tasks.registry import learner_of

    learner = learner_of(named(task_name))
    return {
        "seed": 42,
        "n_timesteps": 24.0 * 4096 * learner.max_iterations,
        "policy": "MlpPolicy",
        "n_steps": 24,
        "n_minibatches": 4,
        "gae_lambda": 0.95,
        "gamma": 0.99,
        "n_epochs": 5,
        "ent_coef": learner.entropy_coef,
        "learning_rate": 1.0e-3,
        "clip_range": 0.2,
        "policy_kwargs": {
            "activation_fn": "nn.ELU",
            "net_arch": list(learner.hidden_dims),
            "optimizer_kwargs": {"eps": 1.0e-8},
            "ortho_init": False,
        },
        "vf_coef": 1.0,
        "max_grad_norm": 1.0,
        "normalize_input": True,
        "normalize_value": False,
        "clip_obs": 10.0,
    }


def __getattr__(name: str) -> Callable[[], Any]:
    return factory(name, agent_cfg)
