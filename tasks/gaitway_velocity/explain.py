"""What a walking robot that failed did: which foot, which joint, which velocity, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.pages.model import Figure, note
from gaitway_sim2real.trial.simulate import Trajectory
from gaitway_sim2real.trial.why import Explanation, FailedWalk, fall_in_words, told_in_words

from .gait import RAMP, Swings, find_swings, slip_of_steps, stances, window
from .gait_plots import feet_over_time
from .rest import at_rest
from .showcase import Showcase
from .themes import FOLLOWS, LIFTS, SLIDES, SMALL, STANDS, THEMES

BEFORE, AFTER = 3.0, 1.0
"""Time that is shown before and after the moment to look at [s]."""
RECENT = 1.0
"""Time after a push in which a fall is its consequence [s]."""


def explain(walk: FailedWalk, contract: Contract) -> Explanation:
    """Foot, joint or velocity that failed, with the moment, and the feet around it."""
    rec, name = walk.recording, walk.check.metric.name
    length = len(rec.alive) * rec.control_dt
    if walk.fell is not None:
        seen, moment = [fall_in_words(walk, contract) + _push_before(rec, walk.fell)], walk.fell
    else:
        said, moment = next((told for names, told in TOLD if name in names), _nothing)(walk, contract)
        told = told_in_words(rec.command[min(round(moment / rec.control_dt), len(rec.command) - 1), 0], contract)
        seen = [f"robot {walk.robot + 1} of {walk.scenario.envs}, told {told}: {said}"] if said else []
    start, end = max(0.0, moment - BEFORE), min(length, moment + AFTER)
    figures = _feet(walk, start, end) if rec.feet is not None and end - start > 0.2 else ()
    return Explanation(seen=tuple(seen), start=start, end=end, figures=figures)


def _push_before(rec: Trajectory, fell: float) -> str:
    pushed = np.flatnonzero(rec.push[:, 0].any(-1)) * rec.control_dt
    recent = pushed[(pushed <= fell) & (pushed > fell - 2.0 * RECENT)]
    return f", {fell - recent[-1]:.1f} s after a push" if len(recent) else ""


@dataclass(frozen=True)
class Feet:
    """Gait of one robot, foot by foot."""

    names: tuple[str, ...]
    swings: Swings
    seconds: float
    shape: tuple[int, int]
    slip: np.ndarray  # (S, F) [m/s], of loaded soles; NaN in the air

    @classmethod
    def of(cls, rec: Trajectory) -> Feet:
        feet = rec.feet
        assert feet is not None
        first, last = window(rec, feet)
        stance, _ = stances(feet, first, last)
        swings = find_swings(feet, stance, first, last)
        measured = (np.arange(len(feet.contact)) >= first[0]) & (np.arange(len(feet.contact)) < last[0])
        loaded = feet.contact[:, 0] & measured[:, None]
        slip = np.where(loaded, slip_of_steps(feet)[:, 0], np.nan)
        seconds = max(float(last[0] - first[0]) * feet.dt, feet.dt)
        return cls(feet.names, swings, seconds, (1, len(feet.names)), slip)

    def each(self, values: np.ndarray, how: str = "mean") -> np.ndarray:
        return self.swings.per_foot(values, self.shape, how)[0]

    def moment(self, foot: int, values: np.ndarray, dt: float) -> float:
        """Time of the foot's swing with the least of ``values`` (K,) [s]; the middle without a swing."""
        own = np.flatnonzero(self.swings.foot == foot)
        if not len(own):
            return RAMP + self.seconds / 2
        return float(self.swings.start[own[values[own].argmin()]]) * dt


def _others(names: tuple[str, ...], values: np.ndarray, worst: int, say: Callable[[float], str]) -> str:
    rest = ", ".join(f"{name} {say(values[k])}" for k, name in enumerate(names) if k != worst)
    return f" ({rest})" if rest else ""


def _lifts(walk: FailedWalk, contract: Contract) -> tuple[str, float]:
    """The foot that is lifted least, for the shortest time or most rarely."""
    rec = walk.recording
    assert rec.feet is not None
    feet, check = Feet.of(rec), walk.check
    peaks, lengths, count = (
        feet.each(feet.swings.peak, "median"), feet.each(feet.swings.seconds), feet.swings.count(feet.shape)[0],
    )  # fmt: skip
    if not count.any():
        return "no foot is lifted", RAMP
    centimetres: Callable[[float], str] = "{:.1f} cm".format
    if check.metric.name in ("clearance", "dragging_feet"):
        k = int(peaks.argmin())
        said = (
            f"{feet.names[k]} is lifted {centimetres(100 * peaks[k])}" if count[k] else f"{feet.names[k]} never lifts"
        )
        said += _others(feet.names, 100 * peaks, k, centimetres)
        moment = feet.moment(k, feet.swings.peak, rec.feet.dt)
    elif check.metric.name == "step_rate":
        k = int(count.argmax())
        rates: Callable[[float], str] = "{:.1f}".format
        said = f"{feet.names[k]} steps {rates(count[k] / feet.seconds)} times a second"
        said += _others(feet.names, count / feet.seconds, k, rates)
        moment = feet.moment(k, feet.swings.seconds, rec.feet.dt)
    else:
        k = int(lengths.argmin())
        times: Callable[[float], str] = "{:.2f} s".format
        said = f"{feet.names[k]} swings for {times(lengths[k])}" if count[k] else f"{feet.names[k]} never swings"
        said += _others(feet.names, lengths, k, times)
        moment = feet.moment(k, feet.swings.seconds, rec.feet.dt)
    allowed = f"{'at least' if check.at_least else 'at most'} {check.said(check.limit)}"
    return f"{said}; {check.title} must be {allowed}; see {moment:.1f} s", moment


def _slides(walk: FailedWalk, contract: Contract) -> tuple[str, float]:
    """The foot that slides most."""
    rec, feet = walk.recording, Feet.of(walk.recording)
    assert rec.feet is not None
    mean = np.array([np.nanmean(col) if np.isfinite(col).any() else 0.0 for col in feet.slip.T])
    k = int(mean.argmax())
    box = np.ones(max(1, round(0.1 / rec.feet.dt)))
    moment = float(np.convolve(np.nan_to_num(feet.slip[:, k]), box, "same").argmax()) * rec.feet.dt
    speeds: Callable[[float], str] = "{:.2f} m/s".format
    said = f"{feet.names[k]} slides with {speeds(mean[k])}{_others(feet.names, mean, k, speeds)}"
    return f"{said}; allowed are {walk.check.said(walk.check.limit)}; most at {moment:.1f} s", moment


def _follows(walk: FailedWalk, contract: Contract) -> tuple[str, float]:
    """Mean velocities beside the commanded ones, and the second with the largest error."""
    rec = walk.recording
    after = min(round(RAMP / rec.control_dt), len(rec.alive) // 2)
    measured = np.concatenate([rec.lin_vel[:, 0, :2], rec.ang_vel[:, 0, 2:]], 1).astype(float)
    error = rec.command[:, 0] - measured
    turning = walk.check.metric.name.startswith(("yaw", "heading"))
    size = np.abs(error[:, 2]) if turning else np.linalg.norm(error[:, :2], axis=1)
    box = np.ones(max(1, round(1.0 / rec.control_dt)))
    moment = (after + float(np.convolve(size[after:], box / len(box), "same").argmax())) * rec.control_dt
    vx, vy, yaw = measured[after:].mean(0)
    sway = (
        float(np.abs(error[after:, 2] - error[after:, 2].mean()).mean())
        if turning
        else float(np.linalg.norm(error[after:, :2] - error[after:, :2].mean(0), axis=1).mean())
    )
    unit = "rad/s" if turning else "m/s"
    went = f"it goes {vx:.2f}, {vy:.2f} m/s and turns {yaw:.2f} rad/s on average, and sways by {sway:.2f} {unit}"
    return f"{went}; {walk.check.sentence()}; most off at {moment:.1f} s", moment


def _stands(walk: FailedWalk, contract: Contract) -> tuple[str, float]:
    """The foot that steps, or the joint that moves most, at rest."""
    rec = walk.recording
    rest = at_rest(rec)[:, 0]
    if walk.check.metric.name in ("stop_time", "stop_way") or not rest.any():
        told = np.asarray(rec.command[:, 0].any(-1))
        moment = float(len(told) - told[::-1].argmax()) * rec.control_dt
        speed = float(np.linalg.norm(rec.lin_vel[-1, 0, :2]))
        return (
            f"{walk.check.sentence()}; its command ends at {moment:.1f} s, and at the end it goes {speed:.2f} m/s",
            moment,
        )
    if walk.check.metric.name == "steps_at_rest":
        lifted = ~rec.foot_contact[:, 0] & rest[:, None]
        step, k = np.argwhere(lifted)[0].tolist() if lifted.any() else (int(rest.argmax()), 0)
        moment, name = float(step) * rec.control_dt, walk.plant.foot_names[k]
        return (
            f"{name} steps at {moment:.1f} s; {int(lifted.any(0).sum())} of its feet step while it is to stand",
            moment,
        )
    moves = np.where(rest[:, None], np.abs(rec.joint_vel[:, 0]), 0.0)
    usual = np.asarray(np.sqrt((moves[rest] ** 2).mean(0)))
    k = int(usual.argmax())
    moment = float(moves[:, k].argmax()) * rec.control_dt
    said = f"{contract.joint_names[k]} moves most at rest, with {usual[k]:.2f} rad/s"
    return f"{said}; {walk.check.sentence()}; see {moment:.1f} s", moment


def _nothing(walk: FailedWalk, contract: Contract) -> tuple[str, float]:
    return walk.check.sentence(), RAMP


Told = Callable[[FailedWalk, Contract], tuple[str, float]]
_OF: dict[str, Told] = {LIFTS: _lifts, SLIDES: _slides, FOLLOWS: _follows, STANDS: _stands, SMALL: _follows}
TOLD: tuple[tuple[frozenset[str], Told], ...] = tuple(
    (frozenset(name for name, about in THEMES.items() if about == theme), told) for theme, told in _OF.items()
)


def _feet(walk: FailedWalk, start: float, end: float) -> tuple[object, ...]:
    """The feet over time around the moment."""
    limits = {check.metric.name: check.limit for check in walk.result.checks}
    rec = walk.recording
    shown = Showcase(recording=rec, labels=("",) * len(rec.alive), foot_x=np.zeros((0, 0)))
    drawn = feet_over_time(shown, start, end, clearance=limits.get("clearance"), slip=limits.get("slip"))
    legend = ("stance", "on the ground"), ("slide", "slips more than is allowed"), ("command", "height")
    return (
        Figure(drawn, f"{walk.result.title}, robot {walk.robot + 1}, from {start:.1f} to {end:.1f} s"),
        Figure("", legend=legend),
        note("Height: lowest point of the foot; a full row is 12 cm. Right: time on the ground."),
    )
