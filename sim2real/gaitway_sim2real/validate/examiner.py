"""A short examination of a policy in training: is it good enough for the suite, and if not, what is missing?

It has the suite's own scenarios, metrics and limits, with fewer robots for a shorter time. In place of the suite's
intervals, which so few robots would leave wide, every limit is tightened by :data:`MARGIN`, and no robot may fall. All
robots on the same floor walk in one batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_tasks.spec import Task
from torch import nn

from ..bundle.in_memory import InMemoryPolicy, contract_before_training, in_memory
from ..pages.verdict import plain, rounded
from .command_classes import CLASSES
from .conditions import Conditions
from .metrics import METRICS
from .scenario import Limit, Scenario
from .scenarios import SUITE
from .simulate import Trajectory, simulate
from .suite import Plants, conditions_of, usable
from .tally import Tally, measured
from .verdict import LimitCheck

MARGIN = 0.05
"""Share by which the suite's limits are tightened. Shorter walks count more of the start: beside the suite, ANYmal's
velocity errors came out 3 to 11 % of their limits worse, the other numbers 0 to 16 % worse, none better by over 2 %."""
NO_FALLS = Limit(metric="falls", value=0.0)
HOPELESS = 3.0
"""Multiple of its allowance that a check must use for the remaining floors to be skipped."""
SHOWN = 3
"""Metrics that a line names."""


def _short(name: str, **changes: Any) -> Scenario:
    """A scenario of the suite with tightened limits."""
    scenario = next(scenario for scenario in SUITE if scenario.name == name)
    limits = tuple(tightened(limit) for limit in scenario.limits if limit.metric != "falls")
    return replace(scenario, limits=(*limits, NO_FALLS), draws=scenario.draws or name, **changes)


def tightened(limit: Limit) -> Limit:
    return replace(limit, value=limit.value * (1.0 + MARGIN if limit.at_least else 1.0 - MARGIN))


EXAMINATION: tuple[Scenario, ...] = (
    *(_short(f"gait_{name}", envs=6, seconds=6.0) for name in (*CLASSES, "turning_carpet")),
    _short("command_grid", envs=60, seconds=8.0, commands="small_grid"),
    _short("straight", envs=4, seconds=10.0),
    _short("standing", envs=8, seconds=7.0),
    _short("stops", envs=48, seconds=7.0),
    _short("command_steps", envs=12, seconds=7.0),
)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One number of an examination against its tightened limit: the value decides, not its interval."""

    scenario: str
    robots: int
    check: LimitCheck

    @classmethod
    def of(cls, scenario: Scenario, limit: Limit, value: float, where: tuple[str, ...] = ()) -> Check:
        check = LimitCheck(
            metric=limit.metric,
            value=value,
            limit=limit.value,
            at_least=limit.at_least,
            passed=limit.passes(value),
            where=where,
        )
        return cls(scenario=scenario.name, robots=scenario.envs, check=check)

    def words(self) -> str:
        """Check in words, for example "clearance in turning 2.1 cm (limit 3.6 cm)"."""
        metric, value, limit = METRICS[self.check.metric], self.check.value, self.check.limit
        where = self.scenario.removeprefix("gait_").replace("_", " ")
        if self.check.where:
            return f"{self.check.sentence()} in {where}"
        if self.check.metric == "falls":
            return f"{round(value * self.robots)} of {self.robots} robots fell in {where}"
        what = f"{metric.title.lower()} in {where}"
        if np.isnan(value):
            return f"{what} not measured"
        factor, unit = {"m": (100.0, "cm")}.get(metric.unit, (1.0, metric.unit))
        if metric.percent:
            factor, unit = 100.0, "%"
        if unit in ("cm", "%"):
            found, bound = f"{factor * value:.1f} {unit}", f"{factor * limit:.1f} {unit}"
        else:
            found, bound = f"{rounded(value)} {unit}".rstrip(), f"{rounded(limit)} {unit}".rstrip()
        return f"{what} {found} (limit {bound})"


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The checks of one examination. Numbers depend only on the policy and the seed."""

    seed: int
    checks: tuple[Check, ...]
    left_out: tuple[str, ...] = ()
    """Scenarios that were not run, because others failed by far."""

    @property
    def passed(self) -> bool:
        return not self.left_out and all(check.check.passed for check in self.checks)

    def missing(self) -> list[Check]:
        """The checks that do not hold, worst first by how far beyond the limit they are, relative to it.

        What was not measured comes last: its robots fell, which another check says.
        """
        failed = [check for check in self.checks if not check.check.passed]
        return sorted(failed, key=lambda row: 0.0 if np.isnan(row.check.value) else row.check.used, reverse=True)

    @property
    def closest(self) -> float:
        """Largest share of its allowance that a check uses, above 1 beyond the limit; infinite if not all were made."""
        used = (row.check.used for row in self.checks if row.check.limit or not row.check.passed)
        return math.inf if self.left_out else max(used, default=0.0)

    def words(self) -> str:
        """Outcome with the failed checks: the worst of each metric, the worst metric first."""
        missing = self.missing()
        if not missing:
            return f"passed: all {len(self.checks)} checks hold, with {MARGIN:.0%} to spare"
        metrics = list(dict.fromkeys(check.check.metric for check in missing))[:SHOWN]
        worst = [next(check for check in missing if check.check.metric == metric) for metric in metrics]
        more = f"; and {len(missing) - len(worst)} more" if len(missing) > len(worst) else ""
        more += "; the rest was not examined" if self.left_out else ""
        return f"failed: {'; '.join(check.words() for check in worst)}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, in which NaN is None."""
        body: dict[str, Any] = plain(asdict(self))
        checks = [{"scenario": row["scenario"], **row["check"]} for row in body["checks"]]
        kept = ("scenario", "metric", "value", "limit", "at_least", "passed")
        return {
            "passed": self.passed,
            "missing": [check.words() for check in self.missing()],
            "closest": plain(self.closest),
            "seed": self.seed,
            "left_out": list(self.left_out),
            "checks": [{name: row[name] for name in kept} for row in checks],
        }


class Examiner:
    """Examines one policy after the other of a task; the robot is compiled once."""

    def __init__(self, task: Task, *, seed: int = 0, threads: int = 1, scenarios: Sequence[Scenario] = EXAMINATION):
        """``threads`` 0 uses all cores; results do not depend on it.

        Raises a ``ValueError`` subclass for a task whose policy cannot be exported or whose robot cannot be measured.
        """
        self.task, self.seed, self.threads = task, seed, threads
        contract = contract_before_training(task)
        model = task.robot.mjcf
        self.plants = Plants(contract, model, model)
        self.scenarios, _ = usable(scenarios, contract, self.plants)

    def __call__(self, actor: nn.Module) -> Examination:
        """Examine ``actor``, observation (N, D) -> action (N, J), of which nothing is changed."""
        contract, policy = in_memory(self.task, actor)
        checks: dict[str, list[Check]] = {}
        for scenarios in self._batches():
            done = [row.check for found in checks.values() for row in found]
            if any(check.limit and check.used > HOPELESS for check in done):  # a fall, limit 0, says less
                break
            conditions = [conditions_of(contract, scenario, self.seed, 0) for scenario in scenarios]
            together = Conditions.side_by_side(conditions)
            robots = InMemoryPolicy(policy, len(together.yaw))
            recording = simulate(self.plants.of(scenarios[0]), contract, robots, together, threads=self.threads)
            end = 0
            for scenario in scenarios:
                start, end = end, end + scenario.envs
                checks[scenario.name] = _check(scenario, recording.of(slice(start, end)), contract)
        ordered = [check for scenario in self.scenarios for check in checks.get(scenario.name, ())]
        if left := [scenario.name for scenario in self.scenarios if scenario.name not in checks]:
            return Examination(seed=self.seed, checks=tuple(ordered), left_out=tuple(left))
        return Examination(seed=self.seed, checks=tuple(ordered))

    def _batches(self) -> list[list[Scenario]]:
        """Scenarios whose robots can walk side by side; those with many robots of different commands come first."""

        def floor(scenario: Scenario) -> tuple[Any, ...]:
            alone = scenario.name if scenario.stressors else ""
            return scenario.gait, scenario.seconds, repr(scenario.ground), repr(scenario.physics), alone

        batches = [list(group) for _, group in itertools.groupby(sorted(self.scenarios, key=floor), key=floor)]
        return sorted(batches, key=lambda batch: -max(scenario.envs for scenario in batch))


def _check(scenario: Scenario, recording: Trajectory, contract: Contract) -> list[Check]:
    tally = Tally(scenario, contract)
    tally.add(measured(scenario, recording, contract), 0, 0)
    pairs = zip(scenario.limits, tally.result().checks, strict=True)
    return [Check.of(scenario, limit, found.value, found.where) for limit, found in pairs]
