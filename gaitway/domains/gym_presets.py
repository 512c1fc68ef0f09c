"""Default training settings of Gymnasium's tasks and Atari games.

The settings of each agent on each kind of task are in the agents' own packages, with their sources; here they meet the
number of environments and of steps, and what few tasks need beyond their kind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from gaitway_agents import presets as agents
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.core.trust_region import TrustRegionConfig
from gaitway_agents.off_policy.config import DQNConfig, SACConfig
from gaitway_agents.off_policy.presets import DQN_PRESETS, SAC_PRESETS
from gaitway_agents.presets import PPOConfig
from gaitway_agents.tabular.dp_trainer import PolicyIterationConfig, ValueIterationConfig
from gaitway_agents.tabular.td_trainer import QLearningConfig, SarsaConfig
from gaitway_ale import AtariTask
from gaitway_gymnasium import GymTask

MUJOCO = (
    "hopper", "half-cheetah", "walker2d", "ant", "humanoid", "humanoid-standup", "reacher", "swimmer", "pusher",
    "inverted-pendulum", "inverted-double-pendulum",
)  # fmt: skip
STEPS = {
    "cartpole": 100_000,
    "acrobot": 1_000_000,
    "mountain-car": 1_000_000,
    "pendulum": 200_000,
    "frozen-lake": 1_000_000,
    "frozen-lake-8x8": 3_000_000,
    "cliff-walking": 500_000,
    "taxi": 1_000_000,
}
"""Environment steps of on-policy and tabular agents; a million for the others."""
OFF_POLICY_STEPS = {
    "cartpole": 50_000,
    "acrobot": 100_000,
    "lunar-lander": 100_000,
    "mountain-car": 120_000,
    "pendulum": 20_000,
    "lunar-lander-continuous": 500_000,
}
"""Environment steps of agents with a replay buffer, as in rl-baselines3-zoo."""
COMMON: dict[str, Any] = {"num_envs": 8, "checkpoint_interval": 50}


def gym_settings(task: GymTask, agent: str, default: Any) -> dict[str, Any]:
    """Fields of :class:`gaitway.train_config.TrainConfig` for ``agent``, whose own settings are ``default``."""
    robot = task.name in MUJOCO or task.env_id.endswith(("-v4", "-v5"))
    steps = OFF_POLICY_STEPS if isinstance(default, DQNConfig | SACConfig) else STEPS
    settings = {"total_steps": steps.get(task.name, 1_000_000), "evaluation_episodes": 100, "num_threads": 1}
    return COMMON | settings | _settings(task.name, agent, default, agents.PPO_MUJOCO if robot else agents.PPO_CLASSIC)


def game_settings(task: AtariTask, agent: str, default: Any) -> dict[str, Any]:
    """Default training settings of an Atari game."""
    settings = {"total_steps": 10_000_000, "evaluation_episodes": 10, "num_threads": 0}
    kind = agents.PPO_ATARI if task.observation == "image" else agents.PPO_CLASSIC
    return COMMON | settings | _settings("atari", agent, default, kind)


def _settings(name: str, agent: str, default: Any, kind: PPOConfig) -> dict[str, Any]:
    """Changes that an agent makes to the common settings; ``kind`` is PPO's configuration for tasks like ``name``."""
    if isinstance(default, PPOConfig):
        return _on_policy(name, agent, default, kind)
    if isinstance(default, DQNConfig):
        # rl-baselines3-zoo's settings are for one environment: with four, Acrobot reached -149 in place of -74.
        envs = 4 if name == "atari" else 1
        return {"agent": DQN_PRESETS.get(name, DQN_PRESETS["lunar-lander"]), "num_envs": envs}
    if isinstance(default, SACConfig):
        if agent != "sac":
            return {"agent": default, "num_envs": 128}
        preset = SAC_PRESETS.get("mujoco" if name in MUJOCO else name, SAC_PRESETS["mujoco"])
        return {"agent": preset, "num_envs": 1}
    if isinstance(default, ValueIterationConfig | PolicyIterationConfig):
        # The undiscounted return is finite where every way ends; elsewhere it is discounted.
        gamma = 1.0 if name in ("cliff-walking", "taxi") else 0.99
        return {"agent": replace(default, gamma=gamma), "num_envs": 1, "total_steps": 100_000}
    if isinstance(default, QLearningConfig | SarsaConfig):
        return {"agent": default, "checkpoint_interval": 500}
    return {"agent": default}


def _on_policy(name: str, agent: str, default: PPOConfig, kind: PPOConfig) -> dict[str, Any]:
    """PPO has settings for each kind of task; its siblings take its networks and keep their own way of learning."""
    settings: dict[str, Any] = {"num_envs": 64 if kind is agents.PPO_MUJOCO else 8}
    if agent == "ppo":
        return settings | {"agent": PPO_TASKS.get(name, _quick(kind))}
    if agent == "ppo-dreamer":
        return settings | {"agent": _with_tricks(PPO_TASKS.get(name, kind), default)}
    model = replace(kind.model, unimix=default.model.unimix)
    if isinstance(default.optimizer, TrustRegionConfig):
        # The trust region is the policy's: the critic must not move it.
        model, settings = replace(model, share_encoder=False), {"num_envs": 16}
    config = replace(default, model=model, scale_rewards=kind.scale_rewards, random_episode_start=False)
    return settings | {"agent": config}


def _with_tricks(config: PPOConfig, tricks: PPOConfig) -> PPOConfig:
    """PPO as it is for a task, with DreamerV3's tricks in the place of normalisation and scaling."""
    assert isinstance(config.optimizer, OptimizerConfig) and isinstance(tricks.optimizer, OptimizerConfig)
    theirs = tricks.optimizer
    return replace(
        config,
        scale_rewards=False,
        model=replace(
            config.model, normalize_observations=False, unimix=tricks.model.unimix, dreamer=tricks.model.dreamer
        ),
        optimizer=replace(config.optimizer, normalize_advantages=theirs.normalize_advantages, eps=theirs.eps),
    )


def _quick(config: PPOConfig) -> PPOConfig:
    """Settings with convolutions in bfloat16 on CPUs that have it: nearly twice as fast."""
    quick = config.model.share_encoder and agents.has_bfloat16(torch.device("cpu"))
    return agents.in_bfloat16(config) if quick else config


PPO_TASKS: dict[str, PPOConfig] = {
    "cartpole": agents.PPO_CARTPOLE,
    "half-cheetah": agents.PPO_CHEETAH,
    "ant": agents.PPO_CHEETAH,
    "reacher": agents.PPO_MUJOCO_QUICK,
    "pusher": agents.PPO_MUJOCO_QUICK,
    "inverted-double-pendulum": agents.PPO_MUJOCO_QUICK,
    "swimmer": replace(agents.PPO_MUJOCO_QUICK, gamma=0.9999),
}
"""PPO settings for tasks on which those of their kind do not work."""
