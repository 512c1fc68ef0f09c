"""Dialogues whose replies are read in the rows of one decode: what they are in turns taken together, in fewer steps."""

import random
import time

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_language.conversation import Conversation
from gaitway_language.dialogue import converse
from gaitway_language.engines import llama
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.tokenizer import build_tokenizer
from gaitway_tasks.language.env import Turn
from gaitway_tasks.language.watched import EnvironmentFailedError, Workers
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

TURNS, COUNT = 5, 40
CONVERSATION = Conversation(build_tokenizer([" ".join(f"w{i}" for i in range(60))]))
VOCABULARY = len(CONVERSATION.tokenizer)
STOPS = tuple(range(0, VOCABULARY, 5))
PROMPTS = [CONVERSATION.prompt("w1 w2 w3" if i % 2 else "w7 " * 5) for i in range(COUNT)]


def make(kind):
    torch.manual_seed(0)
    if kind == "qwen2":
        config = Qwen2Config(
            vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=512, initializer_range=0.2,
        )  # fmt: skip
        return Qwen2ForCausalLM(config).eval()
    config = GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=512, initializer_range=0.2)
    return GPT2LMHeadModel(config).eval()


class Chatty:
    """Replies something that depends on the answer, and ends early where that begins so."""

    def __init__(self, number, pause=0.0):
        self.number, self.pause, self.turns = number, random.Random(number * 7).random() * pause, 0

    def step(self, answer):
        time.sleep(self.pause)
        self.turns += 1
        if len(answer) % 7 == self.number % 7 and self.turns > 1:
            return Turn(reward=2.0)
        return Turn(f"w{len(answer) % 50} " * (1 + self.number % 4), reward=0.5)


def play(model, *, asynchronous, temperature=1.0, pause=0.0, threads=1, count=COUNT, max_tokens=120, seed=5):
    engine = TransformersEngine(model, asynchronous=asynchronous, batch_size=24)
    sampling = Sampling(max_tokens=max_tokens, stop_tokens=STOPS, seed=seed, temperature=temperature)
    with Workers(30.0, threads) as workers:
        environments = [Chatty(i, pause) for i in range(count)]
        return converse(PROMPTS[:count], engine, sampling, CONVERSATION, environments, TURNS, workers)


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
@pytest.mark.parametrize("max_tokens", [120, 17])
def test_greedy_dialogues_are_those_of_turns_taken_together(kind, max_tokens):
    model = make(kind)
    ours = play(model, asynchronous=True, temperature=0.0, max_tokens=max_tokens)
    theirs = play(model, asynchronous=False, temperature=0.0, max_tokens=max_tokens)
    for one, other in zip(ours, theirs, strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
        for name in ("tokens", "chosen", "rewards", "finished", "answer"):
            assert getattr(one, name) == getattr(other, name), name


def test_log_probs_are_those_of_the_model_and_dialogues_differ_in_length():
    model = make("qwen2")
    found = play(model, asynchronous=True, max_tokens=40)
    for dialogue in found:
        said = TransformersEngine(model).score([dialogue.sequence])[0][-len(dialogue.tokens) :]
        for chosen, ours, theirs in zip(dialogue.chosen, dialogue.log_probs, said, strict=True):
            assert ours == (pytest.approx(theirs, abs=1e-4) if chosen else 0.0)
    assert len({len(dialogue.tokens) for dialogue in found}) > 9
    assert {dialogue.finished for dialogue in found} == {True, False}


def test_draws_depend_on_neither_time_nor_threads_but_on_the_seed():
    model = make("qwen2")
    found = play(model, asynchronous=True)
    assert play(model, asynchronous=True, pause=0.02, threads=7) == found
    assert play(model, asynchronous=True, seed=6) != found
    assert [d.tokens for d in play(model, asynchronous=True, count=24)] == [d.tokens for d in found[:24]]


def test_no_answer_waits_for_another(monkeypatch):
    steps, step = [], llama.LlamaSession.step

    def counted(self, tokens):
        steps.append(len(tokens))
        step(self, tokens)

    monkeypatch.setattr(llama.LlamaSession, "step", counted)
    found = play(make("qwen2"), asynchronous=True, count=24)
    assert len(steps) == max(len(dialogue.tokens) for dialogue in found) - 1


def test_a_broken_environment_is_named():
    engine = TransformersEngine(make("qwen2"), asynchronous=True)
    broken = type("Broken", (), {"step": lambda self, answer: 1 / 0})
    with pytest.raises(EnvironmentFailedError, match=r"Broken, given the answer .* raised ZeroDivisionError"):
        converse(
            PROMPTS[:3],
            engine,
            Sampling(max_tokens=50, stop_tokens=STOPS),
            CONVERSATION,
            [broken() for _ in range(3)],
            TURNS,
        )
