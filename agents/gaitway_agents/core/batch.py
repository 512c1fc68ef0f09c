"""A batch of decisions made by one behaviour policy: env steps or tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


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
    """What each decision's loss is multiplied by: corrections of data that another policy, or engine, has sampled."""

    def __len__(self) -> int:
        return len(self.actions)

    def __getitem__(self, index: Tensor | slice) -> Batch:
        """The rows at ``index``."""

        return self.map(lambda value: _rows(value, index))

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with ``function`` applied to every tensor."""

        def optional(value: Tensor | None) -> Tensor | None:
            return None if value is None else function(value)

        return Batch(
            observations={name: function(value) for name, value in self.observations.items()},
            actions=function(self.actions),
            log_probs=function(self.log_probs),
            advantages=function(self.advantages),
            values=optional(self.values),
            returns=optional(self.returns),
            distribution=tuple(function(value) for value in self.distribution),
            mask=optional(self.mask),
            reference=optional(self.reference),
            weights=optional(self.weights),
        )

    def replace(self, **changes: Any) -> Batch:
        return dataclasses.replace(self, **changes)

    def named_tensors(self) -> dict[str, Tensor]:
        """Every tensor by name, for checks."""
        found = {f"observations.{name}": value for name, value in self.observations.items()}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                found[field.name] = value
            elif isinstance(value, tuple):
                found |= {f"{field.name}.{i}": part for i, part in enumerate(value)}
        return found


_TENSORS = ("actions", "log_probs", "advantages", "values", "returns", "mask", "reference", "weights")


def concatenate(batches: list[Batch]) -> Batch:
    """One batch with the rows of all ``batches`` in order."""
    first = batches[0]

    def join(name: str) -> Tensor | None:
        parts = [getattr(batch, name) for batch in batches]
        return None if parts[0] is None else torch.cat(parts)

    return first.replace(
        observations={k: torch.cat([b.observations[k] for b in batches]) for k in first.observations},
        **{name: join(name) for name in _TENSORS},
        distribution=tuple(torch.cat(parts) for parts in zip(*(b.distribution for b in batches), strict=True)),
    )


def _rows(value: Tensor, index: Tensor | slice) -> Tensor:
    # index_select copies whole rows, several times faster than general indexing.
    return value[index] if isinstance(index, slice) else value.index_select(0, index)
