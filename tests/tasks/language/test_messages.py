"""Messages of data sets as one form: nothing that a message says is left out in silence."""

import json

import pytest
from gaitway_tasks.language.messages import messages_of
from gaitway_tasks.language.rows import RowError
from hypothesis import given
from hypothesis import strategies as st

ASKED, ANSWERED = {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}


def read(*messages):
    return messages_of(list(messages), "messages", "rows.jsonl, row 3")


@pytest.mark.parametrize(
    "messages",
    [
        [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "4"}],
        [{"role": "user", "content": [{"type": "text", "text": "2+"}, {"type": "text", "text": "2?"}]}, ANSWERED],
        [{"role": "user", "content": [{"type": "text", "text": "2+2?", "image_url": None}]}, ANSWERED],
        [ASKED | {"name": None, "tool_calls": []}, ANSWERED | {"weight": 1}],
        [ASKED | {"weight": 0.0}, {"role": "model", "content": [{"type": "text", "value": "4"}], "loss_weight": 1.0}],
    ],
)
def test_forms_of_the_same_messages(messages):
    assert read(*messages) == [ASKED, ANSWERED]
    assert messages_of(json.dumps(messages), "messages", "") == [ASKED, ANSWERED], "a table keeps them as text"


@pytest.mark.parametrize("key", ["weight", "loss_weight", "train", "loss"])
def test_an_answer_that_is_not_learnt_is_marked(key):
    assert [m.get("weight", 1) for m in read(ASKED, {**ANSWERED, key: False}, ASKED, {**ANSWERED, key: 1})] == [
        1, 0, 1, 1,
    ]  # fmt: skip


@given(st.text("abcdefgh_", min_size=4, max_size=12).filter(lambda k: k not in ("role", "content", "from", "value")))
def test_no_key_of_a_message_is_left_out(key):
    with pytest.raises(RowError, match=rf"row 3: .*'{key}'.*task\.source\.ignore=\[{key}\]"):
        read(ASKED, {**ANSWERED, key: "x"})


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"role": "assistant", "content": "4", "weight": 0.5}, "weight 0.5"),
        ({"role": "assistant", "content": "4", "weight": 0, "train": True}, "weight and train"),
        ({"role": "user", "content": "2+2?", "train": True}, "only answers are learnt"),
        ({"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "2+2?"}]}, "'image'"),
        ({"role": "user", "content": [{"type": "text", "text": "2+2?", "annotations": [1]}]}, "'annotations'"),
        ({"role": "assistant", "content": None, "tool_calls": [{"name": "sum"}]}, "'tool_calls'"),
        ({"from": "function_call", "value": "{}"}, "'function_call'"),
        ({"role": "user", "content": 4}, "empty or not text"),
        ("hello", "list of messages"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(message, told):
    with pytest.raises(RowError, match=f"row 3: .*{told}"):
        read(ASKED, message)


def test_messages_as_the_text_of_python_are_no_json():
    with pytest.raises(RowError, match="'messages' is not valid JSON"):
        messages_of(str([ASKED]), "messages", "row 3")
