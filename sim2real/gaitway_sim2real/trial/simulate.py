"""Step a batch of robots through a scenario, in plain MuJoCo, and write down what happened.

What a fall is says :mod:`gaitway_sim2real.mujoco.robots`; here a policy output that is not finite counts as one too,
and so does a stop by the controller's safety filter, where conditions are guarded.
Falls are looked for at control steps. A fallen robot stays fallen: it is counted once, and nothing after the fall is
measured. Nor is anything after a robot crossed its ground, if its conditions have a way to go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import OWN_VELOCITY

from ..mujoco.delay import DelayLine
from ..mujoco.limbs import Arm
from ..mujoco.plant import Plant
from ..mujoco.robots import NOT_FINITE, Policy, RobotBatch
from .conditions import Conditions
from .feet import FootTrace
from .guards import Guards

STOPPED = "stopped: "
BLOCK = (
    4096  # robots times physics steps whose feet are measured together: fewer cost more in Python than in arithmetic
)


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """T control steps of N robots; row t is the state after step t, which the command of row t led to. float32."""

    control_dt: float
    mass: np.ndarray  # (N,) [kg]
    command: np.ndarray  # (T, N, D), as it was told
    push: np.ndarray  # (T, N, 2) [m/s], pushes given to robots that stood
    alive: np.ndarray  # (T, N) bool, neither fallen nor across before this step
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
    feet: FootTrace | None = None  # if the plant was built to measure gaits
    own_velocity_error: np.ndarray | None = None  # (T, N, 3) [m/s], of the policy's own estimate, if it makes one
    height: np.ndarray | None = None  # (T, N) [m], base above the ground
    hands: np.ndarray | None = None  # (T, N, H, 3) [m], in the base's frame, if it has hands
    arms: tuple[Arm, ...] = ()
    crossed: np.ndarray | None = None  # (N,) bool, went its way before it fell, if there was one
    cut: np.ndarray | None = None  # (T, N) bool, whether the safety filter cut targets off, if there was one
    bodies: Mapping[str, np.ndarray] = field(default_factory=dict)  # (T, N, 3) [m], those asked for, world frame
    noted: Mapping[str, np.ndarray] = field(default_factory=dict)  # (K, N), what stressors noted

    def of(self, robots: slice) -> Trajectory:
        """Trajectory of some of the robots."""
        of_robots = ("mass", "fall_step", "fall_cause", "start_pos", "crossed")
        parts: dict[str, Any] = {}
        for name in (each.name for each in fields(self) if each.name not in ("control_dt", "arms")):
            value = getattr(self, name)
            if isinstance(value, FootTrace):
                parts[name] = value.of(robots)
            elif isinstance(value, Mapping):
                parts[name] = {each: rows[:, robots] for each, rows in value.items()}
            elif value is not None:
                parts[name] = value[robots] if name in of_robots else value[:, robots]
        return replace(self, **parts)


def simulate(
    plant: Plant,
    contract: Contract,
    policy: Policy,
    conditions: Conditions,
    *,
    keep_qpos: bool = False,
    threads: int = 1,
    bodies: Sequence[str] = (),
) -> Trajectory:
    """Run ``conditions`` from start to end; a plant built with ``gait`` also records its feet at every physics step.

    The positions of ``bodies`` are recorded.
    """
    steps, n = conditions.command.shape[:2]
    world = RobotBatch(plant, contract, n, threads)
    world.randomise(friction=conditions.friction, payload=conditions.payload, strength=conditions.strength)
    stress = [(each, each.start(world, each.generator(conditions.seed))) for each in conditions.stressors]
    world.place(
        yaw=conditions.yaw,
        joint_offset=conditions.joint_offset,
        velocity=conditions.velocity,
        objects=conditions.objects,
    )
    line = DelayLine(
        np.tile(contract.default_joint_pos, (n, 1)), conditions.delay, plant.model.opt.timestep, plant.decimation
    )
    guards = Guards(contract, n) if conditions.guarded else None
    trial = Recorder(world, steps, keep_qpos=keep_qpos, bodies=bodies)
    command, start_pos = conditions.command.copy(), world.base_pos().copy()
    own_error, cut = np.zeros((steps, n, 3), np.float32), np.zeros((steps, n), bool)
    for t in range(steps):
        trial.begin(t, conditions.push[t])
        for stressor, kept in stress:
            stressor.before_step(world, t, kept)
        signals = world.signals()
        for stressor, kept in stress:
            signals = stressor.sensed(signals, kept)
            command[t] = stressor.told(command[t], world, kept)
        target, _ = policy({**signals, "command": command[t]})
        if OWN_VELOCITY in contract.estimates:
            own_error[t] = np.where(trial.up[:, None], policy.estimates[OWN_VELOCITY] - world.lin_vel(), 0)
        bad = np.asarray(~np.isfinite(target).all(1))
        if bad.any():
            trial.fall(bad, t, NOT_FINITE)
            target = np.where(bad[:, None], np.asarray(contract.default_joint_pos, np.float32), target)
        if guards is not None:
            guards.look(signals, world.torque(), t * contract.control_dt, np.flatnonzero(trial.up))
            target, cut[t] = guards.follow(target, signals, np.flatnonzero(trial.up))
            for i, fault in enumerate(guards.faults):
                if fault is not None and trial.up[i]:
                    trial.fall(np.arange(n) == i, t, STOPPED + fault.name)
        if not trial.up.any():
            trial.end(t)
            break
        driven = target
        for stressor, kept in stress:
            driven = stressor.driven(driven, world, kept)
        trial.step(line.push(driven))
        for who, cause in world.falls():
            trial.fall(who, t, cause)
        trial.cross(np.abs(world.base_pos() - start_pos)[:, :2].max(1) >= conditions.way)
        trial.write(t, target)
    return Trajectory(
        control_dt=contract.control_dt,
        mass=world.mass,
        command=command,
        start_pos=start_pos,
        own_velocity_error=own_error if OWN_VELOCITY in contract.estimates else None,
        arms=plant.arms,
        crossed=trial.crossed if math.isfinite(conditions.way) else None,
        cut=cut if guards is not None else None,
        noted={name: values for each, kept in stress for name, values in each.noted(kept).items()},
        **trial.recorded(),
    )


class Recorder:
    """Steps a world, and keeps who still stands and what was measured."""

    def __init__(self, world: RobotBatch, steps: int, *, keep_qpos: bool, bodies: Sequence[str]) -> None:
        plant, n = world.plant, len(world.mass)
        joints, feet = len(plant.joint_qpos), len(plant.foot_names)
        self.world, self.plant, self.steps, self.bodies = world, plant, steps, bodies
        self.up, self.crossed = np.ones(n, bool), np.zeros(n, bool)
        self._fall_step, self._causes = np.full(n, -1), [""] * n
        self._alive = np.zeros((steps, n), dtype=bool)
        self._record = {
            name: np.zeros((steps, n, *shape), kind)
            for name, shape, kind in (
                ("base_pos", (3,), np.float32), ("base_quat", (4,), np.float32), ("lin_vel", (3,), np.float32),
                ("ang_vel", (3,), np.float32), ("joint_pos", (joints,), np.float32),
                ("joint_vel", (joints,), np.float32), ("torque", (joints,), np.float32),
                ("target", (joints,), np.float32), ("foot_contact", (feet,), bool),
                ("foot_slip", (feet,), np.float32), ("push", (2,), np.float32), ("height", (), np.float32),
                ("hands", (len(plant.hands), 3), np.float32),
            )
        }  # fmt: skip
        self._qpos = np.zeros((steps, n, plant.model.nq), np.float32) if keep_qpos else None
        self._bodies = {name: np.zeros((steps, n, 3), np.float32) for name in bodies}
        self._trace = foot_trace(plant, steps, n) if plant.feet else None
        self._block = math.ceil(BLOCK / n)
        rows = self._block + plant.decimation
        self._readings = np.zeros((rows, *world.foot_readings.shape)) if plant.feet else None
        self._unmeasured = 0  # rows of the readings that are not yet in the trace
        self._stepped = 0  # physics steps

    def begin(self, t: int, push: np.ndarray) -> None:
        """Begin the control step ``t``, and push those who stand [m/s], (N, 2)."""
        self._alive[t] = self.up
        given = self._record["push"][t] = push * self.up[:, None]
        self.world.push(given.astype(np.float32))

    def fall(self, who: np.ndarray, t: int, cause: str) -> None:
        """Let robots ``who`` (N,) bool fall in the control step ``t``; those who fell before stay as they are."""
        for i in np.flatnonzero(who & self.up):
            self._fall_step[i], self._causes[i] = t, cause
        self.up[who] = False

    def cross(self, who: np.ndarray) -> None:
        """Take robots ``who`` (N,) bool away that went their way."""
        self.crossed |= self.up & who
        self.up &= ~self.crossed

    def step(self, targets: Any) -> None:
        """A control step, with ``targets`` of :meth:`.DelayLine.push`."""
        ids = None if self.up.all() else np.flatnonzero(self.up)
        for count, ctrl in targets:
            self.world.ctrl[:] = ctrl
            if self._readings is None:
                self.world.step(count, ids)
                continue
            for _ in range(count):
                self.world.step(1, ids)
                self._readings[self._unmeasured] = self.world.foot_readings
                self._unmeasured += 1
        self._stepped += self.plant.decimation
        if self._unmeasured >= self._block:
            self._measure_feet()

    def write(self, t: int, target: np.ndarray) -> None:
        """Write down the state after the control step ``t``, which ``target`` (N, J) [rad] led to."""
        alive = self._alive[t]
        for name, value in self.world.measure().items():
            self._record[name][t] = value
            if not alive.all():
                self._record[name][t, ~alive] = 0
        self._record["target"][t] = target
        if self.bodies:
            for name, pos in self.world.positions(self.bodies).items():
                self._bodies[name][t] = pos
        if self._qpos is not None:
            self._qpos[t] = self.world.qpos

    def end(self, t: int) -> None:
        """End in the control step ``t``, since no robot stands."""
        self._alive[t:] = False

    def recorded(self) -> dict[str, Any]:
        """Fields of the trajectory."""
        self._measure_feet()
        return {
            **self._record,
            "alive": self._alive,
            "fall_step": self._fall_step,
            "fall_cause": tuple(self._causes),
            "qpos": self._qpos,
            "feet": self._trace,
            "bodies": self._bodies,
        }

    def _measure_feet(self) -> None:
        """Write into the trace what was read."""
        if self._trace is not None and self._readings is not None and self._unmeasured:
            rows = slice(self._stepped - self._unmeasured, self._stepped)
            self._trace.record(rows, self.world.measure_feet(self._readings[: self._unmeasured]))
            self._unmeasured = 0


def foot_trace(plant: Plant, steps: int, robots: int) -> FootTrace:
    """An empty trace for ``steps`` control steps of a plant."""
    return FootTrace.empty(
        steps * plant.decimation,
        robots,
        dt=plant.model.opt.timestep,
        decimation=plant.decimation,
        stand_height=plant.stand_height,
        names=plant.foot_names,
        places=plant.foot_places,
        soles=np.array([sole.length if plant.has_soles else 0.0 for sole in plant.foot_soles]),
    )
