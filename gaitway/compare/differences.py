"""Differences between runs besides their results: settings, versions, machines, commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config.overrides import flatten
from .gather import Run, text_of

EXPECTED = ("seed",)
"""Settings in which runs of one group should differ."""
ABSENT = "—"
ORIGIN = ("versions", "machine", "git")


def config_differences(runs: Sequence[Run], groups: Sequence[str]) -> dict[str, dict[str, str]]:
    """Settings that differ between groups on a task they share: dotted key to group to its values."""
    keys = list(dict.fromkeys(key for run in runs for key in run.header.config if key not in EXPECTED))
    found = {}
    for key in keys:
        values = {group: _by_task(runs, group, key) for group in groups}
        if any(_differ(values[a], values[b]) for i, a in enumerate(groups) for b in groups[i + 1 :]):
            found[key] = {group: ", ".join(_merged(values[group])) for group in groups}
    return found


def mixed_settings(runs: Sequence[Run]) -> list[str]:
    """A sentence for each group whose runs of one task have different settings."""
    found = []
    for group, task in dict.fromkeys((run.group, run.task) for run in runs):
        configs = [run.header.config for run in runs if (run.group, run.task) == (group, task)]
        keys = dict.fromkeys(key for config in configs for key in config if key not in EXPECTED)
        mixed = [key for key in keys if len({text_of(config.get(key, ...)) for config in configs}) > 1]
        if mixed:
            shown = ", ".join(mixed[:4]) + (f" and {len(mixed) - 4} more settings" if len(mixed) > 4 else "")
            found.append(f"{group} on {task} mixes runs that differ in {shown}: --group {mixed[0]} separates them")
    return found


def rewards_that_differ(runs: Sequence[Run]) -> list[str]:
    """Settings of rewards in which runs differ: dotted keys."""
    keys = dict.fromkeys(key for run in runs for key in run.header.config if key.startswith("task.rewards."))
    return [key for key in keys if len({text_of(run.header.config.get(key)) for run in runs}) > 1]


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


def _by_task(runs: Sequence[Run], group: str, key: str) -> dict[str, list[str]]:
    """Task to the distinct values of ``key`` among the group's runs."""
    found: dict[str, list[str]] = {}
    for run in runs:
        if run.group == group:
            value = text_of(run.header.config[key]) if key in run.header.config else ABSENT
            values = found.setdefault(run.task, [])
            if value not in values:
                values.append(value)
    return found


def _differ(a: Mapping[str, list[str]], b: Mapping[str, list[str]]) -> bool:
    return any(set(a[task]) != set(b[task]) for task in a.keys() & b.keys())


def _merged(values: Mapping[str, list[str]]) -> list[str]:
    return list(dict.fromkeys(value for task in values.values() for value in task))
