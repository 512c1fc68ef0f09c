"""Failing cases in a training: their disturbances are among those drawn, and policies must survive them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_sim2real.bundle.in_memory import InMemoryPolicy, contract_before_training
from gaitway_sim2real.bundle.signal_policy import SignalPolicy
from gaitway_sim2real.falsify.case import COPIES, FAILS, Case, load_cases, play
from gaitway_sim2real.mujoco.plant import Plant
from gaitway_sim2real.population.twin import Kind, Twin
from gaitway_sim2real.trial.examination import Check
from gaitway_sim2real.trial.metric import GENERAL
from gaitway_sim2real.trial.result import LimitCheck
from gaitway_tasks.mdp import events
from gaitway_tasks.spec import Event, Task

PUSHES = (10.0, 15.0)
"""Time between pushes where the task has none [s]."""


class Against:
    """The cases of a training. Raises :class:`UserError` for files that are none, or of another robot."""

    def __init__(self, task: Task, paths: Iterable[str | Path]) -> None:
        contract = contract_before_training(task)
        found = [pair for path in paths for pair in load_cases(Path(path), contract)]
        self.paths = tuple(str(path.resolve()) for path, _ in found)
        self.cases = [case for _, case in found]
        self.kind = Kind(task.robot.mjcf, contract)

    def joined(self, task: Task) -> Task:
        """The task whose events also draw the disturbances of the cases, as far as there are events for them."""
        changed = dict(task.events)
        for case in self.cases:
            for func, params in _drawn(case, self.kind.plant):
                _widen(changed, func, params)
        return task.replace(events=changed)

    def checks(self, threads: int) -> Callable[[SignalPolicy], list[Check]]:
        """Checks of an examination: at most a quarter of the robots of each case may fall."""

        def check(policy: SignalPolicy) -> list[Check]:
            found = []
            for number, case in enumerate(self.cases, 1):
                outcome = play(case, self.kind, InMemoryPolicy(policy, COPIES), threads=threads)
                share = LimitCheck(
                    metric=GENERAL[0],
                    value=outcome.falls / COPIES,
                    limit=1.0 - FAILS,
                    at_least=False,
                    passed=outcome.survived,
                )
                found.append(Check(scenario=f"case_{number}", robots=COPIES, check=share))
            return found

        return check


def _drawn(case: Case, plant: Plant) -> Iterable[tuple[Any, Mapping[str, Any]]]:
    """Events of a case, and the values that they draw: a number and its nominal one, or a mapping of them."""
    twin, model = case.twin, Twin()
    if hardest := max((float(np.hypot(*blow.impulse)) for blow in case.blows), default=0.0):
        ways = (-hardest, hardest)
        yield events.push_by_setting_velocity, {"velocity_range": {"x": ways, "y": ways}}
    if twin.payload:
        added, base = twin.payload * plant.mass, float(plant.model.body_mass[plant.base_body])
        yield events.randomize_rigid_body_mass, {"mass_distribution_params": (added, 0.0)}
        shift = added / (base + added) * plant.stand_height * np.array(twin.payload_at)
        com = {axis: (float(value), 0.0) for axis, value in zip("xyz", shift, strict=True)}
        yield events.randomize_rigid_body_com, {"com_range": com}
    if twin.friction != model.friction:
        yield events.randomize_rigid_body_material, {"friction_range": (twin.friction, model.friction)}
    if twin.impedance:
        own = float(plant.model.geom_solimp[plant.soles, 1].mean())
        yield events.randomize_ground_impedance, {"impedance_range": (twin.impedance, own)}
    if twin.strength != 1.0:
        yield events.randomize_motor_strength, {"strength_range": (twin.strength, 1.0)}
    if (twin.stiffness, twin.damping) != (1.0, 1.0):
        gains = {"stiffness_range": (twin.stiffness, 1.0), "damping_range": (twin.damping, 1.0)}
        yield events.randomize_actuator_gains, gains
    if late := twin.delay + twin.jitter:
        yield events.randomize_action_delay, {"delay_range": (late, 0.0)}


def _widen(changed: dict[str, Event], func: Any, params: Mapping[str, Any]) -> None:
    """Let the event of ``func`` also draw values of ``params``, or add one that does."""
    name = next((name for name, event in changed.items() if event.func is func), None)
    if name is None:
        mode = {events.push_by_setting_velocity: "interval", events.randomize_action_delay: "reset"}.get(
            func, "startup"
        )
        when = PUSHES if mode == "interval" else None
        changed[func.__name__] = Event(func=func, mode=mode, interval_range_s=when, params=_ranges(params, {}))
    else:
        event = changed[name]
        wider = {**event.params, **_ranges(params, event.params)}
        changed[name] = dataclasses.replace(event, params=wider)


def _ranges(values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Ranges (low, high) of what is ``known`` and further values."""
    found: dict[str, Any] = dict(known)
    for name, value in values.items():
        if isinstance(value, Mapping):
            found[name] = _ranges(value, known.get(name, {}))
        else:
            ends: Sequence[float] = (*value, *known.get(name, ()))
            found[name] = (min(ends), max(ends))
    return found
