"""Messages of conversations in the forms that data sets have (OpenAI's, ShareGPT's, text parts), as one form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gaitway_files.json_files import parse_json
from gaitway_files.reading import VALUE, FileError, printable

from .rows import RowError

Messages = list[dict[str, Any]]
"""Mappings with ``role`` and ``content``; answers that are not to be learnt have ``weight`` 0 beside them."""

ROLES = {
    "system": "system", "developer": "system",
    "user": "user", "human": "user",
    "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "model": "assistant",
    "tool": "tool", "observation": "tool",
}  # fmt: skip
"""Our roles by their names in data sets."""
WEIGHTS = ("weight", "loss_weight", "train", "loss")
"""Keys that say whether an answer is learnt: OpenAI's and Mistral's, LLaMA-Factory's, axolotl's and ms-swift's."""

_WRITTEN = re.compile(r"\s*\[\s*\{\s*[\"'](role|from|content|value)[\"']\s*:")


def is_empty(value: Any) -> bool:
    """True if a key or column says nothing: null, or an empty text, list or mapping."""
    return value is None or (isinstance(value, str | Sequence | Mapping) and not value) or value == "[]"


def is_written(value: Any) -> bool:
    """True for text that is a list of messages, as tables keep them."""
    return isinstance(value, str) and _WRITTEN.match(value) is not None


def messages_of(value: Any, name: str, where: str) -> Messages:
    """The messages of a field, at least one. Raises :class:`RowError` for any key that would be left out."""
    if is_written(value):
        value = parsed(value, name, where)
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise RowError(f"{where}: {name!r} must be text or a list of messages with 'role' and 'content'")
    return [_message(message, name, where) for message in value]


def plain(messages: Messages) -> Messages:
    """Messages without their weights."""
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def parsed(text: str, name: str, where: str) -> Any:
    """The list or mapping that a field has as JSON text."""
    try:
        return parse_json(text, name)
    except FileError as error:
        raise RowError(f"{where}: the text of {name!r} is not valid JSON ({error.reason})") from None


def _message(message: Any, name: str, where: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise RowError(f"{where}: {name!r} must be text or a list of messages with 'role' and 'content'")
    keys = {key: value for key, value in message.items() if not is_empty(value)}
    said = keys.pop("role", None) or keys.pop("from", None)
    if not isinstance(said, str) or (role := ROLES.get(said.lower())) is None:
        raise RowError(
            f"{where}: a message of {name!r} has the role {_shown(said)} and needs a 'role' of system, user, "
            "assistant, tool, or ShareGPT's 'from'"
        )
    weights = {key: keys.pop(key) for key in WEIGHTS if key in keys}
    content = keys.pop("content", None) or keys.pop("value", None) or ""
    if keys:
        odd = ", ".join(map(_shown, keys))
        raise RowError(
            f"{where}: a message of {name!r} has {odd} beside its content, which would be left out: write it into "
            "the content, in the form that the model uses; to have it ignored, set "
            f"task.source.ignore=[{next(iter(keys))}]"
        )
    text = _content(content, role, name, where)
    if not text.strip() and role in ("user", "assistant"):
        raise RowError(f"{where}: the {role}'s message in {name!r} is empty or not text")
    return {"role": role, "content": text, **_weight(weights, role, name, where)}


def _content(value: Any, role: str, name: str, where: str) -> str:
    """Text of a message: given as such, or in parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(isinstance(part, str | Mapping) for part in value):
        raise RowError(f"{where}: the {role}'s message in {name!r} is empty or not text")
    return "".join(part if isinstance(part, str) else _part(part, role, name, where) for part in value)


def _part(part: Mapping[str, Any], role: str, name: str, where: str) -> str:
    keys = {key: value for key, value in part.items() if not is_empty(value)}
    kind = keys.pop("type", "text")
    text = keys.pop("text", None) or keys.pop("value", None) or ""
    if kind not in ("text", "input_text", "output_text") or keys or not isinstance(text, str):
        odd = kind if not keys or kind != "text" else next(iter(keys))
        raise RowError(
            f"{where}: the {role}'s message in {name!r} has a part {_shown(odd)}, and only text is read: leave the "
            "row out"
        )
    return text


def _weight(given: Mapping[str, Any], role: str, name: str, where: str) -> dict[str, int]:
    """``weight`` 0 for an answer that is not to be learnt."""
    for key, value in given.items():
        if not isinstance(value, bool | int | float) or value not in (0, 1):
            raise RowError(f"{where}: {key} {_shown(value)} of a message in {name!r} must be 0 or 1")
        if value and role != "assistant":
            raise RowError(
                f"{where}: {key} {_shown(value)} of the {role}'s message in {name!r}: only answers are learnt; set it "
                "to 0 or leave it out"
            )
    if len(set(map(bool, given.values()))) > 1:
        raise RowError(f"{where}: {' and '.join(given)} of a message in {name!r} say different things: keep one")
    return {"weight": 0} if role == "assistant" and given and not any(given.values()) else {}


def _shown(value: Any) -> str:
    return printable(repr(value), VALUE)
