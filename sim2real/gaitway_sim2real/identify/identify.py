"""Identification: from flights to the parameters of a robot."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_files.errors import NotDone
from gaitway_onboard.interface import Array
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

from .drive_log import DriveLog, IdentificationError
from .hung_model import KINDS, HungModel, Values
from .identifiability import weaknesses
from .least_squares import Solution, solve
from .prediction import HeldOutWindows, PredictionErrors
from .rough import guess_delay, rough_fit
from .unknowns import COMMON, Unknowns, choose
from .windows import Windows, cut

DT = 0.002  # [s]
HELD_OUT = 5  # every fifth window judges
FEW = 3  # every third window is enough to come near
FEW_ITERATIONS, ITERATIONS = 7, 3
FEWEST_WINDOWS = 4
EXPLAINED = 0.2  # of the motion: what a second's prediction may miss before the parameters are worth nothing


class UnexplainedError(NotDone):
    """A flight that the best parameters do not explain."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification:
    """Result of an identification, with its reliability."""

    robot: Robot
    parameters: RobotParameters
    unknowns: Unknowns
    solution: Solution
    weak: list[str]
    """Sentences on what the data could not tell."""
    nominal: Values
    values: Values
    before: PredictionErrors
    """Errors of the model as it is."""
    after: PredictionErrors
    held_out: HeldOutWindows
    model: HungModel
    seconds: float
    """Length of the used motion [s]."""
    cpu_seconds: float
    sources: tuple[str, ...]

    @property
    def missed(self) -> float:
        """Share of the motion over a second that the parameters do not predict, held-out windows."""
        return float(np.sqrt((self.after.roll_pos**2).mean() / (self.held_out.spread**2).mean()))

    def summary(self) -> str:
        """A few lines for a terminal."""
        std = np.sqrt(np.diag(self.solution.covariance))
        lines = [
            f"{item.name} {1e3 * value:.2f} +- {2e3 * deviation:.2f} ms"
            for item, value, deviation in zip(self.unknowns.items, self.solution.theta, std, strict=True)
            if item.kind in COMMON
        ]
        for kind in KINDS:
            values = self.values.joints[kind]
            at = [number for number, item in enumerate(self.unknowns.items) if item.kind == kind]
            sure = f", +- {2 * std[at].mean():.2g}" if at else ", held"
            lines.append(f"{kind} {values.min():.3g} to {values.max():.3g}{sure}")
        lines += [f"not told: {line}" for line in self.weak]
        lines.append(
            f"a second ahead, joints are off by {_milli(self.before.roll_pos)} -> {_milli(self.after.roll_pos)} mrad, "
            f"20 ms ahead by {_milli(self.before.step_pos)} -> {_milli(self.after.step_pos)} mrad (held-out motion)"
        )
        return "\n".join(lines)

    def check(self) -> None:
        """Raise :class:`UnexplainedError` if the parameters must not be used."""
        if not self.missed <= EXPLAINED:
            raise UnexplainedError(
                f"the best parameters miss {self.missed:.0%} of the motion over a second (at most {EXPLAINED:.0%}): "
                "did a foot touch something, did the base move, or is the model of another robot? Nothing was written"
            )


def identify(
    logs: Sequence[DriveLog],
    robot: Robot,
    *,
    share: str = "joint",
    model: Path | None = None,
    dt: float = DT,
    seed: int = 0,
    threads: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Identification:
    """Fit ``robot`` to what it did on a stand.

    ``share`` says which joints have numbers in common, see :func:`.unknowns.choose`. ``model`` is another MJCF of the
    robot. ``dt`` [s] is the physics step, ``seed`` that of the rough search, ``threads`` those of the physics, 0 for
    all cores. Raises :class:`IdentificationError` where the flights tell too little.
    """
    started = time.process_time()
    windows = cut(logs)
    if len(windows) < FEWEST_WINDOWS:
        raise IdentificationError(
            f"{', '.join(log.source for log in logs)}: {len(windows)} windows of motion are too few (at least "
            f"{FEWEST_WINDOWS}): record an excitation of at least 10 s"
        )
    if (ratio := windows.period / dt) < 1.0 - 1e-6 or abs(ratio - round(ratio)) > 1e-3:
        dt = windows.period / max(1, round(ratio))
    hung = HungModel(robot, model or robot.mjcf, dt, threads)
    fit, held_out = _split(windows)
    delay = guess_delay(fit)
    say(f"{len(windows)} windows, {_seconds(windows):.0f} s of motion; delay roughly {1e3 * delay:.1f} ms")
    rough = rough_fit(hung, fit, delay, seed=seed)
    say(f"rough fit: {_shared(rough)}")
    unknowns = choose(hung, fit.damping.mean(0), share=share, has_torque=fit.torque is not None)
    theta = _theta(unknowns, rough)
    iterations = FEW_ITERATIONS
    if len(fit) >= 4 * FEW:
        some = fit.take(slice(None, None, FEW))
        near = solve(hung, some, unknowns, theta, iterations=iterations, say=lambda text: say(f"part of it, {text}"))
        theta, iterations = near.theta, ITERATIONS
    solution = solve(hung, fit, unknowns, theta, iterations=iterations, say=lambda text: say(f"all of it, {text}"))
    values, unseen = unknowns.values(solution.theta), HeldOutWindows.of(held_out)
    return Identification(
        robot=robot,
        parameters=_parameters(robot, unknowns, solution),
        unknowns=unknowns,
        solution=solution,
        weak=weaknesses(unknowns, solution, has_torque=fit.torque is not None),
        nominal=hung.nominal,
        values=values,
        before=unseen.errors(hung, hung.nominal),
        after=unseen.errors(hung, values),
        held_out=unseen,
        model=hung,
        seconds=_seconds(windows),
        cpu_seconds=time.process_time() - started,
        sources=tuple(log.source for log in logs),
    )


def _milli(errors: Array) -> str:
    return f"{1e3 * float(np.sqrt((errors**2).mean())):.2f}"


def _split(windows: Windows) -> tuple[Windows, Windows]:
    """Windows to fit and windows to judge by."""
    held = np.arange(len(windows)) % HELD_OUT == HELD_OUT // 2
    return windows.take(~held), windows.take(held)


def _seconds(windows: Windows) -> float:
    return float(windows.scored.sum() * windows.period)


def _shared(values: Values) -> str:
    means = ", ".join(f"{kind} {values.joints[kind].mean():.3g}" for kind in KINDS)
    return f"delay {1e3 * values.delay:.1f} ms, {means}"


def _theta(unknowns: Unknowns, values: Values) -> Array:
    low, high = unknowns.bounds
    numbers = [
        getattr(values, item.kind) if item.kind in COMMON else values.joints[item.kind][list(item.joints)].mean()
        for item in unknowns.items
    ]
    return np.clip(np.array(numbers, float), low, high)


def _parameters(robot: Robot, unknowns: Unknowns, solution: Solution) -> RobotParameters:
    values, names = unknowns.values(solution.theta), robot.joint_names
    std = {}
    for item, deviation in zip(unknowns.items, np.sqrt(np.diag(solution.covariance)), strict=True):
        if item.kind == "delay":
            std["delay"] = float(deviation)
        std |= {f"joints.{names[joint]}.{item.kind}": float(deviation) for joint in item.joints}
    return RobotParameters(
        robot=robot.name,
        joints={
            name: JointParameters(**{kind: float(values.joints[kind][index]) for kind in KINDS})
            for index, name in enumerate(names)
        },
        delay=values.delay,
        std=std,
    )
