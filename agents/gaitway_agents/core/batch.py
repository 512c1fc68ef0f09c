"""A batch of decisions made by one behaviour policy: env steps or tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Record = TypeVar("Record", bound=Any)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows are decisions, (B, ...), or sequences of decisions, (B, T, ...), whose padding ``mask`` removes."""

    observations: dict[str, Tensor]
    actions: Tensor
    log_probs: Tensor
    """Log-probability of each action under the behaviour policy."""
    advantages: Tensor
    values: Tensor | None = None
    """Value estimates of the behaviour policy, for the clipped value loss."""
    returns: Tensor | None = None
    distribution: tuple[Tensor, ...] = ()
    """Parameters of the behaviour distribution (mean, std), for the exact KL divergence."""
    mask: Tensor | None = None
    """1 for real decisions, 0 for padding."""
    reference: Tensor | None = None
    """Log-probability of each action under the policy that the update is to stay close to."""
    weights: Tensor | None = None
    """Factors of the decisions' losses: corrections of data that another policy, or engine, has sampled."""

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def decisions(self) -> Tensor | float:
        """Their number, by which sums are divided for means."""
        return float(self.advantages.numel()) if self.mask is None else self.mask.sum().clamp(min=1.0)

    def shuffled(self, generator: torch.Generator | None) -> Tensor:
        """Numbers of the rows in random order."""
        device = torch.device("cpu") if generator is None else generator.device
        return torch.randperm(len(self), generator=generator, device=device).to(self.actions.device)

    def __getitem__(self, index: Tensor | slice) -> Batch:
        """The rows at ``index``."""
        return self.map(lambda value: rows(value, index))

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with ``function`` applied to every tensor."""
        return map_tensors(self, function)

    def replace(self, **changes: Any) -> Batch:
        return dataclasses.replace(self, **changes)

    def named_tensors(self) -> dict[str, Tensor]:
        """Every tensor by name, for checks."""
        found = {f"observations.{name}": value for name, value in self.observations.items()}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                found[name] = value
            elif isinstance(value, tuple):
                found |= {f"{name}.{i}": part for i, part in enumerate(value)}
        return found


def map_tensors(record: Record, function: Callable[[Tensor], Tensor]) -> Record:
    """A dataclass with ``function`` applied to every tensor in its fields, and in dictionaries and tuples there."""

    def of(value: Any) -> Any:
        if isinstance(value, Tensor):
            return function(value)
        if isinstance(value, dict):
            return {name: of(part) for name, part in value.items()}
        return tuple(map(of, value)) if isinstance(value, tuple) else value

    return dataclasses.replace(record, **{name: of(value) for name, value in vars(record).items()})


def concatenate(batches: list[Batch]) -> Batch:
    """One batch with the rows of all ``batches`` in order."""

    def join(parts: tuple[Any, ...]) -> Any:
        first = parts[0]
        if isinstance(first, Tensor):
            return torch.cat(parts)
        if isinstance(first, dict):
            return {name: join(tuple(part[name] for part in parts)) for name in first}
        return None if first is None else tuple(map(join, zip(*parts, strict=True)))

    return Batch(**{name: join(tuple(getattr(batch, name) for batch in batches)) for name in vars(batches[0])})


def rows(value: Tensor, index: Tensor | slice) -> Tensor:
    """Rows of a tensor."""
    # index_select copies whole rows, several times faster than general indexing.
    return value[index] if isinstance(index, slice) else value.index_select(0, index)
