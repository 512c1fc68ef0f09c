"""Trainers of the agents that learn in environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from gaitway_agents.registry import ENVIRONMENTS, load
from gymnasium import spaces

from ..errors import ConfigError

if TYPE_CHECKING:
    from gaitway_agents.symmetry import Symmetry
    from gaitway_agents.trainer import Trainer
    from gymnasium.vector import VectorEnv


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
    if objection := ENVIRONMENTS[name].objection(observation_space, action_space):
        able = [row.name for row in ENVIRONMENTS.values() if row.objection(observation_space, action_space) is None]
        raise ConfigError(f"agent {name!r} {objection}: use one of {', '.join(able)}")
    arguments: dict[str, Any] = {"seed": seed, "total_steps": total_steps}
    if symmetry is not None:
        arguments["symmetry"] = symmetry
    return cast("Trainer", load(ENVIRONMENTS[name].trainer)(envs, config, **arguments))
