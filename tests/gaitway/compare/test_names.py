"""Names of settings and groups are short and say which they are."""

from __future__ import annotations

import pytest

from gaitway.compare.names import Names, described, text_of

PLAIN = {
    "agent.gamma": 0.99, "agent.optimizer.learning_rate": 1e-3, "agent.critic.learning_rate": 3e-4,
    "task.rewards.track.weight": 1.0, "task.rewards.track.params.std": 0.5,
}  # fmt: skip
STRAIGHT = PLAIN | {"task.rewards.straight.weight": -4.0, "task.rewards.straight.params": {}}
STRONG = STRAIGHT | {"task.rewards.straight.weight": -8.0}


@pytest.mark.parametrize(("key", "name"), [
    ("agent.gamma", "gamma"),
    ("agent.optimizer.learning_rate", "optimizer learning rate"),
    ("task.rewards.track.weight", "track weight"),
    ("task.rewards.track.params.std", "track std"),
    ("task.rewards.straight", "straight"),
])  # fmt: skip
def test_a_name_is_as_short_as_it_can_be(key, name):
    assert Names([PLAIN, STRAIGHT]).short(key) == name


def test_a_term_that_is_there_or_not_is_with_or_without():
    names = Names([PLAIN, STRAIGHT])
    for key in ("task.rewards.straight", "task.rewards.straight.weight", "task.rewards.straight.params"):
        assert [names.value(key, config) for config in (PLAIN, STRAIGHT)] == ["without straight", "with straight"]
    assert names.value("task.rewards.track.weight", PLAIN) == "track weight 1"


def test_terms_with_several_values_say_them():
    names, key = Names([PLAIN, STRAIGHT, STRONG]), "task.rewards.straight.weight"
    assert [names.value(key, config) for config in (PLAIN, STRAIGHT, STRONG)] == [
        "without straight", "straight weight -4", "straight weight -8",
    ]  # fmt: skip
    assert names.value("task.rewards.straight", STRONG) == "with straight"


def test_settings_that_only_some_agents_have_are_no_terms():
    names = Names([{"agent.clip": 0.2}, {"agent.tau": 1.0}])
    assert names.term("agent.clip") is None and names.value("agent.clip", {"agent.tau": 1.0}) == "clip none"


def test_differences_in_words():
    keys = [key for key in STRONG if key not in PLAIN]
    assert described(keys, [PLAIN, STRAIGHT]) == "straight is not in all"
    assert described(keys, [PLAIN, STRAIGHT, STRONG]) == "straight is not in all, straight weight -4 or -8"


@pytest.mark.parametrize(("value", "text"), [
    (1, "1"), (1.0, "1"), (-0.0, "0"), (0.1, "0.1"), (0.10000000149011612, "0.1"), (1e-7, "1e-07"), (True, "true"),
    (None, "none"), ([1.0, 2], "[1, 2]"), (float("inf"), "inf"), (1e300, "1e+300"), ("1e-3", "1e-3"),
])  # fmt: skip
def test_a_number_has_one_spelling(value, text):
    assert text_of(value) == text
