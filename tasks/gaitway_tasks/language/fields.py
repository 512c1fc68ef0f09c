"""Records of files as rows: the field names of well-known data sets, and checks of what the fields hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .answers import ANSWER, MAX_ANSWER_CHARS, boxed, has_box, tagged, with_tags
from .rows import FieldError, Row, RowError

NEEDED = ("prompt", "answer", "tests", "completion", "chosen", "rejected", "label")
"""Fields that, once the first row has them, every row must have."""

ALIASES = {"prompt": ("question", "problem", "instruction"), "completion": ("response", "output")}
"""Names of our fields in other data sets; a row's own field of our name comes first."""

_ROLES = ("system", "user", "assistant", "tool")
_GSM8K_NOTE = re.compile(r"<<[^<>]*>>")
_HH_TURN = re.compile(r"\n\n(Human|Assistant):")


def to_row(record: Mapping[str, Any], fields: Mapping[str, str], where: str) -> Row:
    """A record with its fields under our names, and each of them in its one form.

    ``fields`` maps ours to the record's. Prompts become text or messages whose last is not the assistant's; answers,
    completions, chosen and rejected become text. Messages with several answers are kept as well, up to the last one.
    Raises :class:`RowError` that begins with ``where``.
    """
    row = _renamed(record, fields, where)
    _split_conversations(row, where)
    _split_gsm8k(row)
    _split_solution(row, where)
    if row.get("prompt") is None:
        names = ", ".join(map(repr, record)) or "none"
        raise FieldError(f"{where}: no prompt among its fields ({names}): map one, as in fields.prompt=question")
    row["prompt"] = _prompt(row["prompt"], where)
    for name in ("completion", "chosen", "rejected"):
        if name in row:
            row[name] = _text(row[name], name, where)
    if "answer" in row:
        row["answer"] = _answer(row["answer"], where)
    if "tests" in row:
        row["tests"] = _tests(row["tests"], where)
    if "chosen" in row and row["chosen"] == row.get("rejected"):
        raise RowError(f"{where}: 'chosen' and 'rejected' are equal, which is no preference: leave the row out")
    if "label" in row and not (isinstance(row["label"], bool | int) and row["label"] in (0, 1)):
        raise RowError(f"{where}: label {row['label']!r} must be true (good) or false (bad)")
    if "margin" in row and not (isinstance(row["margin"], int | float) and math.isfinite(row["margin"])):
        raise RowError(f"{where}: margin {row['margin']!r} must be a number")
    return row


def _renamed(record: Mapping[str, Any], fields: Mapping[str, str], where: str) -> dict[str, Any]:
    row = {name: value for name, value in record.items() if value is not None}
    for ours, theirs in fields.items():
        if theirs not in row:
            raise FieldError(
                f"{where}: no field {theirs!r}, which fields.{ours} names; it has {', '.join(map(repr, row))}"
            )
        row[ours] = record[theirs]
    if not {"messages", "prompt", "chosen"} & row.keys():
        for ours, aliases in ALIASES.items():
            known = next((name for name in aliases if name in row), None)
            if ours not in row and known is not None:
                row[ours] = row[known]
    if isinstance(row.get("instruction"), str) and row.get("prompt") == row["instruction"] and row.get("input"):
        row["prompt"] = f"{row['instruction']}\n\n{row['input']}"  # Alpaca's form
    return row


def _split_conversations(row: dict[str, Any], where: str) -> None:
    """Take the prompt out of whole conversations: ``messages``, and pairs that repeat it in both answers."""
    if "prompt" in row:
        row.pop("messages", None)
    elif "messages" in row:
        messages = _messages(row.pop("messages"), "messages", where)
        row["prompt"] = messages
        if messages[-1]["role"] == "assistant":
            *row["prompt"], last = messages
            if "completion" not in row and any(message["role"] == "assistant" for message in row["prompt"]):
                row["messages"] = messages
            row.setdefault("completion", last["content"])
    elif "chosen" in row and "rejected" in row:
        turns = [_conversation(row[name], name, where) for name in ("chosen", "rejected")]
        if turns[0][:-1] != turns[1][:-1]:
            raise RowError(
                f"{where}: 'chosen' and 'rejected' answer different prompts: they must differ in the last answer"
            )
        row["prompt"], row["chosen"], row["rejected"] = turns[0][:-1], turns[0][-1]["content"], turns[1][-1]["content"]


def _conversation(value: Any, name: str, where: str) -> list[dict[str, str]]:
    """Messages of a whole conversation, given as such or as the text of Anthropic's HH data."""
    if isinstance(value, str):
        pieces = _HH_TURN.split(value)
        if len(pieces) < 5 or pieces[0].strip():
            raise RowError(f"{where}: no field 'prompt', and {name!r} is no whole conversation: add the prompt")
        roles = {"Human": "user", "Assistant": "assistant"}
        value = [
            {"role": roles[role], "content": text.strip()}
            for role, text in zip(pieces[1::2], pieces[2::2], strict=True)
        ]
    messages = _messages(value, name, where)
    if messages[-1]["role"] != "assistant":
        raise RowError(f"{where}: {name!r} must end with a message of the assistant, not of {messages[-1]['role']!r}")
    return messages


def _split_gsm8k(row: dict[str, Any]) -> None:
    """GSM8K's answers are a worked solution, ``####`` and the result."""
    answer = row.get("answer")
    if isinstance(answer, str) and "####" in answer:
        worked, _, result = answer.rpartition("####")
        row["answer"] = result.strip().partition("\n")[0].strip()
        worked = _GSM8K_NOTE.sub("", worked).strip()
        if "completion" not in row and worked and row["answer"]:
            row["completion"] = with_tags(worked, row["answer"], space="\n")


def _split_solution(row: dict[str, Any], where: str) -> None:
    """MATH's solutions are worked, with the result in a box."""
    solution = row.get("solution")
    if "answer" not in row and isinstance(solution, str) and has_box(solution):
        row["answer"] = _boxed(solution, "solution", where)
        row.setdefault("completion", solution)


def _boxed(text: str, name: str, where: str) -> str:
    """The result in the box of a text; a row whose box cannot be read is refused, since any other result is a guess."""
    found = boxed(text)
    if found is None:
        box = text[max(text.rfind("\\boxed"), text.rfind("\\fbox")) :][:80]
        raise RowError(
            f"{where}: the box of {name!r} cannot be read: {box!r}. Write the result as \\boxed{{...}}, at most "
            f"{MAX_ANSWER_CHARS} characters, or name the field that holds it with fields.answer"
        )
    return found


def _prompt(value: Any, where: str) -> str | list[dict[str, str]]:
    if isinstance(value, str):
        if not value.strip():
            raise RowError(f"{where}: the prompt is empty: fill it or leave the row out")
        return value
    messages = _messages(value, "prompt", where)
    if not messages or messages[-1]["role"] == "assistant":
        raise RowError(f"{where}: the prompt must end with a message that the assistant answers")
    return messages


def _messages(value: Any, name: str, where: str) -> list[dict[str, str]]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise RowError(f"{where}: {name!r} must be text or a list of messages with 'role' and 'content'")
    for message in value:
        if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
            raise RowError(f"{where}: a message of {name!r} lacks a 'role' of {', '.join(_ROLES)}")
        if not isinstance(message.get("content"), str) or not message["content"].strip():
            raise RowError(f"{where}: the {message['role']}'s message in {name!r} is empty or not text")
        for other in ("tool_calls", "reasoning_content", "thinking"):
            if message.get(other):
                raise RowError(
                    f"{where}: a message of {name!r} has {other!r} beside its content, which would be left out: write "
                    "it into the content, in the form that the model uses"
                )
    return [{"role": message["role"], "content": message["content"]} for message in value]


def _text(value: Any, name: str, where: str) -> str:
    """An answer as text: given as such, or as the one message of the assistant."""
    if not isinstance(value, str):
        messages = _messages(value, name, where)
        if len(messages) != 1:
            raise RowError(f"{where}: {name!r} has {len(messages)} messages: put all but the last into the prompt")
        value = messages[0]["content"]
    if not value.strip():
        raise RowError(f"{where}: {name!r} is empty: fill it or leave the row out")
    return str(value)


def _answer(value: Any, where: str) -> str:
    answer = str(value).strip() if isinstance(value, str | int | float) and value == value else ""
    if has_box(answer):
        answer = _boxed(answer, "answer", where)
    elif ANSWER in answer:
        answer = tagged(answer).strip()
    if not answer:
        raise RowError(f"{where}: the answer {value!r} is no text or number: fill it or leave the row out")
    if len(answer) > MAX_ANSWER_CHARS:
        raise RowError(
            f"{where}: an answer of {len(answer)} characters cannot be compared with: 'answer' must be the final "
            f"result alone, at most {MAX_ANSWER_CHARS} characters; name the field that holds it with fields.answer"
        )
    return answer


def _tests(value: Any, where: str) -> list[Any]:
    """Tests of a program: statements, or what it reads and must print."""
    tests = [value] if isinstance(value, str) else value
    usable = isinstance(tests, Sequence) and tests and all(_is_test(test) for test in tests)
    if not usable:
        raise RowError(
            f"{where}: 'tests' must be a list of Python statements, or of mappings with 'input' and 'output' as text"
        )
    return list(tests)


def _is_test(test: Any) -> bool:
    if isinstance(test, Mapping):
        return isinstance(test.get("input"), str) and isinstance(test.get("output"), str)
    return isinstance(test, str) and bool(test.strip())
