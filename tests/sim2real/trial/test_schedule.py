"""Order of the runs, and the remaining time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gaitway_sim2real.mujoco.floors import FIRM
from gaitway_sim2real.trial import schedule
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.schedule import Clock, Task, cost

PLAIN = Scenario(name="a", title="A", about="", limits=(), envs=10, seconds=8.0)


def test_what_a_scenario_costs() -> None:
    assert cost(PLAIN) == 80.0
    assert cost(replace(PLAIN, physics=FIRM)) == 160.0  # steps half as long
    assert cost(replace(PLAIN, gait=True)) > 80.0


def test_time_left_counts_what_is_being_done_as_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule.time, "monotonic", lambda: 100.0)
    tasks = [Task(scenarios=(replace(PLAIN, envs=envs),), seed=0) for envs in (40, 20, 10, 10)]
    alone, pair = Clock(1), Clock(2)
    for clock in (alone, pair):
        clock.more(tasks)
        clock.done(tasks[0])
    assert alone.left(140.0) == pytest.approx(40.0)  # as much is left as was done
    assert pair.left(140.0) == pytest.approx(40.0 * 25 / 55)
    for task in tasks[1:]:
        pair.done(task)
    assert pair.left(200.0) == 0.0
