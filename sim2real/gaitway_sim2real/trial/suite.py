"""A suite: what the policies of one family of tasks are judged on.

A suite of another package is a :class:`Suite` of scenarios, metrics and kinds of commands, named by the family's
command. A family with more to say derives a class: its own measures, facts about a body, and sections of the report.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.control.commands import scripted, tour_of

from ..mujoco.physics import NOMINAL_PHYSICS, Physics
from ..mujoco.plant import Plant
from ..population.survey import Tours
from . import commands, metric
from .causes import Cause
from .commands import Commands, Told
from .conditions import Conditions, draw
from .evidence import Evidence, Strip, joints_of
from .intervals import Samples
from .levels import Level
from .metric import Metric, measure_general
from .needs import Need, Subject, unmet
from .scenario import Scenario
from .showcase import Showcase, run_showcase
from .simulate import Trajectory
from .why import Explanation, FailedWalk, fall_in_words

TOUR = 20.0
"""Length of the tour of commands that a report shows [s]."""
SHOWN = 4.0
"""Time of a failed walk that a report shows [s]."""
PICTURES = 8
"""Pictures of a strip."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Scenarios that decide a verdict, and what they measure.

    Raises :class:`UserError` for a scenario that names what the suite has not.
    """

    version: str
    """Version, with the suite's name before it: "reach 1.0". Verdicts of one version can be compared."""
    scenarios: tuple[Scenario, ...]
    metrics: tuple[Metric, ...] = ()
    """Its metrics, beside those of :data:`.metric.GENERAL`."""
    commands: Mapping[str, Commands] = field(default_factory=dict)
    """Its kinds of commands, beside those of :data:`.commands.GENERAL`."""
    needs: Mapping[str, Need] = field(default_factory=dict)
    """Its needs by name."""
    bodies: tuple[str, ...] = ()
    """Bodies whose positions are recorded: :attr:`.Trajectory.bodies`."""
    examination: tuple[Scenario, ...] = ()
    """A short examination of a policy in training; empty for the required scenarios with few robots."""
    courses: tuple[Scenario, ...] = ()
    """Ladders of ground, walked on request; they give classes, and no PASS or FAIL."""
    courses_version: str = ""
    nominal: str = ""
    """Name of the scenario that those with a factor are compared with."""
    factors: Mapping[str, tuple[str, str, float | None]] = field(default_factory=dict)
    """Factors that scenarios change one at a time: title, and the nominal level as text and as a number.

    A scenario may name another factor, which the nominal one is taken to be without."""
    key_metrics: tuple[str, ...] = ()
    """Metrics that are compared over the levels of a factor."""
    compared: tuple[str, ...] = ()
    """Metrics that are compared between physics engines."""
    tour: Tours | None = None
    """Tours of twins, by which two policies of a robot are compared; None for a family without them."""
    film_physics: Physics = NOMINAL_PHYSICS
    """Physics of the robot in the report's film."""
    film_note: str = ""
    """What the film shows, beyond a robot that follows commands."""
    knots: Any = None
    """Commands of failing cases that are searched for, :class:`..falsify.space.Knots`; None without a search."""
    themes: Mapping[str, str] = field(default_factory=dict)
    """What metrics are about, in words that several share, by their names: for what failures have in common."""
    levels: tuple[Level, ...] = ()
    """Levels beside PASS and FAIL, from low to high."""
    causes: tuple[Cause, ...] = ()
    """Settings of a training by which a policy fails."""
    track_record: str = ""
    """Said after a PASS: what became of other policies with one."""
    not_tested: tuple[str, ...] = ()
    """Said in the report, so that a PASS is not read as more than it is."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def table(self) -> dict[str, Metric]:
        """All metrics by name."""
        own = {each.name: each for each in self.metrics}
        return own | {each.name: each for each in metric.GENERAL if each.name not in own}

    @property
    def kinds(self) -> dict[str, Commands]:
        """All kinds of commands by name."""
        return {**commands.GENERAL, **self.commands}

    def draw(self, scenario: Scenario, contract: Contract, seed: int) -> Conditions:
        """Every random draw of a scenario."""
        return draw(scenario, Told.of(contract), contract.num_joints, self.kinds, seed)

    def recorded(self, contract: Contract) -> tuple[str, ...]:
        """Bodies of a robot whose positions are recorded."""
        return self.bodies

    def subject(self, contract: Contract, plant: Plant) -> Any:
        """Facts about a robot, for the suite's needs."""
        return Subject(contract=contract, plant=plant)

    def unmet(self, names: Iterable[str], subject: Any) -> str:
        """Reason why needs are not met by a :meth:`subject`; empty if they are."""
        return unmet(names, subject, self.needs)

    def measure(self, rec: Trajectory, contract: Contract, scenario: Scenario) -> dict[str, Samples]:
        """All metrics of one recording, in the order of :attr:`table`."""
        found = measure_general(rec, contract)
        found |= {
            each.name: each.samples(rec, contract, f"in scenario {scenario.name!r}")
            for each in self.metrics
            if each.measure is not None
        }
        return {name: found[name] for name in self.table}

    def marks(self, rec: Trajectory, contract: Contract) -> np.ndarray:
        """A number for each robot, (N,), that :meth:`judged` gets of all runs; 0 without one."""
        return np.zeros(len(rec.mass), int)

    def judged(
        self, scenario: Scenario, samples: Mapping[str, Samples], marks: np.ndarray, contract: Contract
    ) -> tuple[Mapping[str, Samples], dict[str, tuple[str, ...]]]:
        """Samples of all runs as they are judged, and the places where a metric, by name, does not hold."""
        return samples, {}

    def pictured(self, results: Iterable[Any]) -> set[str]:
        """Names of the rungs that a report shows pictures of."""
        return set()

    def remarks(self, results: Sequence[Any]) -> list[str]:
        """Remarks that belong to PASS or FAIL."""
        return []

    def untested(self, on_ground: bool) -> tuple[str, ...]:
        """What was not tested, with or without the ladders of ground."""
        return self.not_tested

    def worst(self, scenario: Scenario, rec: Trajectory, contract: Contract, name: str, at_least: bool) -> int:
        """Number of the robot that does worst by metric ``name``: the first that fell, where robots have no values."""
        values = self.measure(rec, contract, scenario)[name].values
        if len(values) != len(rec.mass) or not np.isfinite(values).any():
            values, at_least = (rec.fall_step >= 0).astype(float), False
        return int(np.nanargmin(values) if at_least else np.nanargmax(values))

    def explain(self, walk: FailedWalk, contract: Contract) -> Explanation:
        """What a robot that failed did, and when."""
        dt = walk.recording.control_dt
        end = walk.fell if walk.fell is not None else len(walk.recording.alive) * dt
        seen = fall_in_words(walk, contract) or f"{walk.result.title}: {walk.check.sentence()}"
        return Explanation(seen=(seen,), start=max(0.0, end - SHOWN), end=end)

    def evidence(self, scenario: Scenario, rec: Trajectory) -> Evidence | None:
        """What a report's plots need of one recording, if anything."""
        return joints_of(rec) if scenario.name == self.scenarios[0].name else None

    def sequence(self, contract: Contract) -> tuple[np.ndarray, tuple[str, ...]]:
        """Commands (T, D) of the report's film, and a label for each control step."""
        source = scripted(tour_of(contract, TOUR))
        told = [source(step * contract.control_dt) for step in range(round(TOUR / contract.control_dt))]
        labels = [", ".join(f"{value:g}" for value in each) for each in told]
        return np.array(told), tuple(labels)

    def showcase(self, plant: Plant, contract: Contract, policy: Any) -> Showcase:
        """One robot on the :meth:`sequence`. ``policy`` must be fresh and for one robot."""
        return run_showcase(plant, contract, policy, *self.sequence(contract))

    def followed(self, showcase: Showcase) -> np.ndarray | None:
        """What became of a velocity command, vx, vy and yaw rate (T, 3), for the film; None for other commands."""
        return None

    def strip(self, showcase: Showcase) -> dict[int, str]:
        """Control steps of the report's pictures, and their captions."""
        last = max(int(showcase.recording.alive[:, 0].sum()) - 1, 0)
        steps = np.linspace(0, last, PICTURES).round().astype(int).tolist()
        return {step: f"{(step + 1) * showcase.recording.control_dt:.1f} s" for step in steps}

    def shown(self) -> tuple[str, ...]:
        """Metrics in the report's table of all numbers."""
        return tuple(self.table)

    def sections(self, verdict: Any, evidence: Evidence, contract: Contract, climbs: Mapping[str, Strip]) -> list[Any]:
        """The suite's own sections of a report on a :class:`.Verdict`, of which the first stands above the scenarios.

        ``climbs`` are pictures of walks on rungs, by title.
        """
        return []


def check(suite: Suite) -> None:
    """Raise :class:`UserError` for a suite that does not fit together, before anything is run."""
    if isinstance(suite.bodies, str):
        raise UserError(f"suite {suite.version}: its bodies are {suite.bodies!r}: expected a tuple of names")
    for scenarios in (suite.scenarios, suite.examination, suite.courses):
        check_scenarios(suite, scenarios)
    if not any(scenario.required and scenario.limits for scenario in suite.scenarios):
        raise UserError(f"suite {suite.version}: no scenario is required and has a limit, so that nothing could fail")
    own = [each.name for each in suite.metrics]
    for each in suite.metrics:
        if own.count(each.name) > 1 or (each.measure is not None and each.name in _GENERAL):
            whose = "one of every suite's" if each.name in _GENERAL else "there twice"
            raise UserError(f"suite {suite.version}: metric {each.name!r} is {whose}: give yours another name")
        for need in each.needs:
            _known(f"suite {suite.version}: metric {each.name!r} needs", need, suite.needs)
        if each.measure is None and type(suite).measure is Suite.measure and each.name not in _GENERAL:
            raise UserError(
                f"suite {suite.version}: metric {each.name!r} has no measure: give it a function of a recording and "
                "its contract"
            )


def check_scenarios(suite: Suite, scenarios: Sequence[Scenario]) -> None:
    """Raise :class:`UserError` for scenarios that name what ``suite`` has not."""
    names = [scenario.name for scenario in scenarios]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"suite {suite.version}: two scenarios are named {twice[0]!r}")
    for scenario in scenarios:
        where = f"suite {suite.version}: scenario {scenario.name!r}"
        _known(f"{where} gives commands", scenario.commands, suite.kinds)
        needs = (*scenario.needs, *suite.kinds[scenario.commands].needs)
        for limit in scenario.limits:
            _known(f"{where} limits", limit.metric, suite.table)
            needs += limit.needs
        for need in needs:
            _known(f"{where} needs", need, suite.needs)


_GENERAL = {each.name for each in metric.GENERAL}


def _known(where: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(known) or 'none'}"
        raise UserError(f"{where} {name!r}, which the suite has not; {hint}")


def bodily(scenario: Scenario, plant: Plant) -> str:
    """Reason why a robot's body does not allow a scenario; empty if it does."""
    if plant.fixed_pose is not None and (scenario.push or any(scenario.payload) or np.isfinite(scenario.way)):
        return "its base is fixed: nothing pushes or loads it, and it goes nowhere"
    if plant.fixed_pose is not None and scenario.gait:
        return "it has no feet"
    return ""
