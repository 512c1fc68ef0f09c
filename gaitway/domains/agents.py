"""Which trainer goes with which settings, and what each agent can handle. Heavy: for commands that train."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from gaitway_agents import presets as agents
from gaitway_agents.off_policy.config import DQNConfig, SACConfig
from gaitway_agents.off_policy.presets import FAST_SAC
from gaitway_agents.presets import PPOConfig
from gaitway_agents.rsl_rl_config import RslRlConfig
from gaitway_agents.tabular.dp_trainer import PolicyIterationConfig, ValueIterationConfig
from gaitway_agents.tabular.td_trainer import QLearningConfig, SarsaConfig
from gymnasium import spaces

from ..errors import ConfigError

if TYPE_CHECKING:
    from gaitway_agents.symmetry import Symmetry
    from gaitway_agents.trainer import Trainer
    from gymnasium.vector import VectorEnv


@dataclass(frozen=True)
class Kind:
    """What agents with settings of one class are: their trainer, and the spaces they can handle."""

    trainer: str
    actions: tuple[type[spaces.Space], ...]
    tables: bool = False
    """Needs whole numbers as observation; planners one alone."""
    vectors: bool = False
    """Needs vectors as observations."""

    def objection(self, observation_space: spaces.Dict, action_space: spaces.Space) -> str | None:
        """Why such an agent cannot handle an environment; None if it can."""
        if not isinstance(action_space, self.actions):
            return f"cannot act in {action_space}"
        entries = [space for name, space in observation_space.spaces.items() if name != "action_mask"]
        if self.tables and not (len(entries) == 1 and isinstance(entries[0], spaces.Discrete | spaces.MultiDiscrete)):
            return f"keeps a table and cannot index it by {_describe(observation_space)}"
        if self.vectors and not all(isinstance(e, spaces.Box) and len(e.shape) == 1 for e in entries):
            return f"reads vectors only, not {_describe(observation_space)}"
        return None


ANY = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete)
KINDS: dict[type, Kind] = {
    PPOConfig: Kind("gaitway_agents.on_policy:OnPolicyTrainer", ANY),
    DQNConfig: Kind("gaitway_agents.off_policy.dqn:DQNTrainer", (spaces.Discrete,)),
    SACConfig: Kind("gaitway_agents.off_policy.sac:SACTrainer", (spaces.Box,)),
    QLearningConfig: Kind("gaitway_agents.tabular.td_trainer:TDControlTrainer", (spaces.Discrete,), tables=True),
    SarsaConfig: Kind("gaitway_agents.tabular.td_trainer:TDControlTrainer", (spaces.Discrete,), tables=True),
    ValueIterationConfig: Kind(
        "gaitway_agents.tabular.dp_trainer:ValueIterationTrainer", (spaces.Discrete,), tables=True
    ),
    PolicyIterationConfig: Kind(
        "gaitway_agents.tabular.dp_trainer:PolicyIterationTrainer", (spaces.Discrete,), tables=True
    ),
    RslRlConfig: Kind("gaitway_agents.rsl_rl_trainer:RslRlTrainer", (spaces.Box,), vectors=True),
}


AGENT_DEFAULTS: dict[str, Any] = {
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


def make_trainer(
    name: str,
    config: Any,
    envs: Sequence[VectorEnv],
    *,
    seed: int,
    total_steps: int,
    symmetry: Symmetry | None = None,
) -> Trainer:
    """The trainer of agent ``name`` with settings ``config``; refuses environments that it cannot handle."""
    observation_space, action_space = envs[0].single_observation_space, envs[0].single_action_space
    assert isinstance(observation_space, spaces.Dict)
    if objection := KINDS[type(config)].objection(observation_space, action_space):
        kinds = {other: KINDS[type(settings)] for other, settings in AGENT_DEFAULTS.items()}
        able = [other for other, kind in kinds.items() if kind.objection(observation_space, action_space) is None]
        raise ConfigError(f"agent {name!r} {objection}: use one of {', '.join(able)}")
    module, _, cls = KINDS[type(config)].trainer.partition(":")
    arguments: dict[str, Any] = {"seed": seed, "total_steps": total_steps}
    if symmetry is not None:
        arguments["symmetry"] = symmetry
    return cast("Trainer", getattr(importlib.import_module(module), cls)(envs, config, **arguments))


def _describe(space: spaces.Dict) -> str:
    return ", ".join(str(entry) for entry in space.spaces.values())
