"""Pairs of answers as batches, and policies whose decisions are whole answers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..core.batch import Batch
from ..core.policy import Evaluation
from ..models.causal_lm import CausalLMPolicy
from .sequences import pad

Example = tuple[Tensor, Tensor]
"""Tokens (L,) of a prompt and its answer, and the mask (L,) that is 1 on the answer, or on its learnt tokens."""
Pair = tuple[Example, Example, float]
"""The chosen and the rejected answer to a prompt, and by how much the chosen one is better, 0 if unknown."""
Judged = tuple[Example, bool]
"""An answer, and whether it is desirable."""


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


def batch_of_pairs(pairs: Sequence[Pair], device: torch.device) -> Batch:
    """Rows are pairs, the chosen answer first; each answer has its prompt before it."""
    tokens, lengths, mask = pad([answer for chosen, rejected, _ in pairs for answer in (chosen, rejected)], device)
    return pairs_of(tokens.unflatten(0, (-1, 2)), lengths.view(-1, 2), mask.unflatten(0, (-1, 2)))


def pairs_of(tokens: Tensor, lengths: Tensor, mask: Tensor) -> Batch:
    """The batch of pairs, or of single answers, from tokens (..., L), lengths (...) and masks (..., L)."""
    mask = mask.clone()
    mask[..., 0] = 0.0  # nothing comes before the first token, so nothing predicts it
    none = torch.zeros(len(tokens), device=tokens.device)
    observations = {"lengths": lengths, "mask": mask}
    return Batch(observations=observations, actions=tokens, log_probs=none, advantages=none)


def check_pairs(pairs: Sequence[Pair]) -> None:
    """Raise ``ValueError`` for the first pair with an answer that has no token to compare."""
    for row, pair in enumerate(pairs):
        for name, (_, mask) in zip(("chosen", "rejected"), pair[:2], strict=True):
            if not mask[1:].any():
                raise UserError(f"pair {row}: the {name} answer is empty, its mask keeps no token")
