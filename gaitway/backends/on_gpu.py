"""Settings of a training whose simulator shares a GPU with the agent."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import ConfigError
from .backend import Config


def check_agent(config: Config, title: str, *, elsewhere: str = "") -> None:
    """Refuse agents that do not learn beside the simulator called ``title``, and more than one process.

    ``elsewhere`` is what else trains other agents there, for the message.
    """
    from gaitway_agents.presets import PPOConfig

    if not isinstance(config.agent, PPOConfig):
        raise ConfigError(
            f"agent {config.algorithm!r} does not learn in {title}: use --agent ppo or one of its kin, such as a2c, or "
            f"--world mujoco{elsewhere}"
        )
    if config.processes > 1:
        raise ConfigError(
            f"processes={config.processes}: in {title} each process has a GPU of its own; leave processes out and "
            f"add --gpus {config.processes}"
        )
    if config.agent.decoupled:
        raise ConfigError(
            f"agent {config.algorithm!r} with agent.decoupled=true: {title} simulates on the GPU that also learns, so "
            "nothing can be gathered meanwhile; use --agent ppo with agent.decoupled=false"
        )


def in_one_go(agent: Any) -> Any:
    """Settings with whole minibatches in a forward pass, for a GPU, and without the threads for CPUs."""
    from gaitway_agents.core.optimizer import OptimizerConfig
    from gaitway_agents.presets import PPOConfig

    if not (isinstance(agent, PPOConfig) and isinstance(agent.optimizer, OptimizerConfig)):
        return agent
    optimizer = dataclasses.replace(agent.optimizer, chunk_size=2**20, workers=1)
    return dataclasses.replace(agent, optimizer=optimizer)
