"""PPO's trainer in environments that a test has made."""

from typing import Any

from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPOConfig
from gaitway_agents.source import source_of


def on_policy_trainer(env: Any, config: PPOConfig, **arguments: Any) -> OnPolicyTrainer:
    return OnPolicyTrainer(source_of(env, config), config, **arguments)
