"""Regression of a critic by itself, apart from the policy's updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt
from torch import Tensor, nn

from . import objective
from .batch import Batch
from .finite import NonFiniteError, first_bad
from .policy import Evaluation, Policy


@dataclass(frozen=True, kw_only=True)
class CriticConfig(Checked):
    """Epochs of Adam on the squared error of the values. Defaults are those of Spinning Up's policy gradients."""

    epochs: PositiveInt = 80
    """Passes over each rollout; typically 10 to 80."""
    minibatches: PositiveInt = 1
    """Minibatches of each epoch."""
    learning_rate: PositiveFloat = 1e-3
    """Learning rate; typically 3e-4 to 1e-3."""
    chunk_size: PositiveInt = 4096
    """Rows per forward pass: small enough for activations to stay in the cache."""


class CriticOptimizer:
    """``update(batch)`` fits the critic of ``policy`` to the batch's returns; the actor stays bit for bit.

    ``groups`` are the policy's parameter groups, the actor's first.
    """

    def __init__(
        self,
        policy: Policy,
        groups: Sequence[Sequence[nn.Parameter]],
        config: CriticConfig,
        generator: torch.Generator | None = None,
    ):
        if len(groups) != 2:
            raise UserError(
                f"the policy has {len(groups)} parameter group(s), but actor and critic are to be trained apart: "
                "set model.share_encoder to false"
            )
        self.policy, self.config, self.generator = policy, config, generator
        self.learning_rate = config.learning_rate
        self.inner = torch.optim.Adam(groups[1], config.learning_rate, fused=True)

    def update(self, batch: Batch) -> dict[str, float]:
        """The mean loss over all minibatches, by name."""
        cfg, total = self.config, 0.0
        if len(batch) < cfg.minibatches:
            raise UserError(f"a batch of {len(batch)} rows cannot be split into {cfg.minibatches} minibatches")
        self.inner.param_groups[0]["lr"] = self.learning_rate
        for _ in range(cfg.epochs):
            order = batch.shuffled(self.generator)
            for rows in order.tensor_split(cfg.minibatches):
                loss = self._accumulate(batch[rows])
                if not math.isfinite(loss):
                    raise NonFiniteError(f"training diverged: {first_bad(self.policy, batch)} is not finite")
                self.inner.step()
                self.policy.after_step()
                total += loss
        return {"value_loss": total / (cfg.epochs * cfg.minibatches)}

    def _accumulate(self, batch: Batch) -> float:
        """Leave the gradient of a minibatch's mean loss in the critic; return the loss."""
        count = batch.decisions
        self.inner.zero_grad(set_to_none=False)  # gradients may be views of a larger buffer
        total = 0.0
        for start in range(0, len(batch), self.config.chunk_size):
            chunk = batch[start : start + self.config.chunk_size]
            losses = squared_errors(self.policy.evaluate(chunk), chunk)
            if losses is None:
                raise UserError("the batch has no returns or the policy no values: there is no critic to train")
            loss = objective.masked_mean(losses, chunk.mask, count)
            loss.backward()
            total += float(loss.detach())
        return total

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.inner.state_dict(), "learning_rate": self.learning_rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.inner.load_state_dict(state["inner"])
        self.learning_rate = state["learning_rate"]


def squared_errors(new: Evaluation, batch: Batch) -> Tensor | None:
    """The critic's loss of each decision, from the policy's evaluation; None for a policy without a critic."""
    if new.value_losses is not None:
        return new.value_losses
    if new.values is None or batch.returns is None:
        return None
    return objective.value_loss(new.values, batch.returns)
