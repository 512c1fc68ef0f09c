"""What an optimiser asks of the networks that it trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from . import distributed
from .batch import Batch


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A policy's view of a batch's decisions."""

    log_probs: Tensor
    entropy: Tensor
    values: Tensor | None = None
    distribution: tuple[Tensor, ...] = ()
    """Parameters of the distribution that the actions were drawn from."""
    kl: Tensor | None = None
    """KL(behaviour || this policy) of each decision, if the batch has the behaviour's distribution. No gradient."""
    value_losses: Tensor | None = None
    """The critic's own loss of each decision, where that is not the squared error of ``values``."""
    likeliest: Tensor | None = None
    """1 where no other action was likelier than the one that was chosen. No gradient."""
    divergence: Tensor | None = None
    """Divergence of the distribution from a teacher's at each decision."""


def computing(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Context in which networks on ``device`` compute in ``precision``, "float32" or "bfloat16"; weights keep their
    dtype."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def in_precision(x: Tensor) -> Tensor:
    """``x`` in the type of the products of networks that are called now."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


class Epochs(Protocol):
    """A policy's own epochs of small minibatches, without autograd."""

    def is_for(self, batch: Batch, size: int) -> bool:
        """True if minibatches of ``size`` rows of a prepared batch need nothing else."""
        ...

    def epoch(self, batch: Batch, parts: Sequence[Tensor | slice], normalize: bool, step: Callable[[], None]) -> None:
        """Leave the gradient of each minibatch's mean loss in the parameters, and call ``step``.

        ``parts`` are the rows of the minibatches, whose advantages are normalised if told to.
        """

    def statistics(self) -> list[float]:
        """Sum over all minibatches since the last call of the means that the loss itself reports."""
        ...


class Policy(nn.Module, ABC):
    """Networks that an optimiser trains."""

    in_parts = False
    """Layers lie in parts in several processes, and have to be called as modules."""

    @abstractmethod
    def evaluate(self, batch: Batch) -> Evaluation: ...

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Parameters whose gradients are clipped together: all that learn."""
        return [[parameter for parameter in self.parameters() if parameter.requires_grad]]

    def learnt_apart(self) -> list[nn.Parameter]:
        """Parameters that the policy's optimiser leaves alone."""
        return []

    def prepared(self, batch: Batch) -> Batch:
        """The batch that :meth:`evaluate` sees rows of: called before the epochs."""
        return batch

    def grouped(self, batch: Batch, order: Tensor) -> Tensor:
        """``order`` (B,) of the rows of a batch, with those beside each other that are computed together for less."""
        return order

    def chunks(self, batch: Batch, size: int) -> list[Tensor] | None:
        """The rows of each forward pass over a minibatch; None for equal shares of at most ``size`` rows."""
        return None

    def written_out(self, loss: object) -> Epochs | None:
        """Epochs of ``loss`` without autograd, made once the parameters have their ``grad``; None if that cannot be."""
        return None

    def after_step(self) -> None:
        """Follow the parameters: called after every step of an optimiser."""


def idle_passes(policy: Policy, batch: Batch, passes: int) -> list[Batch]:
    """Batches without a decision for a policy whose layers lie in parts in the processes: as many as this process needs
    beside its ``passes`` over ``batch`` to have as many as any other. To be asked for before those."""
    if not policy.in_parts or distributed.size() == 1:
        return []
    idle, row = distributed.most(passes, batch.actions.device) - passes, batch[slice(0, 1)]
    return [row.replace(mask=torch.zeros_like(row.log_probs))] * idle
