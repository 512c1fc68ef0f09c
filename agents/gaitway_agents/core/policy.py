"""Interface between optimisers and policies."""

from __future__ import annotations

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


class Policy(Protocol):
    """Methods that the optimiser calls on a policy, which is an ``nn.Module``.

    If it has ``after_step()``, that is called after every step; if it has ``chunks(batch, size)``, that cuts a
    minibatch into the rows of each forward pass instead of equal shares of ``size`` rows; if it has
    ``prepared(batch)``, that is called before the epochs and gives the batch that ``evaluate`` sees rows of;
    parameters in its ``learnt_apart()`` are another optimiser's; what ``written_out(loss)`` returns, unless None, takes
    the epochs of the batches that it is for, without autograd.
    """

    def evaluate(self, batch: Batch) -> Evaluation: ...

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Parameters whose gradients are clipped together."""
        ...


def idle_passes(policy: nn.Module, batch: Batch, passes: int) -> list[Batch]:
    """Batches without a decision for a policy whose layers lie in parts in the processes: as many as this process needs
    beside its ``passes`` over ``batch`` to have as many as any other. To be asked for before those."""
    if not getattr(policy, "in_parts", False) or distributed.size() == 1:
        return []
    idle, row = distributed.most(passes, batch.actions.device) - passes, batch[slice(0, 1)]
    return [row.replace(mask=torch.zeros_like(row.log_probs))] * idle


def has_moved(policy: nn.Module) -> None:
    """Let a policy that follows its own parameters know that an optimiser has taken a step."""
    after_step = getattr(policy, "after_step", None)
    if after_step is not None:
        after_step()
