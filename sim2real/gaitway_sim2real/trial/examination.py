"""A short examination of a policy in training: is it good enough for the suite, and if not, what is missing?

It has the suite's own scenarios, metrics and limits, with fewer robots for a shorter time. In place of the suite's
intervals, which so few robots would leave wide, every limit is tightened by :data:`MARGIN`, and no robot may fall. All
robots on the same floor walk in one batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gaitway_files.trust import trust
from gaitway_onboard.bundle.contract import Contract
from gaitway_tasks.spec import Task
from torch import nn

from ..bundle.in_memory import InMemoryPolicy, contract_before_training, in_memory
from ..bundle.signal_policy import SignalPolicy
from ..pages.verdict import plain, rounded
from .conditions import Conditions
from .judging import Plants, conditions_of, nothing_to_judge, usable
from .metric import Metric
from .result import LimitCheck
from .scenario import MARGIN, Limit, Scenario, shorter
from .simulate import Trajectory, simulate
from .suite import Suite
from .suites import suite_of
from .tally import Tally, measured

HOPELESS = 3.0
"""Multiple of its allowance that a check must use for the remaining floors to be skipped."""
FEW = 16
"""Robots of each scenario in the examination of a suite that says nothing about it."""
SHOWN = 3
"""Metrics that a line names."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One number of an examination against its tightened limit: the value decides, not its interval."""

    scenario: str
    robots: int
    check: LimitCheck

    @classmethod
    def of(cls, scenario: Scenario, limit: Limit, metric: Metric, value: float, where: tuple[str, ...] = ()) -> Check:
        check = LimitCheck(
            metric=metric,
            value=value,
            limit=limit.value,
            at_least=limit.at_least,
            passed=limit.passes(value),
            where=where,
        )
        return cls(scenario=scenario.name, robots=scenario.envs, check=check)

    def words(self) -> str:
        """Check in words, for example "clearance in turning 2.1 cm (limit 3.6 cm)"."""
        metric, value, limit = self.check.metric, self.check.value, self.check.limit
        where = self.scenario.removeprefix("gait_").replace("_", " ")
        if self.check.where:
            return f"{self.check.sentence()} in {where}"
        if metric.name == "falls":
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
        return math.inf if self.left_out else self.worst

    @property
    def worst(self) -> float:
        """The same share of the checks that were made."""
        return max((row.check.used for row in self.checks if row.check.limit or not row.check.passed), default=0.0)

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
        kept = ("value", "limit", "at_least", "passed")
        checks = [
            {
                "scenario": row.scenario,
                "metric": row.check.metric.name,
                **{name: getattr(row.check, name) for name in kept},
            }
            for row in self.checks
        ]
        body: dict[str, Any] = plain(
            {
                "passed": self.passed,
                "missing": [check.words() for check in self.missing()],
                "closest": self.closest,
                "worst": self.worst,
                "seed": self.seed,
                "left_out": list(self.left_out),
                "checks": checks,
            }
        )
        return body


class Examiner:
    """Examines one policy after the other of a task; the robot is compiled once."""

    def __init__(self, task: Task, *, seed: int = 0, threads: int = 1, scenarios: Sequence[Scenario] = (),
                 further: Callable[[SignalPolicy], Sequence[Check]] | None = None):  # fmt: skip
        """``threads`` 0 uses all cores; results do not depend on it. ``scenarios`` replace those of the suite, and
        ``further`` makes checks after them, unless some scenarios were left out.

        Raises a ``ValueError`` subclass for a task whose policy cannot be exported or whose robot cannot be measured.
        """
        self.task, self.seed, self.threads = task, seed, threads
        self.further, (self.suite, contract) = further, suite_of_task(task)
        model = task.robot.mjcf
        self.plants = Plants(contract, model, model)
        chosen = scenarios or examined(self.suite)
        self.scenarios, left_out = usable(self.suite, chosen, contract, self.plants)
        if not self.scenarios:
            raise nothing_to_judge(self.suite, contract, left_out)

    def __call__(self, actor: nn.Module) -> Examination:
        """Examine ``actor``, observation (N, D) -> action (N, J), of which nothing is changed."""
        contract, policy = in_memory(self.task, actor)
        checks: dict[str, list[Check]] = {}
        for scenarios in self._batches():
            done = [row.check for found in checks.values() for row in found]
            if any(check.limit and check.used > HOPELESS for check in done):  # a fall, limit 0, says less
                break
            conditions = [conditions_of(self.suite, contract, scenario, self.seed, 0) for scenario in scenarios]
            together = Conditions.side_by_side(conditions)
            robots = InMemoryPolicy(policy, len(together.yaw))
            recording = simulate(
                self.plants.of(scenarios[0]),
                contract,
                robots,
                together,
                threads=self.threads,
                bodies=self.suite.recorded(contract),
            )
            end = 0
            for scenario in scenarios:
                start, end = end, end + scenario.envs
                checks[scenario.name] = _check(self.suite, scenario, recording.of(slice(start, end)), contract)
        ordered = [check for scenario in self.scenarios for check in checks.get(scenario.name, ())]
        if left := [scenario.name for scenario in self.scenarios if scenario.name not in checks]:
            return Examination(seed=self.seed, checks=tuple(ordered), left_out=tuple(left))
        if self.further is not None:
            ordered += self.further(policy)
        return Examination(seed=self.seed, checks=tuple(ordered))

    def _batches(self) -> list[list[Scenario]]:
        """Scenarios whose robots can walk side by side; those with many robots of different commands come first."""

        def floor(scenario: Scenario) -> tuple[Any, ...]:
            alone = scenario.name if scenario.stressors or self.suite.kinds[scenario.commands].stressors else ""
            return scenario.gait, scenario.seconds, repr(scenario.ground), repr(scenario.physics), alone

        batches = [list(group) for _, group in itertools.groupby(sorted(self.scenarios, key=floor), key=floor)]
        return sorted(batches, key=lambda batch: -max(scenario.envs for scenario in batch))


def suite_of_task(task: Task) -> tuple[Suite, Contract]:
    """The suite that judges the policies of ``task``, and their contract.

    The suite may be named by the command, whose code the user runs. Raises as an export does for a task whose policies
    cannot be exported, and :class:`NoSuite`.
    """
    contract = contract_before_training(task)
    if contract.suite:
        trust(contract.suite)
    return suite_of(contract), contract


def examined(suite: Suite) -> tuple[Scenario, ...]:
    """Scenarios of an examination: the suite's, or its required ones with few robots."""
    return suite.examination or tuple(
        shorter(scenario, envs=min(scenario.envs, FEW)) for scenario in suite.scenarios if scenario.required
    )


def _check(suite: Suite, scenario: Scenario, recording: Trajectory, contract: Contract) -> list[Check]:
    tally = Tally(suite, scenario, contract)
    tally.add(measured(suite, scenario, recording, contract), 0, 0)
    pairs = zip(scenario.limits, tally.result().checks, strict=True)
    return [Check.of(scenario, limit, found.metric, found.value, found.where) for limit, found in pairs]
