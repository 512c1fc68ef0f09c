"""Base of trainers with a policy without memory."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import VectorEnv

from .trainer import Episode, Observation, check_autoreset


class WithEnv:
    """A vector environment, the episodes that ended in it, and its part of a checkpoint."""

    def __init__(self, env: VectorEnv, total_steps: int | None):
        check_autoreset(env)
        self.env, self.total_steps, self.steps = env, total_steps, 0
        self._episodes: list[Episode] = []

    @property
    def num_envs(self) -> int:
        return self.env.num_envs

    def pop_episodes(self) -> list[Episode]:
        """Episodes that ended since the last call."""
        episodes, self._episodes = self._episodes, []
        return episodes

    def initial_memory(self, num_envs: int) -> Observation:
        """No further observations: the policy has no memory."""
        return {}

    def env_states(self) -> list[dict[str, Any]]:
        """The environment's state, alone in a list, which is how checkpoints keep it."""
        return [self.env.state_dict()]  # type: ignore[attr-defined]

    def load_env_states(self, states: list[dict[str, Any]]) -> None:
        (state,) = states
        self.env.load_state_dict(state)  # type: ignore[attr-defined]
