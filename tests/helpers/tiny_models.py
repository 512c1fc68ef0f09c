"""Small causal LMs with random weights, and data for them."""

from __future__ import annotations

import torch
from torch import Tensor

VOCABULARY = 24


def tiny_config(**settings):
    from transformers import Qwen2Config

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
    return Qwen2Config(**(usual | settings))


def tiny_lm(seed: int = 0, **settings):
    """A Qwen2-shaped model with 20 thousand parameters."""
    from transformers import Qwen2ForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(tiny_config(**settings))


def tiny_scorer(seed: int = 0):
    """The same with a scalar head."""
    from transformers import Qwen2ForSequenceClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForSequenceClassification(tiny_config(num_labels=1))


class Copies(list):
    """``count`` demonstrations: 2 to 5 random tokens, a separator and the same tokens again, which is to be learnt."""

    def __init__(self, count: int, seed: int = 0):
        self.seed = seed
        super().__init__(map(self.tokens, range(count)))

    def tokens(self, index: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1000 * self.seed + index)
        size = int(torch.randint(2, 6, (), generator=generator))
        word = torch.randint(2, VOCABULARY, (size,), generator=generator)
        return torch.cat((word, torch.tensor([1]), word)), (torch.arange(2 * size + 1) > size).float()


class HigherWins(list):
    """``count`` pairs of four-token answers to random two-token prompts: more tokens of the upper half are better."""

    def __init__(self, count: int, seed: int = 0):
        self.seed = seed
        super().__init__((*self.pair(index), self.margin(index)) for index in range(count))

    def pair(self, index: int):
        generator = torch.Generator().manual_seed(1000 * self.seed + index)
        prompt = torch.randint(2, VOCABULARY, (2,), generator=generator)
        sizes = torch.randint(3, 6, (2,), generator=generator).tolist()
        answers = [torch.randint(2, VOCABULARY, (size,), generator=generator) for size in sizes]
        answers.sort(key=self.worth, reverse=True)
        return tuple(
            (torch.cat((prompt, answer)), torch.cat((torch.zeros(2), torch.ones(len(answer))))) for answer in answers
        )

    @staticmethod
    def worth(answer) -> float:
        return float((answer >= VOCABULARY // 2).float().mean())

    def margin(self, index: int) -> float:
        (chosen, _), (rejected, _) = self.pair(index)
        return self.worth(chosen[2:]) - self.worth(rejected[2:])
