"""Dialogues that go on one by one: the same contexts and log-probabilities, no turn waits for another's tool."""

import threading

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_language.conversation import Conversation
from gaitway_language.dialogue import converse
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.engines.vllm import VLLMEngine
from gaitway_language.sync import VerifiedEngine
from gaitway_language.tokenizer import build_tokenizer
from gaitway_tasks.language.env import Turn
from gaitway_tasks.language.watched import EnvironmentFailedError, Workers
from transformers import Qwen2Config, Qwen2ForCausalLM

TURNS = 4


@pytest.fixture(scope="module")
def conversation():
    return Conversation(build_tokenizer([" ".join(f"w{i}" for i in range(60))]))


@pytest.fixture(scope="module")
def both(conversation):
    """Live weights, and vLLM with them, one by one; answers end after four tokens on average."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(conversation.tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=512, tie_word_embeddings=False,
        initializer_range=0.1,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).eval()
    live = TransformersEngine(model, copied=False)
    engine = VLLMEngine(model, batch_size=64, asynchronous=True, settings={"block_size": 32})
    prompt = conversation.prompt("w1 w2 w3")
    yield live, VerifiedEngine(engine, live.score, [prompt])
    engine.close()


class Waits:
    """Ends after ``TURNS`` answers; the first one's reply comes only once all others have ended."""

    ended = threading.Semaphore(0)
    others, threads = 0, []

    def __init__(self, number):
        self.number, self.turns, self.asked = number, 0, []

    def step(self, answer):
        self.turns += 1
        self.threads.append((self.number, threading.get_ident()))
        self.asked.append(answer)
        if self.number == 0 and self.turns == 1:
            for _ in range(self.others):
                assert self.ended.acquire(timeout=60)
        if self.turns == TURNS:
            self.ended.release()
            return Turn(reward=1.0)
        return Turn(f"w{self.number} w{self.turns}")


def play(engine, conversation, count, environments, threads, max_tokens=200):
    prompts = [conversation.prompt("w1 w2 w3")] * count
    stops = tuple(range(0, len(conversation.tokenizer), 4))
    sampling = Sampling(max_tokens=max_tokens, stop_tokens=stops, seed=5)
    with Workers(60.0, threads) as workers:
        return converse(prompts, engine, sampling, conversation, environments, TURNS, workers)


def test_a_slow_tool_holds_nobody_else_and_log_probs_are_those_of_the_model(both, conversation):
    live, engine = both
    environments = [Waits(i) for i in range(12)]
    Waits.others = 11
    found = play(engine, conversation, 12, environments, threads=3 + 9)
    for i, dialogue in enumerate(found):
        env = environments[i]
        assert env.turns == TURNS and dialogue.finished and sum(dialogue.rewards) == 1.0
        assert {thread for number, thread in Waits.threads if number == i} == {
            next(thread for number, thread in Waits.threads if number == i)
        }
        # The sequence is the prompt, and then answers and replies in turn.
        replies = [conversation.reply(f"w{i} w{turn}", "user") for turn in range(1, TURNS)]
        assert sum(not chosen for chosen in dialogue.chosen) == sum(map(len, replies))
        assert env.asked[-1] == dialogue.answer
        said = live.score([dialogue.sequence])[0][-len(dialogue.tokens) :]
        for chosen, ours, theirs in zip(dialogue.chosen, dialogue.log_probs, said, strict=True):
            assert ours == (pytest.approx(theirs, abs=1e-4) if chosen else 0.0)


def test_the_budget_is_that_of_the_whole_dialogue(both, conversation):
    found = play(both[1], conversation, 8, [Waits(i + 1) for i in range(8)], threads=2, max_tokens=14)
    assert all(len(dialogue.tokens) <= 14 for dialogue in found)
    assert not all(dialogue.finished for dialogue in found)


def test_a_broken_environment_is_named_and_the_engine_goes_on(both, conversation):
    class Broken(Waits):
        def step(self, answer):
            raise ZeroDivisionError("shut")

    _, engine = both
    with pytest.raises(EnvironmentFailedError, match=r"Broken.*raised ZeroDivisionError: shut"):
        play(engine, conversation, 8, [Broken(i) for i in range(8)], threads=2)
    assert engine.verify() < 1e-4
    assert all(answer.tokens for answer in engine.generate([[5, 6]] * 3, Sampling(max_tokens=4)))


def test_a_further_turn_reads_only_what_is_new(both):
    engine = both[1].engine
    core, cached = engine.llm.llm_engine, []
    with engine.session(Sampling(max_tokens=8)) as session:
        step = core.step

        def counted():
            outputs = step()
            cached.extend(output.num_cached_tokens for output in outputs if output.finished)
            return outputs

        core.step = counted
        try:
            session.add(7, [5, 6, 7, 8] * 20, 4)
            while session:
                ended = session.step()
            ((key, said),) = ended
            assert key == 7 and len(said.tokens) == 4
            session.add(7, [5, 6, 7, 8] * 20 + said.tokens + [9] * 10, 4)
            while session:
                session.step()
        finally:
            del core.step
    assert cached == [0, 64]  # whole blocks of 32
