"""A hung robot simulated without the fit's code: torques by hand, small explicit steps, a queue for the delay."""

from __future__ import annotations

from collections import deque

import mujoco
import numpy as np
from gaitway_sim2real.identify.drive_log import DriveLog
from gaitway_sim2real.identify.excitation import Excitation
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

PERIOD, STEPS_OF_POLICY = 0.002, 5


def hidden(robot: Robot, seed: int) -> RobotParameters:
    """Parameters that a robot may well have."""
    rng = np.random.default_rng(seed)
    joints = {
        name: JointParameters(
            stiffness_scale=rng.uniform(0.8, 1.2),
            damping_scale=rng.uniform(0.8, 1.2),
            strength=rng.uniform(0.8, 1.1),
            armature=rng.uniform(0.006, 0.02),
            friction=rng.uniform(0.1, 0.5),
            viscous=rng.uniform(0.05, 0.3),
        )
        for name in robot.joint_names
    }
    return RobotParameters(robot=robot.name, joints=joints, delay=rng.uniform(0.0, 0.03))


def record(
    robot: Robot,
    truth: RobotParameters,
    *,
    seconds: float,
    seed: int = 0,
    dt: float = 0.0005,
    noise: tuple[float, float, float] = (1e-4, 0.02, 0.05),
    torque: bool = True,
    tilt: float = 0.0,
) -> DriveLog:
    """An excitation; ``noise`` on positions [rad], velocities [rad/s], torques [N m]; ``tilt`` of the base [rad]."""
    rng = np.random.default_rng(seed)
    model, addresses, dofs = _model(robot, truth, dt, tilt)
    data = mujoco.MjData(model)
    joints = [truth.joints[name] for name in robot.joint_names]
    kp = np.array([law.stiffness for law in robot.joint_actuators])
    kd = np.array([law.damping for law in robot.joint_actuators])
    real_kp = kp * [joint.stiffness_scale for joint in joints]
    real_kd = kd * [joint.damping_scale for joint in joints]
    strength = np.array([joint.strength for joint in joints])
    limit = np.array([robot.hardware.effort_limit[name] for name in robot.joint_names])
    motion = Excitation(robot, seconds=seconds, seed=seed)
    data.qpos[addresses] = target = held = np.array(robot.default_joint_pos)
    coming: deque[tuple[float, np.ndarray]] = deque()
    rows, believed = [], np.zeros(robot.num_joints)
    for tick in range(round(seconds / PERIOD)):
        now = tick * PERIOD
        if tick % STEPS_OF_POLICY == 0:
            target = motion.step(None, (0.0, 0.0, 0.0)).astype(float)
        coming.append((now + truth.delay, target))
        rows.append((now, data.qpos[addresses].copy(), data.qvel[dofs].copy(), believed, target))
        for part in range(round(PERIOD / dt)):
            while coming and coming[0][0] <= now + part * dt + 1e-9:
                held = coming.popleft()[1]
            believed = np.clip(real_kp * (held - data.qpos[addresses]) - real_kd * data.qvel[dofs], -limit, limit)
            data.qfrc_applied[dofs] = strength * believed
            mujoco.mj_step(model, data)
    time, pos, vel, tau, targets = (np.array(column) for column in zip(*rows, strict=True))
    for values, size in zip((pos, vel, tau), noise, strict=True):
        values += size * rng.standard_normal(values.shape)
    gravity = 9.81 * np.array([np.sin(tilt), 0.0, -np.cos(tilt)])
    return DriveLog(
        source="simulated",
        time=time,
        pos=pos,
        vel=vel,
        torque=tau if torque else None,
        gravity=np.tile(gravity, (len(time), 1)),
        frame_time=time,
        targets=targets,
        stiffness=np.tile(kp, (len(time), 1)),
        damping=np.tile(kd, (len(time), 1)),
    )


def _model(robot: Robot, truth: RobotParameters, dt: float, tilt: float) -> tuple[mujoco.MjModel, list, list]:
    spec = mujoco.MjSpec.from_file(str(robot.mjcf))
    base = spec.body(robot.base_name)
    for joint in list(base.joints):
        spec.delete(joint)
    base.quat = [np.cos(tilt / 2), 0.0, np.sin(tilt / 2), 0.0]
    for geom in list(spec.geoms):
        geom.contype = geom.conaffinity = 0
    spec.option.timestep = dt
    for name, joint in truth.joints.items():
        element = spec.joint(name)
        element.armature, element.frictionloss, element.damping[0] = joint.armature, joint.friction, joint.viscous
    model = spec.compile()
    joints = [model.joint(name) for name in robot.joint_names]
    return model, [j.qposadr[0] for j in joints], [j.dofadr[0] for j in joints]
