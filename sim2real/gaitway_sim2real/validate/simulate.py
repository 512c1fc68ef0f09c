"""Step a batch of robots through a scenario, in plain MuJoCo, and write down what happened.

What a fall is says :mod:`gaitway_sim2real.mujoco.robots`; here a policy output that is not finite counts as one too,
and so does a stop by the controller's safety filter, where conditions are guarded.
Falls are looked for at control steps. A fallen robot stays fallen: it is counted once, and nothing after the fall is
measured. Nor is anything after a robot crossed its ground, if its conditions have a way to go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from gaitway_onboard.bundle.contract import OWN_VELOCITY, Contract
from gaitway_onboard.rotation import yaw_of

from ..mujoco.delay import DelayLine
from ..mujoco.limbs import Arm
from ..mujoco.plant import Plant
from ..mujoco.robots import RobotBatch
from .commands import steered
from .conditions import Conditions
from .feet import FootTrace
from .guards import Guards

POLICY, STOPPED = "policy not finite", "stopped: "
BLOCK = (
    4096  # robots times physics steps whose feet are measured together: fewer cost more in Python than in arithmetic
)


class Policy(Protocol):
    """Interface of :class:`.BatchedPolicy`."""

    @property
    def estimates(self) -> Mapping[str, np.ndarray]: ...

    def __call__(self, signals: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Joint targets [rad] and raw actions, (N, J) each, from signals."""
        ...


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """T control steps of N robots; row t is the state after step t, which the command of row t led to. float32."""

    control_dt: float
    mass: np.ndarray  # (N,) [kg]
    command: np.ndarray  # (T, N, 3), as it was told
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

    def of(self, robots: slice) -> Trajectory:
        """Trajectory of some of the robots."""
        rows = ("mass", "fall_step", "fall_cause", "start_pos", "crossed")
        parts: dict[str, Any] = {}
        for name in (field.name for field in fields(self) if field.name not in ("control_dt", "arms")):
            value = getattr(self, name)
            if isinstance(value, FootTrace):
                parts[name] = value.of(robots)
            elif value is not None:
                parts[name] = value[robots] if name in rows else value[:, robots]
        return replace(self, **parts)


def simulate(
    plant: Plant,
    contract: Contract,
    policy: Policy,
    conditions: Conditions,
    *,
    keep_qpos: bool = False,
    threads: int = 1,
) -> Trajectory:
    """Run ``conditions`` from start to end; a plant built with ``gait`` also records its feet at every physics step."""
    steps, n = conditions.command.shape[:2]
    joints, feet = contract.num_joints, len(plant.foot_names)
    world = RobotBatch(plant, contract, n, threads)
    world.randomise(friction=conditions.friction, payload=conditions.payload, strength=conditions.strength)
    stress = [(each, each.start(world, each.generator(conditions.seed))) for each in conditions.stressors]
    world.place(yaw=conditions.yaw, joint_offset=conditions.joint_offset, velocity=conditions.velocity)
    timestep = plant.model.opt.timestep
    line = DelayLine(np.tile(contract.default_joint_pos, (n, 1)), conditions.delay, timestep, plant.decimation)

    record = {
        name: np.zeros((steps, n, width), kind)
        for name, width, kind in (
            ("base_pos", 3, np.float32), ("base_quat", 4, np.float32), ("lin_vel", 3, np.float32),
            ("ang_vel", 3, np.float32), ("joint_pos", joints, np.float32), ("joint_vel", joints, np.float32),
            ("torque", joints, np.float32), ("target", joints, np.float32), ("foot_contact", feet, bool),
            ("foot_slip", feet, np.float32), ("push", 2, np.float32),
        )
    }  # fmt: skip
    record["height"] = np.zeros((steps, n), np.float32)
    record["hands"] = np.zeros((steps, n, len(plant.hands), 3), np.float32)
    qpos = np.zeros((steps, n, plant.model.nq), np.float32) if keep_qpos else None
    trace = foot_trace(plant, steps, n) if plant.feet else None
    own_error = np.zeros((steps, n, 3), np.float32)
    block = math.ceil(BLOCK / n)
    readings = np.zeros((block + plant.decimation, *world.foot_readings.shape)) if plant.feet else None
    unmeasured = 0  # rows of the readings that are not yet in the trace
    alive = np.zeros((steps, n), dtype=bool)
    up, fall_step, causes = np.ones(n, bool), np.full(n, -1), [""] * n
    crossed = np.zeros(n, bool)
    guards = Guards(contract, n) if conditions.guarded else None
    cut = np.zeros((steps, n), bool)

    def fall(who: np.ndarray, step: int, cause: str) -> None:
        if not who.any():
            return
        for i in np.flatnonzero(who & up):
            fall_step[i], causes[i] = step, cause
        up[who] = False

    def measure_feet(step: int) -> None:
        """Write what was read until the control step ``step`` begins."""
        nonlocal unmeasured
        if trace is not None and readings is not None and unmeasured:
            last = step * plant.decimation
            trace.record(slice(last - unmeasured, last), world.measure_feet(readings[:unmeasured]))
            unmeasured = 0

    start_pos, heading = world.base_pos().copy(), yaw_of(world.base_quat())
    command = conditions.command.copy() if conditions.steered else conditions.command
    for t in range(steps):
        alive[t] = up
        record["push"][t] = conditions.push[t] * up[:, None]
        world.qvel[:, plant.base_dof : plant.base_dof + 2] += record["push"][t]
        for stressor, kept in stress:
            stressor.before_step(world, t, kept)
        signals = world.signals()
        for stressor, kept in stress:
            signals = stressor.sensed(signals, kept)
        if conditions.steered:
            off = yaw_of(world.base_quat()) - heading
            command[t] = steered(command[t], off, contract.command_ranges[2])
        target, _ = policy({**signals, "command": command[t]})
        if OWN_VELOCITY in contract.estimates:
            own_error[t] = np.where(up[:, None], policy.estimates[OWN_VELOCITY] - world.lin_vel(), 0)
        bad = np.asarray(~np.isfinite(target).all(1))
        if bad.any():
            fall(bad, t, POLICY)
            target = np.where(bad[:, None], np.asarray(contract.default_joint_pos, np.float32), target)
        if guards is not None:
            guards.look(signals, world.torque(), t * contract.control_dt, np.flatnonzero(up))
            target, cut[t] = guards.follow(target, signals, np.flatnonzero(up))
            for i, fault in enumerate(guards.faults):
                if fault is not None and up[i]:
                    fall(np.arange(n) == i, t, STOPPED + fault.name)
        if not up.any():
            alive[t:] = False
            measure_feet(t)
            break
        ids = None if up.all() else np.flatnonzero(up)
        for count, ctrl in line.push(target):
            world.ctrl[:] = ctrl
            if readings is None:
                world.step(count, ids)
                continue
            for _ in range(count):
                world.step(1, ids)
                readings[unmeasured] = world.foot_readings
                unmeasured += 1
        if unmeasured >= block:
            measure_feet(t + 1)
        for who, cause in world.falls():
            fall(who, t, cause)
        crossed |= up & (np.abs(world.base_pos() - start_pos)[:, :2].max(1) >= conditions.way)
        up &= ~crossed
        for name, value in world.measure().items():
            record[name][t] = value
            if not alive[t].all():
                record[name][t, ~alive[t]] = 0
        record["target"][t] = target
        if qpos is not None:
            qpos[t] = world.qpos
    else:
        measure_feet(steps)
    return Trajectory(
        control_dt=contract.control_dt,
        mass=world.mass,
        command=command,
        alive=alive,
        fall_step=fall_step,
        fall_cause=tuple(causes),
        start_pos=start_pos,
        qpos=qpos,
        feet=trace,
        own_velocity_error=own_error if OWN_VELOCITY in contract.estimates else None,
        arms=plant.arms,
        crossed=crossed if math.isfinite(conditions.way) else None,
        cut=cut if guards is not None else None,
        **record,
    )


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
