"""Log-probabilities of any targets after the tokens of a sequence, without ever building all logits at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.policy import Evaluation, Policy
from gaitway_agents.models.causal_lm import LOGITS, check_head, output_layer
from gaitway_agents.models.prefixes import WORTH, Split, both_states, can_share, shared_chunks, split
from gaitway_agents.models.sequences import hidden_states, token_chunks, without_dropout
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint


class TargetPolicy(Policy):
    """``model``, a causal LM of transformers, as a policy whose targets need not be its next input tokens.

    Batches are those of :func:`gaitway.serve.losses.batch_of`. Rows that begin with the same tokens, up to the first
    one that is ``learnt``, are read together where that saves time; the gradient is the same.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        without_dropout(model)
        check_head(model)
        self.model = model
        self.shares = can_share(model)

    def evaluate(self, batch: Batch) -> Evaluation:
        """Log-probabilities of the targets, (B, L) or (B, L, K), at every input token; 0 on padding."""
        lengths, targets = batch.observations["lengths"], batch.observations["targets"]
        width = int(lengths.max())
        tokens = batch.actions[:, :width]
        parts = split(tokens, lengths, _chosen(batch)[:, : width + 1]) if self._can_share(batch) else None
        if parts is None:
            states = hidden_states(self.model, tokens, lengths)
            real = torch.arange(width, device=lengths.device) < lengths[:, None]
            chosen = targets[:, :width][real]
            found = self._log_probs(states[real], chosen.reshape(len(chosen), -1)).reshape(chosen.shape)
            log_probs = found.new_zeros(targets.shape)
            log_probs[pad(real, (0, targets.shape[1] - width))] = found
        else:
            log_probs = self._shared(tokens, targets[:, :width], parts)
            log_probs = pad(log_probs, (0, targets.shape[1] - width))
        return Evaluation(log_probs=log_probs, entropy=torch.zeros_like(log_probs))

    def chunks(self, batch: Batch, size: int) -> list[Tensor]:
        """The rows of each forward pass, of about ``size`` tokens: of similar length, or with the same beginning."""
        apart = token_chunks(batch, size)
        if not self._can_share(batch):
            return apart
        lengths = batch.observations["lengths"]
        together, tokens = shared_chunks(batch.actions, lengths, _chosen(batch), size)
        padded = sum(int(lengths[part].max()) * len(part) for part in apart)
        return together if tokens <= WORTH * padded else apart

    def _can_share(self, batch: Batch) -> bool:
        return self.shares and batch.observations["targets"].dim() == 2

    def _shared(self, tokens: Tensor, targets: Tensor, parts: Split) -> Tensor:
        """Log-probabilities (B, L) of sequences whose beginnings, in which nothing is learnt, are read once."""
        before, after = both_states(self.model, tokens, parts)
        mine, seen = parts.take(targets), parts.seen
        found = before.new_zeros(mine.shape, dtype=torch.promote_types(before.dtype, torch.float32))
        found = found.masked_scatter(seen, self._log_probs(after[seen], mine[seen][:, None])[:, 0])
        return parts.put(found, tokens.shape[1]) + self._beginnings(before.detach(), targets, parts)

    @torch.no_grad()
    def _beginnings(self, states: Tensor, targets: Tensor, parts: Split) -> Tensor:
        """Log-probabilities (B, L) of the targets in the prefixes, whose states (U, P, D) rows share; 0 elsewhere."""
        count, width = states.shape[:2]
        # The targets of the rows with the same prefix are several targets of its tokens, (U, P, G).
        owners = parts.owners
        same = owners[:, None] == owners
        rank = same.tril(-1).sum(1)
        several = targets.new_zeros(count, width, int(rank.max()) + 1)
        several[owners, :, rank] = targets[:, :width]
        starts = parts.starts.new_zeros(count).scatter_reduce(0, owners, parts.starts, "amax")
        real = torch.arange(width, device=owners.device) < starts[:, None]
        said = self._log_probs(states[real], several[real])
        found = said.new_zeros(several.shape)
        found[real] = said
        mine = found[owners, :, rank] * (torch.arange(width, device=owners.device) < parts.starts[:, None])
        return pad(mine, (0, targets.shape[1] - width))

    def _log_probs(self, states: Tensor, targets: Tensor) -> Tensor:
        """Log-probabilities (M, K) of targets after states (M, D), a slice of logits at a time."""
        head = output_layer(self.model)
        vocabulary = int(self.model.get_output_embeddings().weight.shape[0])  # type: ignore[operator]
        rows = max(1, LOGITS.get(states.device.type, 2**24) // vocabulary)
        if len(states) <= rows:
            return _of(states, targets, head)
        parts = zip(states.split(rows), targets.split(rows), strict=True)
        return torch.cat([checkpoint(_of, s, t, head, use_reentrant=False) for s, t in parts])


def _chosen(batch: Batch) -> Tensor:
    """Mask (B, L + 1) of the tokens after those that are learnt from; of a row without any, the one after its last."""
    learnt, lengths = batch.observations["learnt"].bool(), batch.observations["lengths"]
    last = torch.arange(learnt.shape[1], device=learnt.device) == lengths[:, None] - 1
    return pad(learnt | (last & ~learnt.any(1, keepdim=True)), (1, 0)).float()


def _of(states: Tensor, targets: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
    logits = head(states)
    normalised = (logits if logits.dtype == torch.float64 else logits.float()).log_softmax(-1)
    return normalised.gather(1, targets)
