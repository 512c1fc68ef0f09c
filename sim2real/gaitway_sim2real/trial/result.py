"""Result of a scenario: its metrics, and each of its limits with the number that holds it or does not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from .intervals import CERTAINTY, Samples
from .metric import Metric
from .scenario import Limit, Scenario


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
