"""Answers by seed, temperature and stops; the likeliest tokens; and weights that come from checkpoints."""

import numpy as np
import pytest
import torch
from gaitway_files.errors import UserError
from served_model import samples_of

from gaitway.serve.base import Adapters
from gaitway.serve.learner import AdamParams, Learner
from gaitway.serve.messages import Datum, TrainingRequest
from gaitway.serve.protobuf import fields
from gaitway.serve.sampling import Sampler, sample_request

PROMPT = [9, 12, 15, 11]


@pytest.fixture(scope="module")
def sampler(base):
    return Sampler(base)


def request(base, params=None, tokens=PROMPT, **more):
    body = {
        "prompt": {"chunks": [{"tokens": tokens}]},
        "sampling_params": {"max_tokens": 12, "stop": []} | (params or {}),
    }
    return sample_request(body | more, base)


def answers(sampler, *requests):
    return [samples_of(message)[0] for message in sampler.answer(requests)]


def plain(base, tokens):
    """Log-probabilities (L, V) after each token, by transformers alone."""
    with torch.no_grad():
        return base.model(torch.tensor([tokens])).logits[0].log_softmax(-1)


def test_a_seed_repeats_an_answer_and_its_absence_does_not(base, sampler):
    seeded = request(base, {"seed": 7}, num_samples=3)
    first, second = (answers(sampler, seeded)[0] for _ in range(2))
    assert [a["tokens"] for a in first] == [a["tokens"] for a in second]
    assert len({tuple(a["tokens"]) for a in first}) == 3
    free = request(base, num_samples=3)
    assert answers(sampler, free)[0][0]["tokens"] != answers(sampler, free)[0][0]["tokens"]
    assert seeded.together != request(base, {"seed": 7}).together  # others cannot change what a seed draws
    assert free.together == request(base, num_samples=1).together


def test_log_probabilities_are_those_of_the_model(base, sampler):
    ((one,), (other,)) = answers(sampler, request(base), request(base, tokens=PROMPT[:2]))
    for prompt, answer in ((PROMPT, one), (PROMPT[:2], other)):
        said = plain(base, prompt + answer["tokens"])
        expected = [float(said[len(prompt) + i - 1, token]) for i, token in enumerate(answer["tokens"])]
        np.testing.assert_allclose(answer["log_probs"], expected, atol=1e-5)


def test_temperature_0_takes_the_likeliest(base, sampler):
    ((answer,),) = answers(sampler, request(base, {"temperature": 0.0, "max_tokens": 1}))
    assert answer["tokens"] == [int(plain(base, PROMPT)[-1].argmax())]


def test_the_likeliest_tokens_are_those_of_the_model(base, sampler):
    (message,) = sampler.answer([request(base, {"max_tokens": 2}, topk_prompt_logprobs=3, topk_sample_logprobs=2)])
    found = dict(fields(dict(fields(message))[3]))
    tokens = np.frombuffer(found[1], "<i4").reshape(-1, 3)
    said = np.frombuffer(found[2], "<f4").reshape(-1, 3)
    values, ids = plain(base, PROMPT).topk(3)
    assert tokens[0].tolist() == [0, 0, 0] and set(said[0]) == {-99999.0}  # nothing comes before the first
    assert tokens[1:].tolist() == ids[:-1].tolist()
    np.testing.assert_allclose(said[1:], values[:-1], atol=1e-5)
    ((answer,), _) = samples_of(message)
    best = dict(fields(answer["best"]))
    values, ids = plain(base, PROMPT + answer["tokens"]).topk(2)
    assert np.frombuffer(best[1], "<i4").reshape(-1, 2).tolist() == ids[3:5].tolist()


def test_only_the_last_tokens_of_a_prompt_are_scored_if_asked(base, sampler):
    (message,) = sampler.answer([request(base, prompt_logprobs=True, prompt_logprobs_last_n=2)])
    _, said = samples_of(message)
    assert np.isnan(said).tolist() == [True, True, False, False]


def test_an_answer_ends_with_its_stop(base, sampler):
    ((long,),) = answers(sampler, request(base, {"seed": 3, "max_tokens": 30}))
    assert not long["stopped"] and len(long["tokens"]) == 30
    token = long["tokens"][4]
    ((short,),) = answers(sampler, request(base, {"seed": 3, "max_tokens": 30, "stop": [token]}))
    end = long["tokens"].index(token) + 1
    assert short["stopped"] and short["tokens"] == long["tokens"][:end]
    text = base.tokenizer.decode(long["tokens"])
    piece = text[len(base.tokenizer.decode(long["tokens"][:7])) :][:6]  # may begin and end within a token
    ((cut,),) = answers(sampler, request(base, {"seed": 3, "max_tokens": 30, "stop": [piece]}))
    assert cut["stopped"] and cut["tokens"] == long["tokens"][: len(cut["tokens"])]
    assert piece in base.tokenizer.decode(cut["tokens"])
    assert piece not in base.tokenizer.decode(cut["tokens"][:-1])


def test_without_a_stop_the_models_own_ends_count(base):
    assert request(base, {"stop": None}).stop_tokens == base.stops
    assert request(base, {"stop": []}).stop_tokens == ()
    end = base.tokenizer.eos_token
    assert request(base, {"stop": [end, "yes"]}).stop_tokens == (base.tokenizer.eos_token_id,)
    assert request(base, {"stop": [end, "yes"]}).stop_texts == ("yes",)


def test_answers_are_as_long_as_there_is_room(base, sampler):
    ((answer,),) = answers(sampler, request(base, {"max_tokens": None}, tokens=[9] * 40))
    assert len(answer["tokens"]) == 8
    with pytest.raises(UserError, match="48 tokens"):
        request(base, tokens=[9] * 48)


@pytest.mark.parametrize("adapters", [Adapters(4, 0), Adapters(None, 0)], ids=["lora", "whole"])
def test_weights_are_those_of_the_checkpoint(base, tmp_path, adapters):
    learner, sampler = Learner(base, adapters), Sampler(base)
    data = [Datum(np.array(PROMPT), {"target_tokens": np.array(PROMPT)})]
    learner.losses(TrainingRequest(loss="cross_entropy", data=data))
    learner.step(AdamParams(learning_rate=0.05))
    learner.save(tmp_path, optimizer=False)
    before = sampler.engine.score([PROMPT])[0]
    sampler.use(tmp_path, adapters)
    with torch.no_grad():
        said = learner.model(torch.tensor([PROMPT])).logits[0].log_softmax(-1)
    expected = said[:-1].gather(1, torch.tensor(PROMPT[1:])[:, None])[:, 0]
    np.testing.assert_allclose(sampler.engine.score([PROMPT])[0], expected, atol=1e-5)
    sampler.use(None, adapters)
    assert sampler.engine.score([PROMPT])[0] == before
