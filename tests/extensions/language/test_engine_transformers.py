"""The transformers engine: what it draws, with which log-probabilities, and that neighbours do not matter."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_language.engines.llama import LlamaDecoder, understood
from gaitway_language.engines.transformers import TransformersEngine
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SIZES = {
    "vocab_size": 37,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 32}
MODELS = {
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)),
    "llama-yarn": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=YARN)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None)),
    "mistral-sliding": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=8)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=37, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
}
PROMPTS = [[5, 9, 11], [7], [5, 9, 11], [3, 4, 8, 20, 30], [7]]
SAMPLING = Sampling(max_tokens=12, stop_tokens=(2, 6), seed=3)


def make(name="qwen2"):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases begin at 0 and norms at 1, where mistakes would not show
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def engine(model=None, **settings):
    return TransformersEngine(make() if model is None else model, **settings)


def log_probs(model, tokens, temperature=1.0):
    """Of every token but the first, by the model's own forward, without padding or cache."""
    with torch.no_grad():
        said = (model(torch.tensor([tokens])).logits[0, :-1].float() / temperature).log_softmax(-1)
    return said.gather(1, torch.tensor(tokens)[1:, None])[:, 0]


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("copied", [True, False])
def test_log_probs_are_those_of_the_model(name, copied):
    model = make(name)
    one = engine(model, copied=copied)
    assert isinstance(one.decoder, LlamaDecoder) == (copied and name not in ("gpt2", "mistral-sliding"))
    for sampling in (SAMPLING, Sampling(max_tokens=12, temperature=0.7, seed=1)):
        for prompt, completion in zip(PROMPTS, one.generate(PROMPTS, sampling), strict=True):
            expected = log_probs(model, prompt + completion.tokens, sampling.temperature)[len(prompt) - 1 :]
            torch.testing.assert_close(torch.tensor(completion.log_probs), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["qwen2", "gpt2"])
def test_score_is_that_of_the_model(name):
    model = make(name)
    sequences = [[5, 9, 11, 3, 2], [7, 8], [1]]
    for said, sequence in zip(engine(model).score(sequences), sequences, strict=True):
        assert len(said) == len(sequence) - 1
        if said:
            torch.testing.assert_close(torch.tensor(said), log_probs(model, sequence), atol=1e-5, rtol=0)


def test_greedy_is_generate_of_transformers():
    model = make()
    found = engine(model).generate(PROMPTS, Sampling(max_tokens=8, temperature=0.0))
    for prompt, completion in zip(PROMPTS, found, strict=True):
        tokens = torch.tensor([prompt])
        theirs = model.generate(tokens, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
        assert theirs[0, len(prompt) :].tolist() == completion.tokens


def test_an_answer_ends_with_its_first_stop_token():
    found = engine().generate(PROMPTS * 8, SAMPLING)
    assert {completion.finished for completion in found} == {True, False}
    for completion in found:
        assert not {2, 6} & set(completion.tokens[:-1])
        assert completion.finished == (completion.tokens[-1] in (2, 6))
        assert completion.finished or len(completion.tokens) == 12
        assert len(completion.tokens) == len(completion.log_probs)


@pytest.mark.parametrize("name", ["qwen3", "gpt2"])
def test_answers_have_limits_of_their_own(name):
    """Also one that leaves no room beside the longest of the others: the model sees 64."""
    whole = engine(make(name)).generate(PROMPTS, replace(SAMPLING, stop_tokens=()))
    prompts, limits = [*PROMPTS, [4] * 62], (3, 12, 1, 7, 12, 2)
    found = engine(make(name)).generate(prompts, replace(SAMPLING, stop_tokens=(), limits=limits))
    for completion, limit, long in zip(found, limits, whole, strict=False):
        assert completion.tokens == long.tokens[:limit] and not completion.finished
        assert completion.log_probs == pytest.approx(long.log_probs[:limit], abs=1e-5)
    assert len(found[5].tokens) == len(found[5].log_probs) == 2
    for bad in ((1, 2), (13,) * 5, (0,) * 5):
        with pytest.raises(ValueError, match=r"limits .* of 5 prompts"):
            engine().generate(PROMPTS, replace(SAMPLING, limits=bad))


class Counted:
    """A decoder that counts the tokens of prompts it reads."""

    def __init__(self, one):
        self.read = 0
        forward = one.decoder._forward

        def counting(tokens, *others):
            self.read += tokens.numel() if tokens.shape[1] > 1 else 0
            return forward(tokens, *others)

        one.decoder._forward = counting


@pytest.mark.parametrize("name", ["qwen3", "llama-yarn"])
def test_a_further_turn_reads_only_what_is_new(name):
    """The prompt and the answer before it are known, all but the answer's last token, which was drawn and not read."""
    model = make(name)
    one, fresh = engine(model, batch_size=20), engine(model, batch_size=20)
    prompts = PROMPTS * 8
    answers = one.generate(prompts, replace(SAMPLING, continued=True))
    replies = [[10 + i % 5] * (2 + i % 3) for i in range(len(prompts))]
    turn = [prompt + said.tokens + reply for prompt, said, reply in zip(prompts, answers, replies, strict=True)]
    counts = Counted(one), Counted(fresh)
    second = replace(SAMPLING, seed=4, continued=True)
    found, expected = one.generate(turn, second), fresh.generate(turn, second)
    assert [c.tokens for c in found] == [c.tokens for c in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.log_probs == pytest.approx(theirs.log_probs, abs=1e-5)
    assert counts[0].read == (4 + 1) * len(turn) < counts[1].read / 2  # the longest reply, and that last token
    third = [prompt + said.tokens + [3] for prompt, said in zip(turn, found, strict=True)]
    for engine_of, count in zip((one, fresh), counts, strict=True):
        count.read = 0
        engine_of.generate(third, SAMPLING)
    assert counts[0].read == counts[1].read == 2 * len(third)
    assert not one._kept  # nothing goes on from there


def test_a_call_without_prompts_forgets_what_was_read():
    one = engine()
    one.generate(PROMPTS, replace(SAMPLING, continued=True))
    assert one._kept and one.generate([], SAMPLING) == [] and not one._kept


def test_new_weights_forget_what_was_read():
    one, other = engine(), make()
    answers = one.generate(PROMPTS, replace(SAMPLING, continued=True))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    one.update(other.state_dict().items())
    turn = [prompt + said.tokens + [7] for prompt, said in zip(PROMPTS, answers, strict=True)]
    for prompt, said in zip(turn, one.generate(turn, SAMPLING), strict=True):
        expected = log_probs(other, prompt + said.tokens)[len(prompt) - 1 :]
        torch.testing.assert_close(torch.tensor(said.log_probs), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("copied", [True, False])
def test_neighbours_do_not_matter(copied):
    one = engine(copied=copied)
    together = one.generate(PROMPTS * 10, SAMPLING)
    one.batch_size = 7
    assert [c.tokens for c in one.generate(PROMPTS * 10, SAMPLING)] == [c.tokens for c in together]
    assert one.generate([[3, 4, 8, 20, 30]], SAMPLING)[0].tokens == together[3].tokens
    assert one.generate(PROMPTS * 10, Sampling(max_tokens=12, stop_tokens=(2, 6), seed=4)) != together


def test_equal_prompts_get_different_answers():
    assert len({tuple(c.tokens) for c in engine().generate([[5, 9]] * 50, SAMPLING)}) > 40


def test_frequencies_are_the_probabilities():
    model, rows = make(), 20_000
    with torch.no_grad():
        expected = model(torch.tensor([[5, 9]])).logits[0, -1].softmax(-1)
    drawn = engine(model, batch_size=rows).generate([[5, 9]] * rows, Sampling(max_tokens=1))
    counts = torch.bincount(torch.tensor([c.tokens[0] for c in drawn]), minlength=37)
    chi2 = float(((counts - rows * expected) ** 2 / (rows * expected)).sum())
    assert chi2 < 36 + 5 * math.sqrt(2 * 36)


def test_top_k_and_top_p_draw_from_the_likeliest_only():
    model = make()
    with torch.no_grad():
        probs = model(torch.tensor([[5, 9]])).logits[0, -1].softmax(-1)
    order = probs.argsort(descending=True).tolist()
    nucleus = int((probs[order].cumsum(0) < 0.5).sum()) + 1
    for expected, settings in ((3, {"top_k": 3}), (nucleus, {"top_p": 0.5}), (1, {"top_k": 5, "top_p": 1e-6})):
        drawn = engine(model).generate([[5, 9]] * 500, Sampling(max_tokens=1, **settings))
        assert {c.tokens[0] for c in drawn} == set(order[:expected])
        assert drawn[0].log_probs[0] == pytest.approx(float(probs[drawn[0].tokens[0]].log()), abs=1e-5)


def test_update_replaces_every_weight():
    model, other = make(), make()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    one = engine(model)
    before = one.score([[5, 9, 11, 3]])
    one.update(other.state_dict().items())
    assert one.score([[5, 9, 11, 3]]) == engine(other).score([[5, 9, 11, 3]]) != before


@pytest.mark.parametrize("name", ["qwen2", "gpt2"])
def test_a_copy_keeps_its_weights_until_told(name):
    model = make(name)
    copied, live = engine(model), engine(model, copied=False)
    before = copied.score([[5, 9, 11, 3]])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    assert copied.score([[5, 9, 11, 3]]) == before
    live.update([])
    torch.testing.assert_close(torch.tensor(live.score([[5, 9, 11, 3]])[0]), log_probs(model, [5, 9, 11, 3]))


@pytest.mark.parametrize("name", ["qwen3", "gpt2"])
def test_update_with_half_of_the_weights_is_refused(name):
    model = make(name)
    parameters = list(model.state_dict().items())
    with pytest.raises(ValueError, match="new weights without"):
        engine(model).update(parameters[: len(parameters) // 2])


def test_bfloat16_is_close():
    model = make()
    one = engine(model, dtype=torch.bfloat16)
    for prompt, completion in zip(PROMPTS, one.generate(PROMPTS, SAMPLING), strict=True):
        expected = log_probs(model, prompt + completion.tokens)[len(prompt) - 1 :]
        assert (torch.tensor(completion.log_probs) - expected).abs().mean() < 0.02


def test_adapters_are_merged_into_the_copy():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(make(), LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False))
    plain = copy.deepcopy(model).merge_and_unload()
    for copied in (True, False):
        one = engine(model, copied=copied)
        torch.testing.assert_close(torch.tensor(one.score([[5, 9, 11]])[0]), log_probs(plain, [5, 9, 11]))


def test_dropout_is_off_while_it_generates():
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, attention_dropout=0.5)).train()
    one = engine(model, copied=False)
    assert one.score([[5, 9, 11]]) == one.score([[5, 9, 11]])
    assert model.training


def test_a_text_whose_embedding_depends_on_its_length_is_left_to_transformers():
    dynamic = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    assert not understood(LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=dynamic)))


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([[3], []], "prompt 1 has no tokens"),
        ([[3, 37]], "prompt 0 has a token outside the model's vocabulary of 37"),
        ([[3] * 60], "prompt 0 has 60 tokens and max_tokens is 12, but the model sees 64"),
    ],
)
def test_bad_prompts_are_named(prompts, message):
    with pytest.raises(ValueError, match=message):
        engine().generate(prompts, SAMPLING)


def test_no_dtype_for_the_model_itself():
    with pytest.raises(ValueError, match="leave dtype out"):
        engine(copied=False, dtype=torch.bfloat16)
