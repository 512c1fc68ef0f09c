"""A teacher: the frozen deterministic actor of another training, which labels what a student observed."""

from __future__ import annotations

from typing import Any

import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from torch import Tensor, nn

OBSERVATION = "teacher"
"""Observation that the teacher reads."""


class Teacher:
    """``actor`` maps an observation (N, D) to an action (N, A); one with a ``memory_size`` takes and returns a memory.

    Its memory goes on from one rollout to the next, and is cleared where an episode ended.
    """

    def __init__(self, actor: nn.Module):
        self.actor = actor.requires_grad_(False).eval()
        self.memory: Tensor | None = None

    def check(self, observations: spaces.Dict, num_actions: int, device: torch.device) -> None:
        """Move to ``device``; refuse environments that it cannot act in."""
        self.actor.to(device)
        if OBSERVATION not in observations.spaces:
            raise UserError(f"the environment has no observation {OBSERVATION!r}, which the teacher reads")
        size = observations[OBSERVATION].shape
        assert size is not None
        try:
            found = self._act(torch.zeros(1, *size, device=device)).shape[-1]
        except RuntimeError as error:
            raise UserError(f"the teacher cannot read observations of {size[0]} numbers: {error}") from None
        self.memory = None
        if found != num_actions:
            raise UserError(f"the teacher has actions of {found} numbers, and the student's have {num_actions}")

    @torch.no_grad()
    def labels(self, observations: Tensor, goes_on: Tensor) -> Tensor:
        """Actions (T, N, A) for ``observations`` (T, N, D); ``goes_on`` (T, N, 1) is 0 where an episode ended."""
        if not self.memory_size:
            return self._act(observations.flatten(0, 1)).unflatten(0, observations.shape[:2])
        actions = []
        for seen, on in zip(observations, goes_on, strict=True):
            actions.append(self._act(seen))
            assert self.memory is not None
            self.memory = self.memory * on
        return torch.stack(actions)

    @property
    def memory_size(self) -> int:
        return getattr(self.actor, "memory_size", 0)

    @torch.no_grad()
    def _act(self, observation: Tensor) -> Tensor:
        action: Tensor
        if not self.memory_size:
            action = self.actor(observation)
            return action
        if self.memory is None:
            self.memory = observation.new_zeros(len(observation), self.memory_size)
        action, self.memory = self.actor(observation, self.memory)
        return action

    def state_dict(self) -> dict[str, Any]:
        """Weights and memory: a student goes on with the teacher that it began with."""
        return {"actor": self.actor.state_dict(), "memory": self.memory}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.actor.load_state_dict(state["actor"])
        self.memory = state["memory"]
