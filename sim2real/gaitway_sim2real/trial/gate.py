"""Which of two policies of a robot is better: the suite and twins, robot by robot, and one word."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract

from ..pages.verdict import plain
from ..population import population
from ..population.survey import Tours, survey
from ..population.twin import Kind
from ..population.walk import Walk
from .intervals import mean_interval
from .metric import Metric
from .paired import BATCH, ERROR, POINTS, POWER, Pairs, compare, difference, quantile
from .result import ScenarioResult
from .suite import Suite
from .suites import suite_of
from .verdict import Verdict

BETTER, WORSE, NO_DIFFERENCE = "better", "worse", "no difference shown"
MOST_TWINS = 4000
"""Enough to find :data:`.paired.POINTS` of survival if at most 11 % of the pairs are discordant."""
SAME_MASS = 1e-3
"""Largest relative difference of the masses of one robot in two bundles."""
FEWEST = 5
"""Robots or runs that a row needs."""
SURVIVAL = Metric("survival", "Survival of twins", percent=True)
TWIN_FALLS = Metric("twin_falls", "Falls of twins", percent=True)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number of both policies on the same robots."""

    metric: Metric
    where: str
    """Robots that it is of, such as "1,240 twins"."""
    new: float
    old: float
    low: float
    high: float
    """Ends of the 95 % interval of new - old."""

    @property
    def change(self) -> float:
        return self.new - self.old

    def said(self, change: float) -> str:
        """A difference, with its sign and without its unit."""
        return f"{100 * change:+.1f}" if self.metric.percent else f"{change:+.3f}"

    @property
    def interval(self) -> str:
        """Ends of the interval, as :meth:`said`."""
        return f"{self.said(self.low)} to {self.said(self.high)}"

    def sentence(self) -> str:
        """What differs, by how much and how surely."""
        unit = " points" if self.metric.percent else f" {self.metric.unit}".rstrip()
        return f"{self.metric.title.lower()} {self.said(self.change)}{unit}, 95 % interval {self.interval}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        numbers = {name: getattr(self, name) for name in ("new", "old", "change", "low", "high")}
        return {"metric": self.metric.name, "title": self.metric.title, "where": self.where, **numbers}


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Comparison of a new policy with an old one of the same robot."""

    word: str
    """:data:`BETTER`, :data:`WORSE` or :data:`NO_DIFFERENCE`."""
    why: tuple[str, ...]
    pairs: Pairs
    rows: tuple[Row, ...]
    new: Verdict
    old: Verdict

    @property
    def passed(self) -> bool:
        """True unless the new policy is worse."""
        return self.word != WORSE

    @property
    def enough(self) -> bool:
        """True if the pairs would have found a difference of :data:`.paired.POINTS`."""
        return self.pairs.count >= self.pairs.needed

    def power(self) -> str:
        """What the number of pairs was good for."""
        pairs, points = self.pairs, f"{100 * POINTS:g} points of survival"
        said = f"{pairs.count:,} pairs of twins, {pairs.discordant:,} of them ended differently"
        if self.enough:
            return f"{said}; {points} would have been found with {100 * POWER:g} % certainty"
        low, high = pairs.interval
        if not low <= 0.0 <= high:
            return f"{said}; the difference was beyond doubt, so that no more were walked"
        return (
            f"{said}: not enough to find {points} with {100 * POWER:g} % certainty, which takes about "
            f"{pairs.needed:,}: --twins {_hundreds(pairs.needed)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data; NaN becomes None."""
        verdicts = {
            name: {"verdict": each.word, "policy_sha256": each.policy_sha256}
            | {"failed": [result.name for result in each.scenarios if result.required and not result.passed]}
            for name, each in (("new", self.new), ("baseline", self.old))
        }
        pairs = {"count": self.pairs.count, "discordant": self.pairs.discordant, "needed": self.pairs.needed}
        return plain(
            {"gaitway_gate": 1, "result": self.word, "why": self.why, "robot": self.new.robot}
            | {"suite_version": self.new.suite_version, "population": population.VERSION, "seed": self.new.seed}
            | verdicts
            | {"pairs": pairs | {"enough": self.enough}, "rows": [row.to_dict() for row in self.rows]}
        )


def _hundreds(needed: int) -> int:
    """Pairs with some to spare, since their discordant share is not known before."""
    return math.ceil(1.05 * needed / BATCH) * BATCH


def rivals(new: Path, old: Path) -> tuple[Suite, Kind, Kind]:
    """The suite and the robots of two bundles; raises :class:`UserError` if their policies cannot be compared."""
    contracts = [Contract.load(bundle) for bundle in (new, old)]
    mine, theirs = contracts
    if _behaviour(mine) == _behaviour(theirs):
        raise UserError(f"--baseline {old}: it is the same policy as {new}, with policy.onnx "
                        f"{mine.files['policy.onnx'][:12]}: name another bundle")  # fmt: skip
    if mine.joint_names != theirs.joint_names:
        raise UserError(f"--baseline {old}: it is of another robot, {theirs.robot}, whose joints are not those of "
                        f"{mine.robot}: name a policy of the same robot")  # fmt: skip
    if mine.commands != theirs.commands:
        said = [", ".join(f"{low:g} to {high:g}" for low, high in each.command_ranges) for each in contracts]
        raise UserError(f"--baseline {old}: its commands go from {said[1]}, and those of {new} from {said[0]}: train "
                        "or export one of them with the other's command ranges")  # fmt: skip
    suite = suite_of(mine)
    if suite is not suite_of(theirs):
        raise UserError(f"--baseline {old}: another suite judges it than {new}: name a policy of the same task")
    if suite.tour is None:
        raise UserError(f"suite {suite.version} has no tour for twins, on which policies are compared: leave out "
                        "--baseline, or give the suite a tour")  # fmt: skip
    ours, others = (Kind(bundle, contract) for bundle, contract in zip((new, old), contracts, strict=True))
    plants = [ours.plant, others.plant]
    masses = [plant.mass for plant in plants]
    if plants[0].model.nbody != plants[1].model.nbody or abs(masses[1] / masses[0] - 1.0) > SAME_MASS:
        bodies = [f"{plant.model.nbody - 1} bodies and {plant.mass:.2f} kg" for plant in plants]
        raise UserError(f"--baseline {old}: its robot has {bodies[1]}, and that of {new} {bodies[0]}: export both from "
                        "the same model")  # fmt: skip
    return suite, ours, others


def _behaviour(contract: Contract) -> tuple[Any, ...]:
    """All in a contract that decides what a policy does."""
    return contract.files["policy.onnx"], contract.actuators, contract.action, contract.control_dt


def walked(
    new: Path, old: Path, tours: Tours, kinds: Sequence[Kind], *, seed: int, most: int, progress: Callable[[int], None]
) -> tuple[Pairs, Pairs]:
    """Survival and falls of two policies among the same twins; ``progress`` gets the number of pairs so far."""
    fell: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])

    def both(numbers: range) -> tuple[np.ndarray, np.ndarray]:
        progress(numbers.start)
        walks: list[Walk] = []
        for bundle, kind, kept in zip((new, old), kinds, fell, strict=True):
            walks.append(survey(bundle, tours, numbers, seed=population.SEED + seed, kind=kind))
            kept.append(walks[-1].fell)
        return tours.survived(walks[0]), tours.survived(walks[1])

    survived = compare(both, most)
    return survived, Pairs(new=np.concatenate(fell[0]), old=np.concatenate(fell[1]), z=survived.z)


def decide(new: Verdict, old: Verdict, suite: Suite, survived: Pairs, fell: Pairs) -> Gate:
    """The comparison of two verdicts, whose results have their samples, and of the same twins.

    Survival decides first, then errors of tracking. A required scenario that only the new policy fails makes it worse.
    """
    assert suite.tour is not None
    results = {each.name: each for each in new.scenarios}
    passes = [name for name, each in results.items() if each.passed]
    lost = [each.title for each in old.scenarios if each.required and each.passed and each.name not in passes]
    survival, rows = _twins(SURVIVAL, survived), list(_suite_rows(new, old, suite))
    tracking = {row.metric.name: row for row in rows if row.metric.name in suite.tour.tracking}
    matters = suite.tour.tracking
    more = [row for name, row in tracking.items() if row.low > matters[name]]
    less = [row for name, row in tracking.items() if row.high < -matters[name]]
    why = [f"not passed, while the baseline passes: {', '.join(lost)}"] if lost else []
    if not survival.low <= 0.0 <= survival.high:
        why.append(survival.sentence())
        word = WORSE if lost or survival.high < 0.0 else BETTER
    else:
        why += [row.sentence() for row in more or less]
        word = WORSE if lost or more else BETTER if less else NO_DIFFERENCE
        why = why or [survival.sentence()]
    return Gate(
        word=word,
        why=tuple(why),
        pairs=survived,
        rows=(survival, _twins(TWIN_FALLS, fell), *rows),
        new=new,
        old=old,
    )


def _twins(metric: Metric, pairs: Pairs) -> Row:
    low, high = pairs.interval
    new, old = float(pairs.new.mean()), float(pairs.old.mean())
    return Row(metric=metric, where=f"{pairs.count:,} twins", new=new, old=old, low=low, high=high)


def _suite_rows(new: Verdict, old: Verdict, suite: Suite) -> Iterator[Row]:
    """The key metrics over the robots of all scenarios that both verdicts require."""
    assert suite.tour is not None
    theirs = {each.name: each for each in old.scenarios}
    shared = [(each, theirs[each.name]) for each in new.scenarios if each.required and each.name in theirs]
    for name in dict.fromkeys((*suite.tour.tracking, "falls", *suite.key_metrics)):
        parts = [part for pair in shared if (part := _robots(name, *pair)) is not None]
        values = np.hstack(parts) if parts else np.zeros((2, 0))
        values = values[:, np.isfinite(values).all(0)]
        if values.shape[1] < FEWEST:
            continue
        change, z, kind = values[0] - values[1], quantile(ERROR), shared[0][0].samples[name].kind
        counts = int((change > 0).sum()), int((change < 0).sum())
        low, high = difference(*counts, change.size, z) if kind == "share" else mean_interval(change, z)
        where = f"{values.shape[1]:,} {'runs of scenarios' if kind == 'level' else 'robots of the suite'}"
        ours, other = values.mean(1).tolist()
        yield Row(metric=suite.table[name], where=where, new=ours, old=other, low=low, high=high)


def _robots(name: str, new: ScenarioResult, old: ScenarioResult) -> np.ndarray | None:
    """Values of a metric of the same robots, or runs, under both policies, (2, K); None if they cannot be told.

    A scenario that was repeated for one policy only counts as often as for the other.
    """
    pair = [result.samples[name] for result in (new, old)]
    known = pair[0].kind == "level" or all(
        each.values.size == result.envs for each, result in zip(pair, (new, old), strict=True)
    )
    if not known or pair[0].kind == "peak":
        return None
    count = min(each.values.size for each in pair)
    return np.stack([each.values[:count] for each in pair])
