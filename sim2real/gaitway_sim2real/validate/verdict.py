"""PASS or FAIL, what decided it and by how much; and its JSON, sealed with the hash of the policy it is about."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gaitway_onboard.bundle.verdict import SCHEMA, VerdictError, read_verdict

from ..pages.verdict import plain, rounded, write_verdict
from .metrics import METRICS
from .scenarios import Limit, Scenario

__all__ = ["LimitCheck", "ScenarioResult", "Verdict", "VerdictError", "format_value"]


@dataclass(frozen=True, kw_only=True)
class LimitCheck:
    """One measured number against its limit."""

    metric: str
    value: float
    limit: float
    at_least: bool
    passed: bool

    @classmethod
    def of(cls, limit: Limit, metrics: Mapping[str, float]) -> LimitCheck:
        value = metrics[limit.metric]
        return cls(
            metric=limit.metric, value=value, limit=limit.value, at_least=limit.at_least, passed=limit.passes(value)
        )

    @property
    def margin(self) -> float:
        """How far on the right side of the limit, in the metric's unit; negative when failed."""
        return self.value - self.limit if self.at_least else self.limit - self.value

    def sentence(self) -> str:
        sign = "at least" if self.at_least else "at most"
        value, limit = (format_value(self.metric, number) for number in (self.value, self.limit))
        gap = "" if math.isnan(self.margin) else f", {format_value(self.metric, abs(self.margin))} "
        gap += "" if math.isnan(self.margin) else ("to spare" if self.passed else "beyond it")
        return f"{METRICS[self.metric].title.lower()} {value}, allowed {sign} {limit}{gap}"


@dataclass(frozen=True, kw_only=True)
class ScenarioResult:
    name: str
    title: str
    about: str
    required: bool
    envs: int
    seconds: float
    checks: tuple[LimitCheck, ...]
    metrics: dict[str, float]
    fall_causes: dict[str, int]

    @classmethod
    def of(cls, scenario: Scenario, metrics: dict[str, float], fall_causes: dict[str, int]) -> ScenarioResult:
        return cls(
            name=scenario.name,
            title=scenario.title,
            about=scenario.about,
            required=scenario.required,
            envs=scenario.envs,
            seconds=scenario.seconds,
            checks=tuple(LimitCheck.of(limit, metrics) for limit in scenario.limits),
            metrics=metrics,
            fall_causes=fall_causes,
        )

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a validation. Numbers depend only on bundle, model, suite version and seed."""

    suite_version: str
    seed: int
    task: str
    robot: str
    policy_sha256: str
    contract_sha256: str
    model: str
    """``bundle`` or the name of the file given."""
    model_sha256: str
    notes: tuple[str, ...]
    software: dict[str, str]
    scenarios: tuple[ScenarioResult, ...]

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.scenarios if result.required)

    @property
    def word(self) -> str:
        return "PASS" if self.passed else "FAIL"

    def failures(self) -> list[tuple[ScenarioResult, LimitCheck]]:
        """The required checks that failed, worst first by how far beyond the limit they are, relative to it."""
        failed = [(r, c) for r in self.scenarios if r.required for c in r.checks if not c.passed]
        return sorted(failed, key=lambda pair: _overshoot(pair[1]), reverse=True)

    def summary(self) -> str:
        """A few lines for a terminal."""
        required = [result for result in self.scenarios if result.required]
        head = f"{self.word}: {sum(r.passed for r in required)} of {len(required)} required scenarios passed"
        lines = [f"  {result.title}: {check.sentence()}" for result, check in self.failures()]
        return "\n".join([head, *lines, *(f"  note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Plain data without the seal; NaN becomes None, since JSON has no NaN."""
        body = {
            "gaitway_validation": SCHEMA,
            "verdict": self.word,
            **{key: value for key, value in asdict(self).items() if key != "scenarios"},
            "scenarios": [
                {**asdict(result), "passed": result.passed, "checks": [_check_dict(check) for check in result.checks]}
                for result in self.scenarios
            ],
        }
        return plain(body)

    def save(self, path: str | Path) -> Path:
        """Write JSON with its seal, atomically."""
        return write_verdict(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path, *, policy: Path | None = None) -> Verdict:
        """Read a verdict and check its seal; with ``policy``, also that it is about that policy.onnx."""
        data = read_verdict(path, policy=policy)
        return cls(
            **{key: data[key] for key in _SCALARS},
            notes=tuple(data["notes"]),
            scenarios=tuple(_result(row) for row in data["scenarios"]),
        )


_SCALARS = (
    "suite_version", "seed", "task", "robot", "policy_sha256", "contract_sha256", "model", "model_sha256", "software",
)  # fmt: skip


def format_value(metric: str, value: float) -> str:
    """A number as a person wants to read it, with its unit."""
    if math.isnan(value):
        return "not measured"
    info = METRICS[metric]
    if info.percent:
        return f"{100 * value:.1f} %"
    return f"{rounded(value)} {info.unit}".rstrip()


def _overshoot(check: LimitCheck) -> float:
    return math.inf if math.isnan(check.margin) else -check.margin / max(abs(check.limit), 1e-9)


def _check_dict(check: LimitCheck) -> dict[str, Any]:
    return {**asdict(check), "margin": check.margin}


def _result(row: dict[str, Any]) -> ScenarioResult:
    kept = {key: row[key] for key in ("name", "title", "about", "required", "envs", "seconds", "fall_causes")}
    return ScenarioResult(
        **kept,
        metrics={key: _number(value) for key, value in row["metrics"].items()},
        checks=tuple(
            LimitCheck(
                metric=check["metric"],
                value=_number(check["value"]),
                limit=check["limit"],
                at_least=check["at_least"],
                passed=check["passed"],
            )
            for check in row["checks"]
        ),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
