"""Default training settings of robots: those of a preset, or Isaac Lab's, for this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from gaitway_agents.core import distributed
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.off_policy.config import SACConfig
from gaitway_agents.off_policy.presets import FAST_SAC_ROBOTS
from gaitway_agents.presets import PPOConfig, has_bfloat16, in_bfloat16
from gaitway_tasks.registry import learner_of, preset_of
from gaitway_tasks.spec import Task

from ..backends.table import backend, options
from ..config.overrides import apply_layers
from ..config.tree import from_tree, to_tree
from .request import Request

EVALUATION_EPISODES = 64
"""Deterministic episodes at the end of a robot's training which take seconds in MuJoCo."""


WORTH_STEPS, WORTH_ENVS = 1_000_000, 128
"""Size of a training from which a second process, which takes seconds to start, pays."""


def robot_settings(task: Task, learner: Any, request: Request, device: torch.device) -> dict[str, Any]:
    """Fields of ``TrainConfig``; ``learner`` are the agent's own settings, which PPO's are replaced by."""
    preset = preset_of(task, request.preset)
    if own := preset is not None and preset.settings is not None:
        settings = settings_of(preset.settings(task))
    else:
        settings = isaac_lab_settings(task, newer=preset is not None and preset.newer)
    if request.agent == "ppo":
        learner = settings["agent"]
        if own and device.type == "cpu" and has_bfloat16(device):
            learner = in_bfloat16(learner)
    if request.agent == "fast-sac":
        learner = FAST_SAC_ROBOTS
        if has_bfloat16(device):
            learner = replace(learner, precision="bfloat16")
    if own and not _has_hidden_velocity(task):
        learner = _without_estimator(learner)
    if not task.robot.mirrors and (isinstance(learner, SACConfig) or (own and isinstance(learner, PPOConfig))):
        learner = replace(learner, symmetry="none")
    settings = settings | {"agent": learner, "evaluation_episodes": EVALUATION_EPISODES}
    settings["simulator"] = options(request.world)
    if own and backend(request.world).shares_cores:
        settings = _on_all_cores(settings, request)
    return backend(request.world).defaults(settings, task, preset=own)


def settings_of(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``TrainConfig`` from a preset's settings by their dotted keys; those of ``agent`` change PPO's."""
    plain: dict[str, Any] = {}
    for key, value in keys.items():
        *above, last = key.split(".")
        place = plain
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    agent = apply_layers(to_tree(PPOConfig()), [plain.pop("agent", {})])
    return plain | {"agent": from_tree(PPOConfig, agent)}


def _on_all_cores(settings: dict[str, Any], request: Request) -> dict[str, Any]:
    """``settings`` for two processes where there are two cores, and the training is long enough.

    Threads of one process would wait for each other: half of an iteration is Python's. Those of torchrun are processes
    already.
    """

    def size(name: str) -> int:
        asked = request.asked(name)
        return int(asked) if isinstance(asked, int | float) else settings[name]  # wrong ones are refused later

    alone = (
        distributed.size() == 1
        and request.agent == "ppo"
        and not (request.asked("agent.decoupled") or request.asked("agent.additions"))
    )
    pays = size("total_steps") >= WORTH_STEPS and size("num_envs") >= WORTH_ENVS and size("num_envs") % 2 == 0
    cores = len(os.sched_getaffinity(0))
    count = request.asked("processes") or (2 if alone and pays and cores > 1 else 1)
    if count == 1 and distributed.size() == 1:
        return settings
    agent = settings["agent"]
    if isinstance(agent, PPOConfig) and isinstance(agent.optimizer, OptimizerConfig):
        agent = replace(agent, optimizer=replace(agent.optimizer, workers=1))
    return settings | {"processes": count, "agent": agent}


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
