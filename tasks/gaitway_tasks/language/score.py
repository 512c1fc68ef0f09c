"""What completions earn: the weighted sum of a task's rewards, and each part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .rows import Row
from .spec import LanguageTask, TextReward


class RewardError(RuntimeError):
    """A reward that failed; the message names it, and the row if one is to blame."""


def score(
    task: LanguageTask, prompts: Sequence[str], completions: Sequence[str], rows: Sequence[Row]
) -> tuple[list[float], dict[str, list[float]]]:
    """Totals of completions and the parts before their weights, lists of len(completions).

    A reward without an opinion on a completion (None) is not a number in the parts and adds nothing to the total.
    Raises :class:`RewardError` if one raises, or does not return a number or None for each completion.
    """
    columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    columns.pop("prompt", None)
    columns.pop("completion", None)
    parts = {
        name: _part(task.name, name, reward, prompts, completions, columns) for name, reward in task.rewards.items()
    }
    totals = [
        sum(task.rewards[name].weight * part[i] for name, part in parts.items() if not math.isnan(part[i]))
        for i in range(len(completions))
    ]
    return totals, parts


def _part(
    task: str,
    name: str,
    reward: TextReward,
    prompts: Sequence[str],
    completions: Sequence[str],
    columns: Mapping[str, Sequence[object]],
) -> list[float]:
    try:
        values = list(reward.func(list(prompts), list(completions), **{**columns, **reward.params}))
    except Exception as error:
        raise RewardError(f"reward {name!r} of task {task} raised {type(error).__name__}: {error}") from error
    if len(values) != len(completions):
        raise RewardError(
            f"reward {name!r} of task {task} returned {len(values)} values for {len(completions)} completions: it must "
            "return one number, or None, for each"
        )
    for i, value in enumerate(values):
        if value is not None and not (_is_number(value) and math.isfinite(value)):
            raise RewardError(
                f"reward {name!r} of task {task} returned {value!r} for completion {i} "
                f"({completions[i][:60]!r}): it must be a finite number, or None for no opinion"
            )
    return [math.nan if value is None else float(value) for value in values]


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return not isinstance(value, str)
