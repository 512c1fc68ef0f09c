"""Lean passes of Llama's family against transformers' own."""

import pytest
import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.models import causal_lm, llama
from gaitway_agents.models.causal_lm import CausalLMPolicy
from gaitway_agents.models.llama import lean
from gaitway_agents.models.packed_attention import pack
from gaitway_agents.models.prefixes import split
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

KINDS = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}


def model_of(kind, dtype=torch.float64):
    config, model = KINDS[kind]
    sizes = {"vocab_size": 50, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2}
    torch.manual_seed(0)
    made = model(config(**sizes, num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=kind == "llama"))
    for parameter in made.parameters():  # biases and scales are 0 and 1 at first
        parameter.data += 0.1 * torch.randn_like(parameter)
    return made.to(dtype)


def answers(counts=(4, 1, 3), longest=6, begin=True):
    """Answers to prompts of 20, 21, ... tokens, of all lengths, in any order; ``begin``: prompts are not learnt."""
    generator = torch.Generator().manual_seed(1)
    rows = []
    for i, count in enumerate(counts):
        prompt = torch.randint(50, (20 + i,), generator=generator)
        sizes = torch.randint(1, longest, (count,), generator=generator).tolist()
        rows += [(len(prompt), torch.cat((prompt, torch.randint(50, (n,), generator=generator)))) for n in sizes]
    rows = [rows[i] for i in torch.randperm(len(rows), generator=generator)]
    tokens = torch.nn.utils.rnn.pad_sequence([row for _, row in rows], batch_first=True)
    lengths, starts = torch.tensor([len(row) for _, row in rows]), torch.tensor([start for start, _ in rows])
    at = torch.arange(tokens.shape[1])
    mask = (at >= (starts[:, None] if begin else 1)) & (at < lengths[:, None])
    zeros = torch.zeros(tokens.shape)
    return Batch(
        observations={"lengths": lengths}, actions=tokens, log_probs=zeros, advantages=zeros, mask=mask.float()
    )


def evaluated(model, batch, monkeypatch, *, longest):
    """Log-probabilities, entropies and the gradient of a sum of the former, with lean passes up to a length."""
    monkeypatch.setattr(causal_lm, "LONGEST", longest)
    model.zero_grad()
    found = CausalLMPolicy(model, likeliest=True).evaluate(batch)
    weights = torch.linspace(-1.0, 1.0, found.log_probs.numel()).view_as(found.log_probs)
    (found.log_probs * weights).sum().backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.requires_grad])
    return found.log_probs.detach(), found.entropy, found.likeliest, gradient


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("counts", "begin", "blocks"),
    [((4, 1, 3), True, (3, 4)), ((8, 1, 1, 1), True, (11, 1)), ((1, 1), True, None), ((4, 1, 3), False, None)],
)
def test_equal_transformers(kind, counts, begin, blocks, monkeypatch):
    """With blocks of answers, answers one by one where groups are uneven, and prompts that are not shared."""
    model, batch = model_of(kind), answers(counts, begin=begin)
    assert lean(model)
    lengths = batch.observations["lengths"]
    parts = split(batch.actions, lengths, batch.mask)
    assert blocks == (None if parts is None else pack(batch.actions, lengths, parts).suffix.shape[:2])
    ours = evaluated(model, batch, monkeypatch, longest=llama.LONGEST)
    theirs = evaluated(model, batch, monkeypatch, longest=0)
    assert theirs[0].abs().sum() > 10.0 and theirs[3].abs().max() > 0.1
    for found, expected in zip(ours, theirs, strict=True):  # transformers normalises in float32
        torch.testing.assert_close(found, expected, rtol=0.0, atol=5e-6)


def test_logits_beyond_what_is_kept_are_computed_anew(monkeypatch):
    model, batch = model_of("llama"), answers()
    whole = evaluated(model, batch, monkeypatch, longest=llama.LONGEST)
    monkeypatch.setattr(causal_lm, "KEPT", 3 * 50)
    parts = evaluated(model, batch, monkeypatch, longest=llama.LONGEST)
    for found, expected in zip(parts, whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-9)


def test_bfloat16_is_close_to_float32(monkeypatch):
    model, batch = model_of("llama", torch.float32), answers()
    exact = evaluated(model, batch, monkeypatch, longest=llama.LONGEST)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = evaluated(model, batch, monkeypatch, longest=llama.LONGEST)
    assert rounded[0].dtype == torch.float32 and not torch.equal(rounded[0], exact[0])
    torch.testing.assert_close(rounded[0], exact[0], rtol=0.0, atol=0.05)
    assert float(torch.nn.functional.cosine_similarity(rounded[3], exact[3], dim=0)) > 0.999


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("targets", ["all-linear", ["v_proj", "down_proj"]])
def test_adapters_equal_peft(kind, targets, monkeypatch):
    batch, config = answers(), LoraConfig(r=3, lora_alpha=5.0, target_modules=targets)
    model = get_peft_model(model_of(kind), config)
    for name, parameter in model.named_parameters():  # the product of new adapters is 0
        if "lora_B" in name:
            parameter.data.normal_(0.0, 0.1)
    assert lean(model)
    ours = evaluated(model, batch, monkeypatch, longest=llama.LONGEST)
    theirs = evaluated(model, batch, monkeypatch, longest=0)
    plain = evaluated(model_of(kind), batch, monkeypatch, longest=0)
    assert (theirs[0] - plain[0]).abs().max() > 0.01 and theirs[3].abs().max() > 0.1
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, rtol=0.0, atol=5e-6)
    with model.disable_adapter():
        without = CausalLMPolicy(model).evaluate(batch).log_probs
    torch.testing.assert_close(without.detach(), plain[0], rtol=0.0, atol=5e-6)


@pytest.mark.parametrize("settings", [{"lora_dropout": 0.1}, {"use_dora": True}, {"lora_bias": True}])
def test_other_adapters_have_their_own_passes(settings):
    model = model_of("qwen2")
    targets = ["q_proj"] if "lora_bias" in settings else "all-linear"
    assert not lean(get_peft_model(model, LoraConfig(r=3, target_modules=targets, **settings)))


def test_other_models_have_their_own_passes():
    other = model_of("llama")
    other.config.hidden_act = "gelu"
    assert not lean(other)
    adapted = model_of("llama")
    adapted.model.layers[1].mlp.up_proj = torch.nn.Sequential(adapted.model.layers[1].mlp.up_proj)
    assert not lean(adapted)
