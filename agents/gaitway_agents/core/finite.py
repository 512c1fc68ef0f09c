"""Stop at the first number that is not finite, and name its source."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from gaitway_files.errors import NotDone
from torch import Tensor, nn

from .batch import Batch


class NonFiniteError(NotDone):
    """A tensor became NaN or infinite; the message names the first one."""

    advice = "a lower agent.optimizer.learning_rate or a smaller agent.optimizer.desired_kl often helps"


class BrokenRolloutError(NonFiniteError):
    """The environment gave a reward or an observation that is NaN or infinite."""

    advice = "it comes from the environment, not from the update: look at the term or the wrapper that computes it"


def check_given(rewards: Tensor, observations: Mapping[str, Tensor]) -> None:
    """Raise :class:`BrokenRolloutError` for the first number of a rollout (T, N, ...) that is not finite."""
    named = {"reward": rewards} | {f"observation {name!r}": value for name, value in observations.items()}
    for name, value in named.items():
        if value.is_floating_point() and not math.isfinite(float(value.sum())) and not bool(value.isfinite().all()):
            place = (~value.isfinite()).nonzero()[0].tolist()
            entry = f" at index {tuple(place[2:])}" if place[2:] else ""
            step = f" in step {place[0]} of the rollout" if len(value) > 1 else ""
            raise BrokenRolloutError(
                f"the {name} of environment {place[1]}{entry} is {float(value[tuple(place)])}{step}"
            )


def first_bad(policy: nn.Module, batch: Batch) -> str:
    """Name the first non-finite tensor, from the data through the parameters to the gradients."""
    named = {f"batch.{name}": value for name, value in batch.named_tensors().items()}
    named |= {f"policy.{name}": value for name, value in policy.state_dict().items()}
    gradients = {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}
    named |= {f"gradient of policy.{name}": value for name, value in gradients.items()}
    return next((name for name, value in named.items() if not torch.isfinite(value).all()), "the gradient norm")
