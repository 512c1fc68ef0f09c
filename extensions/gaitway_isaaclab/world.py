"""Isaac Lab's articulation and sensors as the world that Gaitway's terms read.

Names are resolved once, when the adapter is made; a step then costs at most one gather per quantity, on the device, and
none where the simulator's order is the robot's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gaitway_tasks.ground import Ground
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots.robot import Robot
from gaitway_tasks.spec import Task
from torch import Tensor

from .compat import IsaacLabError, applied_torque, contact_forces, is_3, quat_columns, tensor

ROBOT, CONTACTS = "robot", "contact_forces"
WORLD = "_gaitway_world"
"""Attribute of an environment that holds its world."""
TASK = "__gaitway_task__"
"""Attribute of a configuration that holds its task: Isaac Lab's walks over configurations skip two underscores."""


def world_of(env: Any) -> IsaacLabWorld:
    """The world of ``env``, a ``ManagerBasedRLEnv`` built from :func:`gaitway_isaaclab.env_cfg`; made once.

    LEAPP's exporter gives terms an environment of its own, which lends the attributes of the real one but records what
    is read from its scene: it has a world of its own.
    """
    world: IsaacLabWorld | None = vars(env).get(WORLD)
    if world is not None:
        return world
    task: Task = getattr(env.cfg, TASK, None) or get_task(env.cfg.gaitway_task)
    world = IsaacLabWorld(env, task.robot, task.actions.raw_clip)
    if env.cfg.gaitway_asset == "mjcf" and not hasattr(env, WORLD):  # before events change masses
        from .assets import check_masses

        check_masses(task.robot, env.scene[ROBOT])
    setattr(env, WORLD, world)
    return world


def growth_of(env: Any) -> Tensor | None:
    """Growth of commands and pushes in ``env``, (); None unless a curriculum grows them."""
    world: IsaacLabWorld | None = vars(env).get(WORLD)
    return None if world is None else world.growth


def index_of(kind: str, wanted: Sequence[str], found: Sequence[str], device: Any) -> Tensor | None:
    """Indices of the ``wanted`` names in ``found``, (len(wanted),), int64; None when both are the same list."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise IsaacLabError(
            f"the simulated robot has no {kind} {', '.join(missing)}; it has {', '.join(found)}: "
            "use the asset that belongs to this task"
        )
    if list(wanted) == list(found):
        return None
    return torch.tensor([list(found).index(name) for name in wanted], device=device)


def pick(values: Tensor, index: Tensor | None, dim: int = 1) -> Tensor:
    return values if index is None else values.index_select(dim, index)


def _joint(name: str) -> Any:
    """A property: what the articulation says of its joints, in the robot's order."""
    return property(lambda state: pick(tensor(getattr(state._data, name)), state._joints))


def _body(name: str) -> Any:
    """Property with a field of the robot's bodies."""
    return property(lambda state: pick(tensor(getattr(state._data, name)), state._bodies))


def _base(name: str) -> Any:
    """Property with a field of the robot's base."""
    return property(lambda state: tensor(getattr(state._data, name)))


def _foot(name: str) -> Any:
    """Property with the feet's rows of a contact sensor's field."""
    return property(lambda state: pick(tensor(getattr(state._contacts.data, name)), state._feet))


class IsaacLabRobotState:
    """Implements :class:`gaitway_tasks.world.RobotState` over an ``Articulation`` and its ``ContactSensor``.

    Each quantity is Isaac Lab's own with the same meaning, read on access.
    """

    joint_pos, joint_vel, joint_acc = map(_joint, ("joint_pos", "joint_vel", "joint_acc"))
    root_pos_w, root_lin_vel_b, root_ang_vel_b = map(_base, ("root_pos_w", "root_lin_vel_b", "root_ang_vel_b"))
    projected_gravity_b = _base("projected_gravity_b")
    body_pos_w = _body("body_link_pos_w")
    body_lin_vel_w, body_ang_vel_w = _body("body_lin_vel_w"), _body("body_ang_vel_w")
    current_air_time, last_air_time = _foot("current_air_time"), _foot("last_air_time")
    current_contact_time, last_contact_time = _foot("current_contact_time"), _foot("last_contact_time")

    def __init__(self, articulation: Any, contacts: Any, robot: Robot, device: Any):
        self._articulation, self._data, self._contacts = articulation, articulation.data, contacts
        self._joints = index_of("joint", robot.joint_names, articulation.joint_names, device)
        self._bodies = index_of("body", robot.body_names, articulation.body_names, device)
        self._quat = None if quat_columns() is None else torch.tensor(quat_columns(), device=device)
        sensed = contacts.body_names
        self._sensed = index_of("contact sensor on body", robot.body_names, sensed, device)
        self._feet = index_of("contact sensor on foot", robot.foot_names, sensed, device)

    @property
    def applied_torque(self) -> Tensor:
        return pick(applied_torque(self._articulation), self._joints)

    @property
    def root_quat_wxyz(self) -> Tensor:
        return pick(tensor(self._data.root_quat_w), self._quat)

    @property
    def body_quat_wxyz(self) -> Tensor:
        return pick(pick(tensor(self._data.body_link_quat_w), self._bodies), self._quat, dim=2)

    @property
    def contact_force_w(self) -> Tensor:
        return pick(contact_forces(self._contacts.data), self._sensed)


class IsaacLabWorld:
    """Implements :class:`gaitway_tasks.world.World` over a ``ManagerBasedRLEnv``.

    The action term lists the joints in the robot's order, so the action manager's actions need no conversion.
    ``raw_clip`` is the task's clamp on them.
    """

    def __init__(self, env: Any, robot: Robot, raw_clip: float | None = None):
        self._env, self.spec, self._raw_clip = env, robot, raw_clip
        self.num_envs, self.device = env.num_envs, torch.device(env.device)
        articulation, contacts = env.scene[ROBOT], env.scene[CONTACTS]
        self.robot = IsaacLabRobotState(articulation, contacts, robot, self.device)
        self.step_dt = env.step_dt
        self.growth: Tensor | None = None
        self.style: Tensor | None = None
        self.reward_weights: dict[str, Tensor] = {}
        self.contact_time_tolerance = 0.5 * env.physics_dt if is_3() else 1e-8
        self.default_joint_pos = torch.tensor(robot.default_joint_pos, device=self.device)
        limits = tensor(articulation.data.soft_joint_pos_limits)[0]
        self.soft_joint_pos_limits = pick(limits, self.robot._joints, 0).clone()
        self.ground = IsaacLabGround(env.scene)
        self._contacts, self._sensed = contacts, list(contacts.body_names)
        self._contact_ids: dict[str, Tensor] = {}

    # ---- what terms read -------------------------------------------------------------------------------------------

    @property
    def max_episode_length(self) -> int:
        return self._env.max_episode_length

    @property
    def episode_step(self) -> Tensor:
        return self._env.episode_length_buf

    @property
    def terminated(self) -> Tensor:
        return self._env.termination_manager.terminated

    @property
    def action(self) -> Tensor:
        return self._clamped(self._env.action_manager.action)

    @property
    def previous_action(self) -> Tensor:
        return self._clamped(self._env.action_manager.prev_action)

    def _clamped(self, action: Tensor) -> Tensor:
        return action if self._raw_clip is None else action.clamp(-self._raw_clip, self._raw_clip)

    def command(self, name: str) -> Tensor:
        return self._env.command_manager.get_command(name)

    def settling(self, name: str) -> Tensor | None:
        return None

    def contact_force_norm(self, bodies: str) -> Tensor:
        """Largest normal force in the sensor's history [N], (N, n), as in Isaac Lab's contact terms."""
        ids = self._contact_ids.get(bodies)
        if ids is None:
            columns = [self._sensed.index(self.spec.body_names[i]) for i in self.spec.body_ids(bodies)]
            ids = self._contact_ids[bodies] = torch.tensor(columns, device=self.device)
        return contact_forces(self._contacts.data, history=True).index_select(2, ids).norm(dim=-1).amax(1)

    def height_scan(self, name: str) -> Tensor:
        """Height of the sensor's body frame above each scan point [m], (N, P)."""
        data = self._env.scene.sensors[name].data
        return tensor(data.pos_w)[:, 2:] - tensor(data.ray_hits_w)[..., 2]


class IsaacLabGround(Ground):
    """The ground of an ``InteractiveScene``: a plane, or tiles as terrain importer and height scanner know them."""

    def __init__(self, scene: Any):
        self._scene = scene

    def height(self, xy: Tensor) -> Tensor:
        """Zero on a plane; on tiles, the height of the nearest point that the environment's height scanner sees [m]."""
        terrain = getattr(self._scene, "terrain", None)
        if terrain is None or terrain.cfg.terrain_generator is None:
            return 0.0 * xy[..., 0]
        seen = next((s.data for s in self._scene.sensors.values() if hasattr(s.data, "ray_hits_w")), None)
        if seen is None:
            raise IsaacLabError("a term asks for the height of generated terrain: give the task a height scanner")
        hits = tensor(seen.ray_hits_w)
        nearest = torch.cdist(xy.flatten(1, -2) if xy.dim() > 2 else xy[:, None], hits[..., :2]).argmin(-1)
        return hits[..., 2].gather(1, nearest).view(xy.shape[:-1])

    def build(self, spec: Any) -> list[Any]:
        raise IsaacLabError("Isaac Lab builds its own ground, from the scene")

    def origin(self, env_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        origin = self._scene.env_origins[env_ids].clone()
        origin[:, :2] += offset
        return origin

    # ---- what curricula read and move ------------------------------------------------------------------------------

    @property
    def level(self) -> Tensor:
        return self._scene.terrain.terrain_levels

    @property
    def tile_size(self) -> float:
        return float(self._scene.terrain.cfg.terrain_generator.size[0])

    def move(self, env_ids: Tensor, up: Tensor, down: Tensor) -> None:
        self._scene.terrain.update_env_origins(env_ids, up, down)
