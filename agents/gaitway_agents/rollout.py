"""Record what vector environments go through during a rollout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Observation = dict[str, Tensor]


@dataclass
class Lane:
    """The steps of one vector environment so far."""

    decisions: list[tuple[Observation, Tensor, Tensor]] = field(default_factory=list)
    """Observation, action and action mean of each step."""
    outcomes: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    """Reward, terminated and truncated of each step."""
    finals: list[tuple[int, Tensor, Observation]] = field(default_factory=list)
    """Step, environments and last observations of the episodes that were truncated."""
    log: list[dict[str, float]] = field(default_factory=list)
    memory: Observation = field(default_factory=dict)
    """What the policy remembers for the next step; nothing if it is feed-forward."""

    def add_outcome(self, reward: Tensor, terminated: Tensor, truncated: Tensor, info: dict[str, Any]) -> None:
        if bool(truncated.any()):
            rows = truncated.nonzero().flatten()
            final = info["final_obs"] | self.memory
            self.finals.append((len(self.outcomes), rows, {k: v[rows] for k, v in final.items()}))
        goes_on = ~(terminated | truncated)
        self.memory = {name: value * goes_on[:, None] for name, value in self.memory.items()}
        self.outcomes.append((reward, terminated, truncated))
        if "log" in info:
            self.log.append(info["log"])


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """T steps of N environments: tensors are (T, N, ...)."""

    observations: Observation
    actions: Tensor
    means: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    finals: list[tuple[int, Tensor, Observation]]
    """Step, environments and last observations of the episodes that were truncated."""
    log: dict[str, float]
    """Means of the scalars that the environments logged."""

    def flat_observations(self) -> Observation:
        """Observations as (T * N, D)."""
        return {name: value.flatten(0, 1) for name, value in self.observations.items()}


def join(lanes: list[Lane]) -> Rollout:
    """The lanes' environments side by side."""

    def side_by_side(parts: list[list[Tensor]]) -> Tensor:
        return torch.cat([torch.stack(part) for part in parts], 1)

    first = [lane.outcomes[0][0].shape[0] for lane in lanes]
    offsets = [sum(first[:i]) for i in range(len(lanes))]
    entries: dict[str, list[float]] = {}
    for lane in lanes:
        for log in lane.log:
            for name, value in log.items():
                entries.setdefault(name, []).append(value)
    return Rollout(
        observations={
            name: side_by_side([[d[0][name] for d in lane.decisions] for lane in lanes])
            for name in lanes[0].decisions[0][0]
        },
        actions=side_by_side([[d[1] for d in lane.decisions] for lane in lanes]),
        means=side_by_side([[d[2] for d in lane.decisions] for lane in lanes]),
        rewards=side_by_side([[o[0] for o in lane.outcomes] for lane in lanes]),
        terminated=side_by_side([[o[1] for o in lane.outcomes] for lane in lanes]),
        truncated=side_by_side([[o[2] for o in lane.outcomes] for lane in lanes]),
        finals=[
            (t, rows + offset, final)
            for lane, offset in zip(lanes, offsets, strict=True)
            for t, rows, final in lane.finals
        ],
        log={name: sum(values) / len(values) for name, values in entries.items()},
    )
