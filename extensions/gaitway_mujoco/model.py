"""Compile a task's robot and ground into the MuJoCo model that the batch steps."""

from __future__ import annotations

import math

import mujoco
from gaitway_tasks.identified import longest_delay
from gaitway_tasks.objects import add_objects
from gaitway_tasks.robots import Robot, mjcf
from gaitway_tasks.spec import Task

from .options import PhysicsOptions


def contact_sensor_name(body: str) -> str:
    return f"contact_{body}"


def drives_are_network(robot: Robot) -> bool:
    return robot.parameters is not None and robot.parameters.actuator_network is not None


def delay_line(task: Task, options: PhysicsOptions) -> float:
    """Longest action delay that the model can hold [s]: that of the task's events or ``max_action_delay``."""
    return max(options.max_action_delay, longest_delay(task))


def build_model(task: Task, options: PhysicsOptions) -> mujoco.MjModel:
    """Robot from the task's MJCF, its ground, the actuator law, and a net contact force sensor per body."""
    robot = task.robot
    spec = mjcf.load_spec(robot.mjcf)
    mjcf.strip_visuals(spec)
    mjcf.add_ground(spec, task.ground, options.solimp)
    delay_steps = math.ceil(delay_line(task, options) / task.timing.physics_dt - 1e-9)
    if drives_are_network(robot):
        mjcf.set_motors(spec, robot.joint_names, robot.real_actuators)
    else:
        mjcf.set_actuators(spec, robot.joint_names, robot.real_actuators, delay_steps=delay_steps)
    mjcf.set_parameters(spec, robot)
    if robot.gravity_compensation:
        mjcf.compensate_gravity(spec, robot.base_name)
    add_objects(spec, task.objects)
    for body in spec.bodies:
        if body.name in robot.body_names and any(geom.conaffinity or geom.contype for geom in body.geoms):
            spec.add_sensor(
                name=contact_sensor_name(body.name),
                type=mujoco.mjtSensor.mjSENS_CONTACT,
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                objname="world",  # the force acts from the first body on the second
                reftype=mujoco.mjtObj.mjOBJ_BODY,
                refname=body.name,
                intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), _NET_FORCE, 1],
            )
    spec.option.timestep = task.timing.physics_dt
    # As the lab has it, whatever the file says: with Euler's, the damping of stiff drives would not be implicit.
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{options.solver.upper()}")
    spec.option.iterations = options.iterations
    spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{options.cone.upper()}")
    spec.option.impratio = options.impratio
    # One robot is one island: looking for islands takes 3 % of a step and changes no bit of its result.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND
    if not options.warmstart:
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
    return mjcf.compile_spec(spec, robot.mjcf)


_NET_FORCE = 3  # the contact sensor's reduction to one net force, in the world frame
