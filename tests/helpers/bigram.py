"""The smallest policy of tokens: a table that knows only the token before."""

from __future__ import annotations

import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.policy import Evaluation, Policy
from torch import Tensor, nn

VOCABULARY = 6


class Bigram(Policy):
    """Logits (V, V) of the next token by the last one. Batches are those of a causal LM, in float64."""

    def __init__(self, seed: int = 0):
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.logits = nn.Parameter(torch.randn(VOCABULARY, VOCABULARY, generator=g, dtype=torch.float64))

    def log_probs(self, tokens: Tensor) -> Tensor:
        """Of each token after the one before it, (B, L); the first has none, and 0."""
        table = self.logits.log_softmax(-1)
        return torch.nn.functional.pad(table[tokens[:, :-1], tokens[:, 1:]], (1, 0))

    def evaluate(self, batch: Batch) -> Evaluation:
        table = self.logits.log_softmax(-1)
        entropy = -(table.exp() * table).sum(-1)
        return Evaluation(
            log_probs=self.log_probs(batch.actions),
            entropy=torch.nn.functional.pad(entropy[batch.actions[:, :-1]], (1, 0)),
        )


def sequences(rows: int, length: int, seed: int, policy: Bigram) -> Batch:
    """Random sequences with prompts, gaps and padding; ``policy`` moved a little since it chose them."""
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCABULARY, (rows, length), generator=g)
    sizes = torch.randint(2, length + 1, (rows,), generator=g)
    mask = (torch.rand(rows, length, generator=g) < 0.7) & (torch.arange(length) < sizes[:, None])
    mask[:, 0] = False
    with torch.no_grad():
        old = policy.log_probs(tokens)
    noise, reference, weights = 0.3 * torch.randn(3, rows, length, generator=g, dtype=torch.float64)
    advantages = torch.randn(rows, 1, generator=g, dtype=torch.float64).expand(rows, length)
    return Batch(
        observations={"lengths": sizes},
        actions=tokens,
        log_probs=old + noise,
        advantages=advantages.contiguous(),
        mask=mask.double(),
        reference=old + reference,
        weights=weights.exp(),
    )
