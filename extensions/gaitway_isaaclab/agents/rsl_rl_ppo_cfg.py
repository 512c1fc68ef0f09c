"""rsl_rl's PPO by task: ``VelocityFlatAnymalC()`` and so on, for rsl_rl 3 (Isaac Lab 2.3) and 5 (Isaac Lab 3.0)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isaaclab_rl.rsl_rl import RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg

from .. import compat
from ..registration import factory


def runner_cfg(task_name: str) -> Any:
    """``RslRlOnPolicyRunnerCfg`` for a task."""
    from gaitway_tasks.registry import get_task, learner_of

    task = get_task(task_name)
    settings = learner_of(task)
    critic = ["critic"] if "critic" in task.observations else ["policy"]
    return RslRlOnPolicyRunnerCfg(
        num_steps_per_env=24,
        max_iterations=settings.max_iterations,
        save_interval=50,
        experiment_name="gaitway_" + task_name.replace("-", "_"),
        algorithm=RslRlPpoAlgorithmCfg(
            value_loss_coef=1.0,
            use_clipped_value_loss=True,
            clip_param=0.2,
            entropy_coef=settings.entropy_coef,
            num_learning_epochs=5,
            num_mini_batches=4,
            learning_rate=1.0e-3,
            schedule="adaptive",
            gamma=0.99,
            lam=0.95,
            desired_kl=0.01,
            max_grad_norm=1.0,
        ),
        **_networks(list(settings.hidden_dims), critic),
    )


def _networks(hidden_dims: list[int], critic: list[str]) -> dict[str, Any]:
    if compat.is_3():
        from isaaclab_rl.rsl_rl import RslRlMLPModelCfg

        noise = RslRlMLPModelCfg.GaussianDistributionCfg(init_std=1.0)
        plain = {"hidden_dims": hidden_dims, "activation": "elu", "obs_normalization": False}
        return {
            "actor": RslRlMLPModelCfg(**plain, distribution_cfg=noise),
            "critic": RslRlMLPModelCfg(**plain),
            "obs_groups": {"actor": ["policy"], "critic": critic},
        }
    from isaaclab_rl.rsl_rl import RslRlPpoActorCriticCfg

    policy = RslRlPpoActorCriticCfg(
        init_noise_std=1.0,
        actor_obs_normalization=False,
        critic_obs_normalization=False,
        actor_hidden_dims=hidden_dims,
        critic_hidden_dims=hidden_dims,
        activation="elu",
    )
    return {"policy": policy, "obs_groups": {"policy": ["policy"], "critic": critic}}


def __getattr__(name: str) -> Callable[[], Any]:
    return factory(name, runner_cfg)
