"""Compile a task's robot and ground into the MuJoCo model that the batch steps."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
from gaitway_tasks.robots import mjcf
from gaitway_tasks.spec import Task


@dataclass(frozen=True, kw_only=True)
class PhysicsOptions:
    """Solver settings. Defaults are the fastest ones whose feet do not creep.

    Newton converges in two or three iterations from a cold start, so warm starting costs more than it saves.
    MuJoCo's friction is soft: with its defaults the light feet of a standing robot slide apart within a second. A
    high ``impratio`` and ``solimp`` stop that; the pyramidal cone then costs nothing extra, the elliptic one 3x.
    ``max_action_delay`` [s] reserves delay lines in the actuators, which an action-delay event then fills.
    """

    solver: str = "newton"
    iterations: int = 10
    warmstart: bool = False
    cone: str = "pyramidal"
    impratio: float = 10.0
    solimp: tuple[float, float, float] = (0.95, 0.99, 0.001)
    max_action_delay: float = 0.0

    def __post_init__(self) -> None:
        if self.solver not in ("newton", "cg", "pgs"):
            raise ValueError(f"physics solver {self.solver!r}: use 'newton', 'cg' or 'pgs'")
        if self.cone not in ("pyramidal", "elliptic"):
            raise ValueError(f"friction cone {self.cone!r}: use 'pyramidal' or 'elliptic'")


def contact_sensor_name(body: str) -> str:
    return f"contact_{body}"


def build_model(task: Task, options: PhysicsOptions) -> mujoco.MjModel:
    """Robot from the task's MJCF, a ground plane, the actuator law, and a net contact force sensor per body."""
    robot = task.robot
    spec = mjcf.load_spec(robot.mjcf)
    mjcf.strip_visuals(spec)
    mjcf.add_ground(spec, task.terrain.friction, options.solimp)
    delay_steps = round(options.max_action_delay / task.timing.physics_dt)
    mjcf.set_actuators(spec, robot.joint_names, robot.joint_actuators, delay_steps=delay_steps)
    for body in spec.bodies:
        if body.name in robot.body_names and any(geom.conaffinity or geom.contype for geom in body.geoms):
            spec.add_sensor(
                name=contact_sensor_name(body.name),
                type=mujoco.mjtSensor.mjSENS_CONTACT,
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                objname="world",  # the force is what the first body does to the second
                reftype=mujoco.mjtObj.mjOBJ_BODY,
                refname=body.name,
                intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), _NET_FORCE, 1],
            )
    spec.option.timestep = task.timing.physics_dt
    spec.option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{options.solver.upper()}")
    spec.option.iterations = options.iterations
    spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{options.cone.upper()}")
    spec.option.impratio = options.impratio
    if not options.warmstart:
        spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
    return mjcf.compile_spec(spec, robot.mjcf)


_NET_FORCE = 3  # the contact sensor's reduction to one net force, in the world frame
