"""A simulated robot behind the interface of a real one, and the command that walks it. Needs MuJoCo, never torch.

The twin knows the bundle's contract and an MJCF, nothing of the task: what runs here is what runs on the robot.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import BundleError, Contract, verify_files
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.control.commands import CommandSource, Script, check_range, follow, tour
from gaitway_onboard.control.controller import Mode
from gaitway_onboard.control.loop import LoopReport, Period, run_loop
from gaitway_onboard.interface import Array, Signals
from gaitway_onboard.safety.limits import walking_gains
from gaitway_tasks.robots.mjcf import DriveParameters

from ..mujoco.estimates import estimates_note, true_estimates
from ..mujoco.plant import build_plant


class MujocoTwin:
    """Implements :class:`gaitway_onboard.interface.RobotInterface` on one MuJoCo simulation.

    Joints are reported in the model's own order. Time is the simulation's; with ``realtime`` it also waits for the
    wall clock.
    """

    def __init__(
        self, bundle: str | Path, model: str | Path | None = None, *, realtime: bool = False, visual: bool = False
    ):
        """``model`` is any MJCF with the contract's joints; without it, the bundle's robot.xml."""
        bundle = Path(bundle)
        contract = Contract.load(bundle)
        own = bundle / "robot.xml"
        self.plant = plant = build_plant(contract, Path(model or own), own, visual=visual)
        self.model, self.data = plant.model, mujoco.MjData(plant.model)
        order = np.argsort(plant.joint_dof)
        self.joint_names = tuple(contract.joint_names[i] for i in order)
        self._qpos, self._dof, self._ctrl = plant.joint_qpos[order], plant.joint_dof[order], order
        self._realtime, self._damping = realtime, True
        base, dof = plant.base_qpos, plant.base_dof
        self._pos, self._quat = self.data.qpos[base : base + 3], self.data.qpos[base + 3 : base + 7]
        self._vel = self.data.qvel[dof : dof + 6]
        self._drives = DriveParameters(self.model)
        self._own_gains = walking_gains(contract, self.joint_names)
        self._contract = contract
        self.place(contract.default_joint_pos)
        self._wall_start = time.monotonic()

    def place(self, joint_pos: Array | tuple[float, ...]) -> None:
        """Start anew at rest, upright above the ground, with joints (contract order) at ``joint_pos`` [rad]."""
        mujoco.mj_resetData(self.model, self.data)
        base = self.plant.base_qpos
        self.data.qpos[base : base + 3] = [0.0, 0.0, self.plant.start_height]
        self.data.qpos[base + 3 : base + 7] = self.plant.frame.model_orientation(np.array([1.0, 0.0, 0.0, 0.0]))
        self.data.qpos[self.plant.joint_qpos] = joint_pos
        mujoco.mj_forward(self.model, self.data)

    def clock(self) -> float:
        return float(self.data.time)

    def sleep_until(self, deadline: float) -> None:
        data, half = self.data, 0.5 * self.model.opt.timestep
        while data.time < deadline - half:
            if self._damping:
                data.ctrl[self._ctrl] = data.qpos[self._qpos]  # no position error: only the damping term is left
            mujoco.mj_step(self.model, data)
        if self._realtime:
            time.sleep(max(0.0, self._wall_start + data.time - time.monotonic()))

    def read(self) -> Signals:
        quat = self.plant.frame.orientation(self._quat)
        return Signals(
            joint_pos=self.data.qpos[self._qpos],
            joint_vel=self.data.qvel[self._dof],
            imu_quat_wxyz=quat.copy(),
            gyro=self._gyro().copy(),
            stamp=float(self.data.time),
            **self._estimates(quat),
        )

    def _estimates(self, quat: Array) -> dict[str, Any]:
        """The simulation's own values in place of the estimates that the policy asks for."""
        position = self.plant.frame.position(self._pos, self._quat)[None]
        found = true_estimates(self._contract, position, quat[None], lambda: self._lin_vel()[None], self.plant.slope)
        return {name: value[0] for name, value in found.items()}

    def write(self, targets: Array, stiffness: Array, damping: Array) -> None:
        self._damping = False
        self.data.ctrl[self._ctrl] = targets
        self._set_gains(stiffness, damping)

    def damp(self) -> None:
        self._damping = True
        self._set_gains(*self._own_gains)

    def _set_gains(self, stiffness: Array | float, damping: Array | float) -> None:
        """Gains in the robot's order."""
        kp, kd = np.zeros((2, len(self._ctrl)))
        kp[self._ctrl], kd[self._ctrl] = stiffness, damping
        self._drives.write(kp, kd)

    def close(self) -> None:
        pass

    def base_velocity(self) -> Array:
        """What no robot measures: vx, vy [m/s] and yaw rate [rad/s] of the contract's base frame, (3,)."""
        return np.array([*self._lin_vel()[:2], self._gyro()[2]])

    def _gyro(self) -> Array:
        return self.plant.frame.ang_vel(self._vel[3:])

    def _lin_vel(self) -> Array:
        """Velocity of the contract's base in its own frame [m/s], (3,)."""
        return self.plant.frame.lin_vel(self._quat, self._vel[:3], self._vel[3:])

    def base_height(self) -> float:
        return float(self.data.qpos[self.plant.base_qpos + 2])


@dataclass
class Tracking:
    """Commands and what became of them, one row per policy period."""

    twin: MujocoTwin
    echo: Callable[[str], None]
    rate: int
    command: list[tuple[float, float, float]] = field(default_factory=list)
    velocity: list[Array] = field(default_factory=list)
    torque: list[float] = field(default_factory=list)

    def add(self, command: tuple[float, float, float]) -> None:
        if not self.command:
            self.echo(
                "   t [s] |    command vx    vy   yaw |   measured vx    vy   yaw | height [m] | peak torque [N m]"
            )
        self.command.append(command)
        self.velocity.append(self.twin.base_velocity())
        self.torque.append(float(np.abs(self.twin.data.qfrc_actuator[self.twin.plant.joint_dof]).max()))
        if len(self.command) % self.rate == 0:
            wanted, found = (np.mean(rows[-self.rate :], axis=0) for rows in (self.command, self.velocity))
            self.echo(
                f"{len(self.command) / self.rate:8.0f} | {_triple(wanted)}       | {_triple(found)}        | "
                f"{self.twin.base_height():10.3f} | {max(self.torque[-self.rate :]):17.1f}"
            )

    def errors(self) -> tuple[float, float]:
        """Mean linear [m/s] and yaw rate [rad/s] error."""
        if not self.command:
            return float("nan"), float("nan")
        error = np.array(self.command) - np.array(self.velocity)
        return float(np.linalg.norm(error[:, :2], axis=1).mean()), float(np.abs(error[:, 2]).mean())


@dataclass(frozen=True, kw_only=True)
class TwinReport:
    loop: LoopReport
    linear_error: float
    """Mean over the policy's time [m/s]; changes of command included."""
    yaw_error: float
    """[rad/s]"""
    distance: float
    """Between start and end [m]."""

    @property
    def exit_code(self) -> int:
        """0 after a run to its end or an asked-for stop, 1 after a trip."""
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
    echo: Callable[[str], None] = print,
    frames: Callable[[range], Iterable[int]] = iter,
) -> TwinReport:
    """Walk the twin of ``bundle`` for ``seconds`` of policy, printing a line per second and a summary.

    ``command`` defaults to a tour of the trained commands; ``video`` (.mp4) and ``log``, a flight (.mcap), are written
    when named. ``frames`` goes through the frames of the video, as ``iter`` does, and may say how far it is.
    """
    if not 0.0 < seconds < float("inf"):
        raise BundleError(f"seconds = {seconds}: a run needs a length above zero")
    verify_files(bundle)
    if video is not None:
        from . import film as twin_video

        twin_video.check_video_path(Path(video))
    twin = MujocoTwin(bundle, model, realtime=realtime, visual=video is not None)
    policy = OnboardPolicy(bundle, twin.joint_names)
    contract = policy.contract
    script = command or tour(contract, seconds)
    check_range(script, contract)
    source: CommandSource = follow(script)
    tracking = Tracking(twin, echo, max(1, round(1.0 / contract.control_dt)))
    film: list[tuple[Array, tuple[float, float, float], Array, str]] = []

    def on_period(period: Period) -> None:
        if period.mode is Mode.POLICY:
            tracking.add(period.command)
        if video is not None:
            film.append((twin.data.qpos.copy(), period.command, twin.base_velocity(), period.mode.value))

    body = Path(model).name if model else "its own model"
    rate = f"policy at {1 / contract.control_dt:g} Hz"
    echo(f"{contract.task} on {body}: {len(twin.joint_names)} joints matched by name, recording replayed, {rate}")
    for note in estimates_note(contract):
        echo(note)
    start = twin.data.qpos[twin.plant.base_qpos :][:2].copy()
    end = start
    with contextlib.ExitStack() as stack:
        stack.callback(twin.close)
        flight = None
        if log is not None:
            from gaitway_onboard.flight.opening import open_flight

            flight = open_flight(log, twin.joint_names, {}, realtime=False, bundle=bundle)
            stack.callback(flight.close)
        report = run_loop(twin, policy, source, seconds, flight=flight, on_period=on_period)
        end = twin.data.qpos[twin.plant.base_qpos :][:2]
    linear, yaw = tracking.errors()
    result = TwinReport(loop=report, linear_error=linear, yaw_error=yaw, distance=float(np.linalg.norm(end - start)))
    echo(_summary(result))
    if video is not None:
        poses, commands, velocities, labels = zip(*film, strict=True)
        twin_video.film(
            twin.plant, np.array(poses), np.array(commands), np.array(velocities), list(labels), Path(video),
            control_dt=contract.control_dt, frames=frames,
        )  # fmt: skip
        echo(f"video: {video}")
    return result


def _triple(values: Array) -> str:
    return " ".join(f"{value:5.2f}" for value in values).rjust(20)


def _summary(result: TwinReport) -> str:
    loop = result.loop
    if not loop.policy_periods:
        return f"STOPPED before the policy started: {loop.reason}"
    p50, p99 = np.percentile(loop.compute_us, [50, 99])
    return (
        f"{'OK' if loop.ok else 'TRIPPED'}: {loop.reason} after {loop.policy_periods} policy periods; mean error "
        f"{result.linear_error:.3f} m/s, {result.yaw_error:.3f} rad/s; {result.distance:.1f} m from the start; "
        f"signals to targets {p50:.0f} us median, {p99:.0f} us p99; {loop.overruns} late, {loop.clamped} clamped"
    )
