"""Language tasks by name."""

from __future__ import annotations

from collections.abc import Callable

from ..registry import UnknownNameError
from .arithmetic import ArithmeticSource
from .rewards import correctness, format_reward
from .spec import LanguageTask, TextReward


def arithmetic() -> LanguageTask:
    """Word problems of two or three steps, few of them with a demonstration."""
    return LanguageTask(
        name="arithmetic",
        source=ArithmeticSource(),
        rewards={
            "correctness": TextReward(func=correctness, params={"tags_only": True}),
            "format": TextReward(func=format_reward, weight=0.2),
        },
        max_prompt_tokens=64,
        max_completion_tokens=64,
    )


_TASKS: dict[str, Callable[[], LanguageTask]] = {"arithmetic": arithmetic}


def language_task_names() -> list[str]:
    """Names that :func:`get_language_task` knows."""
    return sorted(_TASKS)


def get_language_task(name: str) -> LanguageTask:
    """The task of that name; :class:`UnknownNameError` for an unknown one."""
    if name not in _TASKS:
        raise UnknownNameError("language task", name, _TASKS)
    return _TASKS[name]()
