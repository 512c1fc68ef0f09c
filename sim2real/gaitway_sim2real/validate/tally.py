"""A scenario's robots, of all seeds and repetitions: what they measured together, and whether more would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract

from .commands import walks_a_class
from .corners import corner_of, fallen_corners
from .intervals import Samples, pooled
from .metrics import measure
from .scenario import CORNERS, Scenario
from .simulate import Trajectory
from .verdict import ScenarioResult


@dataclass(frozen=True, kw_only=True)
class Run:
    """Results of one run of a scenario with N robots."""

    samples: dict[str, Samples]
    corner: np.ndarray
    """Index of each robot's corner of the command ranges, (N,); -1 for the others."""
    causes: Counter[str]


def measured(scenario: Scenario, recording: Trajectory, contract: Contract) -> Run:
    """Measurements of a recording."""
    return Run(
        samples=measure(recording, contract, walks_a_class(scenario)),
        corner=corner_of(recording.command[0], np.array(contract.command_ranges)),
        causes=Counter(cause for cause in recording.fall_cause if cause),
    )


def joined(runs: Sequence[Run]) -> Run:
    """Runs as one, with the robots of all."""
    return Run(
        samples={name: pooled([run.samples[name] for run in runs]) for name in runs[0].samples},
        corner=np.concatenate([run.corner for run in runs]),
        causes=sum((run.causes for run in runs), Counter[str]()),
    )


class Tally:
    """The runs of a scenario so far."""

    def __init__(self, scenario: Scenario, contract: Contract) -> None:
        self.scenario, self._contract = scenario, contract
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
        samples = dict(run.samples)
        where: tuple[str, ...] = ()
        if CORNERS in self.scenario.limits:
            falls = samples["falls"]
            names, aside = fallen_corners(run.corner, falls.values, np.array(self._contract.command_ranges))
            samples["falls"] = Samples(values=falls.values[~aside], kind="share")
            samples["corner_falls"] = Samples(values=np.array([float(len(names))]), kind="level")
            where = tuple(names)
        causes = dict(sorted(run.causes.items()))
        return ScenarioResult.of(self.scenario, samples, causes, self.scenario.envs * len(runs), where)

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
