"""The suite's mixed commands and command classes in other engines, and the engines beside each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gaitway_onboard.bundle.contract import Contract

from ..mujoco.physics import NOMINAL_PHYSICS
from ..mujoco.plant import Plant
from .conditions import Conditions
from .engines import Engine, part, plan, together, trajectory_of
from .metric import Metric
from .result import ScenarioResult
from .scenario import Scenario
from .simulate import Trajectory

MUJOCO, FACTOR = "MuJoCo", "engine"


def engine_scenarios(engine: Engine, scenarios: Iterable[Scenario], nominal: str) -> list[Scenario]:
    """Scenarios that are repeated in ``engine``, with the same commands, starts and limits.

    The one named ``nominal`` is compared with its own.
    """
    found = []
    for scenario in scenarios:
        mixed = scenario.name == nominal
        if not scenario.engines:
            continue
        about = "The commands and starts of the nominal scenario" if mixed else f"The commands of {scenario.title!r}"
        found.append(
            replace(
                scenario,
                name=f"{scenario.name}_{engine.name}",
                title=engine.title if mixed else f"{scenario.title}, {engine.title}",
                about=f"{about} in {engine.title}, on its own floor of friction {scenario.friction[0]:g}.",
                physics=NOMINAL_PHYSICS,
                draws=scenario.draws or scenario.name,
                engine=engine.title,
                same_as=scenario.name,
                factor=FACTOR if mixed else "",
                level=engine.title if mixed else "",
            )
        )
    return found


def walk(
    engine: Engine, bundle: Path, contract: Contract, plant: Plant, scenes: Sequence[tuple[Scenario, Conditions]]
) -> Iterator[Trajectory]:
    """Recordings of all ``scenes``, whose robots walk in one simulation."""
    all_robots = plan(bundle, contract, plant, together([conditions for _, conditions in scenes]))
    recorded = engine.record(all_robots)
    first = 0
    for scenario, conditions in scenes:
        rows = part(recorded, slice(first, first + scenario.envs), len(conditions.command), plant.decimation)
        yield trajectory_of(rows, conditions, contract, plant)
        first += scenario.envs


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One metric of one scenario in every engine."""

    scenario: str
    """Title in MuJoCo."""
    metric: Metric
    values: Mapping[str, float]
    """Values by the engine's title, MuJoCo first."""

    def difference(self, engine: str) -> float:
        """Value of ``engine`` minus MuJoCo's."""
        return self.values[engine] - self.values[MUJOCO]

    def sentence(self) -> str:
        shown = [f"{engine} {self.metric.say(value)}" for engine, value in self.values.items()]
        return f"{self.metric.title.lower()}: {', '.join(shown)}"


def engines_of(results: Iterable[ScenarioResult]) -> tuple[str, ...]:
    """Titles of the engines, MuJoCo first."""
    return tuple(dict.fromkeys([MUJOCO, *(result.engine for result in results if result.engine)]))


def comparisons(results: Iterable[ScenarioResult], metrics: Sequence[Metric]) -> list[Comparison]:
    """Comparisons of ``metrics`` that more than one engine measured, scenario by scenario."""
    results = tuple(results)
    rows = []
    for own in results:
        others = {other.engine: other for other in results if other.engine and other.same_as == own.name}
        if own.engine or not others:
            continue
        measured = {MUJOCO: own, **others}
        for metric in metrics:
            values = {engine: result.metrics.get(metric.name, math.nan) for engine, result in measured.items()}
            if not all(math.isnan(value) for value in values.values()):
                rows.append(Comparison(scenario=own.title, metric=metric, values=values))
    return rows


def side_by_side(results: Iterable[ScenarioResult], metrics: Sequence[Metric]) -> list[str]:
    """Lines for a terminal about the nominal scenario in every engine; empty where only MuJoCo was run."""
    results = tuple(results)
    nominal = {result.same_as for result in results if result.factor == FACTOR}
    titles = {result.title for result in results if result.name in nominal}
    rows = [row for row in comparisons(results, metrics) if row.scenario in titles]
    return [f"engines: {', '.join(engines_of(results))}", *(f"  {row.sentence()}" for row in rows)] if rows else []
