"""The suite of walking: what policies that follow a velocity are judged on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.mujoco.floors import FIRM
from gaitway_sim2real.mujoco.plant import Plant
from gaitway_sim2real.trial.evidence import Evidence, Strip, joints_of
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.metric import level
from gaitway_sim2real.trial.scenario import Scenario, shorter
from gaitway_sim2real.trial.sensitivity import sensitivity
from gaitway_sim2real.trial.simulate import Policy, Trajectory
from gaitway_sim2real.trial.suite import PICTURES, Suite
from gaitway_sim2real.trial.why import Explanation, FailedWalk

from . import showcase
from .causes import CAUSES
from .command_classes import CLASSES
from .commands import KINDS, walks_a_class
from .corners import corner_of, fallen_corners
from .gait import gait_metrics, one_stride
from .knots import KNOTS
from .levels import LEVELS
from .limits import CORNERS
from .metrics import GAIT, METRICS, measure
from .needs import NEEDS, Subject
from .response import AXES, Response, least_answered
from .rough import GROUND_VERSION, ROUGH, pictured
from .scenarios import SCENARIOS, SUITE_VERSION, not_tested
from .small_commands import SMALL_KINDS, SMALL_METRICS, dead_zones, small_samples
from .themes import THEMES
from .tour import TOURS
from .track_record import track_record
from .variants import CONTACT, FACTORS, NOMINAL, spreads


@dataclass(frozen=True, kw_only=True)
class VelocitySuite(Suite):
    """A suite of walking."""

    def subject(self, contract: Contract, plant: Plant) -> Subject:
        return Subject.of(contract, plant)

    def measure(self, rec: Trajectory, contract: Contract, scenario: Scenario) -> dict[str, Samples]:
        return measure(rec, contract, walks_a_class(scenario)) | small_samples(rec, scenario)

    def marks(self, rec: Trajectory, contract: Contract) -> np.ndarray:
        """Index of each robot's corner of the command ranges, (N,); -1 for the others."""
        return corner_of(rec.command[0], np.array(contract.command_ranges))

    def judged(
        self, scenario: Scenario, samples: Mapping[str, Samples], marks: np.ndarray, contract: Contract
    ) -> tuple[Mapping[str, Samples], dict[str, tuple[str, ...]]]:
        """Robots at corners at which they fall are a fact about a command, and no share of falls."""
        if CORNERS not in scenario.limits:
            return samples, {}
        falls = samples["falls"]
        names, aside = fallen_corners(marks, falls.values, np.array(contract.command_ranges))
        others = replace(falls, values=falls.values[~aside])
        return {**samples, "falls": others, "corner_falls": level(float(len(names)))}, {"corner_falls": tuple(names)}

    def remarks(self, results: Sequence[Any]) -> list[str]:
        """The worst floor, foot or solver, how far apart they are, and the commands that are ignored."""
        pairs = [(r, c) for r in results if r.required and r.factor in CONTACT for c in r.checks]
        worst = max(pairs, key=lambda pair: pair[1].used, default=None)
        said = [] if worst is None else [f"worst floor: {worst[0].title}, {worst[1].sentence()}"]
        return said + spreads(sensitivity(results, self)) + dead_zones(results)

    def untested(self, on_ground: bool) -> tuple[str, ...]:
        return not_tested(on_ground)

    def pictured(self, results: Iterable[Any]) -> set[str]:
        return pictured(results)

    def worst(self, scenario: Scenario, rec: Trajectory, contract: Contract, name: str, at_least: bool) -> int:
        if scenario.commands in AXES and name != "falls":
            return least_answered(rec, AXES[scenario.commands])
        if name not in GAIT or rec.feet is None:
            return super().worst(scenario, rec, contract, name, at_least)
        values = np.where(walks_a_class(scenario), gait_metrics(rec, rec.feet)[name], np.nan)
        if not np.isfinite(values).any():
            return 0
        return int(np.nanargmin(values) if at_least else np.nanargmax(values))

    def explain(self, walk: FailedWalk, contract: Contract) -> Explanation:
        from .explain import explain

        return explain(walk, contract)

    def evidence(self, scenario: Scenario, rec: Trajectory) -> Evidence | None:
        from .plots import Grid

        if scenario.commands in AXES:
            return Evidence(own={scenario.commands: Response.of(rec, AXES[scenario.commands])})
        return replace(joints_of(rec), own={"grid": Grid.of(rec)}) if scenario.commands == "grid" else None

    def sequence(self, contract: Contract) -> tuple[np.ndarray, tuple[str, ...]]:
        return showcase.command_sequence(contract)

    def showcase(self, plant: Plant, contract: Contract, policy: Policy) -> showcase.Showcase:
        return showcase.run_showcase(plant, contract, policy)

    def followed(self, shown: Any) -> np.ndarray:
        rec = shown.recording
        return np.hstack([rec.lin_vel[:, 0, :2], rec.ang_vel[:, 0, 2:]])

    def strip(self, shown: Any) -> dict[int, str]:
        """One stride of the first kind of walking; empty if the robot fell before."""
        windows = shown.windows()
        if not windows:
            return {}
        _, start, end = windows[0]
        start, end = one_stride(shown.feet, start, end)
        rec, feet, steps = shown.recording, shown.feet, {}
        for time in np.linspace(start, end, PICTURES, endpoint=False):
            down = feet.contact[min(round(time / feet.dt), len(feet.contact) - 1), 0]
            standing = ", ".join(name for name, on in zip(feet.names, down, strict=True) if on)
            step = min(round(time / rec.control_dt), len(rec.qpos) - 1)
            steps[step] = f"{time - start:.2f} s: {standing or 'all feet in the air'}"
        return steps

    def shown(self) -> tuple[str, ...]:
        from .sections import TABLE_METRICS

        return TABLE_METRICS

    def sections(self, verdict: Any, evidence: Evidence, contract: Contract, climbs: Mapping[str, Strip]) -> list[Any]:
        from .sections import sections

        return sections(verdict, evidence, contract, climbs)


def _short(name: str, **changes: Any) -> Scenario:
    return shorter(next(scenario for scenario in SCENARIOS if scenario.name == name), **changes)


SUITE = VelocitySuite(
    version=SUITE_VERSION,
    scenarios=SCENARIOS,
    metrics=(*METRICS.values(), *SMALL_METRICS),
    commands={**KINDS, **SMALL_KINDS},
    needs=NEEDS,
    examination=(
        *(_short(f"gait_{name}", envs=6, seconds=6.0) for name in (*CLASSES, "turning_carpet")),
        _short("command_grid", envs=60, seconds=8.0, commands="small_grid"),
        _short("straight", envs=4, seconds=10.0),
        _short("standing", envs=8, seconds=7.0),
        _short("stops", envs=48, seconds=7.0),
        _short("command_steps", envs=12, seconds=7.0),
    ),
    courses=ROUGH,
    courses_version=GROUND_VERSION,
    nominal=NOMINAL,
    factors=FACTORS,
    key_metrics=(
        "lin_vel_error", "yaw_vel_error", "falls", "slip", "swing_time", "step_rate", "clearance", "cost_of_transport",
    ),
    compared=(
        "lin_vel_error", "yaw_vel_error", "falls", "swing_time", "step_rate", "clearance", "slip", "dragging_feet",
        "stumbles", "cost_of_transport", "torque_rms",
    ),
    tour=TOURS,
    knots=KNOTS,
    track_record=track_record(SUITE_VERSION),
    levels=LEVELS,
    themes=THEMES,
    causes=CAUSES,
    film_physics=FIRM,
    film_note="Arrows show commanded and measured velocity.",
)  # fmt: skip
