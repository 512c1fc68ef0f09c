"""Answers with tools in an examination: the model's own words count, and only their final part is judged."""

import functools

import pytest
from gaitway_agents.interfaces import Completion, Sampling
from gaitway_language.conversation import Conversation
from gaitway_language.tokenizer import build_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.env import ToolEnv, Turn
from gaitway_tasks.language.gyms import GymnasiumSource
from gaitway_tasks.language.score import score
from gaitway_tasks.language.spec import LanguageTask, TextReward
from gaitway_tasks.language.tasks import get_language_task

from gaitway.domains.texts.evaluate import Evaluation, _vote, evaluate
from gaitway.domains.texts.optimum import optimum

CALL, SHRUG = "call 3", "no answer"


class Shrugging:
    """Calls a tool, then has no answer."""

    def __init__(self, conversation):
        self.conversation = conversation

    def generate(self, prompts, sampling):
        tokens = self.conversation.answer(CALL if sampling.continued else SHRUG)
        return [Completion(tokens, [-0.5] * len(tokens), finished=True) for _ in prompts]


class Seven(ToolEnv):
    """Its tool says 7."""

    def step(self, answer):
        return Turn("7", role="tool")


def test_what_a_tool_wrote_is_neither_length_nor_answer():
    task = get_language_task("arithmetic").replace(environment=Seven, max_turns=2)
    conversation = Conversation(build_tokenizer([f"{CALL} {SHRUG}", *task.source.vocabulary()]))
    judge = functools.partial(score, task)
    world = TextWorld(task, conversation, Shrugging(conversation), Sampling(max_tokens=60), judge, seed=0)
    answer = evaluate(world, task.source.rows("test")[:1], model="", steps=0).problems[0].greedy
    assert CALL in answer.text and "7" in answer.text and answer.text.endswith(SHRUG)
    assert answer.tokens == len(conversation.answer(CALL) + conversation.answer(SHRUG))
    assert answer.last_turn == SHRUG and _vote(answer) is None


def half_judged(prompts, completions, *, level, **columns):
    """Right at level 1, wrong at level 2, and silent at level 3."""
    return [{1: 1.0, 2: 0.0, 3: None}[number] for number in level]


def test_answers_without_an_opinion_are_neither_right_nor_wrong(tmp_path):
    rows = [{"prompt": "how many ?", "level": level} for level in (3, 1, 2, 1)]
    task = get_language_task("arithmetic").replace(rewards={"correctness": TextReward(func=half_judged)})
    conversation = Conversation(build_tokenizer([f"{CALL} {SHRUG} how many ?"]))
    world = TextWorld(
        task, conversation, Walking(conversation), Sampling(max_tokens=60), functools.partial(score, task), seed=0
    )
    found = evaluate(world, rows, model="", steps=0, samples=2)
    assert [problem.greedy.is_right for problem in found.problems] == [None, True, False, True]
    assert found.measures["greedy accuracy"].value == found.measures["sampled accuracy"].value == pytest.approx(2 / 3)
    assert found.failures == [found.problems[2]] and set(found.levels) == {"1", "2"}
    found.save(tmp_path / "a.json")
    assert "NaN" not in (tmp_path / "a.json").read_text() and Evaluation.load(tmp_path / "a.json") == found


class Walking:
    """Says the next of its words in all dialogues."""

    def __init__(self, conversation, *words):
        self.conversation, self.words = conversation, iter(words)

    def generate(self, prompts, sampling):
        tokens = self.conversation.answer(next(self.words, "stay"))
        return [Completion(tokens, [-0.5] * len(tokens), finished=True) for _ in prompts]


@pytest.mark.parametrize(
    ("words", "turns", "share"),
    [("down down right right down right", 6, 1.0), ("right down", 9, 0.0), ("down down right right down", 6, -1.0)],
)
def test_returns_are_shares_of_the_exact_optimum(words, turns, share):
    """On the lake without slipping, which takes six steps; an answer without an action costs one."""
    source = GymnasiumSource(env_id="FrozenLake-v1", kwargs={"is_slippery": False}, test=3)
    task = LanguageTask(name="lake", source=source, max_turns=turns, max_prompt_tokens=99, max_completion_tokens=99)
    conversation = Conversation(build_tokenizer(["stay", *source.vocabulary(), source.rows("test")[0]["prompt"]]))
    engine, judge = Walking(conversation, *words.split()), functools.partial(score, task)
    world = TextWorld(task, conversation, engine, Sampling(max_tokens=99), judge, seed=0)
    found = evaluate(world, source.rows("test"), model="", steps=0)
    assert found.optimum == found.measures["optimum"].value == 1.0
    assert found.measures["greedy share of the optimum"].value == share


def test_the_optimum_is_that_of_the_turns_and_of_the_starts():
    source = GymnasiumSource(env_id="FrozenLake-v1", test=3)
    task = LanguageTask(name="lake", source=source, max_turns=100)
    rows = source.rows("test")
    assert optimum(task, rows) == pytest.approx(0.74419, abs=1e-5)  # docs/tabular.md
    assert optimum(task.replace(max_turns=1000), rows) == optimum(task, rows)  # the environment has a limit of 100
    assert optimum(task.replace(max_turns=5), rows) == 0.0
    taxi = task.replace(source=GymnasiumSource(env_id="Taxi-v4", test=3))
    each = [optimum(taxi, [row]) for row in taxi.source.rows("test")]
    assert len(set(each)) > 1 and optimum(taxi, taxi.source.rows("test")) == pytest.approx(sum(each) / 3)
    assert optimum(task.replace(source=GymnasiumSource(env_id="Blackjack-v1", test=3)), rows) is None
    assert optimum(get_language_task("arithmetic"), rows) is None
