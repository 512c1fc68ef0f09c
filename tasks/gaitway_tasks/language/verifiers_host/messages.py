"""Messages of verifiers as plain roles and texts, and what is refused."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """A taskset, or a task, that cannot be played here; the message says why."""


def opening_of(data: Any) -> list[dict[str, str]]:
    """System prompt and prompt of a task as plain messages."""
    system = [] if data.system_prompt is None else [{"role": "system", "content": data.system_prompt}]
    if data.prompt is None:
        return system
    return system + ([{"role": "user", "content": data.prompt}] if isinstance(data.prompt, str) else plain(data.prompt))


def plain(messages: Any) -> list[dict[str, str]]:
    """Messages as roles and texts. Raises :class:`Refused` for pictures and tools."""
    found = []
    for message in messages:
        given = message if isinstance(message, dict) else message.model_dump()
        role, content = given.get("role"), given.get("content")
        if isinstance(content, list):
            if any(part.get("type") != "text" for part in content):
                raise Refused("a message has a picture, and the model reads text only")
            content = "\n".join(part["text"] for part in content)
        if role not in ("system", "user", "assistant") or not isinstance(content, str):
            raise Refused(f"a message of the role {role!r} is not played here")
        found.append({"role": role, "content": content})
    return found


def described(error: BaseException) -> str:
    """An error with those that it wraps, as a line."""
    if isinstance(error, Refused):
        return str(error)
    lines = [f"{type(error).__name__}: {error}"]
    while (error := error.__cause__ or error.__context__) is not None and len(lines) < 3:  # type: ignore[assignment]
        lines.append(f"{type(error).__name__}: {error}")
    return " <- ".join(dict.fromkeys(" ".join(line.split()) for line in lines))
