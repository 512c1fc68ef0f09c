"""A scenario's robots, of all seeds and repetitions: what they measured together, and whether more would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from .intervals import Samples, pooled
from .result import ScenarioResult
from .scenario import Scenario
from .simulate import Trajectory
from .suite import Suite


@dataclass(frozen=True, kw_only=True)
class Run:
    """Results of one run of a scenario with N robots."""

    samples: dict[str, Samples]
    marks: np.ndarray
    """The suite's mark of each robot, (N,)."""
    causes: Counter[str]


def measured(suite: Suite, scenario: Scenario, recording: Trajectory, contract: Contract) -> Run:
    """Measurements of a recording."""
    return Run(
        samples=suite.measure(recording, contract, scenario),
        marks=suite.marks(recording, contract),
        causes=Counter(cause for cause in recording.fall_cause if cause),
    )


def joined(runs: Sequence[Run]) -> Run:
    """Runs as one, with the robots of all."""
    return Run(
        samples={name: pooled([run.samples[name] for run in runs]) for name in runs[0].samples},
        marks=np.concatenate([run.marks for run in runs]),
        causes=sum((run.causes for run in runs), Counter[str]()),
    )


class Tally:
    """The runs of a scenario so far."""

    def __init__(self, suite: Suite, scenario: Scenario, contract: Contract) -> None:
        self.scenario, self._suite, self._contract = scenario, suite, contract
        self._runs: dict[tuple[int, int], Run] = {}

    def add(self, run: Run, repetition: int, seed: int) -> None:
        """Runs may come in any order."""
        self._runs[repetition, seed] = run

    def result(self) -> ScenarioResult:
        """Result over all runs."""
        return self._judge([self._runs[key] for key in sorted(self._runs)])

    def first(self, seed: int) -> ScenarioResult:
        """Result of one seed's first run."""
        return self._judge([self._runs[0, seed]])

    def _judge(self, runs: list[Run]) -> ScenarioResult:
        run = joined(runs)
        samples, where = self._suite.judged(self.scenario, run.samples, run.marks, self._contract)
        causes, robots = dict(sorted(run.causes.items())), self.scenario.envs * len(runs)
        result = ScenarioResult.of(self.scenario, samples, causes, self._suite.table, robots, where)
        return replace(result, samples=run.samples)

    def worth_more(self) -> bool:
        """True if more robots could make a scenario pass, and that counts: no limit fails, and one is undecided.

        Required scenarios count for the verdict, those on a ladder of ground for its class.
        """
        checks = self.result().checks
        return (
            (self.scenario.required or bool(self.scenario.ladder))
            and all(check.passed or check.undecided for check in checks)
            and any(check.undecided for check in checks)
        )
