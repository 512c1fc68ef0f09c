"""The order in which scenarios are run, and how long that will take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gaitway_onboard.bundle.contract import Contract

from ..mujoco.physics import PHYSICS_DT
from .commands import Commands
from .evidence import Evidence
from .ladders import hopeless
from .scenario import Scenario
from .suite import Suite
from .tally import Run, Tally
from .workers import Workers

MOST_REPETITIONS = 4
"""A required scenario is repeated, with as many fresh robots, while that may make it pass, at most until these runs."""
GAIT_COST = 1.25
"""Cost of a robot whose feet are recorded, in robots whose feet are not."""

LOT = 300
"""Most robots of several scenarios in one batch: a few such batches are still divided evenly among processes."""

Progress = Callable[[int, int, str, float | None], None]
"""Called with scenarios done, scenarios in all, the title of the one that was done last, and the time left [s]."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run of each of some scenarios, whose robots are simulated as one batch."""

    scenarios: tuple[Scenario, ...]
    seed: int
    repetition: int = 0
    plots: bool = False
    """True if the report's plots need something of it."""

    @property
    def cost(self) -> float:
        """Cost of all its runs: see :func:`cost`."""
        return sum(cost(scenario) for scenario in self.scenarios)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is run first."""

    first: Sequence[str] = ()
    """Names of scenarios that go first, in this order."""
    stop_at_failure: bool = False
    """True if the run ends with the first required scenario that fails. Cheap scenarios then go first, and
    those that are not required, which cannot end it, go last."""

    def key(self, task: Task) -> tuple[float, ...]:
        """What tasks are sorted by."""
        name = task.scenarios[0].name
        place = self.first.index(name) if name in self.first else len(self.first)
        if not self.stop_at_failure:
            return place, -task.cost
        return place, not any(scenario.required for scenario in task.scenarios), task.cost


def lots(
    scenarios: Iterable[Scenario], apart: Container[str] = (), kinds: Mapping[str, Commands] | None = None
) -> list[tuple[Scenario, ...]]:
    """Scenarios whose robots can be simulated as one batch, put together: what a step costs in Python is paid once.

    Their robots stand on the same ground under the same physics, for the same time, and are changed alike. Scenarios
    named in ``apart``, with stressors of their own or of their ``kinds`` of commands, or with a way to go stay alone.
    """
    found: list[list[Scenario]] = []
    growing: dict[Hashable, list[Scenario]] = {}
    for scenario in scenarios:
        loaded, stronger = scenario.payload != (0.0, 0.0), scenario.strength != (1.0, 1.0)
        key = scenario.ground, scenario.physics, scenario.gait, scenario.seconds, loaded, stronger
        steered = bool(kinds and kinds[scenario.commands].stressors)
        alone = scenario.stressors or scenario.guarded or steered or math.isfinite(scenario.way)
        if alone or scenario.ladder or scenario.name in apart:
            found.append([scenario])
        elif key in growing and sum(other.envs for other in growing[key]) + scenario.envs <= LOT:
            growing[key].append(scenario)
        else:
            growing[key] = [scenario]
            found.append(growing[key])
    return [tuple(lot) for lot in found]


def run_all(
    suite: Suite,
    scenarios: Sequence[Scenario],
    contract: Contract,
    seeds: Sequence[int],
    workers: Workers[Task, tuple[list[Run], Evidence | None]],
    *,
    plots: bool,
    progress: Progress | None = None,
    order: Order = Order(),
) -> tuple[list[Tally], Evidence]:
    """All runs of ``scenarios``, in their order, and what ``plots`` need.

    Without another ``order`` the longest are run first, so that no process waits for another at the end; repetitions
    come last. Rungs of a ladder are run one after the other, until going on is hopeless. Scenarios that were not
    reached have no tally; after a failure that ends the run, nor have those that were not finished.
    """
    tallies = {scenario.name: Tally(suite, scenario, contract) for scenario in scenarios}
    missing, finished = dict.fromkeys(tallies, len(seeds)), set[str]()
    evidence, clock = Evidence(), Clock(workers.count)
    tasks = [
        Task(scenarios=lot, seed=seed, plots=plots and seed == seeds[0])
        for lot in lots(scenarios, order.first, suite.kinds)
        for seed in seeds
    ]
    clock.more(tasks)
    ladders: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        if scenario.ladder:
            ladders.setdefault(scenario.ladder, []).append(scenario)
    above = {rung.name for rungs in ladders.values() for rung in rungs[1:]}
    first = sorted((task for task in tasks if task.scenarios[0].name not in above), key=order.key)
    workers.submit(first)

    def more(scenario: Scenario, repetition: int) -> None:
        """Run ``scenario`` once more with each seed."""
        missing[scenario.name] = len(seeds)
        again = [Task(scenarios=(scenario,), seed=seed, repetition=repetition) for seed in seeds]
        clock.more(again)
        workers.submit(again)

    def climb(rung: Scenario) -> list[Scenario]:
        """Run the next rung of the ladder; or the rungs above ``rung``, if going on is hopeless."""
        rungs = ladders[rung.ladder]
        climbed, rest = rungs[: rungs.index(rung) + 1], rungs[rungs.index(rung) + 1 :]
        if rest and hopeless(tallies[each.name].result() for each in climbed):
            clock.drop([task for task in tasks if task.scenarios[0] in rest])
            return rest
        workers.submit([task for task in tasks if task.scenarios[0] in rest[:1]])
        return []

    done = 0
    if progress:
        progress(0, len(scenarios), first[0].scenarios[0].title, None)
    for task, (runs, seen) in workers.results():
        evidence.add(seen)
        clock.done(task)
        for scenario, run in zip(task.scenarios, runs, strict=True):
            tally = tallies[scenario.name]
            tally.add(run, task.repetition, task.seed)
            missing[scenario.name] -= 1
            if missing[scenario.name]:
                continue
            if task.repetition + 1 < MOST_REPETITIONS and tally.worth_more():
                more(scenario, task.repetition + 1)
                continue
            finished.add(scenario.name)
            done += 1 + (len(climb(scenario)) if scenario.ladder else 0)
            if progress:
                progress(done, len(scenarios), scenario.title, clock.left(time.monotonic()))
        if order.stop_at_failure and any(
            scenario.required and scenario.name in finished and not tallies[scenario.name].result().passed
            for scenario in task.scenarios
        ):
            workers.stop()
            break
    return [tally for name, tally in tallies.items() if name in finished], evidence


def cost(scenario: Scenario) -> float:
    """Cost of a run, in seconds of a robot on the nominal floor whose feet are not recorded."""
    steps = max(1.0, PHYSICS_DT / scenario.physics.timestep)
    return scenario.envs * scenario.seconds * steps * (GAIT_COST if scenario.gait else 1.0)


class Clock:
    """Time left, if what is to be done goes as fast as what was done; of what is being done, half is."""

    def __init__(self, workers: int) -> None:
        self._start, self._done, self._open = time.monotonic(), 0.0, list[Task]()
        self._at_once = workers if workers > 1 else 0

    def more(self, tasks: Sequence[Task]) -> None:
        self._open += tasks

    def done(self, task: Task) -> None:
        self._open.remove(task)
        self._done += task.cost

    def drop(self, tasks: Sequence[Task]) -> None:
        """Leave these runs out."""
        for task in tasks:
            self._open.remove(task)

    def left(self, now: float) -> float:
        """[s]; ``now`` is the time of ``time.monotonic``."""
        costs = [task.cost for task in self._open]
        half = sum(costs[: self._at_once]) / 2
        return (now - self._start) * (sum(costs) - half) / (self._done + half)
