"""Agents that write or judge texts: their trainers, what they learn from, and their settings."""

from __future__ import annotations

from dataclasses import dataclass

from gaitway_agents.language import presets as agents
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.online_dpo import OnlineDPOConfig
from gaitway_agents.language.preference import PreferenceConfig
from gaitway_agents.language.reward_model import RewardModelConfig
from gaitway_agents.language.sft import SFTConfig

TextAgentConfig = SFTConfig | PolicyGradientConfig | OnlineDPOConfig | RewardModelConfig | PreferenceConfig


@dataclass(frozen=True)
class TextKind:
    """What agents that write texts are: their trainer, and the fields of rows that it learns from."""

    trainer: str
    fields: tuple[str, ...]
    needs_reward: bool = False


TEXT_KINDS: dict[type, TextKind] = {
    SFTConfig: TextKind("gaitway_agents.language.sft:SFTTrainer", ("prompt", "completion")),
    PolicyGradientConfig: TextKind(
        "gaitway_agents.language.policy_gradient:PolicyGradientTrainer", ("prompt",), needs_reward=True
    ),
    OnlineDPOConfig: TextKind("gaitway_agents.language.online_dpo:OnlineDPOTrainer", ("prompt",), needs_reward=True),
    RewardModelConfig: TextKind(
        "gaitway_agents.language.reward_model:RewardModelTrainer", ("prompt", "chosen", "rejected")
    ),
    PreferenceConfig: TextKind(
        "gaitway_agents.language.preference:PreferenceTrainer", ("prompt", "chosen", "rejected")
    ),
}

TEXT_AGENTS: dict[str, TextAgentConfig] = {
    "sft": SFTConfig(),
    "grpo": agents.GRPO,
    "dr-grpo": agents.DR_GRPO,
    "dapo": agents.DAPO,
    "gspo": agents.GSPO,
    "cispo": agents.CISPO,
    "rloo": agents.RLOO,
    "reinforce++": agents.REINFORCE_PLUS_PLUS,
    "ppo": agents.PPO_RLHF,
    "online-dpo": OnlineDPOConfig(),
    "reward-model": RewardModelConfig(),
    "dpo": PreferenceConfig(loss="dpo"),
    "ipo": PreferenceConfig(loss="ipo"),
    "kto": PreferenceConfig(loss="kto"),
    "simpo": PreferenceConfig(loss="simpo"),
}
"""Every agent's settings for texts. PPO of texts has a critic and a reference of its own."""
