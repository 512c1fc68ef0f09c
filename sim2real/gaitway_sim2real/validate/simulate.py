"""Step a batch of robots through a scenario, in plain MuJoCo, and write down what happened.

A robot has **fallen** when, at a control step, its base is tilted by more than one radian from the vertical, its base
origin is lower than half the contract's initial height above the ground, or a body other than the last link of a leg
(hip, thigh, base, ...) presses on the ground with more than 1 N. Diverged physics and a policy output that is not
finite count as falls too. A fallen robot stays fallen: it is counted once, and nothing after the fall is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_tasks.robots import ActuatorLaw, DCMotor
from mujoco.batch import Batch

from ..bundle.batched_policy import BatchedPolicy
from ..mujoco.plant import FOOT_FIELDS, Plant, actuator_laws
from ..mujoco.rotation import quat_apply, quat_apply_inverse, quat_from_axis, quat_from_rotvec, quat_mul
from .estimates import true_estimates
from .scenarios import NOISE, Conditions

MAX_TILT = 1.0  # [rad]
MIN_HEIGHT = 0.5  # of the contract's initial height
CONTACT_FORCE = 1.0  # [N]
MAX_STATE = 1e4  # positions and velocities beyond this are not physics any more
TILT, HEIGHT, DIVERGED, POLICY, CONTACT = (
    "base tilt",
    "base height",
    "physics diverged",
    "policy not finite",
    "contact: ",
)


@dataclass(frozen=True, kw_only=True)
class Recording:
    """T control steps of N robots; row t is the state after step t, which the command of row t led to. float32."""

    control_dt: float
    mass: np.ndarray  # (N,) [kg]
    command: np.ndarray  # (T, N, 3)
    push: np.ndarray  # (T, N, 2) [m/s], pushes given to robots that stood
    alive: np.ndarray  # (T, N) bool, not fallen before this step
    fall_step: np.ndarray  # (N,), -1 if it never fell
    fall_cause: tuple[str, ...]  # (N,), "" if it never fell
    start_pos: np.ndarray  # (N, 3) [m], world frame
    base_pos: np.ndarray  # (T, N, 3) [m], world frame
    base_quat: np.ndarray  # (T, N, 4)
    lin_vel: np.ndarray  # (T, N, 3) [m/s], base frame
    ang_vel: np.ndarray  # (T, N, 3) [rad/s], base frame
    joint_pos: np.ndarray  # (T, N, J) [rad]
    joint_vel: np.ndarray  # (T, N, J) [rad/s]
    torque: np.ndarray  # (T, N, J) [N m], delivered in the step's last physics step
    target: np.ndarray  # (T, N, J) [rad], joint targets of the policy
    foot_contact: np.ndarray  # (T, N, F) bool
    foot_slip: np.ndarray  # (T, N, F) [m/s], tangential speed of a foot in contact
    qpos: np.ndarray | None  # (T, N, nq), if asked for


def simulate(
    plant: Plant,
    contract: Contract,
    policy: BatchedPolicy,
    conditions: Conditions,
    *,
    keep_qpos: bool = False,
    threads: int = 1,
) -> Recording:
    """Run ``conditions`` from start to end."""
    steps, n = conditions.command.shape[:2]
    joints, feet = contract.num_joints, len(plant.foot_names)
    batch = Batch(plant.model, n, threads)
    apply_conditions(batch, plant, actuator_laws(contract), conditions)
    world = Robots(batch, plant, contract)
    world.place(conditions)
    line = DelayLine(np.tile(contract.default_joint_pos, (n, 1)), conditions.delay, plant)
    noise = np.random.default_rng(conditions.noise_seed) if conditions.noise_scale else None

    record = {
        name: np.zeros((steps, n, width), kind)
        for name, width, kind in (
            ("base_pos", 3, np.float32), ("base_quat", 4, np.float32), ("lin_vel", 3, np.float32),
            ("ang_vel", 3, np.float32), ("joint_pos", joints, np.float32), ("joint_vel", joints, np.float32),
            ("torque", joints, np.float32), ("target", joints, np.float32), ("foot_contact", feet, bool),
            ("foot_slip", feet, np.float32), ("push", 2, np.float32),
        )
    }  # fmt: skip
    qpos = np.zeros((steps, n, plant.model.nq), np.float32) if keep_qpos else None
    alive = np.zeros((steps, n), dtype=bool)
    up, fall_step, causes = np.ones(n, bool), np.full(n, -1), [""] * n

    def fall(who: np.ndarray, step: int, cause: str) -> None:
        for i in np.flatnonzero(who & up):
            fall_step[i], causes[i] = step, cause
        up[who] = False

    start_pos = world.base_pos().copy()
    for t in range(steps):
        alive[t] = up
        record["push"][t] = conditions.push[t] * up[:, None]
        world.qvel[:, plant.base_dof : plant.base_dof + 2] += record["push"][t]
        signals = add_noise(world.signals(), conditions.noise_scale, noise)
        target, _ = policy({**signals, "command": conditions.command[t]})
        bad = ~np.isfinite(target).all(1)
        if bad.any():
            fall(bad, t, POLICY)
            target = np.where(bad[:, None], np.asarray(contract.default_joint_pos, np.float32), target)
        if not up.any():
            alive[t:] = False
            break
        ids = None if up.all() else np.flatnonzero(up)
        for count, ctrl in line.push(target):
            world.ctrl[:] = ctrl
            batch.step(ids=ids, nstep=count)
        for who, cause in world.falls():
            fall(who, t, cause)
        for name, value in world.measure().items():
            record[name][t] = np.where(alive[t][:, None], value, 0)
        record["target"][t] = target
        if qpos is not None:
            qpos[t] = world.qpos
    return Recording(
        control_dt=contract.control_dt,
        mass=plant.mass + conditions.payload,
        command=conditions.command,
        alive=alive,
        fall_step=fall_step,
        fall_cause=tuple(causes),
        start_pos=start_pos,
        qpos=qpos,
        **record,
    )


class DelayLine:
    """Holds back joint targets by a time per robot, to the physics step; before the first target, the default pose."""

    def __init__(self, initial: np.ndarray, delay: np.ndarray, plant: Plant) -> None:
        total = np.rint(delay / plant.model.opt.timestep).astype(int)
        self._whole, self._rest = np.divmod(total, plant.decimation)
        self._queue = [initial.copy() for _ in range(int(self._whole.max()) + 2)]  # newest first
        self._edges = [*sorted({0, *self._rest.tolist()}), plant.decimation]

    def push(self, target: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Physics steps and the targets (N, J) in force during them, for the control step that ``target`` starts."""
        self._queue = [np.array(target, float), *self._queue[:-1]]
        ages, rows = np.stack(self._queue), np.arange(len(target))
        return [
            (end - start, ages[np.where(self._rest <= start, self._whole, self._whole + 1), rows])
            for start, end in zip(self._edges[:-1], self._edges[1:], strict=True)
        ]


def apply_conditions(batch: Batch, plant: Plant, laws: Sequence[ActuatorLaw], conditions: Conditions) -> None:
    """Give each robot its friction, base mass and motor strength."""
    batch.expand("geom_friction")[:, plant.soles, 0] = conditions.friction[:, None]
    if conditions.payload.any():
        mass = plant.model.body_mass[plant.base_body]
        factor = (mass + conditions.payload) / mass
        if (factor <= 0).any():
            raise ValueError(f"the base weighs {mass:.1f} kg: a payload of {conditions.payload.min():.1f} kg cannot be")
        batch.expand("body_mass")[:, plant.base_body] *= factor
        batch.expand("body_inertia")[:, plant.base_body] *= factor[:, None]  # as in training
        batch.set_const()
    if (conditions.strength != 1.0).any():
        factor = conditions.strength[:, None]
        gain, bias = batch.expand("actuator_gainprm"), batch.expand("actuator_biasprm")
        motor = np.array([isinstance(law, DCMotor) for law in laws])
        # A motor's resistance goes down, its kp and kd up: every term of the torque clip scales.
        gain[:, motor, 0] /= factor
        gain[:, motor, 4] *= factor
        gain[:, motor, 6] *= factor
        gain[:, ~motor, 0] *= factor
        bias[:, ~motor, :3] *= factor[:, :, None]
        batch.expand("actuator_forcerange")[:] *= factor[:, :, None]


def add_noise(signals: dict[str, np.ndarray], scale: float, rng: np.random.Generator | None) -> dict[str, np.ndarray]:
    """Uniform noise of the suite's magnitudes times ``scale``; orientation noise is a small random rotation."""
    if rng is None:
        return signals

    def uniform(name: str, shape: tuple[int, ...]) -> np.ndarray:
        return rng.uniform(-scale * NOISE[name], scale * NOISE[name], shape)

    noisy = {name: signals[name] + uniform(name, signals[name].shape) for name in signals if name in NOISE}
    turn = quat_from_rotvec(uniform("orientation", signals["gyro"].shape))
    return {**noisy, "imu_quat_wxyz": quat_mul(signals["imu_quat_wxyz"], turn)}


class Robots:
    """N robots of one batch, in the contract's terms."""

    def __init__(self, batch: Batch, plant: Plant, contract: Contract) -> None:
        self.qpos, self.qvel, self.ctrl = batch.bind("qpos"), batch.bind("qvel"), batch.bind("ctrl")
        self._force, self._sensors = batch.bind("actuator_force"), batch.bind("sensordata")
        self._batch, self._plant, self._contract = batch, plant, contract
        self._turn = None if plant.frame.is_identity else plant.frame.quat_wxyz
        b, v = plant.base_qpos, plant.base_dof
        self._pos, self._quat = slice(b, b + 3), slice(b + 3, b + 7)
        self._lin, self._ang = slice(v, v + 3), slice(v + 3, v + 6)
        self._normal = np.array([-np.sin(plant.slope), 0.0, np.cos(plant.slope)])
        self._foot_columns = plant.foot_sensor[:, None] + np.arange(FOOT_FIELDS)
        self._fall_columns = plant.fall_sensor[:, None] + np.arange(3)

    def place(self, conditions: Conditions) -> None:
        """Upright on the ground in the default pose, with the drawn heading, joint offsets and velocity."""
        plant = self._plant
        self._batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        heading = quat_mul(quat_from_axis(1, np.array([-plant.slope])), quat_from_axis(2, conditions.yaw))
        if self._turn is not None:
            heading = quat_mul(heading, self._turn * np.array([1.0, -1.0, -1.0, -1.0]))
        self.qpos[:, self._pos] = plant.start_height * self._normal
        self.qpos[:, self._quat] = heading
        limits = np.array(self._contract.joint_pos_limits)
        pose = np.array(self._contract.default_joint_pos) + conditions.joint_offset
        self.qpos[:, plant.joint_qpos] = np.clip(pose, limits[:, 0], limits[:, 1])
        self.qvel[:] = 0.0
        self.qvel[:, plant.base_dof : plant.base_dof + 2] = conditions.velocity
        self.ctrl[:] = self._contract.default_joint_pos
        self._batch.forward()

    def base_pos(self) -> np.ndarray:
        return self.qpos[:, self._pos]

    def base_quat(self) -> np.ndarray:
        """Orientation of the contract's base frame, (N, 4)."""
        quat = self.qpos[:, self._quat]
        return quat if self._turn is None else quat_mul(quat, self._turn)

    def gyro(self) -> np.ndarray:
        rate = self.qvel[:, self._ang]
        return rate if self._turn is None else rate @ self._plant.frame.rotation.T

    def signals(self) -> dict[str, np.ndarray]:
        """What encoders and IMU report, and the estimates that the policy asks for."""
        quat = self.base_quat()
        return {
            "joint_pos": self.qpos[:, self._plant.joint_qpos],
            "joint_vel": self.qvel[:, self._plant.joint_dof],
            "imu_quat_wxyz": quat,
            "gyro": self.gyro(),
            **true_estimates(self._contract, self.base_origin(), quat, self.lin_vel, self._plant.slope),
        }

    def base_origin(self) -> np.ndarray:
        """Position of the contract's base origin in the world [m], (N, 3)."""
        if self._turn is None:
            return self.base_pos()
        return self.base_pos() + quat_apply(self.qpos[:, self._quat], self._plant.frame.origin)

    def lin_vel(self) -> np.ndarray:
        """Velocity of the contract's base in its own frame [m/s], (N, 3)."""
        velocity = quat_apply_inverse(self.base_quat(), self.qvel[:, self._lin])
        if self._turn is not None:
            velocity = velocity + np.cross(self.gyro(), self._plant.frame.rotation @ self._plant.frame.origin)
        return velocity

    def measure(self) -> dict[str, np.ndarray]:
        """What a bystander sees."""
        quat, gyro = self.base_quat(), self.gyro()
        feet = self._sensors[:, self._foot_columns]  # (N, F, 7)
        contact = np.linalg.norm(feet[..., 1:4], axis=-1) > CONTACT_FORCE
        return {
            "base_pos": self.base_pos(),
            "base_quat": quat,
            "lin_vel": self.lin_vel(),
            "ang_vel": gyro,
            "joint_pos": self.qpos[:, self._plant.joint_qpos],
            "joint_vel": self.qvel[:, self._plant.joint_dof],
            "torque": self._force,
            "foot_contact": contact,
            "foot_slip": np.linalg.norm(feet[..., 5:7], axis=-1) * contact,
        }

    def falls(self) -> list[tuple[np.ndarray, str]]:
        """Who has fallen and why, (N,) bool each; earlier causes win."""
        finite = (np.abs(self.qpos) < MAX_STATE).all(1) & (np.abs(self.qvel) < MAX_STATE).all(1)  # NaN is not less
        if not finite.all():
            self.qpos[~finite] = self._plant.model.qpos0
            self.qvel[~finite] = 0.0
        upright = quat_apply(self.base_quat(), np.array([0.0, 0.0, 1.0]))[:, 2]
        height = self.base_pos() @ self._normal
        press = np.linalg.norm(self._sensors[:, self._fall_columns], axis=-1) > CONTACT_FORCE
        return [
            (~finite, DIVERGED),
            *((press[:, i], f"{CONTACT}{name}") for i, name in enumerate(self._plant.fall_bodies)),
            (upright < np.cos(MAX_TILT), TILT),
            (height < MIN_HEIGHT * self._plant.start_height, HEIGHT),
        ]
