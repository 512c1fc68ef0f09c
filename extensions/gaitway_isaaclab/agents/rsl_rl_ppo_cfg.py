"""rsl_rl's PPO by task: ``VelocityFlatAnymalC()`` and so on, for rsl_rl 3 (Isaac Lab 2.3) and 5 (Isaac Lab 3.0).

``VelocityFlatAnymalCWithSymmetry()`` also learns from mirror images, ``VelocityFlatAnymalCRecurrent()`` has a memory.
On rsl_rl 5, ``VelocityFlatAnymalCBlindDistillation()`` learns from a policy that saw more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gaitway_tasks.spec import Task
from isaaclab_rl.rsl_rl import RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg

from .. import compat
from ..registration import factory, named

SYMMETRY, RECURRENT, DISTILLATION = "WithSymmetry", "Recurrent", "Distillation"
MEMORY = {"rnn_type": "lstm", "rnn_hidden_dim": 256, "rnn_num_layers": 1}
"""Isaac Lab's, of ANYmal D."""


def runner_cfg(task_name: str, variant: str = "") -> Any:
    """``RslRlOnPolicyRunnerCfg`` for a task; ``variant`` is :data:`SYMMETRY` or :data:`RECURRENT`."""
    from gaitway_tasks.registry import learner_of

    task = named(task_name)
    settings = learner_of(task)
    critic = ["critic"] if "critic" in task.observations else ["policy"]
    return RslRlOnPolicyRunnerCfg(
        num_steps_per_env=24,
        max_iterations=(compat.is_3() and settings.max_iterations_3) or settings.max_iterations,
        save_interval=50,
        experiment_name=_experiment(task_name),
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
            symmetry_cfg=_symmetry(task) if variant == SYMMETRY else None,
        ),
        **_networks(list(settings.hidden_dims), critic, MEMORY if variant == RECURRENT else {}),
    )


def distillation_cfg(task_name: str) -> Any:
    """``RslRlDistillationRunnerCfg`` for a task whose critic sees more than its actor: a ``-blind`` one.

    The student sees what the robot measures. The teacher is the actor of a run of the same task without ``-blind``,
    which sees what the critic does. Values are Isaac Lab's, of ANYmal D.
    """
    from gaitway_tasks.registry import learner_of
    from isaaclab_rl.rsl_rl import RslRlDistillationAlgorithmCfg, RslRlDistillationRunnerCfg, RslRlMLPModelCfg

    def model(std: float) -> Any:
        noise = RslRlMLPModelCfg.GaussianDistributionCfg(init_std=std)
        sizes = list(learner_of(named(task_name)).hidden_dims)
        return RslRlMLPModelCfg(hidden_dims=sizes, activation="elu", obs_normalization=False, distribution_cfg=noise)

    return RslRlDistillationRunnerCfg(
        num_steps_per_env=120,
        max_iterations=300,
        save_interval=50,
        experiment_name=_experiment(task_name),
        obs_groups={"student": ["policy"], "teacher": ["critic"]},
        student=model(0.1),
        teacher=model(0.0),
        algorithm=RslRlDistillationAlgorithmCfg(num_learning_epochs=2, learning_rate=1.0e-3, gradient_length=15),
    )


def _experiment(task_name: str) -> str:
    return "gaitway_" + task_name.replace("-", "_")


def _symmetry(task: Task) -> Any:
    from gaitway_tasks.symmetry import mirror_group
    from isaaclab_rl.rsl_rl import RslRlSymmetryCfg

    from .symmetry import mirror_images

    mirror_group(task)  # refuses a task without
    return RslRlSymmetryCfg(use_data_augmentation=True, data_augmentation_func=mirror_images)


def _networks(hidden_dims: list[int], critic: list[str], memory: dict[str, Any]) -> dict[str, Any]:
    if compat.is_3():
        from isaaclab_rl.rsl_rl import RslRlMLPModelCfg, RslRlRNNModelCfg

        kind = RslRlRNNModelCfg if memory else RslRlMLPModelCfg
        noise = RslRlMLPModelCfg.GaussianDistributionCfg(init_std=1.0)
        plain = {"hidden_dims": hidden_dims, "activation": "elu", "obs_normalization": False, **memory}
        return {
            "actor": kind(**plain, distribution_cfg=noise),
            "critic": kind(**plain),
            "obs_groups": {"actor": ["policy"], "critic": critic},
        }
    from isaaclab_rl.rsl_rl import RslRlPpoActorCriticCfg, RslRlPpoActorCriticRecurrentCfg

    policy = (RslRlPpoActorCriticRecurrentCfg if memory else RslRlPpoActorCriticCfg)(
        init_noise_std=1.0,
        actor_obs_normalization=False,
        critic_obs_normalization=False,
        actor_hidden_dims=hidden_dims,
        critic_hidden_dims=hidden_dims,
        activation="elu",
        **memory,
    )
    return {"policy": policy, "obs_groups": {"policy": ["policy"], "critic": critic}}


def __getattr__(name: str) -> Callable[[], Any]:
    if name.endswith(DISTILLATION):
        return factory(name, distillation_cfg, DISTILLATION)
    variant = next((end for end in (SYMMETRY, RECURRENT) if name.endswith(end)), "")
    return factory(name, lambda task: runner_cfg(task, variant), variant)
