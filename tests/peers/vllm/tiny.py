"""Small models that disagree with a changed copy of themselves clearly."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

VOCABULARY = 96


def make(tied=True, seed=0):
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        initializer_range=0.1,
    )
    return Qwen2ForCausalLM(config).eval()


def learn(model):
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.03 * torch.randn_like(parameter))


def prompts(count, length, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (count, length), generator=generator).tolist()
