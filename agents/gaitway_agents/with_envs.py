"""Base of trainers with environments and policies without memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.vector import VectorEnv

from .trainer import Episode, Observation

Envs = VectorEnv | Sequence[VectorEnv]


class WithEnvs:
    """Environments, the episodes that ended in them, and their part of a checkpoint."""

    def __init__(self, envs: Envs, total_steps: int | None):
        self.envs = [envs] if isinstance(envs, VectorEnv) else list(envs)
        self.total_steps, self.steps = total_steps, 0
        self._episodes: list[Episode] = []

    def pop_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""
        episodes, self._episodes = self._episodes, []
        return episodes

    def initial_memory(self, num_envs: int) -> Observation:
        """No further observations: the policy has no memory."""
        return {}

    def env_states(self) -> list[dict[str, Any]]:
        return [env.state_dict() for env in self.envs]  # type: ignore[attr-defined]

    def load_env_states(self, states: Sequence[dict[str, Any]]) -> None:
        for env, state in zip(self.envs, states, strict=True):
            env.load_state_dict(state)  # type: ignore[attr-defined]
