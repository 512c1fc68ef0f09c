"""Short names of settings, and of groups by their settings: ``gamma 0.98``, ``with straight``, ``without straight``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

TERM = 3
"""Parts of the key of a term: ``task.rewards.straight``."""
Config = Mapping[str, Any]
"""Dotted keys of a config.yaml."""


class Names:
    """Names for the settings of some runs, by their ``configs``."""

    def __init__(self, configs: Iterable[Config]):
        self.configs = [config for config in configs if config]
        self.places = [set(config) | {above for key in config for above in _above(key)} for config in self.configs]

    @cached_property
    def _ends(self) -> dict[tuple[str, ...], set[str]]:
        """Ends of all keys, with the keys that have them."""
        found: dict[tuple[str, ...], set[str]] = {}
        for key in set().union(*self.places):
            parts = tuple(key.split("."))
            for first in range(len(parts)):
                found.setdefault(parts[first:], set()).add(key)
        return found

    def short(self, key: str) -> str:
        """The end of a dotted key that no other setting shares, as words, from its term on: "straight weight"."""
        parts = tuple(key.split("."))
        last = TERM - 1 if parts[0] == "task" and len(parts) > TERM else len(parts) - 1
        ends = (parts[first:] for first in range(last, -1, -1))
        end = next((end for end in ends if self._ends.get(end, set()) <= {key}), parts)
        return " ".join(part for part in end if part != "params").replace("_", " ")

    def term(self, key: str) -> str | None:
        """The term with this setting, or the setting itself, if it is a term that only some runs have."""
        parts = key.split(".")
        if parts[0] != "task":
            return None
        for length in range(TERM, len(parts) + 1):
            place = ".".join(parts[:length])
            has = [place in places for places in self.places]
            is_leaf = any(place in config for config in self.configs)
            if any(has) and not all(has) and not is_leaf:
                return place
        return None

    def below(self, key: str) -> str | None:
        """A setting below ``key``, one that differs if there is one; None if ``key`` is a setting or nothing."""
        if any(key in config for config in self.configs):
            return None
        keys = [one for config in self.configs for one in config if one.startswith(f"{key}.")]
        differing = [one for one in keys if len({text_of(config.get(one)) for config in self.configs}) > 1]
        return next(iter([*differing, *keys]), None)

    def value(self, key: str, config: Config) -> str:
        """The setting and its value in ``config`` in words."""
        term = self.term(key)
        if term is None:
            return f"{self.short(key)} {text_of(config.get(key))}"
        if not has(config, term):
            return f"without {self.short(term)}"
        values = {text_of(other.get(key)) for other in self.configs if has(other, term)}
        return f"with {self.short(term)}" if len(values) == 1 else f"{self.short(key)} {text_of(config.get(key))}"


def has(config: Config, place: str) -> bool:
    """True if ``config`` has the setting ``place``, or settings below it."""
    return place in config or any(key.startswith(f"{place}.") for key in config)


def described(keys: Sequence[str], configs: Sequence[Config], most: int = 3) -> str:
    """Differences of ``configs`` in ``keys``, in words: "straight is not in all, gamma 0.98 or 0.99"."""
    names = Names(configs)
    said = []
    for key in keys:
        term = names.term(key)
        values = dict.fromkeys(text_of(config.get(key)) for config in configs if term is None or has(config, term))
        if term is not None:
            said.append(f"{names.short(term)} is not in all")
        if len(values) > 1:
            said.append(f"{names.short(key)} {' or '.join(values)}")
    said = list(dict.fromkeys(said))
    return ", ".join(said[:most]) + (f" and {len(said) - most} more" if len(said) > most else "")


def text_of(value: Any) -> str:
    """Text of a setting, as pages and conditions show it; the same for all spellings of a number."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text_of, value))}]"
    if not isinstance(value, float):
        return str(value)
    value = value if value.is_integer() else float(f"{value:.8g}")  # 0.1 as float32 is 0.10000000149
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _above(key: str) -> Iterable[str]:
    parts = key.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts)))
