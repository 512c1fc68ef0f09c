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
from .intervals import CERTAINTY, Samples
from .ladders import Class
from .metric import Metric
from .needs import LeftOut, by_reason
from .scenario import Limit, Scenario
from .sensitivity import Factor, Level
from .suites import EARLIER, suite_for
from .why import Why

__all__ = ["LimitCheck", "ScenarioResult", "SeedResult", "Verdict", "VerdictError"]


@dataclass(frozen=True, kw_only=True)
class LimitCheck:
    """One measured number against its limit: it holds when the end of the interval that is nearer to it does."""

    metric: Metric
    value: float
    limit: float
    at_least: bool
    passed: bool
    low: float = math.nan
    high: float = math.nan
    """Ends of the interval (see :mod:`.intervals`); NaN where none is known, and ``value`` decides."""
    robots_needed: int | None = None
    """About how many robots would decide what these left open; None if it is decided, or too close to tell."""
    where: tuple[str, ...] = ()
    """Places that it failed at, such as the command ``(1, 1, 1)``, if it is about single ones."""

    @classmethod
    def of(cls, limit: Limit, samples: Samples, metric: Metric, robots: int, where: tuple[str, ...] = ()) -> LimitCheck:
        """``robots`` is how many robots the samples are of."""
        low, high = samples.interval
        bound = low if limit.at_least else high
        passed = limit.passes(samples.value if math.isnan(bound) else bound)
        needed = None if passed else samples.needed(limit.value, limit.at_least)
        return cls(
            metric=metric,
            value=samples.value,
            limit=limit.value,
            at_least=limit.at_least,
            passed=passed,
            low=low,
            high=high,
            robots_needed=None if needed is None else math.ceil(robots * needed / samples.known.size),
            where=where,
        )

    @property
    def used(self) -> float:
        """Share of what is allowed, above 1 beyond the limit; infinite where nothing was measured.

        Value over limit, limit over value for what must be large, losses over allowed losses for a share that must.
        """
        if math.isnan(self.value):
            return math.inf
        if not self.at_least:
            return self.value / max(self.limit, 1e-9)
        if self.metric.percent:
            return (1 - self.value) / max(1 - self.limit, 1e-9)
        return self.limit / max(self.value, 1e-9)

    @property
    def undecided(self) -> bool:
        """True if the number is within its limit and its interval is not."""
        return not self.passed and not math.isnan(self.low) and self.margin >= 0.0

    @property
    def margin(self) -> float:
        """Distance to the limit, in the metric's unit; negative when failed."""
        return self.value - self.limit if self.at_least else self.limit - self.value

    @property
    def title(self) -> str:
        """Title of the metric within a sentence."""
        return self.metric.title.lower()

    def said(self, number: float) -> str:
        """A value of the metric with its unit."""
        return self.metric.say(number)

    def sentence(self) -> str:
        if self.where:
            return f"{self.metric.places} {', '.join(self.where)}"
        sign = "at least" if self.at_least else "at most"
        value, limit = self.said(self.value), self.said(self.limit)
        if self.undecided:
            return f"{self.title} {value}, allowed {sign} {limit}: {self._doubt()}"
        gap = "" if math.isnan(self.margin) else f", {self.said(abs(self.margin))} "
        gap += "" if math.isnan(self.margin) else ("to spare" if self.passed else "beyond it")
        return f"{self.title} {value}, allowed {sign} {limit}{gap}"

    def _doubt(self) -> str:
        side, end = ("at least", self.low) if self.at_least else ("at most", self.high)
        more = f"about {self.robots_needed} robots would decide it" if self.robots_needed else "too close to decide"
        return f"undecided, {100 * CERTAINTY:.0f} % certain is {side} {self.said(end)}; {more}"


@dataclass(frozen=True, kw_only=True)
class ScenarioResult:
    name: str
    title: str
    about: str
    required: bool
    envs: int
    """Robots, of all seeds and repetitions."""
    seconds: float
    checks: tuple[LimitCheck, ...]
    metrics: dict[str, float]
    fall_causes: dict[str, int]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Lower and upper end of the metrics that have one (see :mod:`.intervals`)."""
    factor: str = ""
    level: str = ""
    number: float | None = None
    engine: str = ""
    same_as: str = ""
    ladder: str = ""
    """Name of the scenario's ladder."""
    samples: Mapping[str, Samples] = field(default_factory=dict, compare=False, repr=False)
    """All values of each metric, in order of the robots; not written, so empty in a verdict that was read."""

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        samples: Mapping[str, Samples],
        fall_causes: dict[str, int],
        metrics: Mapping[str, Metric],
        robots: int | None = None,
        where: Mapping[str, tuple[str, ...]] | None = None,
    ) -> ScenarioResult:
        """``robots`` is how many robots were run, if not as many as the scenario says.

        ``where`` are the places at which a metric, by name, does not hold.
        """
        robots = scenario.envs if robots is None else robots
        intervals = {name: sample.interval for name, sample in samples.items()}
        return cls(
            name=scenario.name,
            title=scenario.title,
            about=scenario.about,
            required=scenario.required,
            envs=robots,
            seconds=scenario.seconds,
            checks=tuple(
                LimitCheck.of(
                    limit, samples[limit.metric], metrics[limit.metric], robots, (where or {}).get(limit.metric, ())
                )
                for limit in scenario.limits
            ),
            metrics={name: sample.value for name, sample in samples.items()},
            fall_causes=fall_causes,
            intervals={name: ends for name, ends in intervals.items() if not math.isnan(ends[0])},
            factor=scenario.factor,
            level=scenario.level,
            number=scenario.number,
            engine=scenario.engine,
            same_as=scenario.same_as,
            ladder=scenario.ladder,
        )

    @property
    def passed(self) -> bool:
        """True if all its limits hold."""
        return all(check.passed for check in self.checks)


@dataclass(frozen=True, kw_only=True)
class SeedResult:
    """Scenario in which one seed failed, or came closest to failing."""

    seed: int
    scenario: str
    """Title."""
    metric: Metric
    value: float
    limit: float
    used: float
    """Share of what is allowed; above 1 is beyond the limit."""

    def sentence(self) -> str:
        values = " of ".join(self.metric.say(number) for number in (self.value, self.limit))
        return f"seed {self.seed}, {self.scenario}: {self.metric.title.lower()} {values}"


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
