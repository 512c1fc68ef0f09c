"""A causal language model as a policy: log-probabilities of tokens without ever building all logits at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..core.batch import Batch
from ..core.policy import Evaluation

LOGITS = 2**22
"""Logits that are in memory at a time."""


class CausalLMPolicy(nn.Module):
    """``model`` is a causal LM of transformers (``get_decoder()``, ``get_output_embeddings()``), adapters included.

    Rows of its batches are sequences: ``observations["lengths"]`` (B,), ``actions`` (B, L) and ``mask`` (B, L), as
    described in :mod:`gaitway_agents.language.world`.
    """

    def __init__(self, model: nn.Module, *, temperature: float = 1.0):
        super().__init__()
        self.model, self.temperature = model, temperature

    def hidden(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Last hidden states, shape (B, L, D)."""
        seen = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        base: Any = self.model
        decoder = base.get_decoder()
        states: Tensor = decoder(input_ids=tokens, attention_mask=seen.long(), use_cache=False).last_hidden_state
        return states

    def evaluate(self, batch: Batch) -> Evaluation:
        """Log-probabilities and entropies, shape (B, L), of the tokens that ``batch.mask`` keeps; 0 elsewhere."""
        assert batch.mask is not None
        lengths = batch.observations["lengths"]
        log_probs, entropy = self.log_probs(batch.actions, lengths, batch.mask)
        return Evaluation(log_probs=log_probs, entropy=entropy)

    def log_probs(self, tokens: Tensor, lengths: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of each masked token after those before it, and the entropy there, shape (B, L) each."""
        width = int(lengths.max())
        chosen = mask[:, 1:width].bool()
        states = self.hidden(tokens[:, :width], lengths)[:, :-1][chosen]
        targets = tokens[:, 1:width][chosen]
        found, spread = self._of(states, targets)
        result = found.new_zeros((2, *tokens.shape))
        where = torch.zeros_like(mask, dtype=torch.bool)
        where[:, 1:width] = chosen
        return result[0].masked_scatter(where, found), result[1].masked_scatter(where, spread)

    def _of(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The same of states (M, D) and targets (M,), a slice of logits at a time."""
        base: Any = self.model
        head = base.get_output_embeddings()
        rows = max(1, LOGITS // head.weight.shape[0])
        if len(states) <= rows:
            return _log_probs(states, targets, head, self.temperature)
        parts = [
            checkpoint(_log_probs, s, t, head, self.temperature, use_reentrant=False)
            for s, t in zip(states.split(rows), targets.split(rows), strict=True)
        ]
        found, spread = zip(*parts, strict=True)
        return torch.cat(found), torch.cat(spread)

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        return [[parameter for parameter in self.parameters() if parameter.requires_grad]]


def _log_probs(states: Tensor, targets: Tensor, head: nn.Module, temperature: float) -> tuple[Tensor, Tensor]:
    logits = head(states).float() / temperature
    normalised = logits.log_softmax(-1)
    with torch.no_grad():
        entropy = -(normalised.exp() * normalised).sum(-1)
    return normalised.gather(1, targets[:, None])[:, 0], entropy
