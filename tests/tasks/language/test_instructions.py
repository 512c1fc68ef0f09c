"""Constraints that a program checks, and the requests that ask for them."""

import json
from collections import Counter
from itertools import islice

import pytest
from gaitway_files.errors import UserError
from gaitway_tasks.language.constraints import CONSTRAINTS, NEW, TRAINED, share_met
from gaitway_tasks.language.instructions import SUBJECTS, VOCABULARIES, InstructionSource
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import get_language_task

TASK = get_language_task("instructions")
ANSWERS = {
    "number_words": ({"number": 5}, ["Rain is good."], ["Rain is good for all of us.", ""]),
    "number_sentences": ({"number": 2}, ["Rain falls. It is wet!", 'He said "rain." It is 3.5 mm.'], ["Rain.", ""]),
    "english_lowercase": ({}, ["rain is 3 times wet, é."], ["Rain is wet.", "3.5"]),
    "english_capital": ({}, ["RAIN IS WET, É 3."], ["RAIN is wet", "3"]),
    "no_comma": ({}, ["Rain is wet."], ["Rain, as we know, is wet.", ""]),
    "quotation": ({}, ['"Rain is wet."'], ['"Rain" is wet.', "'Rain'", '"', "“Rain is wet.”"]),
    "first_word": ({"word": "Listen"}, ["Listen, it rains.", "listen: rain"], ["I listen.", "Listening to rain"]),
    "end_checker": ({"phrase": "that is all"}, ["Rain is wet, that is all.", "That is ALL!"], ["that is all we know"]),
    "existence": ({"words": ["old", "Water"]}, ["Old rain is water."], ["Older rain is water.", "old"]),
    "forbidden_words": ({"words": ["the"]}, ["Rain is there."], ["The rain falls.", "rain on the sea", ""]),
    "json_format": (
        {"keys": ["use", "size"]},
        ['{"use": "rain", "size": 3}', '{\n"size": [1], "use": {"a": 1}}'],
        ['{"use": "rain"}', '{"use": "", "size": 1}', '{"use": 1, "size": 2, "x": 3}', "[1]", '{"use": 1', "9" * 5000],
    ),
    "number_bullet_lists": ({"number": 2}, ["- Rain is wet\n- It falls"], ["- Rain is wet", "Rain:\n- a b\n- c d"]),
    "least_words": ({"number": 3}, ["Rain is wet."], ["Rain is"]),
    "least_sentences": ({"number": 2}, ["Rain falls. It is wet!"], ["Rain falls, and it is wet."]),
    "frequency": ({"word": "old", "number": 2}, ["Old rain is old."], ["Old rain is older."]),
    "square_brackets": ({}, ["[Rain is wet.]"], ["Rain [wet]", "[]"]),
    "number_lists": ({"number": 2}, ["1. Rain is wet\n\n2. It falls"], ["1. Rain is wet", "1. Rain is\n1. It falls"]),
    "end_mark": ({}, ["Rain!"], ["Rain! It is.", ""]),
}


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_answers_that_meet_a_constraint_and_that_do_not(kind):
    values, good, bad = ANSWERS[kind]
    for answer in good:
        assert share_met(f" {answer}\n", {"kind": kind, **values}) == 1.0, answer
    for answer in bad:
        assert 0.0 <= share_met(answer, {"kind": kind, **values}) < 1.0, answer


def test_an_unknown_kind_is_named():
    with pytest.raises(UserError, match="constraint 'rhyme': use one of number_words"):
        share_met("rain", {"kind": "rhyme"})


def test_test_problems_share_no_subject_word_key_or_wording_with_training():
    train, test = list(islice(TASK.source.stream("train", 0), 3000)), TASK.source.rows("test")
    assert not {row["prompt"] for row in train} & {row["prompt"] for row in test}
    assert not set(SUBJECTS["train"]) & set(SUBJECTS["test"])
    for field, words in vars(VOCABULARIES["train"]).items():
        assert not set(words) & set(getattr(VOCABULARIES["test"], field)), field
    for kind in TRAINED:
        asked = [w.partition("{")[0] for w in CONSTRAINTS[kind].wordings]
        assert len(asked) == 3
        assert not any(asked[-1] in row["prompt"] for row in train if row["level"] == kind)
        assert all(asked[-1] in row["prompt"] for row in test if row["level"] == kind)


def test_kinds_are_equally_frequent_and_unseen_ones_are_new():
    first = Counter(row["constraints"][0]["kind"] for row in TASK.source.rows("test"))
    assert set(first) == set(TRAINED) and max(first.values()) - min(first.values()) <= 1
    two = [row for row in TASK.source.rows("test") if row["level"] == "two"]
    assert 0.18 < len(two) / 480 < 0.32
    for row in two:
        names = [constraint["kind"] for constraint in row["constraints"]]
        assert len(set(names)) == 2 and names[1] not in CONSTRAINTS[names[0]].excludes
    unseen = InstructionSource(unseen=True).rows("test")
    assert {row["level"] for row in unseen} == set(NEW)
    trained = islice(InstructionSource(unseen=True).stream("train", 0), 20)  # who wants to may train them
    assert {row["level"] for row in trained} == set(NEW)


def test_an_answer_must_meet_all_name_its_subject_and_end():
    row = {
        "prompt": "Briefly describe rain. Use no capital letters at all. Do not use any commas.",
        "subject": "rain",
        "constraints": [{"kind": "english_lowercase"}, {"kind": "no_comma"}],
    }
    good = "rain is wet and cold."
    answers = [good, "rain, it is wet and cold.", good.replace("rain", "snow"), good, "rain: rain is wet rain."]
    rows = [{**row, "finished": ended} for ended in (True, True, True, False, True)]
    rewards, parts = score(TASK, [row["prompt"]] * 5, answers, rows)
    assert list(parts["correctness"]) == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert list(parts["nearness"]) == [1.0, 0.75, 0.5, 0.5, 0.5]
    assert list(rewards) == [1.5, 0.375, 0.25, 0.25, 0.25]


def test_rows_can_be_stored():
    rows = list(islice(TASK.source.stream("train", 3), 50))
    assert json.loads(json.dumps(rows)) == rows
    assert rows == list(islice(TASK.source.stream("train", 3), 50))
