"""Default training settings of robots: the training half of each preset. The task half is in gaitway_tasks."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import torch
from gaitway_agents.core import distributed
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.models.estimator import EstimatorConfig
from gaitway_agents.presets import PPOConfig, has_bfloat16, in_bfloat16
from gaitway_tasks.registry import learner_of
from gaitway_tasks.spec import Task

from ..backends.table import backend, options
from .request import Request

CPU: dict[str, Any] = {
    "num_envs": 256,
    "checkpoint_interval": 50,
    "total_steps": 4_500_000,
    "agent": PPOConfig(
        num_steps=16,
        gamma=0.98,
        symmetry="canonical",
        learning_rate_final=1.5e-4,
        anneal="exponential",
        average_steps=250_000,
        model=ActorCriticConfig(init_std=0.8, estimator=EstimatorConfig()),
        optimizer=OptimizerConfig(
            epochs=4,
            minibatches=2,
            entropy_coefficient=0.003,
            learning_rate=1.5e-3,
            schedule="constant",
            max_kl=0.12,
            workers=2,
        ),
    ),
}
"""For two cores: few environments and many updates. A policy acts in one quarter of the command space and is mirrored
into the others, which halves the steps it needs. The mean over the last updates is what is examined and exported, so
the learning rate may be high for long; a third of it is left after half the steps, and a tenth at the end, or a policy
that is not good early gets worse again."""

SPRINT: dict[str, Any] = CPU | {
    "total_steps": 3_000_000,
    "agent": replace(CPU["agent"], learning_rate_final=1e-4, anneal="linear"),
}

ROUGH: dict[str, Any] = CPU | {
    "total_steps": 8_000_000,
    "agent": replace(CPU["agent"], anneal_steps=3_000_000),
}
"""On rough ground an environment step takes twice as long. Robots learn to walk at the high learning rate, and hardly
climb before it is low."""

UPRIGHT: dict[str, Any] = CPU | {
    "num_envs": 512,
    "total_steps": 20_000_000,
    "agent": replace(
        CPU["agent"],
        first_guess=True,
        anneal="linear",
        model=replace(CPU["agent"].model, init_std=0.5),
        optimizer=replace(CPU["agent"].optimizer, learning_rate=1e-3),
    ),
}
"""On two legs. Noise of 0.8 throws them over, and more robots in a rollout make up for what less of it explores."""

ISAACLAB3 = "isaaclab3"
"""A preset of the task alone: it is trained as Isaac Lab 3.0 trains its own, on a GPU."""

EVALUATION_EPISODES = 64
"""Deterministic episodes at the end of a robot's training which take seconds in MuJoCo."""


WORTH_STEPS, WORTH_ENVS = 1_000_000, 128
"""Size of a training from which a second process, which takes seconds to start, pays."""


def robot_settings(task: Task, learner: Any, request: Request, device: torch.device) -> dict[str, Any]:
    """Fields of ``TrainConfig``; ``learner`` are the agent's own settings, which PPO's are replaced by."""
    preset = None if request.preset == ISAACLAB3 else request.preset
    settings = (
        isaac_lab_settings(task, newer=request.preset == ISAACLAB3)
        if preset is None
        else {"cpu": _for_few_cores(task), "sprint": SPRINT}[preset]
    )
    if request.agent == "ppo":
        learner = settings["agent"]
        if preset is not None and device.type == "cpu" and has_bfloat16(device):
            learner = in_bfloat16(learner)
    if preset is not None and not _has_hidden_velocity(task):
        learner = _without_estimator(learner)
    if preset is not None and not task.robot.mirrors and isinstance(learner, PPOConfig):
        learner = replace(learner, symmetry="none")
    settings = settings | {"agent": learner, "evaluation_episodes": EVALUATION_EPISODES}
    settings["simulator"] = options(request.world)
    if preset is not None and backend(request.world).shares_cores:
        settings = _on_all_cores(settings, request)
    return backend(request.world).defaults(settings, task, preset=preset is not None)


def _for_few_cores(task: Task) -> dict[str, Any]:
    if len(task.robot.foot_names) == 2 and task.robot.foot_height is not None:
        return UPRIGHT
    return CPU if task.ground.flat else ROUGH


def _on_all_cores(settings: dict[str, Any], request: Request) -> dict[str, Any]:
    """``settings`` for two processes where there are two cores, and the training is long enough.

    Threads of one process would wait for each other: half of an iteration is Python's.
    """

    def size(name: str) -> int:
        asked = request.asked(name)
        return int(asked) if isinstance(asked, int | float) else settings[name]  # wrong ones are refused later

    alone = distributed.size() == 1 and request.agent == "ppo" and not request.asked("agent.decoupled")
    pays = size("total_steps") >= WORTH_STEPS and size("num_envs") >= WORTH_ENVS and size("num_envs") % 2 == 0
    cores = len(os.sched_getaffinity(0))
    count = request.asked("processes") or (2 if alone and pays and cores > 1 else 1)
    if count == 1:
        return settings
    agent = settings["agent"]
    return settings | {"processes": count, "agent": replace(agent, optimizer=replace(agent.optimizer, workers=1))}


def isaac_lab_settings(task: Task, *, newer: bool) -> dict[str, Any]:
    """Isaac Lab's for the task's robot and ground: 4096 environments, 24 steps, and as many iterations.

    Those of 2.3, or with ``newer`` of 3.0.
    """
    stock = learner_of(task)
    model = ActorCriticConfig(
        actor_hidden=stock.hidden_dims, critic_hidden=stock.hidden_dims, normalize_observations=False
    )
    return {
        "num_envs": 4096,
        "total_steps": ((newer and stock.max_iterations_3) or stock.max_iterations) * 24 * 4096,
        "agent": PPOConfig(model=model, optimizer=OptimizerConfig(entropy_coefficient=stock.entropy_coef)),
    }


def _has_hidden_velocity(task: Task) -> bool:
    """True if the critic observes the base velocity and the actor does not."""
    groups = task.observations
    return "critic" in groups and "base_lin_vel" in groups["critic"].terms.keys() - groups["policy"].terms.keys()


def _without_estimator(agent: Any) -> Any:
    return replace(agent, model=replace(agent.model, estimator=None)) if isinstance(agent, PPOConfig) else agent
