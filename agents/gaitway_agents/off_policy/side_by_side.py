"""Several vector environments as one, with the observation that truly followed each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from ..trainer import Observation


@dataclass(frozen=True)
class Outcome:
    """One step of all environments, (N, ...)."""

    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    following: Observation
    """True next observations, before any reset."""
    valid: Tensor | None
    """Which rows are transitions at all; None if all are."""
    infos: list[dict[str, Any]]


class SideBySide:
    """Environments stepped in turn; ``observations`` is what the next actions are for."""

    observations: Observation

    def __init__(self, envs: Sequence[VectorEnv]):
        for env in envs:
            if env.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
                raise ValueError(f"autoreset mode {env.metadata.get('autoreset_mode')}: SAME_STEP is needed")
        self.envs = list(envs)
        self.sizes = [env.num_envs for env in envs]
        self.num_envs = sum(self.sizes)
        self.observations = {}

    def start(self) -> None:
        """Reset the environments, unless they are under way."""
        if not self.observations:
            self.observations = _join([env.reset()[0] for env in self.envs])

    def step(self, actions: Tensor) -> Outcome:
        if len(self.envs) == 1:
            result = self.envs[0].step(actions)
            self.observations, rewards, terminated, truncated, info = result
            return Outcome(rewards, terminated, truncated, _following(*result), info.get("valid"), [info])
        results: list[tuple[Any, ...]] = [
            env.step(part) for env, part in zip(self.envs, actions.split(self.sizes), strict=True)
        ]
        self.observations = _join([result[0] for result in results])
        rewards, terminated, truncated = (torch.cat([result[k] for result in results]) for k in (1, 2, 3))
        following, infos = _join([_following(*result) for result in results]), [result[4] for result in results]
        return Outcome(rewards, terminated, truncated, following, self._valid(infos), infos)

    def _valid(self, infos: list[dict[str, Any]]) -> Tensor | None:
        if not any("valid" in info for info in infos):
            return None
        whole = [torch.ones(size, dtype=torch.bool) for size in self.sizes]
        return torch.cat([info.get("valid", rows) for info, rows in zip(infos, whole, strict=True)])

    def state_dict(self) -> dict[str, Any]:
        envs = [env.state_dict() for env in self.envs]  # type: ignore[attr-defined]
        return {"observations": self.observations, "envs": envs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.observations = dict(state["observations"])
        for env, env_state in zip(self.envs, state["envs"], strict=True):
            env.load_state_dict(env_state)  # type: ignore[attr-defined]


def _following(
    observation: Observation, rewards: Tensor, terminated: Tensor, truncated: Tensor, info: dict[str, Any]
) -> Observation:
    """True next observations: at the end of an episode the last one, not the first of the next episode."""
    ended = terminated | truncated
    if not bool(ended.any()):
        return observation
    if "final_obs" not in info:
        row = int(ended.nonzero()[0])
        raise ValueError(f'environment {row}: an episode ended, but info["final_obs"] does not tell what was seen last')
    final = info["final_obs"]
    return {
        name: torch.where(ended.view(-1, *[1] * (value.dim() - 1)), final[name], value)
        for name, value in observation.items()
    }


def _join(observations: Sequence[Observation]) -> Observation:
    """The environments' observations one below the other."""
    if len(observations) == 1:
        return observations[0]
    return {name: torch.cat([part[name] for part in observations]) for name in observations[0]}
