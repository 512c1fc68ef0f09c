"""Sampled sequences as a learner handles them: on its device, joined, and some of them left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from .world import Rollout


@dataclass(frozen=True)
class Samples:
    """The tensors of one or more rollouts, as :class:`gaitway_agents.language.world.Rollout` describes them."""

    tokens: Tensor
    lengths: Tensor
    mask: Tensor
    log_probs: Tensor
    groups: Tensor
    finished: Tensor
    rewards: Tensor
    parts: Mapping[str, Tensor]

    @classmethod
    def of(cls, rollout: Rollout, device: torch.device) -> Self:
        found = {field.name: getattr(rollout, field.name) for field in dataclasses.fields(cls)}
        found["parts"] = {name: part.to(device) for name, part in rollout.parts.items()}
        return cls(**{name: value if name == "parts" else value.to(device) for name, value in found.items()})

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def sizes(self) -> Tensor:
        """Tokens that the policy chose in each sequence, shape (B,)."""
        return self.mask.sum(1)

    def rows(self, index: Tensor) -> Samples:
        """The sequences at ``index``."""
        return self._map(lambda value: value[index])

    def replace(self, **changes: Tensor) -> Samples:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def _map(self, function: Callable[[Tensor], Tensor]) -> Samples:
        names = [field.name for field in dataclasses.fields(self) if field.name != "parts"]
        parts = {name: function(part) for name, part in self.parts.items()}
        return Samples(**{name: function(getattr(self, name)) for name in names}, parts=parts)


def join(samples: Sequence[Samples]) -> Samples:
    """All sequences in order; the groups of later ones are counted on."""
    if len(samples) == 1:
        return samples[0]
    width = max(part.tokens.shape[1] for part in samples)
    found: dict[str, Tensor] = {}
    for name in ("tokens", "mask", "log_probs"):
        found[name] = torch.cat([_widen(getattr(part, name), width) for part in samples])
    for name in ("lengths", "finished", "rewards"):
        found[name] = torch.cat([getattr(part, name) for part in samples])
    groups, count = [], 0
    for part in samples:
        groups.append(part.groups + count)
        count += int(part.groups.max()) + 1
    parts = {name: torch.cat([part.parts[name] for part in samples]) for name in samples[0].parts}
    return Samples(**found, groups=torch.cat(groups), parts=parts)


def _widen(value: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(value, (0, width - value.shape[1]))
