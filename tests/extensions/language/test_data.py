"""Demonstrations and preferences in tokens."""

from dataclasses import replace

import pytest
from gaitway_language.conversation import Conversation
from gaitway_language.data import demonstrations, preferences
from gaitway_language.tokenizer import build_tokenizer
from gaitway_tasks.language.arithmetic import ArithmeticSource
from gaitway_tasks.language.rows import PlacedRow, RowError
from gaitway_tasks.language.spec import LanguageTask

TASK = LanguageTask(name="sums", source=ArithmeticSource(demonstrations=20, test_problems=5))


@pytest.fixture(scope="module")
def conversation():
    return Conversation(build_tokenizer(TASK.source.vocabulary()))


def test_only_the_answer_and_its_end_are_learnt(conversation):
    rows = TASK.source.rows("train")
    examples = demonstrations(rows, TASK, conversation)
    assert len(examples) == 20
    tokens, mask = examples[3]
    answer = tokens[mask.bool()].tolist()
    assert answer[-1] == conversation.end
    assert conversation.decode(answer) == rows[3]["completion"]
    assert tokens[~mask.bool()].tolist() == conversation.prompt(rows[3]["prompt"])


TURNS = [
    {"role": "system", "content": "how many ?"},
    {"role": "user", "content": "how many apples ?"},
    {"role": "assistant", "content": "7"},
    {"role": "tool", "content": "8"},
    {"role": "assistant", "content": "9"},
]
ROW = {"prompt": TURNS[:-1], "completion": "9", "messages": TURNS}


def test_every_answer_of_a_conversation_is_learnt(conversation):
    """And nothing of what others say in it; on demand the last answer alone, of the same tokens."""
    tokens, mask = demonstrations([ROW], TASK, conversation)[0]
    assert tokens[mask.bool()].tolist() == conversation.answer("7") + conversation.answer("9")
    rendered = conversation.tokenizer.apply_chat_template(TURNS, tokenize=False)
    assert tokens.tolist() == conversation.encode(rendered)
    same, last = demonstrations([ROW], TASK, conversation, last_only=True)[0]
    assert same.tolist() == tokens.tolist() and same[last.bool()].tolist() == conversation.answer("9")


def test_an_answer_of_weight_0_is_seen_and_not_learnt(conversation):
    weighted = [message | ({"weight": 0} if message["content"] == "7" else {}) for message in TURNS]
    tokens, mask = demonstrations([ROW | {"messages": weighted}], TASK, conversation)[0]
    assert tokens.tolist() == demonstrations([ROW], TASK, conversation)[0][0].tolist()
    assert tokens[mask.bool()].tolist() == conversation.answer("9")


TOOLS = [{"type": "function", "function": {"name": "count", "description": "how many apples"}}]


def test_a_rows_tools_are_told_by_the_template(conversation):
    """In prompts, whole conversations and both answers of a pair."""
    telling = build_tokenizer([*TASK.source.vocabulary(), '[]{}:,"_'])
    telling.chat_template = (
        "{% for tool in tools or [] %}{{ tool.function.description }}{% endfor %}" + telling.chat_template
    )
    told = Conversation(telling)
    begin = told.encode("how many apples")
    row = {"prompt": "how many ?", "completion": "7", "chosen": "7", "rejected": "9", "tools": TOOLS}
    pairs = preferences([row], TASK, told)[0][:2]
    for tokens, _ in (*demonstrations([row, ROW | {"tools": TOOLS}], TASK, told), *pairs):
        assert tokens[: len(begin)].tolist() == begin
    without, _ = demonstrations([row | {"tools": []}], TASK, told)[0]
    assert without.tolist() == demonstrations([row], TASK, told)[0][0].tolist()[len(begin) :]
    with pytest.raises(RowError, match=r"row 1 of sums: a prompt with tools, and the chat template.* leaves tools out"):
        demonstrations([row], TASK, conversation)


def test_a_message_names_the_row_of_the_file(conversation):
    row = PlacedRow({"prompt": "how many ?", "completion": "7 " * 600}, "sums.jsonl, row 15")
    with pytest.raises(RowError, match=r"^sums\.jsonl, row 15: the answer"):
        demonstrations([row], TASK, conversation)


def test_a_conversation_that_is_too_long_is_named(conversation):
    short = replace(TASK, max_prompt_tokens=7, max_completion_tokens=6)
    with pytest.raises(RowError, match=r"row 1 of sums: its messages have 17 tokens, more than .* = 13: raise them"):
        demonstrations([ROW], short, conversation)


def test_the_generators_words_are_all_known(conversation):
    unknown = conversation.tokenizer.unk_token_id
    texts = [text for row in TASK.source.rows("train") for text in (row["prompt"], row["completion"])]
    assert all(unknown not in conversation.encode(text) for text in texts)
    assert all(len(conversation.encode(text)) == len(text.split()) for text in texts)  # a word is a token


def test_pairs_share_their_prompt(conversation):
    row = {"prompt": "how many apples ?", "chosen": "7", "rejected": [{"role": "assistant", "content": "9"}]}
    pairs = preferences([row, row | {"margin": 2.5}], TASK, conversation)
    (chosen, _), (rejected, _), _ = pairs[0]
    assert chosen[:-2].tolist() == rejected[:-2].tolist() == conversation.prompt(row["prompt"])
    assert [conversation.decode(t[-2:].tolist()) for t in (chosen, rejected)] == ["7", "9"]
    assert [margin for *_, margin in pairs] == [0.0, 2.5]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "how many ?"}, r"row 2 of sums has no field 'completion': it has prompt"),
        ({"prompt": "how many ? " * 300, "completion": "7"}, r"row 2 of sums: .*max_prompt_tokens=512: raise that"),
        ({"prompt": "how many ?", "completion": [{"content": "7"}] * 2}, r"row 2 of sums: 'completion' has 2 messages"),
        ({"prompt": "how many ?", "completion": "7 " * 600}, r"row 2 of sums: .*602 tokens.*max_completion_tokens=512"),
    ],
)
def test_a_row_that_cannot_be_learnt_is_named(conversation, row, message):
    good = {"prompt": "how many ?", "completion": "7"}
    with pytest.raises(RowError, match=message):
        demonstrations([good, row], TASK, conversation)


def test_nothing_to_learn_from_is_refused(conversation):
    with pytest.raises(RowError, match="no demonstrations"):
        demonstrations([], TASK, conversation)
    with pytest.raises(RowError, match="no preferences"):
        preferences([], TASK, conversation)
