"""The trial without faults: lying, standing up, the command script again and again, lying down, without a trip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import OWN_VELOCITY
from gaitway_onboard.control.commands import Script, scripted, tour
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.control.loop import Period
from gaitway_tasks.ground import LEVEL, Ground

from ..digital_twin.quirks import Quirks
from ..mujoco.robots import MAX_TILT, MIN_HEIGHT
from .stage import Stage, hangs
from .trace import Trace
from .verdict import NOMINAL, Trial, TrialCheck

LAP = 27.0
"""Length of one tour of the trained commands [s]."""
OWN_ERROR = "velocity as the policy estimates it, off by [m/s rms]"
LINEAR, LINEAR_ON_TWO, YAW = 0.15, 0.20, 0.15
"""Largest mean velocity error [m/s], of robots with two feet too, and yaw rate error [rad/s]: those of the suite."""
SETTLE = 1.0
"""After a change of command, the velocity is not judged for this long [s]."""


def laps(contract: Contract, seconds: float) -> Script:
    """The tour of the trained commands, as often as ``seconds`` hold it; at least once, then faster."""
    count = max(1, round(seconds / LAP))
    length = seconds / count
    return [
        (lap * length + time, command)
        for lap in range(count)
        for time, command in tour(contract.command_ranges, length)
    ]


def rehearse_nominal(
    bundle: Path,
    hardware: Hardware,
    *,
    seconds: float,
    quirks: Quirks,
    seed: int = 0,
    model: Path | None = None,
    ground: Ground = LEVEL,
) -> tuple[Trial, Trace]:
    """``seconds`` of policy."""
    stage = Stage(bundle, hardware, quirks=quirks, seed=seed, model=model, ground=ground)
    contract = stage.policy.contract
    film, carried = _Film(stage), hangs(hardware)

    def look(period: Period) -> None:
        if carried:
            stage.carry(period.mode is not Mode.POLICY)
        film.take(period)

    performance = stage.perform(scripted(laps(contract, seconds)), seconds, on_period=look)
    trace = film.trace(seconds / max(1, round(seconds / LAP)))
    linear, yaw = trace.errors(SETTLE)
    report, audit = performance.report, performance.audit
    walked = len(trace.time) * contract.control_dt / seconds
    limit = LINEAR_ON_TWO if len(contract.foot_bodies) == 2 else LINEAR
    checks = (
        TrialCheck("falls", film.falls(contract), 0),
        TrialCheck("trips", performance.trips, 0),
        TrialCheck("policy periods with a clamped command", report.clamped if report else np.nan, 0),
        TrialCheck("share of the script walked", walked, 0.999, at_least=True),
        TrialCheck("mean velocity error", linear, limit, "m/s"),
        TrialCheck("mean yaw rate error", yaw, YAW, "rad/s"),
        *audit.checks(),
        TrialCheck("frames with stiffness after the end", _stiff_after_end(stage), 0),
    )
    start, end = ("Hung on a stand, let down", "hung up") if carried else ("Lying, standing up", "lying down")
    where = "" if ground == LEVEL else f", on {ground.title.lower()}"
    trial = Trial(
        group=NOMINAL,
        name="command script",
        about=f"{start}, {seconds:g} s of the command script, {end}{where}; {_words(quirks)}.",
        outcome=performance.outcome,
        checks=checks,
        facts={
            "command frames": float(len(audit.frames)),
            "distance walked [m]": film.distance,
            "fastest [m/s]": float(np.linalg.norm(trace.velocity[:, :2], axis=1).max()) if len(trace.time) else 0.0,
            "largest tilt [rad]": float(trace.tilt.max()) if len(trace.time) else np.nan,
            "lowest height [m]": float(trace.height.min()) if len(trace.time) else np.nan,
            **film.own_error(),
            "late policy periods": float(stage.witness.late),
            "frames of all modes with a target moved by more than 1 mrad": float(stage.witness.moved),
        },
    )
    return trial, trace


def _stiff_after_end(stage: Stage) -> float:
    """Frames with stiffness after the last mode, damping, began."""
    end = stage.witness.since(Mode.DAMP)
    return np.nan if end is None else float(sum(frame.stiff for frame in stage.audit.since(end)))


def _words(quirks: Quirks) -> str:
    return (
        f"{100 * quirks.loss:g} % of the states and {100 * quirks.command_loss:g} % of the commands lost, "
        f"up to {1e3 * quirks.jitter:g} ms late"
    )


class _Film:
    """Looks at the twin's truth once per policy period."""

    def __init__(self, stage: Stage):
        self.stage, self.distance = stage, 0.0
        self._rows: list[tuple[float, ...]] = []
        self._steps = self._first_frame = 0
        self._last: np.ndarray | None = None
        self._own = np.full(3, np.nan)
        self._own_errors: list[np.ndarray] = []
        self._every = round(stage.policy.contract.control_dt / stage.robot.period)

    def take(self, period: Period) -> None:
        if period.mode is not Mode.POLICY:
            return
        self._compare_own()
        self._steps += 1
        if self._steps % self._every:
            return
        truth = self.stage.twin.truth()
        frames = self.stage.audit.frames
        share = max((frame.share for frame in frames[self._first_frame :]), default=np.nan)
        self._first_frame = len(frames)
        if self._last is not None:
            self.distance += float(np.linalg.norm(truth.base_pos[:2] - self._last))
        self._last = truth.base_pos[:2].copy()
        velocity = (*truth.base_lin_vel[:2], truth.base_ang_vel[2])
        self._rows.append((period.time, *period.command, *velocity, truth.height, truth.tilt, share))

    def _compare_own(self) -> None:
        """Record the distance of a new estimate of the policy from the true velocity that it estimates."""
        own = self.stage.policy.estimates.get(OWN_VELOCITY)
        if own is not None and (own != self._own).any():
            self._own = own
            self._own_errors.append(own - self.stage.twin.truth().base_lin_vel)

    def own_error(self) -> dict[str, float]:
        """Root mean square error of the velocity of the base that the policy estimates for itself, if it does."""
        if not self._own_errors:
            return {}
        return {OWN_ERROR: float(np.sqrt((np.array(self._own_errors) ** 2).sum(1).mean()))}

    def trace(self, lap: float) -> Trace:
        rows = np.array(self._rows).reshape(-1, 10)
        return Trace(
            time=rows[:, 0] - (rows[0, 0] if len(rows) else 0.0),
            command=rows[:, 1:4],
            velocity=rows[:, 4:7],
            height=rows[:, 7],
            tilt=rows[:, 8],
            share=rows[:, 9],
            lap=lap,
        )

    def falls(self, contract: Contract) -> float:
        """1 if the base was ever tilted or low as the validation suite defines a fall."""
        trace = self.trace(0.0)
        fallen = (trace.tilt > MAX_TILT) | (trace.height < MIN_HEIGHT * contract.init_height)
        return float(fallen.any()) if len(fallen) else np.nan
