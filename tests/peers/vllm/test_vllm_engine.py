"""vLLM in this process: it draws from the model's distribution, says so, and follows every update."""

from dataclasses import replace

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_files.adapters import MergedWeights, with_factors
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.engines.vllm import VLLMEngine
from gaitway_language.sync import EngineOutOfStepError, VerifiedEngine
from tiny import VOCABULARY, learn, make, prompts

PROMPTS = [row for row in [*prompts(6, 24), *prompts(2, 5)] for _ in range(4)]
SAMPLING = Sampling(max_tokens=16, stop_tokens=(2, 6, 9), seed=3)


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def both(request):
    """A model and vLLM with its weights, in float32."""
    model = make(tied=request.param)
    model.config.eos_token_id = 5
    engine = VLLMEngine(model, batch_size=64)
    yield model, engine
    engine.close()


@pytest.fixture
def pair(both):
    model, engine = both
    engine.update(model.state_dict().items())
    return model, TransformersEngine(model, copied=False), engine


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_are_those_of_the_model(pair, temperature):
    model, _, engine = pair
    answers = engine.generate(PROMPTS, Sampling(max_tokens=16, stop_tokens=(2, 6, 9), temperature=temperature))
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        with torch.no_grad():
            said = (model(torch.tensor([prompt + answer.tokens])).logits[0, :-1] / temperature).log_softmax(-1)
        expected = said[len(prompt) - 1 :].gather(1, torch.tensor(answer.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(answer.log_probs), expected, atol=1e-4, rtol=0)


def test_score_is_that_of_the_model(pair):
    _, live, engine = pair
    for ours, theirs in zip(engine.score(PROMPTS), live.score(PROMPTS), strict=True):
        torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), atol=1e-4, rtol=0)


def test_greedy_is_that_of_transformers(pair):
    _, live, engine = pair
    greedy = Sampling(max_tokens=16, temperature=0.0, stop_tokens=(2, 6, 9))
    for ours, theirs in zip(engine.generate(PROMPTS, greedy), live.generate(PROMPTS, greedy), strict=True):
        assert (ours.tokens, ours.finished) == (theirs.tokens, theirs.finished)
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)


def test_an_answer_ends_with_its_first_stop_token(pair):
    answers = pair[2].generate(PROMPTS * 4, SAMPLING)
    assert {answer.finished for answer in answers} == {True, False}
    for answer in answers:
        assert not {2, 6, 9} & set(answer.tokens[:-1])
        assert answer.finished == (answer.tokens[-1] in (2, 6, 9))
        assert answer.finished or len(answer.tokens) == 16


def test_only_the_tokens_that_were_named_end_an_answer(pair):
    """Whatever the configuration of the model says."""
    model, _, engine = pair
    answers = engine.generate(PROMPTS * 4, Sampling(max_tokens=16))
    assert any(model.config.eos_token_id in answer.tokens[:-1] for answer in answers)
    assert all(len(answer.tokens) == 16 and not answer.finished for answer in answers)


def test_answers_have_limits_of_their_own(pair):
    greedy = Sampling(max_tokens=12, temperature=0.0)
    whole = pair[2].generate(PROMPTS[:3], greedy)
    found = pair[2].generate(PROMPTS[:3], replace(greedy, limits=(3, 12, 1)))
    assert [answer.tokens for answer in found] == [
        answer.tokens[:n] for answer, n in zip(whole, (3, 12, 1), strict=True)
    ]


def test_equal_calls_draw_equal_tokens(pair):
    engine = pair[2]
    torch.manual_seed(0)
    first = engine.generate(PROMPTS, SAMPLING)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))
    engine.generate(PROMPTS[:5], SAMPLING)
    assert engine.generate(PROMPTS, SAMPLING) == first
    assert engine.generate(PROMPTS, Sampling(max_tokens=16, stop_tokens=(2, 6, 9), seed=4)) != first
    assert len({tuple(answer.tokens) for answer in first}) > len(PROMPTS) * 0.8


def test_top_k_draws_from_the_likeliest_only(pair):
    model, _, engine = pair
    with torch.no_grad():
        likely = model(torch.tensor([PROMPTS[0]])).logits[0, -1].topk(3).indices.tolist()
    answers = engine.generate(PROMPTS[:1] * 100, Sampling(max_tokens=1, top_k=3))
    assert {answer.tokens[0] for answer in answers} <= set(likely)


def test_it_follows_every_update(pair):
    model, live, engine = pair
    one = VerifiedEngine(engine, live.score, PROMPTS[::4])
    for _ in range(3):
        learn(model)
        with pytest.raises(EngineOutOfStepError):
            one.verify()
        assert one.update(model.state_dict().items())["sync_gap"] < 1e-4


def test_bad_prompts_are_named(pair):
    for bad, message in (
        ([[]], "prompt 0 has no tokens"),
        ([[5], [VOCABULARY]], "prompt 1 has a token outside the model's vocabulary"),
        ([[5] * 120], "prompt 0 has 120 tokens and max_tokens is 16, but the model sees 128"),
    ):
        with pytest.raises(ValueError, match=message):
            pair[2].generate(bad, SAMPLING)


def test_bfloat16_is_close():
    model = make()
    live = TransformersEngine(model, copied=False)
    engine = VLLMEngine(model, dtype=torch.bfloat16, batch_size=64)
    one = VerifiedEngine(engine, live.score, PROMPTS[::4])
    learn(model)
    assert 1e-4 < one.update(model.state_dict().items())["sync_gap"] < 0.05
    one.close()


def test_adapters_are_merged():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(make(), LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False))
    engine = VLLMEngine(model, batch_size=64)
    live = TransformersEngine(model, copied=False)
    one = VerifiedEngine(engine, live.score, PROMPTS[::4])
    assert one.verify() < 1e-4
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.mul_(1.5)
    weights = MergedWeights(model)
    assert one.update(with_factors(dict(weights.base()), weights.factors()))["sync_gap"] < 1e-4  # as a server does
    engine.close()


def test_a_further_turn_reads_only_what_is_new():
    engine = VLLMEngine(make(), batch_size=64, settings={"block_size": 32})
    cached, ask = [], engine.llm.generate

    def counted(*given, **settings):
        outputs = ask(*given, **settings)
        cached.append(sum(output.num_cached_tokens for output in outputs))
        return outputs

    engine.llm.generate = counted
    starts = prompts(4, 60)
    first = engine.generate(starts, Sampling(max_tokens=9, continued=True))
    turn = [prompt + said.tokens + [7] for prompt, said in zip(starts, first, strict=True)]
    engine.generate(turn, Sampling(max_tokens=4, continued=True))
    engine.update(make(seed=1).state_dict().items())
    engine.generate(turn, Sampling(max_tokens=4))
    engine.generate(turn, Sampling(max_tokens=4))
    assert engine.generate([], Sampling(max_tokens=4)) == []
    assert cached == [0, 4 * 64, 0, 0, 0]  # whole blocks of 32
    engine.close()
