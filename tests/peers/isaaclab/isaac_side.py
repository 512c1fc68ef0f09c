"""Data that Isaac Lab's functions look at, filled from a :class:`TensorWorld`.

Joints and bodies are in PhysX's order (breadth-first, feet last), not in Gaitway's: equality then also shows that
neither side depends on the order.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from gaitway_tasks.robots import ANYMAL_C, Robot
from gaitway_tasks.robots.orders import physx_order
from isaaclab.utils.string import resolve_matching_names
from tensor_world import TensorWorld, rotation_matrix
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """A robot's joints and bodies as PhysX lists them."""

    joints: list[str]
    bodies: list[str]
    to_isaac: list[int]
    """``ours[:, to_isaac]`` is in Isaac Lab's joint order."""
    to_ours: list[int]
    body_ids: list[int]
    feet: list[int]


def layout(robot: Robot) -> Layout:
    joints, bodies = list(physx_order(robot)), []
    level = ElementTree.parse(robot.mjcf).getroot().findall("worldbody/body")
    while level:
        bodies += [body.get("name") for body in level]
        level = [child for body in level for child in body.iterfind("body")]
    return Layout(
        joints=joints,
        bodies=bodies,
        to_isaac=[robot.joint_names.index(name) for name in joints],
        to_ours=[joints.index(name) for name in robot.joint_names],
        body_ids=[robot.body_names.index(name) for name in bodies],
        feet=[bodies.index(name) for name in robot.foot_names],
    )


LAYOUT = layout(ANYMAL_C)
JOINTS, BODIES, TO_ISAAC, TO_OURS = LAYOUT.joints, LAYOUT.bodies, LAYOUT.to_isaac, LAYOUT.to_ours


class Entity:
    """The naming half of an articulation or a sensor."""

    def __init__(self, data: SimpleNamespace, names: Layout = LAYOUT):
        self.data = data
        self.joint_names, self.body_names = names.joints, names.bodies
        self.num_joints, self.num_bodies = len(names.joints), len(names.bodies)
        self.device = "cpu"
        self.written: dict[str, Tensor] = {}

    def find_joints(self, names: Any, joint_subset: Any = None, preserve_order: bool = False) -> Any:
        return resolve_matching_names(names, self.joint_names, preserve_order)

    def find_bodies(self, names: Any, preserve_order: bool = False) -> Any:
        return resolve_matching_names(names, self.body_names, preserve_order)

    def compute_first_contact(self, dt: float, abs_tol: float = 1.0e-8) -> Tensor:
        """The sensor's own method, run on this data."""
        from isaaclab.sensors import ContactSensor

        sensor = SimpleNamespace(cfg=SimpleNamespace(track_air_time=True), data=self.data)
        return ContactSensor.compute_first_contact(sensor, dt, abs_tol)

    def write_root_pose_to_sim(self, value: Tensor, env_ids: Tensor) -> None:
        self.written["root_pose"] = value

    def write_root_velocity_to_sim(self, value: Tensor, env_ids: Tensor) -> None:
        self.written["root_velocity"] = value

    def write_joint_state_to_sim(self, pos: Tensor, vel: Tensor, joint_ids: Any, env_ids: Tensor) -> None:
        self.written["joint_pos"], self.written["joint_vel"] = pos, vel

    def set_joint_position_target(self, target: Tensor, joint_ids: Any) -> None:
        self.written["target"] = torch.zeros(len(target), self.num_joints)
        self.written["target"][:, joint_ids] = target


class Scene(dict):
    """Entities by name; ``sensors`` and ``env_origins`` as Isaac Lab's scene has them."""

    def __init__(self, robot: Entity, sensors: dict[str, Any], num_envs: int):
        super().__init__(robot=robot, **sensors)
        self.sensors, self.num_envs = sensors, num_envs
        self.env_origins = torch.zeros(num_envs, 3)


def gaitway_env(world: TensorWorld, cfg: Any) -> Any:
    """As :func:`isaac_env`, running the environment configuration ``cfg`` of a Gaitway task.

    Its actions are in the robot's own joint order, because the task's action term lists the joints.
    """
    env = isaac_env(world)
    env.cfg = cfg
    env.action_manager = SimpleNamespace(action=world.action, prev_action=world.previous_action)
    return env


def isaac_env(world: TensorWorld) -> Any:
    """An environment in the state of ``world``, as far as terms and managers read one."""
    robot, n, names = world.robot, world.num_envs, layout(world.spec)
    joints = len(names.joints)
    rotation = rotation_matrix(robot.root_quat_wxyz)

    def to_world(vec_b: Tensor) -> Tensor:
        return (rotation @ vec_b.double()[..., None])[..., 0].float()

    forward_w = rotation[..., 0]
    lin_vel_w, ang_vel_w = to_world(robot.root_lin_vel_b), to_world(robot.root_ang_vel_b)
    default_root = torch.tensor([0.0, 0.0, world.spec.init_height, 1.0] + [0.0] * 9)
    articulation = Entity(
        SimpleNamespace(
            joint_pos=robot.joint_pos[:, names.to_isaac],
            joint_vel=robot.joint_vel[:, names.to_isaac],
            joint_acc=robot.joint_acc[:, names.to_isaac],
            applied_torque=robot.applied_torque[:, names.to_isaac],
            default_joint_pos=world.default_joint_pos[names.to_isaac].repeat(n, 1),
            default_joint_vel=torch.zeros(n, joints),
            soft_joint_pos_limits=world.soft_joint_pos_limits[names.to_isaac].repeat(n, 1, 1),
            soft_joint_vel_limits=torch.full((n, joints), 7.5),
            root_pos_w=robot.root_pos_w,
            root_quat_w=robot.root_quat_wxyz,
            root_lin_vel_w=lin_vel_w,
            root_ang_vel_w=ang_vel_w,
            root_vel_w=torch.cat((lin_vel_w, ang_vel_w), 1),
            root_lin_vel_b=robot.root_lin_vel_b,
            root_ang_vel_b=robot.root_ang_vel_b,
            projected_gravity_b=robot.projected_gravity_b,
            heading_w=torch.atan2(forward_w[:, 1], forward_w[:, 0]).float(),
            body_link_pos_w=robot.body_pos_w[:, names.body_ids],
            body_lin_vel_w=robot.body_lin_vel_w[:, names.body_ids],
            default_root_state=default_root.repeat(n, 1),
        ),
        names,
    )
    force = robot.contact_force_w[:, names.body_ids]

    def per_body(values: Tensor) -> Tensor:
        out = torch.zeros(n, len(names.bodies))
        out[:, names.feet] = values
        return out

    contact = Entity(
        SimpleNamespace(
            # Three physics steps, newest first. The strongest is in the middle: a reader of the last one only is wrong.
            net_forces_w=0.5 * force,
            net_forces_w_history=torch.stack((0.5 * force, force, torch.zeros_like(force)), 1),
            current_air_time=per_body(robot.current_air_time),
            last_air_time=per_body(robot.last_air_time),
            current_contact_time=per_body(robot.current_contact_time),
            last_contact_time=per_body(robot.last_contact_time),
        ),
        names,
    )
    env = SimpleNamespace(
        scene=Scene(articulation, {"contact_forces": contact}, n),
        num_envs=n,
        device="cpu",
        step_dt=world.step_dt,
        max_episode_length=world.max_episode_length,
        max_episode_length_s=world.max_episode_length * world.step_dt,
        episode_length_buf=world.episode_step,
        sim=SimpleNamespace(is_playing=lambda: True),
        command_manager=SimpleNamespace(get_command=world.command),
        action_manager=SimpleNamespace(
            action=world.action[:, names.to_isaac], prev_action=world.previous_action[:, names.to_isaac]
        ),
        termination_manager=SimpleNamespace(terminated=world.terminated),
    )
    return env
