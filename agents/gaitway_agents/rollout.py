"""Record a rollout of a vector environment."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .trainer import Ended, Episode, Observation, ended_in, episodes_of


@dataclass
class Recorder:
    """The steps of a rollout so far."""

    decisions: list[tuple[Observation, Tensor, tuple[Tensor, ...]]] = field(default_factory=list)
    """Observation, action and parameters of the action's distribution at each step."""
    outcomes: list[tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list)
    """Reward, terminated, truncated and valid of each step."""
    finals: list[tuple[int, Tensor, Observation]] = field(default_factory=list)
    """Step, environments and last observations of the episodes that were truncated, and maybe of others that ended."""
    ended: list[Ended] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    complete: bool = True
    """True if all steps so far are valid."""
    memory: Observation = field(default_factory=dict)
    """Policy's memory for the next step; empty if it is feed-forward."""

    def add_outcome(
        self, reward: Tensor, terminated: Tensor, truncated: Tensor, info: dict[str, Any], *, steps: int
    ) -> None:
        """``steps`` counts those of the whole training, this one included.

        Where the environment gives ``info["final_rows"]``, nothing here waits for its device.
        """
        rows = info["final_rows"] if "final_rows" in info else truncated.nonzero().flatten()
        if len(rows):
            final = info["final_obs"] | self.memory
            self.finals.append((len(self.outcomes), rows, {k: v[rows] for k, v in final.items()}))
        self.complete &= "valid" not in info
        valid = info["valid"] if "valid" in info else torch.ones_like(terminated)
        if self.memory:
            goes_on = valid & ~(terminated | truncated)
            self.memory = {name: value * goes_on[:, None] for name, value in self.memory.items()}
        self.outcomes.append((reward, terminated, truncated, valid))
        self.ended += ended_in(info, steps)
        if "log" in info:
            self.log.append(info["log"])

    def rollout(self, following: Observation, timing: dict[str, float]) -> EnvRollout:
        """Rollout of the recorded steps, with the observation after the last."""
        observations, actions, distributions = zip(*self.decisions, strict=True)
        rewards, terminated, truncated, valid = (torch.stack(part) for part in zip(*self.outcomes, strict=True))
        return EnvRollout(
            observations={name: torch.stack([seen[name] for seen in observations]) for name in observations[0]},
            actions=torch.stack(actions),
            distribution=tuple(torch.stack(part) for part in zip(*distributions, strict=True)),
            rewards=rewards,
            learnt_rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            valid=valid,
            finals=self.finals,
            following=following,
            episodes=episodes_of(self.ended),
            timing=timing,
            complete=self.complete,
            log=means(self.log),
        )


@dataclass(frozen=True, kw_only=True)
class EnvRollout:
    """T steps of N environments: tensors are (T, N, ...)."""

    observations: Observation
    actions: Tensor
    distribution: tuple[Tensor, ...]
    """Parameters of the distributions that the actions were drawn from."""
    rewards: Tensor
    learnt_rewards: Tensor
    """Rewards to learn from: the environment's, or these scaled."""
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    """False where nothing happened: a step in which an environment only began its next episode."""
    finals: list[tuple[int, Tensor, Observation]]
    """Step, environments and last observations of the episodes that were truncated, and maybe of others that ended."""
    following: Observation
    """Observation after the last step, (N, ...)."""
    episodes: list[Episode]
    log: dict[str, float]
    """Means of the scalars that the environments logged."""
    timing: dict[str, float]
    """Seconds spent on the "environment" and on the "policy"."""
    complete: bool = False
    """True if all steps are known to be valid, which saves a synchronisation with the GPU."""

    @property
    def all_valid(self) -> bool:
        return self.complete or bool(self.valid.all())

    def flat_observations(self) -> Observation:
        """Observations as (T * N, ...)."""
        return {name: value.flatten(0, 1) for name, value in self.observations.items()}

    def valid_observations(self) -> Observation:
        """Rows of :meth:`flat_observations` whose step is valid."""
        flat, valid = self.flat_observations(), self.valid.flatten()
        return flat if self.all_valid else {name: value[valid] for name, value in flat.items()}


def means(logs: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of every entry, over the logs that have it. Tensors are copied to the host together."""
    entries: dict[str, list[Any]] = {}
    for log in logs:
        for name, value in log.items():
            entries.setdefault(name, []).append(value)
    tensors = {name: values for name, values in entries.items() if isinstance(values[0], Tensor)}
    means = {name: sum(values) / len(values) for name, values in entries.items() if name not in tensors}
    if tensors:
        columns = [torch.stack(values).double().mean() for values in tensors.values()]
        means |= zip(tensors, torch.stack(columns).tolist(), strict=True)
    return {name: means[name] for name in entries}


def rollout_state(rollout: EnvRollout) -> dict[str, Any]:
    """A rollout as tensors, numbers, mappings and lists, for a checkpoint."""
    fields = {field.name: getattr(rollout, field.name) for field in dataclasses.fields(rollout)}
    return fields | {"episodes": [dataclasses.astuple(episode) for episode in rollout.episodes]}


def rollout_from_state(state: dict[str, Any]) -> EnvRollout:
    return EnvRollout(**state | {"episodes": [Episode(*episode) for episode in state["episodes"]]})
