"""Robots that a controller of the caller's walks over flat ground, recorded at every physics step.

Only the physics is Isaac Lab's task environment: no rewards, terminations, resets, noise or commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.ground import Plane
from gaitway_tasks.mdp import events, observations
from gaitway_tasks.robots import Robot
from gaitway_tasks.spec import Event, ObservationGroup, ObservationTerm, Task, Timing

from . import compat
from .launch import make_env
from .options import IsaacLabOptions
from .recorder import torques_held
from .world import CONTACTS, ROBOT, IsaacLabWorld, index_of, pick

if TYPE_CHECKING:
    from .viewer import Viewer

State = dict[str, np.ndarray]
"""``joint_pos`` [rad] and ``joint_vel`` [rad/s] (N, J) in the robot's order; ``base_pos`` [m] (N, 3), ``base_quat``
(N, 4, w x y z), ``lin_vel`` [m/s] and ``ang_vel`` [rad/s] (N, 3) of the base, both in its own frame."""
Controller = Callable[[int, State], np.ndarray]
"""Joint position targets [rad], (N, J), of a control step, from its number and the state before it."""


def walk_task(robot: Robot, physics: str, physics_dt: float, friction: float) -> Task:
    """``robot`` on a plane, with nothing but physics; ``friction`` is that of each foot on the ground."""
    ground = friction if physics == "newton" else 1.0  # Newton takes the larger of two frictions, PhysX multiplies them
    material = Event(
        func=events.randomize_rigid_body_material, mode="startup", params={"friction_range": (friction, friction)}
    )
    joint_pos = ObservationTerm(func=observations.joint_pos_rel)
    return Task(
        name=f"walk-{robot.name}",
        robot=robot,
        observations={"policy": ObservationGroup(terms={"joint_pos": joint_pos})},
        actions=JointPositionAction(scale=1.0, offset=0.0),
        rewards={},
        terminations={},
        commands={},
        events={"physics_material": material},
        ground=Plane(friction=ground),
        timing=Timing(physics_dt=physics_dt, decimation=1, episode_length_s=1e6),
    )


class Walk:
    """``num_envs`` robots in Isaac Lab, on its CPU; ``physics`` is ``"physx"`` or ``"newton"``.

    A control step is ``decimation`` physics steps of ``physics_dt`` [s]. ``viewer`` is what shows or films it.
    Raises :class:`gaitway_isaaclab.preflight.IsaacLabError` before anything starts if Isaac Lab cannot run here.
    """

    def __init__(
        self,
        robot: Robot,
        num_envs: int,
        *,
        physics: str,
        physics_dt: float,
        decimation: int,
        friction: float,
        viewer: Viewer | None = None,
    ):
        options = IsaacLabOptions(physics=physics, asset="mjcf")
        task = walk_task(robot, physics, physics_dt, friction)
        self._vector = make_env(task, num_envs, device="cpu", options=options, viewer=viewer)
        self._env: Any = self._vector.isaac
        self._dt, self._decimation = physics_dt, decimation
        self._viewed = viewer is not None
        for recorder in self._env.video_recorders:
            recorder.cfg.fps = round(1.0 / (physics_dt * decimation))
        self._rest = torch.tensor(robot.default_joint_pos)
        self._robot, self._contacts = self._env.scene[ROBOT], self._env.scene[CONTACTS]
        self._world: IsaacLabWorld = self._vector.world
        order = index_of("joint", robot.joint_names, self._robot.joint_names, "cpu")
        self._ids = {} if order is None else {"joint_ids": compat.index(order)}

    @property
    def simulation(self) -> dict[str, Any]:
        """Engine and versions, as a run's record has them."""
        return self._vector.simulation

    @property
    def articulation(self) -> Any:
        """Isaac Lab's ``Articulation`` of the robots."""
        return self._robot

    @property
    def torques_held(self) -> bool | None:
        """True if the drives hold a torque over each physics step; None if only some do."""
        return torques_held(self._robot.cfg.actuators)

    def place(
        self,
        base_pos: np.ndarray,
        base_quat: np.ndarray,
        joint_pos: np.ndarray,
        lin_vel: np.ndarray,
        rows: np.ndarray | None = None,
    ) -> None:
        """Put the bases at ``base_pos`` [m] (N, 3) from each robot's origin, with orientations (N, 4, w x y z) and
        velocities [m/s] (N, 3) in the world, and the joints, at rest, at ``joint_pos`` [rad] (N, J).

        With ``rows`` (N,) they are those of these robots, and the others walk on.
        """
        chosen: dict[str, Any] = {}
        origins = self._env.scene.env_origins
        if rows is None:
            self._vector.reset()
        else:
            chosen = {"env_ids": compat.index(torch.from_numpy(rows))}
            self._env._reset_idx(chosen["env_ids"])
            origins = origins[rows]
        robot = self._robot
        columns = compat.quat_columns()
        quat = _tensor(base_quat)
        if columns is not None:
            quat = quat[:, [1, 2, 3, 0]]
        joints = _tensor(joint_pos)
        pose = torch.cat([_tensor(base_pos) + origins, quat], 1)
        robot.write_root_pose_to_sim_index(root_pose=pose, **chosen)
        robot.write_root_velocity_to_sim_index(
            root_velocity=torch.cat([_tensor(lin_vel), torch.zeros_like(pose[:, :3])], 1), **chosen
        )
        robot.write_joint_position_to_sim_index(position=joints, **self._ids, **chosen)
        robot.write_joint_velocity_to_sim_index(velocity=torch.zeros_like(joints), **self._ids, **chosen)
        self._env.sim.forward()
        self._env.scene.update(0.0)

    def record(
        self,
        controller: Controller,
        steps: Iterable[int],
        feet: Sequence[Sequence[str]],
        bodies: Sequence[str],
    ) -> dict[str, np.ndarray]:
        """Walk for T control ``steps``; return what happened, float32.

        The state (see :data:`State`), ``torque`` [N m] (T, N, J), ``target`` [rad] (T, N, J) and ``press``, the net
        contact force on each of ``bodies`` [N] (T, N, B), are those after each control step; targets that are not
        finite are recorded, and replaced by the default pose for the drives. A foot is a body and those below it, whose
        contacts count as the foot's. ``foot_pos`` [m], ``foot_lin_vel`` [m/s], ``foot_ang_vel`` [rad/s] and
        ``foot_force`` [N], (S, N, F, 3) each, and ``foot_quat`` (S, N, F, 4, w x y z), of the first body of each of the
        ``feet`` in the world, are those after each of S physics steps.
        """
        links = index_of("body", [foot[0] for foot in feet], self._robot.body_names, "cpu")
        sensed = [index_of("contact sensor on foot", foot, self._contacts.body_names, "cpu") for foot in feet]
        pressed = index_of("contact sensor on body", bodies, self._contacts.body_names, "cpu") if bodies else None
        slow: list[State] = []
        fast: list[State] = []
        for step in steps:
            target = controller(step, self.state())
            self.step(target, lambda: fast.append(self._feet(links, sensed)))
            force = compat.tensor(self._contacts.data.net_forces_w)
            press = pick(force, pressed).norm(dim=-1) if bodies else force[:, :0, 0]
            slow.append(
                {
                    **self.state(),
                    "torque": self.torque(),
                    "target": np.array(target, np.float32),
                    "press": _array(press),
                }
            )
        return {name: np.stack([row[name] for row in rows]) for rows in (slow, fast) for name in (rows or [{}])[0]}

    def step(self, target: np.ndarray, after: Callable[[], Any] = lambda: None) -> None:
        """Hold the joint position targets [rad] (N, J) for a control step, with ``after`` each physics step of it.

        Targets that are not finite are the default pose.
        """
        safe = torch.where(torch.isfinite(asked := _tensor(target)), asked, self._rest)
        self._env.action_manager.process_action(safe)
        for _ in range(self._decimation):
            self._env.action_manager.apply_action()
            self._env.scene.write_data_to_sim()
            self._env.sim.step(render=False)
            self._env.scene.update(self._dt)
            after()
        if self._viewed:
            self._env.sim.render()
            for recorder in self._env.video_recorders:
                recorder.step()

    def torque(self) -> np.ndarray:
        """Torques of the drives now [N m], (N, J)."""
        return _array(self._world.robot.applied_torque)

    def state(self) -> State:
        """The state of the robots now."""
        robot = self._world.robot
        return {
            "joint_pos": _array(robot.joint_pos),
            "joint_vel": _array(robot.joint_vel),
            "base_pos": _array(robot.root_pos_w - self._env.scene.env_origins),
            "base_quat": _array(robot.root_quat_wxyz),
            "lin_vel": _array(compat.tensor(self._robot.data.root_link_lin_vel_b)),
            "ang_vel": _array(robot.root_ang_vel_b),
        }

    def close(self) -> None:
        """End the simulation."""
        self._vector.close()

    def _feet(self, links: Any, sensed: Sequence[Any]) -> State:
        data, force = self._robot.data, compat.tensor(self._contacts.data.net_forces_w)
        quat, columns = compat.tensor(data.body_link_quat_w), compat.quat_columns()
        quat = quat if columns is None else quat[..., list(columns)]
        origins = self._env.scene.env_origins[:, None]
        return {
            "foot_pos": _array(pick(compat.tensor(data.body_link_pos_w), links) - origins),
            "foot_quat": _array(pick(quat, links)),
            "foot_lin_vel": _array(pick(compat.tensor(data.body_link_lin_vel_w), links)),
            "foot_ang_vel": _array(pick(compat.tensor(data.body_link_ang_vel_w), links)),
            "foot_force": _array(torch.stack([pick(force, bodies).sum(1) for bodies in sensed], 1)),
        }


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float32))


def _array(values: torch.Tensor) -> np.ndarray:
    """A copy, since simulators write the next step into the same memory."""
    return np.array(values.detach().cpu().numpy(), np.float32)
