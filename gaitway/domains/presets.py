"""How a task is trained unless told otherwise: the training half of each preset. The task half is in gaitway_tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gaitway_agents import presets as agents
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.models.actor_critic import ActorCriticConfig
from gaitway_agents.off_policy.config import DQNConfig, SACConfig
from gaitway_agents.off_policy.presets import FAST_SAC
from gaitway_agents.presets import PPOConfig, has_bfloat16
from gaitway_agents.rsl_rl_config import RslRlConfig
from gaitway_agents.tabular.dp_trainer import PolicyIterationConfig, ValueIterationConfig
from gaitway_agents.tabular.td_trainer import QLearningConfig, SarsaConfig
from gaitway_isaaclab.launch import IsaacLabOptions
from gaitway_mujoco.options import PhysicsOptions
from gaitway_tasks.language.spec import LanguageTask
from gaitway_tasks.mdp import events
from gaitway_tasks.registry import UnknownNameError, learner_of
from gaitway_tasks.spec import Task

from ..catalogue import AGENTS
from ..errors import ConfigError
from .agents import AgentConfig
from .gym_presets import gym_settings
from .texts.settings import Choices, language_settings
from .worlds import AnyTask, learning_device

CPU: dict[str, Any] = {
    "num_envs": 256,
    "checkpoint_interval": 50,
    "total_steps": 8_000_000,
    "agent": PPOConfig(
        gamma=0.98,
        symmetry="canonical",
        learning_rate_final=2e-4,
        model=ActorCriticConfig(init_std=0.8),
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
    "physics": PhysicsOptions(),
}
"""For two cores: few environments and many updates. A policy acts in one quarter of the command space and is mirrored
into the others, which halves the steps it needs."""

SPRINT: dict[str, Any] = CPU | {
    "total_steps": 3_000_000,
    "agent": replace(CPU["agent"], learning_rate_final=1e-4),
}


MUJOCO_ALONE = (events.randomize_ground_impedance,)
"""Events of presets that have no counterpart in Isaac Lab: a preset does without them there."""

AGENT_DEFAULTS: dict[str, AgentConfig] = {
    "ppo": PPOConfig(),
    "a2c": agents.A2C,
    "vpg": agents.VPG,
    "reinforce": agents.REINFORCE,
    "trpo": agents.TRPO,
    "impala": agents.IMPALA,
    "ppo-dreamer": agents.PPO_DREAMER,
    "rsl_rl": RslRlConfig(),
    "dqn": DQNConfig(),
    "sac": SACConfig(),
    "fast-sac": FAST_SAC,
    "q-learning": QLearningConfig(),
    "sarsa": SarsaConfig(),
    "expected-sarsa": SarsaConfig(expected=True),
    "value-iteration": ValueIterationConfig(),
    "policy-iteration": PolicyIterationConfig(),
}
"""Every agent's settings where a task has none of its own."""


def training_settings(
    task: AnyTask,
    agent: str,
    preset: str | None,
    world: str,
    choices: Choices | None = None,
    *,
    device: str = "auto",
) -> dict[str, Any]:
    """Fields of ``TrainConfig`` for a task, agent, preset and world, learnt on ``device``."""
    if agent not in AGENTS:
        raise UnknownNameError("agent", agent, AGENTS)
    if isinstance(task, LanguageTask):
        return language_settings(task, agent, choices or Choices(), learning_device(world, device))
    if agent not in AGENT_DEFAULTS:
        raise ConfigError(
            f"agent {agent!r} learns from texts, and {task.name} is an environment: use one of "
            f"{', '.join(AGENT_DEFAULTS)}"
        )
    if not isinstance(task, Task):
        return gym_settings(task, agent, AGENT_DEFAULTS[agent])
    settings = isaac_lab_settings(task) if preset is None else {"cpu": CPU, "sprint": SPRINT}[preset]
    learner = settings["agent"] if agent == "ppo" else AGENT_DEFAULTS[agent]
    where = learning_device(world, device)
    if preset is not None and agent == "ppo" and where.type == "cpu" and has_bfloat16(where):
        learner = _in_bfloat16(learner)
    if world == "isaaclab":
        settings = settings | {"isaaclab": IsaacLabOptions(), "tf32": True}
        learner = _in_one_go(learner)
    return settings | {"agent": learner}


def isaac_lab_settings(task: Task) -> dict[str, Any]:
    """Isaac Lab's for the task's robot and ground: 4096 environments, 24 steps, and as many iterations."""
    stock = learner_of(task)
    model = ActorCriticConfig(
        actor_hidden=stock.hidden_dims, critic_hidden=stock.hidden_dims, normalize_observations=False
    )
    return {
        "num_envs": 4096,
        "total_steps": stock.max_iterations * 24 * 4096,
        "agent": PPOConfig(model=model, optimizer=OptimizerConfig(entropy_coefficient=stock.entropy_coef)),
        "physics": PhysicsOptions(),
    }


def _in_one_go(agent: AgentConfig) -> AgentConfig:
    """With whole minibatches in a forward pass, as a GPU likes them, and without the threads that CPUs like."""
    if not (isinstance(agent, PPOConfig) and isinstance(agent.optimizer, OptimizerConfig)):
        return agent
    return replace(agent, optimizer=replace(agent.optimizer, chunk_size=2**20, workers=1))


def _in_bfloat16(agent: AgentConfig) -> AgentConfig:
    """The same in the precision that a CPU may be best at. On a GPU small networks lose more by the conversions."""
    assert isinstance(agent, PPOConfig) and isinstance(agent.optimizer, OptimizerConfig)
    return replace(agent, optimizer=replace(agent.optimizer, precision="bfloat16"))
