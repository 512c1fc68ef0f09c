"""The weighted sum of rewards, and rewards that fail."""

import math
import threading
import time

import pytest
import torch
from gaitway_tasks.language.env import ToolEnv
from gaitway_tasks.language.score import RewardError, score
from gaitway_tasks.language.spec import LanguageTask, TextReward
from gaitway_tasks.language.tasks import get_language_task

ROWS = [{"prompt": "a", "answer": "1", "level": 2}, {"prompt": "b", "answer": "2"}]


def total(*rewards, completions=("x", "yy"), **kwargs):
    task = get_language_task("arithmetic").replace(
        name="t", rewards={f"r{i}": TextReward(func=func, **kwargs) for i, func in enumerate(rewards)}
    )
    return score(task, [row["prompt"] for row in ROWS], list(completions), ROWS)


def length(prompts, completions, **columns):
    return [len(completion) for completion in completions]


def opinion(prompts, completions, **columns):
    return [None, torch.tensor(3.0)]


def test_parts_are_weighted_and_added():
    task = get_language_task("arithmetic").replace(
        rewards={"length": TextReward(func=length, weight=0.5), "opinion": TextReward(func=opinion, weight=2.0)}
    )
    totals, parts = score(task, ["a", "b"], ["x", "yy"], ROWS)
    assert totals == [0.5, 7.0]
    assert parts["length"] == [1.0, 2.0] and math.isnan(parts["opinion"][0]) and parts["opinion"][1] == 3.0


def test_without_rewards_all_is_nothing():
    assert total() == ([0.0, 0.0], {})


def test_rewards_get_the_fields_of_the_rows_by_name():
    seen = {}

    def look(prompts, completions, **columns):
        seen.update(columns, prompts=prompts, completions=completions)
        return [0, 0]

    total(look, params={"scale": 3})
    assert seen == {
        "prompts": ["a", "b"],
        "completions": ["x", "yy"],
        "answer": ["1", "2"],
        "level": [2, None],
        "scale": 3,
    }


def test_rewards_of_trls_form_need_not_take_everything():
    assert total(lambda completions, answer: [float(a) for a in answer])[0] == [1.0, 2.0]
    assert total(lambda completions, **kwargs: [float(len(kwargs))] * 2)[0] == [3.0, 3.0]


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (lambda prompts, completions, **c: [1], r"reward 'r0' of task t returned 1 values for 2 completions"),
        (lambda prompts, completions, **c: None, r"returned None"),
        (lambda prompts, completions, **c: [1, "good"], r"returned 'good' for 'yy': it must be a finite number"),
        (lambda prompts, completions, **c: [1, float("nan")], r"returned nan for 'yy'"),
        (lambda prompts, completions, **c: [1, float("inf")], r"returned inf"),
        (lambda prompts, completions, **c: [1, [2, 3]], r"returned \[2, 3\]"),
        (lambda prompts, completions, **c: 1 / 0, r"reward 'r0' of task t raised ZeroDivisionError"),
        (lambda prompts, completions, *, gold, **c: [0, 0], r"raised TypeError.*gold"),
    ],
)
def test_a_reward_that_fails_is_named(func, message):
    with pytest.raises(RewardError, match=message):
        total(func)


def test_a_reward_that_hangs_is_named():
    stop = threading.Event()
    begin = time.monotonic()
    with pytest.raises(RewardError, match=r"reward 'r0' of task t has not returned after 0.2 s"):
        total(lambda prompts, completions, **c: stop.wait(30), time_limit=0.2)
    assert time.monotonic() - begin < 10.0
    stop.set()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_prompt_tokens": 0}, "max_prompt_tokens 0"),
        ({"tools": ("shell",), "max_turns": 2}, "tools shell: use some of calculator, python"),
        ({"tools": ("calculator",)}, "max_turns 1 with tools"),
        ({"max_turns": 2}, "max_turns 2: without tools"),
        ({"tools": ("calculator",), "max_turns": 2, "environment": ToolEnv}, "tools calculator: an environment brings"),
    ],
)
def test_tasks_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        LanguageTask(**{"name": "t", "source": get_language_task("arithmetic").source, **changes})
    with pytest.raises(ValueError, match="time_limit 0"):
        TextReward(func=length, time_limit=0)
