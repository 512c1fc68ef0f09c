"""The loop of answers and tools, with a model whose every word is written down."""

import math
import sys
import threading

import pytest
from gaitway_agents.interfaces import Completion, Sampling
from gaitway_files.errors import UserError
from gaitway_language.conversation import Conversation
from gaitway_language.dialogue import converse
from gaitway_language.tokenizer import build_tokenizer
from gaitway_tasks.language.env import Turn
from gaitway_tasks.language.watched import EnvironmentFailedError, Workers, watched

from .test_conversation import REWRITING, TEXTS

CALL, DONE = "call 3", "it is 34."
THOUGHT = f"<think>34</think>{CALL}"


class Reciter:
    """Says the next of its lines for every prompt it is given; stops at ``max_tokens``."""

    def __init__(self, conversation, *lines):
        self.lines, self.conversation, self.asked = list(lines), conversation, []

    def generate(self, prompts, sampling):
        self.asked.append((list(prompts), sampling))
        if not prompts:
            return []
        line, answers = self.lines.pop(0), []
        for i, _ in enumerate(prompts):
            tokens = self.conversation.answer(line[i] if isinstance(line, list) else line)
            kept = tokens[: sampling.limits_of(prompts)[i]]
            answers.append(Completion(kept, [-0.5] * len(kept), finished=len(kept) == len(tokens)))
        return answers


class Caller:
    def step(self, answer):
        return Turn("34" if "call" in answer else None, role="tool")


def setup(*lines, texts=("how many? call 3 it is 34.",)):
    conversation = Conversation(build_tokenizer(texts))
    return conversation, Reciter(conversation, *lines), conversation.prompt("how many?")


def test_what_a_tool_wrote_is_not_the_models_choice():
    conversation, engine, prompt = setup(CALL, DONE)
    (found,) = converse([prompt], engine, Sampling(max_tokens=50), conversation, [Caller()], max_turns=3)
    call, result, done = conversation.answer(CALL), conversation.reply("34"), conversation.answer(DONE)
    assert found.tokens == call + result + done
    assert found.chosen == [True] * len(call) + [False] * len(result) + [True] * len(done)
    assert found.log_probs == [-0.5 if chosen else 0.0 for chosen in found.chosen]
    assert found.finished and found.answer == DONE
    assert engine.asked[1][0] == [prompt + call + result]  # the second turn sees the first and the reply


def test_a_template_that_rewrites_earlier_turns_changes_nothing_that_was_said():
    """Training uses the tokens that the model saw as it chose each of them."""
    conversation, engine, prompt = setup(THOUGHT, DONE, texts=[f"{THOUGHT} {DONE} how many?", *TEXTS])
    conversation.tokenizer.chat_template = REWRITING
    conversation = engine.conversation = Conversation(conversation.tokenizer)
    call = conversation.answer(THOUGHT)
    (found,) = converse([prompt], engine, Sampling(max_tokens=99), conversation, [Caller()], max_turns=2)
    assert found.tokens == call + conversation.reply("34") + conversation.answer(DONE)
    assert engine.asked[1][0] == [found.sequence[: -len(conversation.answer(DONE))]]


def test_what_the_prompt_opens_is_part_of_the_answer_and_not_said_twice():
    """Rewards for the form of an answer would find no "<think>" where the template writes it."""
    conversation, engine, _ = setup(THOUGHT, texts=[f"{THOUGHT} {DONE} how many?", *TEXTS])
    conversation.tokenizer.chat_template += "{% if add_generation_prompt %}<think>{% endif %}"
    opened = engine.conversation = Conversation(conversation.tokenizer)
    (found,) = converse([opened.prompt("how many?")], engine, Sampling(max_tokens=50), opened, [Caller()])
    assert found.answer == THOUGHT
    assert opened.decode(found.sequence).count("<think>") == 1


def test_dialogues_end_one_by_one():
    conversation, engine, prompt = setup([DONE, CALL], DONE)
    first, second = converse(
        [prompt, prompt], engine, Sampling(max_tokens=50), conversation, [Caller(), Caller()], max_turns=3
    )
    assert first.tokens == conversation.answer(DONE)
    assert len(engine.asked[1][0]) == 1
    assert second.answer == DONE


def test_turns_are_bounded():
    conversation, engine, prompt = setup(CALL, CALL)
    (found,) = converse([prompt], engine, Sampling(max_tokens=50), conversation, [Caller()], max_turns=2)
    assert found.answer == CALL and len(engine.asked) == 2
    assert found.chosen[-1]  # the last word is the model's: no reply that nobody reads


def test_a_reply_that_does_not_fit_ends_the_dialogue_unfinished():
    conversation, engine, prompt = setup(CALL)
    length = len(conversation.answer(CALL)) + 1
    (found,) = converse([prompt], engine, Sampling(max_tokens=length), conversation, [Caller()], max_turns=3)
    assert not found.finished and found.tokens == conversation.answer(CALL)


def test_the_budget_is_that_of_the_whole_dialogue():
    conversation, engine, prompt = setup(CALL, DONE)
    spent = len(conversation.answer(CALL) + conversation.reply("34"))
    (found,) = converse([prompt], engine, Sampling(max_tokens=spent + 2), conversation, [Caller()], max_turns=3)
    assert len(found.tokens) == spent + 2 and not found.finished


def test_each_answer_has_the_room_that_its_dialogue_has_left():
    conversation, engine, prompt = setup([CALL, f"{CALL} {CALL}"], DONE)
    found = converse([prompt, prompt], engine, Sampling(max_tokens=12), conversation, [Caller(), Caller()], max_turns=2)
    spent = [len(conversation.answer(line) + conversation.reply("34")) for line in (CALL, f"{CALL} {CALL}")]
    assert engine.asked[1][1].limits == (12 - spent[0], 12 - spent[1])
    assert [len(dialogue.tokens) for dialogue in found] == [spent[0] + len(conversation.answer(DONE)), 12]
    assert [dialogue.finished for dialogue in found] == [True, False]


def test_only_a_call_that_another_follows_keeps_what_it_computed():
    conversation, engine, prompt = setup(CALL, CALL)
    converse([prompt], engine, Sampling(max_tokens=50), conversation, [Caller()], max_turns=2)
    assert [sampling.continued for _, sampling in engine.asked] == [True, False]
    conversation, engine, prompt = setup(DONE)
    converse([prompt], engine, Sampling(max_tokens=50), conversation, [Caller()], max_turns=3)
    assert [(len(prompts), sampling.continued) for prompts, sampling in engine.asked] == [(1, True), (0, False)]


def test_turns_draw_different_random_numbers():
    conversation, engine, prompt = setup(CALL, DONE)
    converse([prompt], engine, Sampling(max_tokens=50, seed=7), conversation, [Caller()], max_turns=2)
    assert engine.asked[0][1].seed == 7 != engine.asked[1][1].seed


def broken(step):
    """A dialogue with an environment whose step is ``step``."""
    conversation, engine, prompt = setup(CALL, DONE)
    env = type("Broken", (), {"step": lambda self, answer: step()})()
    with Workers(0.2) as workers:
        converse([prompt], engine, Sampling(max_tokens=50), conversation, [env], 3, workers)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda: 1 / 0, r"raised ZeroDivisionError: division by zero"),
        (lambda: sys.exit(3), "raised SystemExit: 3"),
        (lambda: Turn("34", reward=math.nan), r"the reward nan: .*finite"),
        (lambda: Turn("34", reward="much"), r"the reward 'much'"),
        (lambda: Turn("34", reward=None), r"the reward None"),
        (lambda: "34", r"returned str: .*Turn"),
        (lambda: Turn(34), r"a reply of int"),
        (lambda: Turn("3" * 1_000_001), r"1,000,001 characters"),
        (lambda: threading.Event().wait(5), r"not returned after 0\.2 s.*task\.step_time_limit"),
    ],
)
def test_a_broken_environment_is_named_with_the_answer_that_broke_it(step, said):
    with pytest.raises(EnvironmentFailedError, match=rf"(?s)environment Broken.*'{CALL}'.*{said}"):
        broken(step)


def test_what_an_environment_says_to_the_user_stays_its_own_words():
    def step():
        raise UserError("set the key of the shop")

    with pytest.raises(UserError, match=r"^set the key of the shop$"):
        broken(step)


def test_one_thread_takes_all_turns_of_a_dialogue():
    """Databases and other connections may be used only where they were opened."""
    threads = set()

    class Asking(Caller):
        def step(self, answer):
            threads.add(threading.get_ident())
            return super().step(answer)

    conversation, engine, prompt = setup(CALL, CALL, DONE)
    converse([prompt], engine, Sampling(max_tokens=90), conversation, [Asking()], max_turns=3)
    assert len(threads) == 1 and threading.get_ident() not in threads


def test_environments_of_different_threads_wait_side_by_side_and_a_dialogue_keeps_to_its_own():
    met, threads = threading.Barrier(4), {}

    class Meeting(Caller):
        def step(self, answer):
            threads.setdefault(id(self), set()).add(threading.get_ident())
            met.wait(timeout=20)  # passes only while all four are in it
            return super().step(answer)

    conversation, engine, prompt = setup(CALL, CALL, DONE)
    environments = [Meeting() for _ in range(4)]
    with Workers(30.0, 4) as workers:
        found = converse([prompt] * 4, engine, Sampling(max_tokens=90), conversation, environments, 3, workers)
    assert [len(own) for own in threads.values()] == [1] * 4
    assert len(set.union(*threads.values())) == 4

    conversation, engine, prompt = setup(CALL, CALL, DONE)
    alone = converse([prompt] * 4, engine, Sampling(max_tokens=90), conversation, [Caller()] * 4, 3)
    assert found == alone


@pytest.mark.parametrize("count", [1, 3])
def test_the_call_that_hangs_is_named_whatever_the_others_do(count):
    hang = threading.Event()
    with Workers(0.3, count) as workers, pytest.raises(EnvironmentFailedError, match=r"^number 4 has not returned"):
        watched(workers, {i: (hang.wait if i == 4 else int) for i in range(6)}, lambda i: f"number {i}")
    hang.set()


def test_nothing_is_called_after_an_error():
    made = []

    def fail():
        raise ValueError("no")

    with Workers(5.0) as workers, pytest.raises(EnvironmentFailedError, match=r"^number 1 raised ValueError: no"):
        watched(workers, {0: int, 1: fail, 2: lambda: made.append(2)}, lambda i: f"number {i}")
    with Workers(5.0) as workers:  # the earlier thread has had its time
        watched(workers, {0: int}, str)
    assert not made
