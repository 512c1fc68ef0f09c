"""PASS or FAIL of a rehearsal: what was tried, what was measured against which limit; and its JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gaitway_onboard.bundle.verdict import REHEARSAL, SCHEMA

from ..pages.verdict import plain, rounded

NOMINAL, FAULTS, WIRE = "nominal", "faults", "wire"
GROUPS = {NOMINAL: "Walking as intended", FAULTS: "Faults", WIRE: "Processes on the wire"}
"""Parts of a rehearsal, in order, with their titles."""


@dataclass(frozen=True)
class TrialCheck:
    """``value <= limit``, or ``>=`` when ``at_least``. NaN, which is "not measured", never passes."""

    title: str
    value: float
    limit: float
    unit: str = ""
    at_least: bool = False

    @classmethod
    def holds(cls, title: str, true: bool) -> TrialCheck:
        """1 where it is true, which it must be."""
        return cls(title, float(true), 1, at_least=True)

    @property
    def passed(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def sentence(self) -> str:
        sign = "at least" if self.at_least else "at most"
        return f"{self.title} {self.measured}, allowed {sign} {quantity(self.limit, self.unit)}"

    @property
    def measured(self) -> str:
        return quantity(self.value, self.unit)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One experiment."""

    group: str
    """Key of :data:`GROUPS`."""
    name: str
    mode: str = ""
    """Mode of the controller when the trouble began; "" where that is no matter."""
    about: str
    outcome: str
    """Outcome in the controller's words."""
    checks: tuple[TrialCheck, ...]
    facts: Mapping[str, float] = field(default_factory=dict)
    """Measured and not judged, by a title with its unit."""

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def title(self) -> str:
        return f"{self.name} in {self.mode}" if self.mode else self.name

    def failures(self) -> list[str]:
        return [f"{self.title}: {check.sentence()}" for check in self.checks if not check.passed]


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """Everything that was tried. All but the group "wire" depends on bundle, settings and seed alone."""

    robot: str
    """Name of the hardware, such as "unitree-go2"."""
    task: str
    policy_sha256: str
    contract_sha256: str
    settings: Mapping[str, Any]
    trials: tuple[Trial, ...]
    software: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.trials) and all(trial.passed for trial in self.trials)

    @property
    def word(self) -> str:
        return "PASS" if self.passed else "FAIL"

    def of(self, group: str) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.group == group)

    def counts(self, group: str = "") -> str:
        """Number of passed trials, of a group or in all."""
        trials = self.of(group) if group else self.trials
        return f"{sum(trial.passed for trial in trials)} of {len(trials)}"

    def summary(self) -> str:
        """A few lines for a terminal."""
        lines = [f"{self.word}: {self.counts()} trials passed"]
        for group, title in GROUPS.items():
            if trials := self.of(group):
                lines.append(f"  {title}: {self.counts(group)}")
                lines += [f"    {failure}; {trial.outcome}" for trial in trials for failure in trial.failures()]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is not finite becomes null, since JSON has neither NaN nor infinity."""
        body = {REHEARSAL.key: SCHEMA, "verdict": self.word, **asdict(self)}
        for row, trial in zip(body["trials"], self.trials, strict=True):
            row["passed"] = trial.passed
            for check_row, check in zip(row["checks"], trial.checks, strict=True):
                check_row["passed"] = check.passed
        return plain(body)


def quantity(value: float, unit: str) -> str:
    """A number as a person wants to read it, with its unit."""
    if math.isnan(value):
        return "not measured"
    if float(value).is_integer() and abs(value) < 1e9:
        text = f"{value:.0f}"
    else:
        text = rounded(value)
    return f"{text} {unit}".rstrip()
