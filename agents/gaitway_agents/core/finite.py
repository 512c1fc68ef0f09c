"""Stop at the first number that is not finite, and name its source."""

from __future__ import annotations

import torch
from gaitway_files.errors import NotDone
from torch import nn

from .batch import Batch


class NonFiniteError(NotDone):
    """A tensor became NaN or infinite; the message names the first one."""


def first_bad(policy: nn.Module, batch: Batch) -> str:
    """Name the first non-finite tensor, from the data through the parameters to the gradients."""
    named = {f"batch.{name}": value for name, value in batch.named_tensors().items()}
    named |= {f"policy.{name}": value for name, value in policy.state_dict().items()}
    gradients = {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}
    named |= {f"gradient of policy.{name}": value for name, value in gradients.items()}
    return next((name for name, value in named.items() if not torch.isfinite(value).all()), "the gradient norm")
