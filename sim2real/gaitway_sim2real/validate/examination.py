"""The order in which scenarios are run, and how long that will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gaitway_onboard.bundle.contract import Contract

from ..mujoco.physics import PHYSICS_DT
from .evidence import Evidence
from .rough import hopeless
from .scenario import Scenario
from .tally import Run, Tally
from .workers import Workers

MOST_REPETITIONS = 4
"""A required scenario is repeated, with as many fresh robots, while that may make it pass, at most until these runs."""
GAIT_COST = 1.25
"""Cost of a robot whose feet are recorded, in robots whose feet are not."""

Progress = Callable[[int, int, str, float | None], None]
"""Called with scenarios done, scenarios in all, the title of the one that was done last, and the time left [s]."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run of a scenario."""

    scenario: Scenario
    seed: int
    repetition: int = 0
    plots: bool = False
    """True if the report's plots need something of it."""


def examine(
    scenarios: Sequence[Scenario],
    contract: Contract,
    seeds: Sequence[int],
    workers: Workers[Task, tuple[Run, Evidence | None]],
    *,
    plots: bool,
    progress: Progress | None = None,
) -> tuple[list[Tally], Evidence]:
    """All runs of ``scenarios``, in their order, and what ``plots`` need.

    The longest are run first, so that no process waits for another at the end; repetitions come last. Rungs of a
    ladder are run one after the other, until going on is hopeless; those that were not reached have no tally.
    """
    tallies = {scenario.name: Tally(scenario, contract) for scenario in scenarios}
    missing = dict.fromkeys(tallies, len(seeds))
    evidence, clock = Evidence(), Clock(workers.count)
    tasks = [Task(scenario=s, seed=seed, plots=plots and seed == seeds[0]) for s in scenarios for seed in seeds]
    clock.more(tasks)
    ladders: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        if scenario.ladder:
            ladders.setdefault(scenario.ladder, []).append(scenario)
    above = {rung.name for rungs in ladders.values() for rung in rungs[1:]}
    first = sorted((task for task in tasks if task.scenario.name not in above), key=lambda task: -cost(task.scenario))
    workers.submit(first)
    done = 0
    if progress:
        progress(0, len(scenarios), first[0].scenario.title, None)
    for task, (run, seen) in workers.results():
        name, tally = task.scenario.name, tallies[task.scenario.name]
        tally.add(run, task.repetition, task.seed)
        evidence = seen or evidence
        clock.done(task)
        missing[name] -= 1
        if missing[name]:
            continue
        repetition = task.repetition + 1
        if repetition < MOST_REPETITIONS and tally.worth_more():
            missing[name] = len(seeds)
            more = [Task(scenario=task.scenario, seed=seed, repetition=repetition) for seed in seeds]
            clock.more(more)
            workers.submit(more)
            continue
        done += 1
        if rungs := ladders.get(task.scenario.ladder):
            climbed, rest = rungs[: rungs.index(task.scenario) + 1], rungs[rungs.index(task.scenario) + 1 :]
            if rest and hopeless(tallies[rung.name].result() for rung in climbed):
                done += len(rest)
                clock.drop([other for other in tasks if other.scenario in rest])
            elif rest:
                workers.submit([other for other in tasks if other.scenario is rest[0]])
        if progress:
            progress(done, len(scenarios), task.scenario.title, clock.left(time.monotonic()))
    return [tally for tally in tallies.values() if tally.begun], evidence


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
        self._done += cost(task.scenario)

    def drop(self, tasks: Sequence[Task]) -> None:
        """Leave these runs out."""
        for task in tasks:
            self._open.remove(task)

    def left(self, now: float) -> float:
        """[s]; ``now`` is the time of ``time.monotonic``."""
        costs = [cost(task.scenario) for task in self._open]
        half = sum(costs[: self._at_once]) / 2
        return (now - self._start) * (sum(costs) - half) / (self._done + half)
