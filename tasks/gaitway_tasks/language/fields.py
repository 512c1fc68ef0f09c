"""Records of files as rows: the field names of well-known data sets, and checks of what the fields hold."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .answers import ANSWER, MAX_ANSWER_CHARS, boxed, has_box, tagged, with_tags
from .messages import Messages, is_empty, is_written, messages_of, parsed, plain
from .rows import FieldError, PlacedRow, RowError

NEEDED = ("prompt", "answer", "tests", "completion", "chosen", "rejected", "label")
"""Fields that, once the first row has them, every row must have."""

ALIASES = {
    "messages": ("conversations", "conversation"),
    "completion": ("response", "output"),
    "prompt": ("question", "problem", "instruction"),
}
"""Names of our fields in other data sets; a row's own field of our name comes first."""
_INSTEAD = {"messages": (), "completion": ("messages", "prompt", "chosen"), "prompt": ("messages",)}
"""Fields beside which those names are not taken."""
ANSWERS = ("completion", "chosen", "rejected")

_REFUSED = {
    **dict.fromkeys(("image", "images", "video", "videos", "audio", "audios"), "only text is read"),
    "functions": "name it 'tools', each a mapping with 'type' and 'function'",
    "function_call": "write the call into the answer, in the form that the model uses",
    "documents": "write them into the prompt, in the form that the model uses",
    "chat_template_kwargs": "set task.chat_template_kwargs for all rows",
}
"""Columns of other trainers that change what a row means and have no place here, with what to do about them."""
_GSM8K_NOTE = re.compile(r"<<[^<>]*>>")
_HH_TURN = re.compile(r"\n\n(Human|Assistant):")


def to_row(record: Mapping[str, Any], fields: Mapping[str, str], where: str, ignore: Sequence[str] = ()) -> PlacedRow:
    """A record with its fields under our names, and each of them in its one form.

    ``fields`` maps ours to the record's, nested ones with dots; ``ignore`` names columns, and keys of messages, to
    leave out. Prompts become text or messages whose last is not the assistant's; answers, completions, chosen and
    rejected become text. Messages with several answers are kept as well, up to the last one that is learnt. Raises
    :class:`RowError` that begins with ``where``.
    """
    row = _renamed(_without(record, ignore), fields, where)
    _check_columns(row, where)
    _split_conversations(row, where)
    _split_gsm8k(row)
    _split_solution(row, where)
    if row.get("prompt") is None:
        raise FieldError(_no_prompt(record, where))
    row["prompt"] = _prompt(row["prompt"], where)
    earlier = _earlier(row, where)
    if earlier:
        row["prompt"] = [*earlier, *_asked(row["prompt"])]
    for name in ANSWERS:
        if name in row:
            row[name] = _text(row, name, where)
    if earlier:
        _keep_earlier(row, earlier)
    if "tools" in row:
        row["tools"] = _tools(row["tools"], where)
    if "answer" in row:
        row["answer"] = _answer(row["answer"], where)
    if "tests" in row:
        row["tests"] = _tests(row["tests"], where)
    _check_pair(row, where)
    if "label" in row:
        row["label"] = _label(row["label"], where)
    if "margin" in row:
        row["margin"] = _margin(row["margin"], where)
    _check_characters(row, where)
    return PlacedRow(row, where)


def _no_prompt(record: Mapping[str, Any], where: str) -> str:
    names = ", ".join(map(repr, record)) or "none"
    turns = [name for name, value in record.items() if isinstance(value, Sequence) and _are_messages(value)]
    hint = f"messages={turns[0]}" if turns else "prompt=question"
    return f"{where}: no prompt among its fields ({names}): map one, as in task.source.fields.{hint}"


def _are_messages(value: Sequence[Any]) -> bool:
    return is_written(value) or any(
        isinstance(item, Mapping) and {"role", "from", "content", "value"} & item.keys() for item in value
    )


def _without(record: Mapping[str, Any], ignore: Sequence[str]) -> Mapping[str, Any]:
    """A record without some columns, and its messages without such keys."""

    def less(value: Any) -> Any:
        return {key: v for key, v in value.items() if key not in ignore} if isinstance(value, Mapping) else value

    if not ignore:
        return record
    return {
        name: [less(item) for item in value] if isinstance(value, list) and name != "tools" else value
        for name, value in record.items()
        if name not in ignore
    }


def _found(record: Mapping[str, Any], name: str) -> Any:
    """Value of a field by its name, or by the names of nested ones with dots between; None if there is none."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _renamed(record: Mapping[str, Any], fields: Mapping[str, str], where: str) -> dict[str, Any]:
    row = {name: value for name, value in record.items() if value is not None}
    for ours, theirs in fields.items():
        if (value := _found(record, theirs)) is None:
            raise FieldError(
                f"{where}: no field {theirs!r}, which fields.{ours} names; it has {', '.join(map(repr, row))}"
            )
        row[ours] = value
    for ours, aliases in ALIASES.items():
        known = next((name for name in aliases if name in row), None)
        if known is not None and not any(name in row for name in (ours, *_INSTEAD[ours])):
            row[ours] = row[known]
    if isinstance(rated := row.get("reward_model"), Mapping) and "answer" not in row:  # verl's rows
        truth = rated.get("ground_truth")
        if isinstance(truth, str | int | float) and len(str(truth)) <= MAX_ANSWER_CHARS:
            row["answer"] = truth
    _join_input(row, where)
    return row


def _join_input(row: dict[str, Any], where: str) -> None:
    """Put what a question is about behind it: ``input`` of Alpaca's rows, ``context`` of Dolly's."""
    question = next((row[name] for name in ALIASES["prompt"] if row.get("prompt") == row.get(name) is not None), None)
    if not isinstance(question, str):
        return
    for name in ("input", "context"):
        if is_empty(row.get(name)):
            continue
        if not isinstance(row[name], str):
            raise RowError(f"{where}: {name!r} beside a question is not text: write it into the prompt")
        row["prompt"] = f"{row['prompt']}\n\n{row[name]}"


def _check_columns(row: Mapping[str, Any], where: str) -> None:
    for name, cure in _REFUSED.items():
        if not is_empty(row.get(name)):
            raise RowError(
                f"{where}: the column {name!r} would be left out: {cure}; to have it ignored, set "
                f"task.source.ignore=[{name}]"
            )


def _split_conversations(row: dict[str, Any], where: str) -> None:
    """Take the prompt out of whole conversations: ``messages``, and pairs that repeat it in both answers."""
    messages = row.pop("messages", None)
    if messages is not None and "prompt" in row and not {"completion", "chosen"} & row.keys():
        found = messages_of(messages, "messages", where)
        if _repeated(found[:-1], row["prompt"]) is not None or found[0]["content"] == row["prompt"]:
            del row["prompt"]  # UltraChat repeats the first question beside the whole
    if "prompt" in row:
        return
    if messages is not None:
        _split_messages(row, messages_of(messages, "messages", where), where)
    elif "chosen" in row and "rejected" in row:
        turns = [_conversation(row[name], name, where) for name in ("chosen", "rejected")]
        if any(len(turn) < 2 for turn in turns):
            raise RowError(f"{where}: no field 'prompt', and 'chosen' is no whole conversation: add the prompt")
        if plain(turns[0][:-1]) != plain(turns[1][:-1]):
            raise RowError(
                f"{where}: 'chosen' and 'rejected' answer different prompts: they must differ in the last answer"
            )
        row["prompt"] = plain(turns[0][:-1])


def _split_messages(row: dict[str, Any], found: Messages, where: str) -> None:
    """The prompt, and the last answer that is learnt as the completion."""
    row["prompt"] = plain(found)
    if found[-1]["role"] != "assistant":
        return
    if found[0]["role"] == "assistant":
        raise RowError(
            f"{where}: 'messages' begin with an answer, before which nothing was asked: take it out, or put a message "
            "of the user or the system before it"
        )
    learnt = [i for i, message in enumerate(found) if message["role"] == "assistant" and message.get("weight", 1)]
    if not learnt:
        raise RowError(
            f"{where}: every answer in 'messages' has the weight 0, and nothing is learnt: leave the row out"
        )
    *before, last = found[: learnt[-1] + 1]
    row["prompt"] = plain(before)
    if "completion" not in row and any(message["role"] == "assistant" for message in before):
        row["messages"] = [*before, last]
    row.setdefault("completion", last["content"])


def _conversation(value: Any, name: str, where: str) -> Messages:
    """Messages that end with an answer, given as such or as the text of Anthropic's HH data."""
    if isinstance(value, str) and not is_written(value):
        pieces = _HH_TURN.split(value)
        if len(pieces) < 5 or pieces[0].strip():
            raise RowError(f"{where}: no field 'prompt', and {name!r} is no whole conversation: add the prompt")
        roles = {"Human": "user", "Assistant": "assistant"}
        value = [
            {"role": roles[role], "content": text.strip()}
            for role, text in zip(pieces[1::2], pieces[2::2], strict=True)
        ]
    messages = messages_of(value, name, where)
    if messages[-1]["role"] != "assistant":
        raise RowError(f"{where}: {name!r} must end with a message of the assistant, not of {messages[-1]['role']!r}")
    if not messages[-1].get("weight", 1):
        raise RowError(f"{where}: the answer in {name!r} has the weight 0, and nothing is learnt: leave the row out")
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


def _prompt(value: Any, where: str) -> str | Messages:
    if isinstance(value, str) and not is_written(value):
        if not value.strip():
            raise RowError(f"{where}: the prompt is empty: fill it or leave the row out")
        return value
    messages = plain(messages_of(value, "prompt", where))
    if messages[-1]["role"] == "assistant":
        raise RowError(
            f"{where}: the prompt must end with a message that the assistant answers; to learn whole conversations, "
            "name their field as in task.source.fields.messages=conversations"
        )
    return messages


def _asked(prompt: str | Messages) -> Messages:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def _earlier(row: dict[str, Any], where: str) -> Messages:
    """Messages before the prompt that have columns of their own: ``system``, and the ``history`` of Alpaca's rows."""
    found: Messages = []
    for name in ("system", "system_prompt"):
        if is_empty(said := row.get(name)):
            continue
        if not isinstance(said, str):
            raise RowError(f"{where}: {name!r} {said!r:.60} must be text")
        others = [*found, *_asked(row["prompt"])[:1]]
        if any(message["role"] == "system" and message["content"] != said for message in others):
            raise RowError(f"{where}: {name!r} and a system message say different things: keep one")
        if all(message["role"] != "system" for message in others):
            found.append({"role": "system", "content": said})
    history: Any = row.get("history")
    if is_empty(history):
        return found
    history = parsed(history, "history", where) if isinstance(history, str) else history
    turns = history if isinstance(history, Sequence) else []
    if turns and all(isinstance(turn, Mapping) for turn in turns):
        return [*found, *plain(messages_of(turns, "history", where))]
    if not turns or not all(_is_turn(turn) for turn in turns):
        raise RowError(f"{where}: 'history' must be a list of pairs, each a question and its answer as text")
    pairs = [zip(("user", "assistant"), turn, strict=True) for turn in turns]
    return [*found, *({"role": role, "content": text} for pair in pairs for role, text in pair)]


def _is_turn(turn: Any) -> bool:
    pair = isinstance(turn, Sequence) and not isinstance(turn, str) and len(turn) == 2
    return pair and all(isinstance(text, str) and text.strip() for text in turn)


def _keep_earlier(row: dict[str, Any], earlier: Messages) -> None:
    """Earlier answers are learnt as those of ``messages`` are, where there is a demonstration."""
    if "messages" in row:
        row["messages"] = [*earlier, *row["messages"]]
    elif "completion" in row and "label" not in row and any(message["role"] == "assistant" for message in earlier):
        row["messages"] = [*row["prompt"], {"role": "assistant", "content": row["completion"]}]


def _text(row: dict[str, Any], name: str, where: str) -> str:
    """An answer as text: given as such, as a message, or as a conversation that repeats the prompt.

    The prompt of the row gets the system message that such a conversation has.
    """
    value = row[name]
    if not isinstance(value, str) or is_written(value) or value.startswith("\n\nHuman:"):
        *head, last = _conversation(value, name, where)
        if head:
            whole = _repeated(plain(head), row["prompt"])
            if whole is None:
                raise RowError(
                    f"{where}: {name!r} has {len(head) + 1} messages, and those before the last are not the prompt: "
                    "put all but the last into the prompt"
                )
            row["prompt"] = whole
        value = last["content"]
    if not value.strip():
        raise RowError(f"{where}: {name!r} is empty: fill it or leave the row out")
    return str(value)


def _repeated(head: Messages, prompt: Any) -> str | Messages | None:
    """The prompt, with its system message if either has one, if ``head`` says the same; else None."""
    asked = _asked(prompt)
    if not isinstance(asked, list) or not all(isinstance(message, Mapping) for message in asked):
        return None

    def said(messages: Messages, system: bool) -> list[tuple[str, str]]:
        return [(m["role"], m["content"].strip()) for m in messages if (m["role"] == "system") == system]

    if said(head, False) != said(asked, False):
        return None
    ours, theirs = said(asked, True), said(head, True)
    if ours and theirs and ours != theirs:
        return None
    return head if theirs and not ours else prompt


def _check_pair(row: Mapping[str, Any], where: str) -> None:
    if not {"chosen", "rejected"} <= row.keys():
        return
    if row["chosen"] == row["rejected"]:
        raise RowError(f"{where}: 'chosen' and 'rejected' are equal, which is no preference: leave the row out")
    prompt = row["prompt"]
    if isinstance(prompt, str) and all(row[name].startswith(prompt) for name in ("chosen", "rejected")):
        raise RowError(
            f"{where}: 'chosen' and 'rejected' both begin with the prompt: cut it off, it is said before them"
        )


def _tools(value: Any, where: str) -> list[Any]:
    """Schemas of the tools that a row's prompt tells of, as chat templates take them; [] for none."""
    tools = parsed(value, "tools", where) if isinstance(value, str) and value.strip() else value
    if is_empty(tools) or (isinstance(tools, str) and not tools.strip()):
        return []
    if not isinstance(tools, Sequence) or not all(isinstance(tool, Mapping) for tool in tools):
        raise RowError(f"{where}: 'tools' must be a list of JSON schemas, each a mapping with 'type' and 'function'")
    tools = [_without_nulls(tool) for tool in tools]
    wrapped = [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools]
    if not all(isinstance(tool["function"], Mapping) and tool["function"].get("name") for tool in wrapped):
        raise RowError(f"{where}: a tool in 'tools' has no name: each is a mapping with 'type' and 'function'")
    return wrapped


def _without_nulls(value: Any) -> Any:
    """A schema without the keys that parquet adds to mappings that lack them."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(v) for key, v in value.items() if v is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _label(value: Any, where: str) -> bool:
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, str | bool | int | float) and word in (0, 1, "0", "1", "true", "false"):
        return word in (1, "1", "true")
    raise RowError(f"{where}: label {value!r} must be true (good) or false (bad)")


def _margin(value: Any, where: str) -> float:
    try:
        margin = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        margin = math.nan
    if not math.isfinite(margin):
        raise RowError(f"{where}: margin {value!r} must be a number")
    return margin


def _check_characters(row: Mapping[str, Any], where: str) -> None:
    """Refuse half of a character that takes two, which no tokeniser reads: JSON's escapes can write it."""
    for name, value in row.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RowError(
                f"{where}: {name!r} has \\u{ord(text[error.start]):04x}, half of a character such as an emoji, near "
                f"{text[max(0, error.start - 20) : error.start]!r}: write the whole character or leave the row out"
            ) from None


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
