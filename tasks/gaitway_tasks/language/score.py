"""Scores of completions: the weighted sum of a task's rewards, and each part."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from gaitway_files.errors import NotDone

from .rows import Row
from .spec import LanguageTask, TextReward


class RewardError(NotDone):
    """A reward that failed; the message names it and what it did."""


def score(
    task: LanguageTask, prompts: Sequence[str], completions: Sequence[str], rows: Sequence[Row]
) -> tuple[list[float], dict[str, list[float]]]:
    """Totals of completions and the parts before their weights, lists of len(completions).

    A reward without an opinion on a completion (None) is not a number in the parts and adds nothing to the total.
    Raises :class:`RewardError` if one raises, does not end in its ``time_limit``, or does not return a finite number
    or None for each completion.
    """
    fields = dict.fromkeys(name for row in rows for name in row if name not in ("prompt", "completion", "messages"))
    columns = {name: [row.get(name) for row in rows] for name in fields}
    parts = {
        name: _part(f"reward {name!r} of task {task.name}", reward, prompts, completions, columns)
        for name, reward in task.rewards.items()
    }
    totals = [
        sum((task.rewards[name].weight * part[i] for name, part in parts.items() if not math.isnan(part[i])), 0.0)
        for i in range(len(completions))
    ]
    return totals, parts


def _part(
    what: str,
    reward: TextReward,
    prompts: Sequence[str],
    completions: Sequence[str],
    columns: Mapping[str, Sequence[object]],
) -> list[float]:
    given = {**columns, **reward.params, "prompts": list(prompts), "completions": list(completions)}
    values = _within_limit(what, reward, _accepted(reward, given))
    try:
        values = list(values)
    except TypeError:
        raise RewardError(
            f"{what} returned {values!r}: it must return one number, or None, for each completion"
        ) from None
    if len(values) != len(completions):
        raise RewardError(
            f"{what} returned {len(values)} values for {len(completions)} completions: it must return one number, or "
            "None, for each"
        )
    return [
        math.nan if value is None else _number(value, f"{what} returned {value!r} for {completions[i][:60]!r}")
        for i, value in enumerate(values)
    ]


def _accepted(reward: TextReward, given: Mapping[str, object]) -> Mapping[str, object]:
    """The arguments that the function accepts: all, or, without ``**columns``, those it names."""
    try:
        taken = inspect.signature(reward.func).parameters.values()
    except (TypeError, ValueError):  # written in C
        return given
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken):
        return given
    return {parameter.name: given[parameter.name] for parameter in taken if parameter.name in given}


def _within_limit(what: str, reward: TextReward, given: Mapping[str, object]) -> Any:
    """Result of the function, in a thread that is abandoned once it has run for too long."""
    found: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(reward.func(**given))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(reward.time_limit)
    if thread.is_alive():
        raise RewardError(
            f"{what} has not returned after {reward.time_limit:g} s: look for what it waits for, or raise time_limit"
        )
    if not found and not failed:
        raise RewardError(f"the thread of {what} died: as a rule, for want of memory")
    if failed:
        raise RewardError(f"{what} raised {type(failed[0]).__name__}: {failed[0]}") from failed[0]
    return found[0]


def _number(value: Any, what: str) -> float:
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise RewardError(f"{what}: it must be a finite number, or None for no opinion")
    return number
