"""``gaitway run``: a bundle walks a robot in a lockstep simulation. Needs MuJoCo, never torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from gaitway_onboard.bundle.contract import BundleError, verify_files
from gaitway_onboard.bundle.parts import OWN_VELOCITY
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.commands import CommandSource, Script, check_range, scripted, tour_of
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.control.loop import LoopReport, Period, run_loop
from gaitway_onboard.interface import Array
from gaitway_tasks.ground import LEVEL, Ground

from ..mujoco.estimates import estimates_note
from ..mujoco.film import COMPONENTS, check_video_path, film
from .robot import LockstepRobot

TOLD = 0.2
"""Commands below this are not judged [m/s], [rad/s]: standing still is no share of them."""
JUDGED_S = 1.5
"""Shortest time of commands that is judged [s]; a robot needs some of it to speed up."""
FOLLOWS = 0.5
"""Share of the speed told, along the command, below which a robot does not follow."""


@dataclass
class Tracking:
    """Commands and what became of them, one row per policy period."""

    robot: LockstepRobot
    policy: OnboardPolicy
    echo: Callable[[str], None]
    rate: int
    command: list[tuple[float, ...]] = field(default_factory=list)
    velocity: list[Array] = field(default_factory=list)
    torque: list[float] = field(default_factory=list)
    own: list[Array] = field(default_factory=list)
    """Velocity of the base as the policy estimates it [m/s], (3,) each, if it does."""
    true: list[Array] = field(default_factory=list)

    @property
    def follows_velocity(self) -> bool:
        return self.policy.contract.follows_velocity

    def add(self, command: tuple[float, ...]) -> None:
        self.torque.append(float(np.abs(self.robot.data.qfrc_actuator[self.robot.plant.joint_dof]).max()))
        if self.follows_velocity:
            self._add_velocity(command)
            return
        if not self.command:
            numbers = " ".join(f"{name:>8}" for name in self.policy.contract.command_names)
            self.echo(f"   t [s] | command {numbers} | peak torque [N m]")
        self.command.append(command)
        if len(self.command) % self.rate == 0:
            numbers = " ".join(f"{value:8.2f}" for value in np.mean(self.command[-self.rate :], axis=0))
            peak = max(self.torque[-self.rate :])
            self.echo(f"{len(self.command) / self.rate:8.0f} |         {numbers} | {peak:17.1f}")

    def _add_velocity(self, command: tuple[float, ...]) -> None:
        own = self.policy.estimates.get(OWN_VELOCITY)
        if not self.command:
            estimated = [] if own is None else ["estimated vx    vy    vz"]
            heads = ["   t [s]", "  command vx    vy   yaw", " measured vx    vy   yaw", *estimated]
            self.echo(" | ".join([*heads, "height [m]", "peak torque [N m]"]))
        self.command.append(command)
        self.velocity.append(self.robot.base_velocity())
        if own is not None:
            self.own.append(own)
            self.true.append(self.robot.lin_vel())
        if len(self.command) % self.rate == 0:
            means = [_triple(np.mean(rows[-self.rate :], axis=0)) for rows in (self.command, self.velocity)]
            if self.own:
                means.append(_triple(np.mean(self.own[-self.rate :], axis=0)))
            height, peak = f"{self.robot.base_height():10.3f}", f"{max(self.torque[-self.rate :]):17.1f}"
            self.echo(" | ".join([f"{len(self.command) / self.rate:8.0f}", *means, height, peak]))

    def errors(self) -> tuple[float, float]:
        """Mean linear [m/s] and yaw rate [rad/s] error; NaN where the command is no velocity."""
        if not self.command or not self.follows_velocity:
            return float("nan"), float("nan")
        error = np.array(self.command) - np.array(self.velocity)
        return float(np.linalg.norm(error[:, :2], axis=1).mean()), float(np.abs(error[:, 2]).mean())

    def shares(self) -> tuple[float, float]:
        """Shares of the linear and of the turning speed told that the robot went; NaN if too little was told to judge.

        They are least squares slopes of measured over told velocity: 1 follows, 0 stands, negative goes backwards.
        """
        if not self.command or not self.follows_velocity:
            return float("nan"), float("nan")
        told, went = np.array(self.command), np.array(self.velocity)
        return self._share(told[:, :2], went[:, :2]), self._share(told[:, 2:], went[:, 2:])

    def _share(self, told: Array, went: Array) -> float:
        judged = np.linalg.norm(told, axis=1) >= TOLD
        if judged.sum() < JUDGED_S * self.rate:
            return float("nan")
        return float((told[judged] * went[judged]).sum() / (told[judged] ** 2).sum())

    def own_error(self) -> float | None:
        """Root mean square distance of the policy's own estimate of the base's velocity from the true one [m/s]."""
        if not self.own:
            return None
        return float(np.sqrt(((np.array(self.own) - np.array(self.true)) ** 2).sum(1).mean()))


@dataclass(frozen=True, kw_only=True)
class RunReport:
    loop: LoopReport
    linear_error: float
    """Mean over the policy's time [m/s]; changes of command included."""
    yaw_error: float
    """[rad/s]"""
    distance: float
    """Distance between start and end [m]."""
    shares: tuple[float, float] = (float("nan"), float("nan"))
    """Shares of the linear and of the turning speed told that the robot went; NaN if not judged."""
    own_error: float | None = None
    """Root mean square error of the velocity of the base that the policy estimates for itself [m/s], if it does."""

    @property
    def lag(self) -> str:
        """What the robot does not follow, in words; empty if it follows."""
        slow = [
            f"{100 * max(share, 0.0):.0f} % of the {kind} told"
            for share, kind in zip(self.shares, ("speed", "turning"), strict=True)
            if share < FOLLOWS
        ]
        return f"goes {' and '.join(slow)}" if slow else ""

    @property
    def exit_code(self) -> int:
        """0 after a run to its end or an asked-for stop, also of a robot that does not follow; 1 after a trip."""
        return 0 if self.loop.ok else 1


def run_bundle(
    bundle: str | Path,
    seconds: float,
    *,
    command: Script | None = None,
    model: str | Path | None = None,
    video: str | Path | None = None,
    log: str | Path | None = None,
    realtime: bool = False,
    ground: Ground = LEVEL,
    echo: Callable[[str], None] = print,
    frames: Callable[[range], Iterable[int]] = iter,
) -> RunReport:
    """Walk the simulated robot of ``bundle`` for ``seconds`` of policy, printing a line per second and a summary.

    It walks on ``ground``, from its origin.

    ``command`` defaults to a tour of the trained commands; ``video`` (.mp4) and ``log``, a flight (.mcap), are written
    when named. ``frames`` goes through the frames of the video, as ``iter`` does, and may say how far it is.
    """
    if not 0.0 < seconds < float("inf"):
        raise BundleError(f"seconds = {seconds}: a run needs a length above zero")
    verify_files(bundle)
    if video is not None:
        check_video_path(Path(video))
    robot = LockstepRobot(bundle, model, realtime=realtime, visual=video is not None, ground=ground)
    policy = OnboardPolicy(bundle, robot.joint_names)
    contract = policy.contract
    script = command or tour_of(contract, seconds)
    check_range(script, contract)
    source: CommandSource = scripted(script)
    tracking = Tracking(robot, policy, echo, max(1, round(1.0 / contract.control_dt)))
    filmed: list[tuple[Array, tuple[float, ...], Array, str]] = []

    falls_alone = len(contract.foot_bodies) < 4 and not contract.fixed_base  # on two feet it stands by its policy alone
    robot.hold(falls_alone)

    def on_period(period: Period) -> None:
        robot.hold(falls_alone and period.mode is not Mode.POLICY)
        if period.mode is Mode.POLICY:
            tracking.add(period.command)
        if video is not None:
            filmed.append((robot.data.qpos.copy(), period.command, robot.base_velocity(), period.mode.value))

    body = Path(model).name if model else "its own model"
    where = "" if ground == LEVEL else f", on {ground.title.lower()}"
    joints, rate = f"{len(robot.joint_names)} joints matched by name", f"policy at {1 / contract.control_dt:g} Hz"
    echo(f"{contract.task} on {body}{where}: {joints}, recording replayed, {rate}")
    for note in estimates_note(contract):
        echo(note)
    start = robot.plant.base_pose(robot.data.qpos)[:2].copy()
    end = start
    with contextlib.ExitStack() as stack:
        stack.callback(robot.close)
        flight = None
        if log is not None:
            from gaitway_onboard.flight.opening import open_flight

            flight = open_flight(log, robot.joint_names, {}, realtime=False, bundle=bundle)
            stack.callback(flight.close)
        report = run_loop(robot, policy, source, seconds, flight=flight, on_period=on_period)
        end = robot.plant.base_pose(robot.data.qpos)[:2]
    linear, yaw = tracking.errors()
    result = RunReport(
        loop=report,
        linear_error=linear,
        yaw_error=yaw,
        distance=float(np.linalg.norm(end - start)),
        shares=tracking.shares(),
        own_error=tracking.own_error(),
    )
    echo(_summary(result))
    if video is not None:
        poses, commands, velocities, labels = zip(*filmed, strict=True)
        follows, names = tracking.follows_velocity, zip(contract.command_names, contract.command_units, strict=True)
        film(
            robot.plant, np.array(poses), np.array(commands), np.array(velocities) if follows else None, list(labels),
            Path(video), control_dt=contract.control_dt, frames=frames,
            components=COMPONENTS if follows else tuple(names),
        )  # fmt: skip
        echo(f"video: {video}")
    return result


def _triple(values: Array) -> str:
    return " ".join(f"{value:5.2f}" for value in values).rjust(24)


def _summary(result: RunReport) -> str:
    loop = result.loop
    if not loop.policy_periods:
        return f"STOPPED before the policy started: {loop.reason}"
    own = "" if result.own_error is None else f"the policy's estimate of its velocity {result.own_error:.3f} m/s off; "
    p50, p99 = np.percentile(loop.compute_us, [50, 99])
    moved = (
        f"mean error {result.linear_error:.3f} m/s, {result.yaw_error:.3f} rad/s; {own}{result.distance:.1f} m from "
        "the start; "
    )
    word = "TRIPPED" if not loop.ok else f"DOES NOT FOLLOW ({result.lag})" if result.lag else "OK"
    return (
        f"{word}: {loop.reason} after {loop.policy_periods} policy periods; "
        f"{'' if np.isnan(result.linear_error) else moved}signals to targets {p50:.0f} us median, {p99:.0f} us p99; "
        f"{loop.overruns} late, {loop.clamped} clamped"
    )
