"""Sources of rollouts for a trainer: beside it, one update behind, or in another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import Tensor

from .models.actor_critic import ActorCritic
from .presets import PPOConfig
from .rollout import EnvRollout
from .symmetry import Symmetry


class RolloutSource(Protocol):
    """Rollouts of ``num_envs`` environments, which may be anywhere, on one ``device``.

    A trainer calls ``begin`` once, ``publish`` after every update, and ``collect`` once before each.
    """

    num_envs: int
    device: torch.device
    single_observation_space: spaces.Dict
    single_action_space: spaces.Space[Any]

    def begin(self, policy: ActorCritic, generator: torch.Generator, symmetry: Symmetry | None) -> None:
        """Take the policy that will learn, and the trainer's generator of random numbers.

        A source beside the learner acts with ``policy`` itself; others copy it, and what is published. With a
        ``symmetry`` the policy sees canonical observations, and what enters an environment is mirrored back.
        """
        ...

    def collect(self, steps: int, *, last: bool) -> EnvRollout:
        """The next rollout, ``steps`` steps into the training; ``last`` if no further one will be asked for."""
        ...

    def publish(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Take the policy's state after ``version`` steps of training: its own tensors, which change in the next
        update. Copy what is needed then."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Its part of the trainer's state: entries ``observations``, ``envs`` and others of its own."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def close(self) -> None:
        """End environments, threads and processes."""
        ...


def check_source(source: Any) -> None:
    """Refuse an object that is not a source, and name the missing members."""
    asked = (*RolloutSource.__annotations__, *(name for name in vars(RolloutSource) if not name.startswith("_")))
    if missing := [name for name in asked if not hasattr(source, name)]:
        raise UserError(
            f"{type(source).__name__} is no source of rollouts, for it has no {', '.join(missing)}; make one of "
            "environments with gaitway_agents.source.source_of(env, config)"
        )


def source_of(env: VectorEnv, config: PPOConfig) -> RolloutSource:
    """The source that steps environments as a configuration says."""
    from .collector import Collector
    from .decoupled import DecoupledCollector

    kind = DecoupledCollector if config.decoupled else Collector
    return kind(env, num_steps=config.num_steps, random_episode_start=config.random_episode_start)
