"""The classes of agents' settings that a configuration may hold. Imports none of them."""

from __future__ import annotations

from ..config.tree import Kinds

AGENT_KINDS = Kinds(
    "gaitway_agents.presets:PPOConfig",
    "gaitway_agents.off_policy.config:DQNConfig",
    "gaitway_agents.off_policy.config:SACConfig",
    "gaitway_agents.tabular.td_trainer:QLearningConfig",
    "gaitway_agents.tabular.td_trainer:SarsaConfig",
    "gaitway_agents.tabular.dp_trainer:ValueIterationConfig",
    "gaitway_agents.tabular.dp_trainer:PolicyIterationConfig",
    "gaitway_agents.rsl_rl_config:RslRlConfig",
    "gaitway_agents.language.sft:SFTConfig",
    "gaitway_agents.language.config:PolicyGradientConfig",
    "gaitway_agents.language.online_dpo:OnlineDPOConfig",
    "gaitway_agents.language.reward_model:RewardModelConfig",
    "gaitway_agents.language.preference:PreferenceConfig",
)
