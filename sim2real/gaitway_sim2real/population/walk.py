"""Twins that walk: a batch of them under one policy, each with its own model, motors, sensors, commands and blows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gaitway_onboard.rotation import quat_from_rotvec, quat_mul

from ..mujoco.robots import NOT_FINITE, Policy, RobotBatch
from .twin import Kind, Motors, Twin, columns

DROP = 0.01
"""Height from which twins are dropped, in standing heights, so that longer legs do not start in the floor."""


@dataclass(frozen=True, kw_only=True)
class Blow:
    """A horizontal force on the base."""

    at: float
    """Start [s]."""
    impulse: tuple[float, float]
    """Along x and y of the world, as the change of velocity of the model's whole mass [m/s]."""
    seconds: float = 0.2
    """Duration [s]."""
    above: float = 0.0
    """Height of the force above the base's centre of mass, in standing heights."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """T control steps of N twins; nothing after a fall counts."""

    control_dt: float
    command: np.ndarray  # (T, N, D)
    lin_vel: np.ndarray  # (T, N, 3) [m/s], base frame
    ang_vel: np.ndarray  # (T, N, 3) [rad/s], base frame
    base_pos: np.ndarray  # (T, N, 3) [m], world frame
    alive: np.ndarray  # (T, N) bool, stood after this step
    fall_cause: tuple[str, ...]  # (N,), "" without a fall
    qpos: np.ndarray | None = None  # (T, N, nq), if asked for

    @property
    def fell(self) -> np.ndarray:
        """(N,) bool"""
        return np.array([bool(cause) for cause in self.fall_cause])

    @property
    def fall_time(self) -> np.ndarray:
        """(N,) [s], infinite without a fall."""
        return np.where(self.fell, self.alive.sum(0) * self.control_dt, np.inf)


def walk(
    kind: Kind,
    policy: Policy,
    twins: Sequence[Twin],
    command: np.ndarray,
    blows: Sequence[Sequence[Blow]],
    seed: Sequence[int],
    *,
    numbers: Sequence[int] | None = None,
    yaw: np.ndarray | None = None,
    threads: int = 1,
    keep_qpos: bool = False,
) -> Walk:
    """Walk N twins under ``command`` (T, N, D) and ``blows``, N lists of them.

    Noise, jitter and starts of each follow from ``seed`` and its number, which is its place unless ``numbers`` are
    given: they do not depend on who is beside. ``yaw`` (N,) [rad] are the headings at the start, otherwise drawn.
    """
    contract, plant = kind.contract, kind.plant
    steps, n = command.shape[:2]
    draws = Draws(seed, range(n) if numbers is None else numbers, contract.num_joints)
    world = RobotBatch(plant, contract, n, threads)
    world.batch.set_models([kind.model(twin) for twin in twins])
    motors, sensors = Motors(plant, contract, twins), Sensors(twins)
    world.place(
        yaw=draws.yaw if yaw is None else yaw,
        joint_offset=draws.joint_offset,
        velocity=np.zeros((n, 2)),
    )
    world.qpos[:, plant.base_qpos + 2] += DROP * plant.stand_height
    world.batch.forward()
    push = world.batch.bind("xfrc_applied")[:, plant.base_body]
    force = _forces(blows, steps, contract.control_dt, plant.mass, plant.stand_height)
    up, causes = np.ones(n, bool), [""] * n
    kept = {name: np.zeros((steps, n, 3), np.float32) for name in ("lin_vel", "ang_vel", "base_pos")}
    alive = np.zeros((steps, n), bool)
    qpos = np.zeros((steps, n, plant.model.nq), np.float32) if keep_qpos else None
    dt = float(plant.model.opt.timestep)

    def fall(who: np.ndarray, cause: str) -> None:
        for i in np.flatnonzero(who & up):
            causes[i] = cause
        up[who] = False

    for t in range(steps):
        now = t * contract.control_dt
        push[:] = force[t]
        noise, lag = draws.next()
        target, _ = policy({**sensors.read(world, motors, now, noise), "command": command[t]})
        bad = np.asarray(~np.isfinite(target).all(1))
        fall(bad, NOT_FINITE)
        target = np.where(bad[:, None], np.asarray(contract.default_joint_pos, np.float32), target)
        if not up.any():
            break
        motors.command(now, target, lag)
        ids = None if up.all() else np.flatnonzero(up)
        for step in range(plant.decimation):
            world.ctrl[:] = motors.targets(now + step * dt, world.torque())
            world.step(1, ids)
        for who, cause in world.falls():
            fall(who, cause)
        alive[t] = up
        kept["lin_vel"][t], kept["ang_vel"][t], kept["base_pos"][t] = world.lin_vel(), world.gyro(), world.base_pos()
        if qpos is not None:
            qpos[t] = world.qpos
    return Walk(
        control_dt=contract.control_dt, command=command, alive=alive, fall_cause=tuple(causes), qpos=qpos, **kept
    )


class Draws:
    """Random numbers of N twins, each from a stream of its own."""

    BLOCK = 64  # control steps that are drawn at once

    def __init__(self, seed: Sequence[int], numbers: Sequence[int], joints: int) -> None:
        self._streams = [np.random.default_rng((*seed, number)) for number in numbers]
        self._width, self._at = 2 * joints + 6, self.BLOCK
        self.yaw = np.array([rng.uniform(-np.pi, np.pi) for rng in self._streams])
        self.joint_offset = np.array([rng.uniform(-0.03, 0.03, joints) for rng in self._streams])

    def next(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the next control step: normal numbers for the sensors, (N, 2 J + 6), and uniform ones, (N,)."""
        if self._at == self.BLOCK:
            self._normal = np.stack([rng.standard_normal((self.BLOCK, self._width)) for rng in self._streams], 1)
            self._uniform = np.stack([rng.uniform(size=self.BLOCK) for rng in self._streams], 1)
            self._at = 0
        self._at += 1
        return self._normal[self._at - 1], self._uniform[self._at - 1]


class Sensors:
    """Encoders and IMU of N twins."""

    def __init__(self, twins: Sequence[Twin]) -> None:
        self._tilt = np.pad(columns(twins, "imu_tilt")["imu_tilt"], ((0, 0), (0, 1)))
        self._drift, self._bias = columns(twins, "imu_drift", "gyro_bias").values()
        names = ("joint_pos_noise", "joint_vel_noise", "gyro_noise", "orientation_noise")
        self._noise = columns(twins, *names)

    def read(self, world: RobotBatch, motors: Motors, now: float, normal: np.ndarray) -> dict[str, np.ndarray]:
        """Signals of the robots as their sensors give them at ``now`` [s], (N, ...) each; ``normal`` (N, 2 J + 6)."""
        true, j = world.signals(), motors.offset.shape[1]
        noise = {
            name: self._noise[name][:, None] * part
            for name, part in zip(self._noise, np.split(normal, [j, 2 * j, 2 * j + 3], axis=1), strict=True)
        }
        found = {
            **true,
            "joint_pos": true["joint_pos"] + motors.offset + motors.slack + noise["joint_pos_noise"],
            "joint_vel": true["joint_vel"] + noise["joint_vel_noise"],
        }
        if "gyro" in true:
            off = self._tilt + now * self._drift + noise["orientation_noise"]
            found["gyro"] = true["gyro"] + self._bias + noise["gyro_noise"]
            found["imu_quat_wxyz"] = quat_mul(true["imu_quat_wxyz"], quat_from_rotvec(off))
        return found


def _forces(blows: Sequence[Sequence[Blow]], steps: int, control_dt: float, mass: float, height: float) -> np.ndarray:
    """Forces and torques on the base in each control step, (T, N, 6) [N, N m]."""
    found = np.zeros((steps, len(blows), 6))
    for i, each in enumerate(blows):
        for blow in each:
            first = round(blow.at / control_dt)
            length = max(1, round(blow.seconds / control_dt))
            force = mass * np.array(blow.impulse) / (length * control_dt)
            found[first : first + length, i, :2] += force
            # torque = r x F with r = (0, 0, above)
            found[first : first + length, i, 3] -= blow.above * height * force[1]
            found[first : first + length, i, 4] += blow.above * height * force[0]
    return found
