"""Log-probabilities of any targets after the tokens of a sequence, without ever building all logits at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.policy import Evaluation
from gaitway_agents.models.causal_lm import LOGITS, check_head, output_layer
from gaitway_agents.models.sequences import hidden_states, token_chunks, without_dropout
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class TargetPolicy(nn.Module):
    """``model``, a causal LM of transformers, as a policy whose targets need not be its next input tokens.

    Batches are those of :func:`gaitway.serve.losses.batch_of`.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        without_dropout(model)
        check_head(model)
        self.model = model

    def evaluate(self, batch: Batch) -> Evaluation:
        """Log-probabilities of the targets, (B, L) or (B, L, K), at every input token; 0 on padding."""
        lengths, targets = batch.observations["lengths"], batch.observations["targets"]
        width = int(lengths.max())
        states = hidden_states(self.model, batch.actions[:, :width], lengths)
        real = torch.arange(width, device=lengths.device) < lengths[:, None]
        chosen = targets[:, :width][real]
        found = self._log_probs(states[real], chosen.reshape(len(chosen), -1)).reshape(chosen.shape)
        log_probs = found.new_zeros(targets.shape)
        log_probs[torch.nn.functional.pad(real, (0, targets.shape[1] - width))] = found
        return Evaluation(log_probs=log_probs, entropy=torch.zeros_like(log_probs))

    def chunks(self, batch: Batch, size: int) -> list[Tensor]:
        """The rows of each forward pass, of about ``size`` tokens."""
        return token_chunks(batch, size)

    def _log_probs(self, states: Tensor, targets: Tensor) -> Tensor:
        """Log-probabilities (M, K) of targets after states (M, D), a slice of logits at a time."""
        head = output_layer(self.model)
        vocabulary = int(self.model.get_output_embeddings().weight.shape[0])  # type: ignore[operator]
        rows = max(1, LOGITS.get(states.device.type, 2**24) // vocabulary)
        if len(states) <= rows:
            return _of(states, targets, head)
        parts = zip(states.split(rows), targets.split(rows), strict=True)
        return torch.cat([checkpoint(_of, s, t, head, use_reentrant=False) for s, t in parts])


def _of(states: Tensor, targets: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
    logits = head(states)
    normalised = (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)
    return normalised.gather(1, targets)
