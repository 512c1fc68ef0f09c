"""Pairs of answers as batches, and policies whose decisions are whole answers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.batch import Batch
from ..core.policy import Evaluation
from ..models.causal_lm import CausalLMPolicy
from .sequences import pad
from .world import Preferences

Example = tuple[Tensor, Tensor]
"""Tokens (L,) and mask (L,)."""


class SequencePolicy(CausalLMPolicy):
    """A causal LM whose decisions are whole answers, or pairs of them.

    Batches hold ``actions`` (B, L) or (B, 2, L), and as observations ``mask`` of the same shape and ``lengths``
    without the last dimension.
    """

    def evaluate(self, batch: Batch) -> Evaluation:
        """Sums of the log-probabilities of each answer's tokens, shape (B,) or (B, 2)."""
        shape = batch.actions.shape[:-1]
        mask = batch.observations["mask"].flatten(0, -2)
        lengths = batch.observations["lengths"].flatten()
        log_probs, entropy = self.log_probs(batch.actions.flatten(0, -2), lengths, mask)
        return Evaluation(log_probs=log_probs.sum(-1).view(shape), entropy=entropy.sum(-1).view(shape))


def batch_of_pairs(pairs: Sequence[tuple[Example, Example]], device: torch.device) -> Batch:
    """Rows are pairs, the chosen answer first; each answer has its prompt before it."""
    tokens, lengths, mask = pad([answer for pair in pairs for answer in pair], device)
    return pairs_of(tokens.unflatten(0, (-1, 2)), lengths.view(-1, 2), mask.unflatten(0, (-1, 2)))


def pairs_of(tokens: Tensor, lengths: Tensor, mask: Tensor) -> Batch:
    """The batch of pairs, or of single answers, from tokens (..., L), lengths (...) and masks (..., L)."""
    mask = mask.clone()
    mask[..., 0] = 0.0  # nothing comes before the first token, so nothing predicts it
    none = torch.zeros(len(tokens), device=tokens.device)
    observations = {"lengths": lengths, "mask": mask}
    return Batch(observations=observations, actions=tokens, log_probs=none, advantages=none)


def check_pairs(preferences: Preferences) -> None:
    """Raise ``ValueError`` for the first pair with an answer that has no token to compare."""
    for row in range(len(preferences)):
        for name, (_, mask) in zip(("chosen", "rejected"), preferences.pair(row), strict=True):
            if not mask[1:].any():
                raise ValueError(f"pair {row}: the {name} answer is empty, its mask keeps no token")
