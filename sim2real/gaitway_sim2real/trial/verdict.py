"""PASS or FAIL, what decided it and by how much; and its JSON, sealed with the hash of the policy it is about."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gaitway_files.reading import one_line
from gaitway_onboard.bundle.verdict import AGAIN, SCHEMA, VerdictError, old_suite, read_verdict

from ..pages.verdict import plain, write_verdict
from .in_engines import engines_of, side_by_side
from .ladders import Class
from .metric import Metric
from .needs import LeftOut, by_reason
from .result import LimitCheck, ScenarioResult, SeedResult
from .sensitivity import Factor, Level
from .suites import EARLIER, suite_for
from .why import Why

__all__ = ["Verdict", "VerdictError"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a validation. Numbers depend only on bundle, model, suite version and seeds."""

    suite_version: str
    seed: int
    """First of the seeds."""
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
    """Results of all scenarios, with the robots of all seeds pooled."""
    seeds: tuple[SeedResult, ...] = ()
    """Every seed on its own, if there are several."""
    left_out: tuple[LeftOut, ...] = ()
    """Items that were not judged, since this robot or its contract lacks their needs."""
    ground_version: str = ""
    """Version of the suite's ladders of ground; empty if none was asked for."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """All metrics of the suite, by name."""
    compared: tuple[str, ...] = ()
    """Names of the metrics that are compared between physics engines."""
    said: tuple[str, ...] = ()
    """The suite's remarks."""
    ground: tuple[Class, ...] = ()
    """Class on each ladder of ground. Not part of the verdict."""
    sensitivity: tuple[Factor, ...] = field(default=(), compare=False)
    """Effect of one change at a time on the key metrics."""
    level: str = ""
    """Highest level of the suite that holds; empty without one. It decides nothing."""
    why: Why | None = field(default=None, compare=False)
    """Reason for a FAIL that a report was made of."""

    @property
    def flat(self) -> tuple[ScenarioResult, ...]:
        """Results of the suite, without those of :attr:`ground`."""
        return tuple(result for result in self.scenarios if not result.ladder)

    @property
    def engines(self) -> tuple[str, ...]:
        """Titles of the physics engines that it is the verdict of."""
        return engines_of(self.scenarios)

    @property
    def passed(self) -> bool:
        """True if there are required scenarios and all of them passed."""
        required = [result.passed for result in self.scenarios if result.required]
        return bool(required) and all(required)

    @property
    def word(self) -> str:
        """PASS or FAIL."""
        return "PASS" if self.passed else "FAIL"

    def failures(self) -> list[tuple[ScenarioResult, LimitCheck]]:
        """The required checks that failed, worst first by how far beyond the limit they are, relative to it."""
        failed = [(r, c) for r in self.scenarios if r.required for c in r.checks if not c.passed]
        return sorted(failed, key=lambda pair: pair[1].used, reverse=True)

    def summary(self) -> str:
        """A few lines for a terminal; a scenario that failed has one: its worst check, and the names of others."""
        required = [result for result in self.scenarios if result.required]
        head = f"{self.word}: {sum(r.passed for r in required)} of {len(required)} required scenarios passed"
        head += f"; level: {self.level}" * bool(self.level and not self.passed)
        failed: dict[str, list[LimitCheck]] = {}
        for result, check in self.failures():
            failed.setdefault(result.title, []).append(check)
        lines = [
            f"  {title}: {worst.sentence()}"
            + (f"; also {', '.join(check.title for check in others)}" if others else "")
            for title, (worst, *others) in failed.items()
        ]
        lines += [f"  {line}" for line in (self.why.lines() if self.why else ())]
        lines += [
            f"  {line}"
            for line in (*self.remarks(), *side_by_side(self.scenarios, [self.metrics[name] for name in self.compared]))
        ]
        if self.ground_version:
            lines += [
                f"  on rough ground, ladders {self.ground_version}:",
                *(f"    {c.sentence()}" for c in self.ground),
            ]
        judged = by_reason([row for row in self.left_out if row.kind in ("scenario", "limit")])
        lines += [f"  left out, since {why}: {', '.join(what).lower()}" for why, what in judged.items()]
        return "\n".join([head, *lines, *(f"  note: {note}" for note in self.notes)])

    def remarks(self) -> list[str]:
        """Remarks that belong to PASS or FAIL: the suite's age, what the suite says, and the worst seed."""
        remarks = []
        if old := old_suite(self.suite_version):
            remarks.append(f"{OURS[0]}: this verdict {old}")
        remarks += self.said
        if self.seeds:
            worst_seed = max(self.seeds, key=lambda row: row.used)
            remarks.append(f"{OURS[1]} {len(self.seeds)} seeds: {worst_seed.sentence()}")
        return remarks

    def to_dict(self) -> dict[str, Any]:
        """Plain data without the seal; NaN becomes None, since JSON has no NaN."""
        body = {
            "gaitway_validation": SCHEMA,
            "verdict": self.word,
            **{name: getattr(self, name) for name in (*_SCALARS, "notes", "ground_version", "compared")},
            "metrics": {name: metric.to_dict() for name, metric in self.metrics.items()},
            "remarks": self.remarks(),
            "engines": self.engines,
            "left_out": [asdict(row) for row in self.left_out],
            "seeds": [_named(row) for row in self.seeds],
            "ground": [asdict(found) for found in self.ground],
            "sensitivity": [asdict(factor) for factor in self.sensitivity],
            "level": self.level,
            "why": None if self.why is None else self.why.to_dict(),
            "scenarios": [_result_dict(result) for result in self.scenarios],
        }
        return plain(body)

    def save(self, path: str | Path) -> Path:
        """Write JSON with its seal, atomically."""
        return write_verdict(path, self.to_dict())

    @classmethod
    def load(cls, path: str | Path, *, policy: Path | None = None) -> Verdict:
        """Read a verdict and check its seal; with ``policy``, also that it is about that policy.onnx."""
        data = read_verdict(path, policy=policy)
        try:
            metrics, compared = _metrics(data)
            verdict = cls(
                **{key: data[key] for key in _SCALARS},
                notes=tuple(data["notes"]),
                seeds=tuple(SeedResult(**row | {"metric": metrics[row["metric"]]}) for row in data.get("seeds", ())),
                left_out=tuple(LeftOut(**row) for row in data.get("left_out", ())),
                ground_version=data.get("ground_version", ""),
                scenarios=tuple(_result(row, metrics) for row in data["scenarios"]),
                metrics=metrics,
                compared=compared,
                said=tuple(line for line in data.get("remarks", ()) if not line.startswith(OURS)),
                ground=tuple(Class(**row) for row in data.get("ground", ())),
                sensitivity=tuple(map(_factor, data.get("sensitivity", ()))),
                level=str(data.get("level", "")),
                why=Why.of(data["why"]) if data.get("why") else None,
            )
            verdict.summary()  # what cannot be said is no verdict
            return verdict
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise VerdictError(f"{path} does not say what a verdict says ({one_line(error)}): {AGAIN}") from None


OURS = ("WARNING", "worst of")
"""Beginnings of the remarks that are no suite's."""
_SCALARS = (
    "suite_version", "seed", "task", "robot", "policy_sha256", "contract_sha256", "model", "model_sha256", "software",
)  # fmt: skip


LATER = ("factor", "level", "number", "engine", "same_as", "ladder")
"""Fields of a scenario's result that verdicts of an earlier suite, or Gaitway, lack."""


def _named(row: LimitCheck | SeedResult) -> dict[str, Any]:
    """Plain data, with the name of the metric."""
    return {**vars(row), "metric": row.metric.name}


def _result_dict(result: ScenarioResult) -> dict[str, Any]:
    checks = [{**_named(check), "margin": check.margin} for check in result.checks]
    written = {name: value for name, value in vars(result).items() if name != "samples"}
    return {**written, "passed": result.passed, "checks": checks}


def _metrics(data: dict[str, Any]) -> tuple[dict[str, Metric], tuple[str, ...]]:
    """The metrics that a verdict describes, by name, and those that are compared between engines."""
    if "metrics" not in data:
        earlier = suite_for(EARLIER)
        return earlier.table, earlier.compared
    return {name: Metric(name=name, **row) for name, row in data["metrics"].items()}, tuple(data["compared"])


def _factor(row: dict[str, Any]) -> Factor:
    def numbers(values: Mapping[str, float | None]) -> dict[str, float]:
        return {name: _number(value) for name, value in values.items()}

    levels = [{**each, "values": numbers(each["values"]), "change": numbers(each["change"])} for each in row["levels"]]
    return Factor(**row | {"levels": tuple(Level(**each) for each in levels)})


def _result(row: dict[str, Any], metrics: Mapping[str, Metric]) -> ScenarioResult:
    kept = {key: row[key] for key in ("name", "title", "about", "required", "envs", "seconds", "fall_causes")}
    later = {key: row[key] for key in LATER if key in row}
    return ScenarioResult(
        **kept,
        **later,
        intervals={key: (float(low), float(high)) for key, (low, high) in row.get("intervals", {}).items()},
        metrics={key: _number(value) for key, value in row["metrics"].items()},
        checks=tuple(
            LimitCheck(
                metric=metrics[check["metric"]],
                value=_number(check["value"]),
                limit=check["limit"],
                at_least=check["at_least"],
                passed=check["passed"],
                low=_number(check.get("low")),
                high=_number(check.get("high")),
                robots_needed=check.get("robots_needed"),
                where=tuple(check.get("where", ())),
            )
            for check in row["checks"]
        ),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
