"""Request of a user for a task: its name with options. A domain turns it into settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..config.overrides import asked


@dataclass(frozen=True, kw_only=True)
class Request:
    """Options and settings given with a task."""

    agent: str
    world: str
    preset: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the command line that belong to the domain, by name; only those that were given."""
    layers: Sequence[Mapping[str, Any]] = ()
    """Settings of a file and of ``key=value``, in rising order, which are merged over the defaults."""

    def asked(self, key: str) -> Any:
        """Value of the dotted ``key`` in the settings; None if it is not set."""
        return asked(self.layers, key)
