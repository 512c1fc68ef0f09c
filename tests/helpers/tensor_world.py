"""A world made of given tensors: what a term sees is exactly what the test wrote down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gaitway_tasks.ground import LEVEL
from gaitway_tasks.robots import Robot
from torch import Tensor


def rotation_matrix(quat_wxyz: Tensor) -> Tensor:
    """Body-to-world rotation matrices in float64, (N, 3, 3): Euler-Rodrigues, independent of the code under test."""
    q = quat_wxyz.double()
    w, x, y, z = (q / q.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = (
        (w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


class TensorWorld:
    """Implements ``EditableWorld``. The robot starts at rest in its default pose, upright, without contacts.

    Set ``world.robot.<signal>`` directly, or :meth:`set_root` for a consistent state of the base. Writes by events are
    kept in ``world.written`` as ``{method: (args, ...)}``.
    """

    def __init__(self, spec: Robot, num_envs: int = 1, *, step_dt: float = 0.02, seed: int = 0):
        n, joints, bodies, feet = num_envs, spec.num_joints, len(spec.body_names), len(spec.foot_names)
        self.spec, self.num_envs, self.device = spec, n, torch.device("cpu")
        self.step_dt, self.max_episode_length = step_dt, 1000
        self.contact_time_tolerance = 1e-8
        self.ground = LEVEL
        self.default_joint_pos = torch.tensor(spec.default_joint_pos)
        self.soft_joint_pos_limits = torch.tensor(spec.soft_joint_limits())
        self.generator = torch.Generator().manual_seed(seed)
        self.action, self.previous_action = torch.zeros(n, joints), torch.zeros(n, joints)
        self.episode_step = torch.zeros(n, dtype=torch.int64)
        self.growth: Tensor | None = None
        self.style: Tensor | None = None
        self.terminated = torch.zeros(n, dtype=torch.bool)
        self.commands: dict[str, Tensor] = {"base_velocity": torch.zeros(n, 3)}
        self.scans: dict[str, Tensor] = {}
        self.objects: dict[str, Any] = {}
        self.written: dict[str, tuple[Any, ...]] = {}
        self.robot = SimpleNamespace(
            joint_pos=self.default_joint_pos.repeat(n, 1),
            joint_vel=torch.zeros(n, joints),
            joint_acc=torch.zeros(n, joints),
            applied_torque=torch.zeros(n, joints),
            contact_force_w=torch.zeros(n, bodies, 3),
            body_pos_w=torch.zeros(n, bodies, 3),
            body_lin_vel_w=torch.zeros(n, bodies, 3),
            current_air_time=torch.zeros(n, feet),
            last_air_time=torch.zeros(n, feet),
            current_contact_time=torch.zeros(n, feet),
            last_contact_time=torch.zeros(n, feet),
        )
        upright = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(n, 1)
        self.set_root(upright, torch.zeros(n, 3), torch.zeros(n, 3), torch.tensor([[0.0, 0.0, 0.6]]).repeat(n, 1))

    def set_root(self, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_w: Tensor, pos_w: Tensor | None = None) -> None:
        """Write the base's state in the world frame and derive everything in the base frame from it."""
        to_base = rotation_matrix(quat_wxyz).mT
        robot = self.robot
        robot.root_quat_wxyz = quat_wxyz.float()
        robot.root_lin_vel_b = (to_base @ lin_vel_w.double()[..., None])[..., 0].float()
        robot.root_ang_vel_b = (to_base @ ang_vel_w.double()[..., None])[..., 0].float()
        robot.projected_gravity_b = -to_base[..., 2].float()
        if pos_w is not None:
            robot.root_pos_w = pos_w.float()

    def randomize(self, seed: int) -> TensorWorld:
        """Fill every signal with random values of a plausible size; contact and air times are consistent."""
        g = torch.Generator().manual_seed(seed)
        robot, n = self.robot, self.num_envs

        def normal(like: Tensor, scale: float) -> Tensor:
            return scale * torch.randn(like.shape, generator=g)

        robot.joint_pos = robot.joint_pos + normal(robot.joint_pos, 0.5)
        robot.joint_vel = normal(robot.joint_vel, 3.0)
        robot.joint_acc = normal(robot.joint_acc, 50.0)
        robot.applied_torque = normal(robot.applied_torque, 30.0)
        touching = torch.rand(n, len(self.spec.body_names), 1, generator=g) < 0.5
        robot.contact_force_w = normal(robot.contact_force_w, 2.0) * touching
        robot.body_pos_w = normal(robot.body_pos_w, 0.1)
        robot.body_lin_vel_w = normal(robot.body_lin_vel_w, 1.0)
        down = torch.rand(robot.last_air_time.shape, generator=g) < 0.5
        times = torch.rand(4, *robot.last_air_time.shape, generator=g)
        robot.current_contact_time = torch.where(down, times[0] * 0.05, 0.0)
        robot.current_air_time = torch.where(down, 0.0, times[1])
        robot.last_air_time, robot.last_contact_time = times[2], times[3]
        quat = torch.nn.functional.normalize(torch.randn(n, 4, generator=g), dim=1)
        pos = normal(robot.root_pos_w, 1.0)
        self.set_root(quat, normal(pos, 1.0), normal(pos, 1.0), pos)
        self.action, self.previous_action = normal(self.action, 1.0), normal(self.action, 1.0)
        self.episode_step = torch.randint(self.max_episode_length - 5, self.max_episode_length + 5, (n,), generator=g)
        self.terminated = torch.rand(n, generator=g) < 0.5
        command = torch.rand(n, 3, generator=g) * 2 - 1
        self.commands["base_velocity"] = command * (torch.rand(n, 1, generator=g) < 0.8)
        return self

    def set_force(self, body: str, force: list[float], env: int = 0) -> None:
        """Contact force [N] on one body, world frame."""
        self.robot.contact_force_w[env, self.spec.body_names.index(body)] = torch.tensor(force)

    def command(self, name: str) -> Tensor:
        return self.commands[name]

    def settling(self, name: str) -> Tensor | None:
        return None

    def contact_force_norm(self, bodies: str) -> Tensor:
        return self.robot.contact_force_w[:, list(self.spec.body_ids(bodies))].norm(dim=-1)

    def object_pos(self, name: str) -> Tensor:
        to_base = rotation_matrix(self.robot.root_quat_wxyz).mT
        way = self.objects[name].root_pos_w - self.robot.root_pos_w
        return (to_base @ way.double()[..., None])[..., 0].float()

    def height_scan(self, name: str) -> Tensor:
        return self.scans[name]

    def write_object_state(
        self, env_ids: Tensor, name: str, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None:
        self.written["object_state"] = (env_ids, name, pos_w, quat_wxyz, lin_vel_w, ang_vel_b)

    def set_object_mass_scale(self, env_ids: Tensor, name: str, factor: Tensor) -> None:
        self.written["object_mass_scale"] = (env_ids, name, factor)

    def write_root_state(
        self, env_ids: Tensor, pos_w: Tensor, quat_wxyz: Tensor, lin_vel_w: Tensor, ang_vel_b: Tensor
    ) -> None:
        self.written["root_state"] = (env_ids, pos_w, quat_wxyz, lin_vel_w, ang_vel_b)

    def write_joint_state(self, env_ids: Tensor, pos: Tensor, vel: Tensor) -> None:
        self.written["joint_state"] = (env_ids, pos, vel)

    def add_root_velocity(self, env_ids: Tensor, lin_vel_w: Tensor, ang_vel_w: Tensor) -> None:
        self.written["root_velocity"] = (env_ids, lin_vel_w, ang_vel_w)

    def set_friction(self, env_ids: Tensor, friction: Tensor) -> None:
        self.written["friction"] = (env_ids, friction)

    def set_added_mass(self, env_ids: Tensor, kilograms: Tensor) -> None:
        self.written["added_mass"] = (env_ids, kilograms)

    def set_mass_scale(self, env_ids: Tensor, factor: Tensor, body: str | None = None) -> None:
        self.written["mass_scale"] = (env_ids, factor, body)

    def set_com_offset(self, env_ids: Tensor, offset: Tensor) -> None:
        self.written["com_offset"] = (env_ids, offset)

    def set_gain_scale(self, env_ids: Tensor, stiffness: Tensor, damping: Tensor) -> None:
        self.written["gain_scale"] = (env_ids, stiffness, damping)

    def set_motor_strength(self, env_ids: Tensor, strength: Tensor) -> None:
        self.written["motor_strength"] = (env_ids, strength)

    def set_joint_offset(self, env_ids: Tensor, offset: Tensor) -> None:
        self.written["joint_offset"] = (env_ids, offset)

    def set_action_delay(self, env_ids: Tensor, seconds: Tensor) -> None:
        self.written["action_delay"] = (env_ids, seconds)


def close(actual: Tensor, expected: Any, tolerance: float = 1e-6) -> None:
    """Assert equality within ``tolerance``, relative to 1 or to the expected magnitude, shapes included."""
    wanted = np.asarray(expected, dtype=np.float64)
    got = actual.double().numpy()
    assert got.shape == wanted.shape, f"shape {got.shape}, expected {wanted.shape}"
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
