"""The settings that a sweep varies: ranges and choices, read from one-line texts and YAML files.

``agent.gamma=0.95..0.999`` is a range, ``agent.optimizer.learning_rate=1e-4..1e-2:log`` one on a logarithmic scale, and
``agent.optimizer.epochs=2,4,8`` are choices. In a file a setting has such a text, a list of choices, or the mapping
``{low: 1e-4, high: 1e-2, log: true}``.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_files.reading import FileError
from gaitway_files.yaml_files import parse_yaml

from ..config.overrides import flatten, read_settings
from ..config.tree import join
from ..errors import ConfigError

if TYPE_CHECKING:
    from optuna import Trial

SYNTAX = "write LOW..HIGH, LOW..HIGH:log, or choices A,B,C"
FIXED = {
    "seed": "a sweep has one seed for its search (--seed) and others for the best (--confirm); leave it out",
    "total_steps": "trials of different lengths cannot be compared; give one value before --space",
}
"""Settings that no sweep varies, and why."""
RANGE = ("low", "high", "log")


@dataclass(frozen=True, kw_only=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; whole numbers if ``whole``."""

    key: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    def suggest(self, trial: Trial) -> float | int:
        """The trial's value: Optuna's proposal, or what it has already."""
        if self.whole:
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)

    def text(self, value: Any) -> str:
        """Text of a value in ``key=value``, which reads back exactly."""
        return str(int(value)) if self.whole else repr(float(value))

    def short(self, value: Any) -> str:
        """A value in a few digits."""
        return str(int(value)) if self.whole else shown(value)

    def value_of(self, setting: Any) -> float | int | None:
        """The value for Optuna of what a configuration has; None if it is not in the range."""
        number = isinstance(setting, int | float) and not isinstance(setting, bool)
        if not number or not self.low <= setting <= self.high:
            return None
        return int(setting) if self.whole else float(setting)

    def probes(self) -> list[Any]:
        """Values that a configuration must accept."""
        return [self.low, self.high]

    def share(self, value: Any) -> float:
        """Place of a value between the ends, from 0 to 1."""
        scale = math.log if self.log else float
        return (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))

    def marks(self) -> list[tuple[float, str]]:
        """Places and names of the ends."""
        return [(0.0, shown(self.low)), (1.0, shown(self.high))]

    def __str__(self) -> str:
        low, high = (self.text(end) for end in (self.low, self.high))
        return f"{low}..{high}{':log' if self.log else ''}"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """A few values of any kind. Optuna knows them by their JSON."""

    key: str
    values: tuple[str, ...]
    """JSON of the values."""

    def suggest(self, trial: Trial) -> str:
        """The trial's value: Optuna's proposal, or what it has already."""
        return str(trial.suggest_categorical(self.key, self.values))

    def text(self, value: Any) -> str:
        """Text of a value in ``key=value``."""
        return str(value)

    def short(self, value: Any) -> str:
        """The same."""
        return str(value)

    def value_of(self, setting: Any) -> str | None:
        """The value for Optuna of what a configuration has; None if it is not a choice."""
        return next((text for text in self.values if json.loads(text) == setting), None)

    def probes(self) -> list[Any]:
        """Values that a configuration must accept."""
        return list(self.values)

    def share(self, value: Any) -> float:
        """Place of a value among the choices, from 0 to 1."""
        return self.values.index(value) / (len(self.values) - 1)

    def marks(self) -> list[tuple[float, str]]:
        """Places and names of all choices."""
        return [(self.share(value), value) for value in self.values]

    def __str__(self) -> str:
        return ",".join(self.values)


Dimension = Range | Choices


def shown(value: float) -> str:
    """A number in a few digits."""
    return f"{value:.4g}"


def short_names(space: Sequence[Dimension]) -> list[str]:
    """The ends of the keys, as short as they differ: two weights are ``pose.weight`` and ``action_rate.weight``."""
    keys = [each.key.split(".") for each in space]
    most = max(map(len, keys), default=1)
    parts = next((n for n in range(1, most) if len({tuple(key[-n:]) for key in keys}) == len(keys)), most)
    return [".".join(key[-parts:]) for key in keys]


def read_space(words: Sequence[str], settings: Mapping[str, Any]) -> list[Dimension]:
    """The dimensions that ``words`` describe, texts ``key=...`` and YAML files, for ``settings`` by their dotted keys.

    The present value of a setting says whether a range has whole numbers. Raises :class:`ConfigError`.
    """
    described: dict[str, Any] = {}
    for word in words:
        for key, value in _described(word):
            if key in described:
                raise ConfigError(f"--space {key}: it stands twice")
            described[key] = value
    if not described:
        raise ConfigError(f"--space: name at least one setting; {SYNTAX}")
    return [_dimension(key, value, settings.get(key)) for key, value in described.items()]


def _described(word: str) -> Iterator[tuple[str, Any]]:
    """Keys and descriptions in a text or a file."""
    key, separator, text = word.partition("=")
    if separator:
        if not key.strip():
            raise ConfigError(f"--space {word}: no setting before '='; {SYNTAX} after KEY=")
        yield key.strip(), text.strip()
        return
    if not Path(word).is_file():
        raise ConfigError(f"--space {word}: neither a file nor key=...; {SYNTAX}")
    yield from _leaves(read_settings(Path(word)))


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        where = join(path, key)
        if isinstance(value, Mapping) and not _is_range(value):
            yield from _leaves(value, where)
        else:
            yield where, value


def _is_range(value: Mapping[str, Any]) -> bool:
    """Whether a mapping describes a range, be it with mistakes, and holds no further settings."""
    plain = all(isinstance(each, int | float | str) and ".." not in str(each) for each in value.values())
    return plain and bool(value.keys() & set(RANGE))


def _dimension(key: str, value: Any, present: Any) -> Dimension:
    if key in FIXED:
        raise ConfigError(f"--space {key}: {FIXED[key]}")
    if isinstance(value, Mapping):
        if unknown := [str(name) for name in value if name not in RANGE]:
            raise ConfigError(
                f"--space {key}: a range has no {unknown[0]!r}; write {{low: 1e-4, high: 1e-2, log: true}}"
            )
        if missing := [name for name in RANGE[:2] if name not in value]:
            raise ConfigError(f"--space {key}: it has no {missing[0]}; write {{low: 1e-4, high: 1e-2, log: true}}")
        if not isinstance(value.get("log", False), bool):
            raise ConfigError(f"--space {key}: log={value['log']!r}: write true or false")
        return _range(key, value["low"], value["high"], value.get("log", False), present)
    if isinstance(value, list):
        return _choices(key, value)
    if not isinstance(value, str):
        raise ConfigError(f"--space {key}={value!r}: one value alone; {SYNTAX}")
    body, _, scale = value.partition(":")
    low, separator, high = body.partition("..")
    if separator:
        if scale not in ("", "log"):
            raise ConfigError(f"--space {key}={value}: unknown scale {scale!r}; {SYNTAX}")
        return _range(key, low, high, scale == "log", present)
    return _choices(key, _listed(key, value))


def _range(key: str, low: Any, high: Any, log: bool, present: Any) -> Range:
    ends = [_number(key, end) for end in (low, high)]
    if isinstance(present, bool) or (present is not None and not isinstance(present, int | float)):
        raise ConfigError(f"--space {key}={low}..{high}: its value {json.dumps(present)} is no number; write A,B,C")
    if not ends[0] < ends[1]:
        raise ConfigError(f"--space {key}={low}..{high}: the range is empty; write the smaller number first")
    if log and ends[0] <= 0:
        raise ConfigError(f"--space {key}={low}..{high}:log: a logarithmic range must begin above 0")
    whole = all(end.is_integer() for end in ends) and not isinstance(present, float)
    return Range(key=key, low=ends[0], high=ends[1], log=log, whole=whole)


def _number(key: str, text: Any) -> float:
    try:
        value = math.nan if isinstance(text, bool) else float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"--space {key}: {text!r} is no number; {SYNTAX}")
    return value


def _listed(key: str, text: str) -> list[Any]:
    """Choices of a text, read as YAML reads the values of settings."""
    try:
        values = parse_yaml(f"[{text}]", "the choices")
    except FileError:
        raise ConfigError(f"--space {key}={text}: not valid YAML between commas; {SYNTAX}") from None
    return list(values) if isinstance(values, list) else [values]


def _choices(key: str, values: Sequence[Any]) -> Choices:
    texts = tuple(json.dumps(_number_of(value)) for value in values)
    if len(texts) < 2:
        raise ConfigError(
            f"--space {key}={','.join(texts)}: one value alone; {SYNTAX}. Settings that do not vary go before --space"
        )
    if any(one == other for one, other in itertools.combinations(map(json.loads, texts), 2)):
        raise ConfigError(f"--space {key}={','.join(texts)}: every choice only once")
    return Choices(key=key, values=texts)


def _number_of(value: Any) -> Any:
    """1e-3, which YAML 1.1 takes for text, as a number."""
    if not isinstance(value, str):
        return value
    try:
        return float(value) if math.isfinite(float(value)) else value
    except ValueError:
        return value


def present_values(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a configuration by their dotted keys."""
    return flatten(dict(tree))
