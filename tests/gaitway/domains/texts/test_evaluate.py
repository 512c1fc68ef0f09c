"""Answers with tools in an examination: the model's own words count, and only their final part is judged."""

import functools

from gaitway_agents.interfaces import Completion, Sampling
from gaitway_language.conversation import Conversation
from gaitway_language.tokenizer import build_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.env import ToolEnv, Turn
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import get_language_task

from gaitway.domains.texts.evaluate import _vote, evaluate

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
