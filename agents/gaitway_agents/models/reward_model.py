"""A reward model: one number for a whole answer."""

from __future__ import annotations

from typing import Any

import torch
from gaitway_files.errors import UserError
from torch import Tensor, nn

from .sequences import hidden_states, without_dropout


class RewardModel(nn.Module):
    """``model`` is one of transformers for sequence classification with one label: a decoder, and its head ``score``.

    What the head says at the last token of a sequence is shifted by ``mean`` and divided by ``std``, which are of
    samples of the policy that is to learn from it (Ziegler et al. 2019); 0 and 1 until :meth:`normalise`.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module):
        super().__init__()
        net: Any = model
        head = getattr(net, "score", None)
        if not isinstance(head, nn.Linear) or head.out_features != 1:
            raise UserError(
                f"{type(model).__name__}: a reward model is a sequence classification model with num_labels=1, whose "
                "head is called score"
            )
        self.model = model
        without_dropout(model)
        model.eval()
        self.register_buffer("mean", torch.zeros((), device=head.weight.device))
        self.register_buffer("std", torch.ones((), device=head.weight.device))

    def score(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Score of each sequence, shape (B,), from tokens (B, L) padded on the right and lengths (B,)."""
        width = int(lengths.max())
        states = hidden_states(self.model, tokens[:, :width], lengths)
        last = states[torch.arange(len(states), device=states.device), lengths - 1]
        net: Any = self.model
        raw: Tensor = net.score(last.to(net.score.weight.dtype))[:, 0]
        return (raw.float() - self.mean) / self.std

    def normalise(self, scores: Tensor) -> None:
        """Shift and scale ``score`` so that answers with these scores (N,) have mean 0 and deviation 1."""
        if len(scores) < 2 or not torch.isfinite(scores).all() or not scores.std() > 0.0:
            raise UserError(f"scores {scores.tolist()[:5]}: to normalise needs two or more that are finite and differ")
        self.mean.add_(scores.mean().to(self.mean) * self.std)
        self.std.mul_(scores.std().to(self.std))
