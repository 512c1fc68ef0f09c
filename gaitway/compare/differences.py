"""Differences between runs besides their results: settings, versions, machines, commits."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..config.overrides import flatten
from .gather import Run
from .names import Config, Names, described, has, text_of

EXPECTED = ("seed",)
"""Settings in which runs of one group should differ."""
ABSENT = "—"
TERM_METRIC = re.compile(r"rollout/(?!termination/|reward$)(.+)")
"""Metrics of a single reward."""
REWARDS = ("task.rewards.", "task.kwargs.")
CONDITIONS = (
    "task.commands.", "task.events.", "task.terminations.", "task.ground.", "task.timing.", "task.robot.",
    "task.max_episode_steps",
)  # fmt: skip
"""Settings by which episodes differ, whoever acts in them."""
ORIGIN = ("versions", "machine", "git")


def config_differences(runs: Sequence[Run], groups: Sequence[str]) -> dict[str, dict[str, str]]:
    """Settings that differ between groups on a task they share: dotted key to group to its values.

    Where a term is missing in some runs, its own key stands for it, with the values "with" and "without".
    """
    names = Names(run.header.config for run in runs)
    found: dict[str, dict[str, str]] = {}
    for key in _keys(run.header.config for run in runs):
        if (term := names.term(key)) and term not in found:
            _add(found, term, {group: _by_task(runs, group, term, _with) for group in groups})
        _add(found, key, {group: _by_task(runs, group, key, _value, term) for group in groups})
    return found


def mixed_settings(runs: Sequence[Run]) -> list[str]:
    """A sentence for each group whose runs of one task have different settings."""
    found = []
    for group, task in dict.fromkeys((run.group, run.task) for run in runs):
        configs = [run.header.config for run in runs if (run.group, run.task) == (group, task)]
        mixed = sorted(_mixed(configs, _keys(configs)), key=lambda key: not key.startswith(("task.", "agent.")))
        if mixed:
            key = Names(configs).term(mixed[0]) or mixed[0]
            found.append(f"{group} on {task} mixes runs: {described(mixed, configs)}; --group {key} separates them")
    return found


def obstacle(runs: Sequence[Run], metric: str) -> str | None:
    """Reason why runs of one task cannot be compared by ``metric``, in words, for example "rewards differ: ..."."""
    configs = [run.header.config for run in runs]
    mixed = _mixed(configs, _keys(configs))
    found = {kind: [key for key in mixed if key.startswith(keys)] for kind, keys in measured_by(metric).items()}
    keys = [key for kind in found.values() for key in kind]
    return f"{' and '.join(kind for kind in found if found[kind])} differ: {described(keys, configs)}" if keys else None


def measured_by(metric: str) -> dict[str, tuple[str, ...]]:
    """Beginnings of the settings that change what ``metric`` measures, by their kind.

    A return is a sum of rewards, each with its weight and the control period, and every measure depends on what the
    robots are told and what happens to them.
    """
    if metric.startswith(("learn/", "time/")):
        return {}
    if term := TERM_METRIC.fullmatch(metric):
        rewards: tuple[str, ...] = (f"task.rewards.{term[1]}.",)
    elif "return" in metric.lower() or "reward" in metric.lower():
        rewards = REWARDS
    else:
        rewards = ()
    return {"rewards": rewards, "conditions": CONDITIONS}


def origin(runs: Sequence[Run], groups: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Versions, machine and commit: dotted key to group to its distinct values."""
    records = {group: [_origin_of(run.record) for run in runs if run.group == group] for group in groups}
    keys = dict.fromkeys(key for group in groups for record in records[group] for key in record)
    return {
        key: {group: list(dict.fromkeys(text_of(r.get(key)) for r in records[group])) for group in groups}
        for key in keys
    }


def _origin_of(record: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in ORIGIN:
        found |= flatten(record.get(part) or {}, part)
    return {key: value for key, value in found.items() if value != {}}


def _keys(configs: Iterable[Config]) -> list[str]:
    return list(dict.fromkeys(key for config in configs for key in config if key not in EXPECTED))


def _mixed(configs: Sequence[Config], keys: Iterable[str]) -> list[str]:
    return [key for key in keys if len({text_of(config.get(key, ...)) for config in configs}) > 1]


def _add(found: dict[str, dict[str, str]], key: str, values: Mapping[str, dict[str, list[str]]]) -> None:
    """Enter ``key`` if it differs between two groups on a task."""
    if any(_differ(a, b) for a, b in itertools.combinations(values.values(), 2)):
        found[key] = {group: ", ".join(_merged(by_task)) or ABSENT for group, by_task in values.items()}


def _by_task(
    runs: Sequence[Run], group: str, key: str, say: Callable[[Config, str], str], term: str | None = None
) -> dict[str, list[str]]:
    """Task to the distinct values of ``key`` among the group's runs, of those with ``term`` if it is one of a term."""
    found: dict[str, list[str]] = {}
    for run in runs:
        if run.group == group and (term is None or has(run.header.config, term)):
            found.setdefault(run.task, []).append(say(run.header.config, key))
    return {task: list(dict.fromkeys(values)) for task, values in found.items()}


def _value(config: Config, key: str) -> str:
    return text_of(config[key]) if key in config else ABSENT


def _with(config: Config, term: str) -> str:
    return "with" if has(config, term) else "without"


def _differ(a: Mapping[str, list[str]], b: Mapping[str, list[str]]) -> bool:
    return any(set(a[task]) != set(b[task]) for task in a.keys() & b.keys())


def _merged(values: Mapping[str, list[str]]) -> list[str]:
    return list(dict.fromkeys(value for task in values.values() for value in task))
