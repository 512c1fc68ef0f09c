"""A causal language model in float64 throughout, which transformers' are not: its states are counts of tokens."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn

VOCABULARY, WIDTH = 7, 5


def counted(tokens: Tensor) -> Tensor:
    """The share of each token of the vocabulary in every prefix, (B, L, V)."""
    seen = nn.functional.one_hot(tokens, VOCABULARY).double().cumsum(1)
    return seen / torch.arange(1, tokens.shape[1] + 1)[:, None]


class Counting(nn.Module):
    """A decoder whose states know how often each token came."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(VOCABULARY, WIDTH, dtype=torch.float64)
        self.config = SimpleNamespace(hidden_size=WIDTH, model_type="counting", _attn_implementation="eager")
        self.config.get_text_config = lambda: self.config

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=nn.functional.elu(self.inner(counted(input_ids))))

    def get_decoder(self) -> nn.Module:
        return self


class CountingLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decoder = Counting()
        self.head = nn.Linear(WIDTH, VOCABULARY, dtype=torch.float64)
        self.config = self.decoder.config

    def forward(self, input_ids: Tensor, use_cache: bool = False) -> SimpleNamespace:
        return SimpleNamespace(logits=self.head(self.decoder(input_ids).last_hidden_state))

    def get_decoder(self) -> nn.Module:
        return self.decoder

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def get_input_embeddings(self) -> SimpleNamespace:
        return SimpleNamespace(num_embeddings=VOCABULARY)
