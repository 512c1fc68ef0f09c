"""Small causal LMs with random weights, and data for them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

VOCABULARY = 24


def tiny_lm(seed: int = 0, dtype: torch.dtype = torch.float32, **settings):
    """A Qwen2-shaped model with 20 thousand parameters."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    usual = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "attention_dropout": 0.0,
        "initializer_range": 0.1,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(Qwen2Config(**(usual | settings))).to(dtype)


@dataclass
class Copies:
    """``count`` demonstrations: 2 to 5 random tokens, a separator and the same tokens again, which is to be learnt."""

    count: int
    seed: int = 0

    def __len__(self) -> int:
        return self.count

    def tokens(self, index: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1000 * self.seed + index)
        size = int(torch.randint(2, 6, (), generator=generator))
        word = torch.randint(2, VOCABULARY, (size,), generator=generator)
        return torch.cat((word, torch.tensor([1]), word)), (torch.arange(2 * size + 1) > size).float()
