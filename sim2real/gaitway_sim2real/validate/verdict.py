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
from .metrics import METRICS, format_value
from .needs import LeftOut, by_reason
from .rough import GroundClass, ground_classes
from .scenario import CORNERS, Limit, Scenario
from .sensitivity import Factor, sensitivity, spreads
from .variants import CONTACT

__all__ = ["LimitCheck", "ScenarioResult", "SeedResult", "Verdict", "VerdictError", "format_value"]


@dataclass(frozen=True, kw_only=True)
class LimitCheck:
    """One measured number against its limit: it holds when the end of the interval that is nearer to it does."""

    metric: str
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
    """Commands that it failed at, such as ``(1, 1, 1)``, if it is about single commands."""

    @classmethod
    def of(cls, limit: Limit, samples: Samples, robots: int, where: tuple[str, ...] = ()) -> LimitCheck:
        """``robots`` is how many robots the samples are of."""
        low, high = samples.interval
        bound = low if limit.at_least else high
        passed = limit.passes(samples.value if math.isnan(bound) else bound)
        needed = None if passed else samples.needed(limit.value, limit.at_least)
        return cls(
            metric=limit.metric,
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
        if METRICS[self.metric].percent:
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

    def sentence(self) -> str:
        if self.where:
            return f"falls at {', '.join(self.where)}"
        sign = "at least" if self.at_least else "at most"
        value, limit = (format_value(self.metric, number) for number in (self.value, self.limit))
        if self.undecided:
            return f"{METRICS[self.metric].title.lower()} {value}, allowed {sign} {limit}: {self._doubt()}"
        gap = "" if math.isnan(self.margin) else f", {format_value(self.metric, abs(self.margin))} "
        gap += "" if math.isnan(self.margin) else ("to spare" if self.passed else "beyond it")
        return f"{METRICS[self.metric].title.lower()} {value}, allowed {sign} {limit}{gap}"

    def _doubt(self) -> str:
        side, end = ("at least", self.low) if self.at_least else ("at most", self.high)
        more = f"about {self.robots_needed} robots would decide it" if self.robots_needed else "too close to decide"
        return f"undecided, {100 * CERTAINTY:.0f} % certain is {side} {format_value(self.metric, end)}; {more}"


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

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        samples: Mapping[str, Samples],
        fall_causes: dict[str, int],
        robots: int | None = None,
        corners: tuple[str, ...] = (),
    ) -> ScenarioResult:
        """``robots`` is how many robots were run, if not as many as the scenario says.

        ``corners`` are those of the command ranges at which they fall (see :mod:`.corners`).
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
                LimitCheck.of(limit, samples[limit.metric], robots, corners if limit == CORNERS else ())
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
    metric: str
    value: float
    limit: float
    used: float
    """Share of what is allowed; above 1 is beyond the limit."""

    def sentence(self) -> str:
        values = " of ".join(format_value(self.metric, number) for number in (self.value, self.limit))
        return f"seed {self.seed}, {self.scenario}: {METRICS[self.metric].title.lower()} {values}"


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
    """Version of the ladders of ground (see :mod:`.rough`); empty if none was asked for."""

    @property
    def flat(self) -> tuple[ScenarioResult, ...]:
        """Results of the suite, without those of :attr:`ground`."""
        return tuple(result for result in self.scenarios if not result.ladder)

    @property
    def ground(self) -> tuple[GroundClass, ...]:
        """Highest rung on each ladder of ground; also in the JSON. Not part of the verdict."""
        return ground_classes(self.scenarios)

    @property
    def sensitivity(self) -> tuple[Factor, ...]:
        """Effect of one change at a time on the key metrics; also in the JSON. Empty for suite 1.0."""
        return sensitivity(self.scenarios)

    @property
    def engines(self) -> tuple[str, ...]:
        """Titles of the physics engines that it is the verdict of."""
        return engines_of(self.scenarios)

    @property
    def passed(self) -> bool:
        """True if all required scenarios passed."""
        return all(result.passed for result in self.scenarios if result.required)

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
        failed: dict[str, list[LimitCheck]] = {}
        for result, check in self.failures():
            failed.setdefault(result.title, []).append(check)
        lines = [
            f"  {title}: {worst.sentence()}"
            + (f"; also {', '.join(METRICS[check.metric].title.lower() for check in others)}" if others else "")
            for title, (worst, *others) in failed.items()
        ]
        lines += [f"  {line}" for line in (*self.remarks(), *side_by_side(self.scenarios))]
        if self.ground_version:
            lines += [
                f"  on rough ground, ladders {self.ground_version}:",
                *(f"    {c.sentence()}" for c in self.ground),
            ]
        judged = by_reason([row for row in self.left_out if row.kind in ("scenario", "limit")])
        lines += [f"  left out, since {why}: {', '.join(what).lower()}" for why, what in judged.items()]
        return "\n".join([head, *lines, *(f"  note: {note}" for note in self.notes)])

    def worst_floor(self) -> tuple[ScenarioResult, LimitCheck] | None:
        """The required check on another floor, foot or solver that used most of what is allowed."""
        pairs = [(r, c) for r in self.scenarios if r.required and r.factor in CONTACT for c in r.checks]
        return max(pairs, key=lambda pair: pair[1].used, default=None)

    def remarks(self) -> list[str]:
        """Remarks that belong to PASS or FAIL: the suite's age, the worst floor and the worst seed."""
        remarks = []
        if old := old_suite(self.suite_version):
            remarks.append(f"WARNING: this verdict {old}")
        if worst := self.worst_floor():
            remarks.append(f"worst floor: {worst[0].title}, {worst[1].sentence()}")
        remarks += spreads(self.sensitivity)
        if self.seeds:
            worst_seed = max(self.seeds, key=lambda row: row.used)
            remarks.append(f"worst of {len(self.seeds)} seeds: {worst_seed.sentence()}")
        return remarks

    def to_dict(self) -> dict[str, Any]:
        """Plain data without the seal; NaN becomes None, since JSON has no NaN."""
        body = {
            "gaitway_validation": SCHEMA,
            "verdict": self.word,
            **{key: value for key, value in asdict(self).items() if key != "scenarios"},
            "remarks": self.remarks(),
            "engines": list(self.engines),
            "ground": [asdict(found) for found in self.ground],
            "sensitivity": [asdict(factor) for factor in self.sensitivity],
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
        try:
            verdict = cls(
                **{key: data[key] for key in _SCALARS},
                notes=tuple(data["notes"]),
                seeds=tuple(SeedResult(**row) for row in data.get("seeds", ())),
                left_out=tuple(LeftOut(**row) for row in data.get("left_out", ())),
                ground_version=data.get("ground_version", ""),
                scenarios=tuple(_result(row) for row in data["scenarios"]),
            )
            verdict.summary()  # what cannot be said is no verdict
            return verdict
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise VerdictError(f"{path} does not say what a verdict says ({one_line(error)}): {AGAIN}") from None


_SCALARS = (
    "suite_version", "seed", "task", "robot", "policy_sha256", "contract_sha256", "model", "model_sha256", "software",
)  # fmt: skip


LATER = ("factor", "level", "number", "engine", "same_as", "ladder")
"""Fields of a scenario's result that verdicts of an earlier suite, or Gaitway, lack."""


def _check_dict(check: LimitCheck) -> dict[str, Any]:
    return {**asdict(check), "margin": check.margin}


def _result(row: dict[str, Any]) -> ScenarioResult:
    kept = {key: row[key] for key in ("name", "title", "about", "required", "envs", "seconds", "fall_causes")}
    later = {key: row[key] for key in LATER if key in row}
    return ScenarioResult(
        **kept,
        **later,
        intervals={key: (float(low), float(high)) for key, (low, high) in row.get("intervals", {}).items()},
        metrics={key: _number(value) for key, value in row["metrics"].items()},
        checks=tuple(
            LimitCheck(
                metric=check["metric"],
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
