"""``Task`` -> a class of ``ManagerBasedRLEnvCfg``, with a field for each group and term, as Isaac Lab's own tasks have.

Isaac Lab's managers, sensors, terrains, commands, actions and events, and its functions where it has the same;
Gaitway's other observation, reward, termination and curriculum functions, through :mod:`gaitway_isaaclab.world`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Any

from gaitway_tasks.mdp import observations, rewards, terminations
from gaitway_tasks.registry import UnknownNameError, get_task
from gaitway_tasks.robots import Robot
from gaitway_tasks.spec import ObservationGroup, ObservationTerm, Task
from isaaclab.envs import ManagerBasedRLEnvCfg, mdp
from isaaclab.managers import (
    CurriculumTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from isaaclab.sim import SimulationCfg
from isaaclab.utils import configclass

from . import compat
from .actions import action_cfg
from .assets import choose_asset
from .commands import command_cfg
from .declared import belong, declared
from .events import event_cfgs
from .registration import BUILD, cfg_name, named
from .scene import SceneCfg, scene_cfg, scene_class
from .terms import isaac_term
from .world import CONTACTS, ROBOT, TASK

PLAY_ENVS, PLAY_TILES = 50, 5
STOCK: frozenset[Callable[..., Any]] = frozenset(
    {
        observations.base_pos_z, observations.base_lin_vel, observations.base_ang_vel, observations.projected_gravity,
        observations.generated_commands, observations.last_action,
        rewards.is_alive, rewards.is_terminated, rewards.lin_vel_z_l2, rewards.ang_vel_xy_l2,
        rewards.flat_orientation_l2, rewards.joint_torques_l2, rewards.joint_acc_l2, rewards.joint_vel_l2,
        rewards.joint_deviation_l1, rewards.joint_pos_limits, rewards.action_rate_l2, rewards.action_l2,
        rewards.track_lin_vel_xy_exp, rewards.track_ang_vel_z_exp,
        terminations.time_out, terminations.bad_orientation, terminations.joint_pos_out_of_limit,
    }
)  # fmt: skip
"""Functions that Isaac Lab has under the same name, and which give the same: its exporter knows some by their name."""
STOCK_3 = STOCK | {
    observations.joint_pos, observations.joint_pos_rel, observations.joint_vel_rel,
    rewards.base_height_l2, rewards.undesired_contacts, rewards.stand_still_joint_deviation_l1,
    rewards.feet_air_time, rewards.feet_air_time_positive_biped, rewards.feet_air_time_variance, rewards.feet_slide,
    rewards.track_lin_vel_xy_yaw_frame_exp, rewards.track_ang_vel_z_world_exp,
    terminations.illegal_contact, terminations.root_height_below_minimum,
}  # fmt: skip
"""Stock terms of 3.0, whose index lists are on the device, for terms over some joints or bodies."""
IN_ORDER = frozenset({observations.joint_pos, observations.joint_pos_rel, observations.joint_vel_rel})
"""Stock terms whose columns are joints."""
ABOVE_ZERO = frozenset({rewards.base_height_l2, terminations.root_height_below_minimum})
"""Stock terms that measure from the world's zero, as ours do on a plane only."""
OF_ACTIONS = frozenset({observations.last_action, rewards.action_rate_l2, rewards.action_l2})
"""Stock terms that read actions: Isaac Lab's as they were before any clamp."""


@configclass
class GaitwayEnvCfg(ManagerBasedRLEnvCfg):
    """An environment of a Gaitway task.

    The scene is made with the configuration, since its robot depends on ``gaitway_asset``; a subclass may give its own.
    """

    gaitway_task: str = ""
    """Name of the task."""
    gaitway_asset: str = ""
    """Source of the robot, ``"nucleus"`` or ``"mjcf"``; without one, what GAITWAY_ISAACLAB_ASSET says or is reached."""
    gaitway_actuators: str = "task"
    """Source of the robot's actuator laws, ``"task"`` or ``"isaaclab"``."""
    manager_call_config: dict[str, int] | None = None
    """Call modes of managers in 3.0's Warp frontend; None replays CUDA graphs, or calls them one by one on a CPU."""
    SceneCfg = SceneCfg

    def __post_init__(self) -> None:
        task: Task = getattr(self, TASK)
        self.gaitway_asset = self.gaitway_asset or choose_asset(task.robot, None)
        if isinstance(vars(self)["scene"], type(MISSING)):  # copies of it are other objects
            self.scene = scene_cfg(self.SceneCfg, task, 4096, self.gaitway_asset, self.gaitway_actuators)
        for command in vars(self.commands).values():
            command.debug_vis = self.gaitway_asset == "nucleus"
        self.sim.physics_material = self.scene.terrain.physics_material

    def validate_config(self) -> None:
        """Check the configuration; Isaac Lab 3.0 calls this when it makes the environment, after all user changes."""
        compat.refuse_older_run(self.log_dir)
        if self.gaitway_asset == "mjcf":
            compat.make_room_for_contacts(self.sim, self.scene.num_envs)
        if self.manager_call_config is None and str(self.sim.device).startswith("cpu"):
            self.manager_call_config = {"default": 1}
        compat.do_without_gpu(self.sim)

    def play_mode(self) -> None:
        """Change to the variant for watching; called by Isaac Lab 3.0's ``play``."""
        for_play(self)


def env_cfg(
    task: Task,
    num_envs: int = 4096,
    device: str = "cuda:0",
    seed: int | None = None,
    physics: str | None = None,
    *,
    asset: str | None = None,
    actuators: str = "task",
) -> GaitwayEnvCfg:
    """The configuration of ``num_envs`` environments of ``task`` for Isaac Lab's ``ManagerBasedRLEnv``.

    ``physics`` is ``"physx"`` or, on Isaac Lab 3.0, ``"newton"``; None leaves the choice to Isaac Lab's scripts.
    ``asset`` is ``"nucleus"`` (Isaac Lab's own robot), ``"mjcf"`` (converted from Gaitway's) or ``"auto"``, the
    default, which takes Isaac Lab's if it can be reached; scripts use the environment variable
    GAITWAY_ISAACLAB_ASSET. ``actuators="isaaclab"`` replaces the task's actuator laws by those of Isaac Lab's
    robot (ANYmal C: an LSTM network).

    It is of the class in :mod:`.env_cfgs` if the task is a registered one, unchanged.

    Raises :class:`gaitway_isaaclab.compat.IsaacLabError` for a task that Isaac Lab cannot run, with the reason.
    """
    cls = _of_registered(task) or env_cfg_class(task)
    cfg = cls(gaitway_asset=choose_asset(task.robot, asset), gaitway_actuators=actuators, seed=seed)
    cfg.scene.num_envs, cfg.sim.device = num_envs, device
    found: GaitwayEnvCfg = compat.choose_physics(cfg, physics)
    return found


@functools.cache
def class_of(task_name: str) -> type[GaitwayEnvCfg]:
    """The class of a registered task, as :mod:`.env_cfgs` has it."""
    importlib.import_module(BUILD)  # dataclasses look up the module of a class
    return env_cfg_class(named(task_name), BUILD, task_name)


def _of_registered(task: Task) -> type[GaitwayEnvCfg] | None:
    """:func:`class_of` the ``task`` if it is a registered one, unchanged."""
    try:
        return class_of(task.name) if get_task(task.name) == task else None
    except UnknownNameError:
        return None


def env_cfg_class(task: Task, module: str = __name__, task_name: str | None = None) -> type[GaitwayEnvCfg]:
    """The class of the configurations of ``task``, as if ``module`` declared it, of the name of ``task_name``.

    Raises :class:`gaitway_isaaclab.compat.IsaacLabError` for a task that Isaac Lab cannot run, with the reason.
    """
    compat.release()
    timing = task.timing
    sim = SimulationCfg(dt=timing.physics_dt, render_interval=timing.decimation)
    compat.set_physics(sim, task.robot.name, rough=not task.ground.flat)
    fields: dict[str, Any] = {
        "gaitway_task": task.name,
        "decimation": timing.decimation,
        "episode_length_s": timing.episode_length_s,
        "sim": sim,
        "observations": declared(
            "ObservationsCfg", {n: _observations(task, n, g) for n, g in task.observations.items()}
        ),
        "actions": declared("ActionsCfg", {"joint_pos": action_cfg(task)}),
        "commands": declared("CommandsCfg", {n: command_cfg(c) for n, c in task.commands.items()}),
        "rewards": declared("RewardsCfg", _terms(RewardTermCfg, task, task.rewards, "weight")),
        "terminations": declared("TerminationsCfg", _terms(TerminationTermCfg, task, task.terminations, "time_out")),
        "events": declared("EventsCfg", event_cfgs(task)),
        "curriculum": declared("CurriculumCfg", _terms(CurriculumTermCfg, task, task.curriculum)),
    }
    name = f"{cfg_name(task_name or task.name)}EnvCfg"
    cls = configclass(type(name, (GaitwayEnvCfg,), {"__module__": module, "__qualname__": name, **fields}))
    setattr(cls, TASK, task)
    for part in (*map(type, fields.values()), scene_class(task), type(getattr(sim, "physics", None))):
        belong(part, cls)
    cls.__doc__ = f"The environments of ``{task.name}``."
    return cls


def for_play(cfg: GaitwayEnvCfg) -> GaitwayEnvCfg:
    """``cfg`` for watching a policy, as Isaac Lab's ``_PLAY`` variants: few environments, no noise, no pushes."""
    cfg.scene.num_envs, cfg.scene.env_spacing = min(cfg.scene.num_envs, PLAY_ENVS), 2.5
    for group in vars(cfg.observations).values():
        group.enable_corruption = False
    for name, event in vars(cfg.events).items():
        if getattr(event, "mode", None) == "interval":
            setattr(cfg.events, name, None)
    terrain = cfg.scene.terrain
    if terrain.terrain_generator is not None:
        terrain.max_init_terrain_level = None  # anywhere in the grid
        terrain.terrain_generator.num_rows = terrain.terrain_generator.num_cols = PLAY_TILES
        terrain.terrain_generator.curriculum = False
    return cfg


@functools.cache
def class_for_watching(task_name: str) -> type[GaitwayEnvCfg]:
    """The variant of :func:`class_of` for watching a policy: :func:`for_play` of it."""
    cls = class_of(task_name)

    def __post_init__(self: GaitwayEnvCfg) -> None:
        cls.__post_init__(self)
        for_play(self)

    name = f"{cls.__name__}_PLAY"
    made = {"__module__": cls.__module__, "__qualname__": name, "__post_init__": __post_init__}
    play: type[GaitwayEnvCfg] = configclass(type(name, (cls,), made))
    return play


def _terms(kind: Callable[..., Any], task: Task, terms: Mapping[str, Any], *kept: str) -> dict[str, Any]:
    """A configuration of the ``kind`` for each term, with its function, parameters and what else is ``kept``."""
    return {
        name: kind(**_function(task, term), **{key: getattr(term, key) for key in kept}) for name, term in terms.items()
    }


def _function(task: Task, term: Any) -> dict[str, Any]:
    """``func`` and ``params``: Isaac Lab's own where it has the same function, else ours."""
    func, params = term.func, dict(term.params)
    ours = {"func": isaac_term(func), "params": params}
    if "start" in params or (func in OF_ACTIONS and task.actions.raw_clip is not None):
        return ours
    if func in ABOVE_ZERO and not (task.ground.flat or "sensor" in params):
        return ours
    if func in STOCK_3 and compat.is_3():
        return {"func": getattr(compat.velocity_mdp(), func.__name__), "params": _entities(task.robot, func, params)}
    if func in STOCK:
        stock: Callable[..., Any] = getattr(mdp, func.__name__)
        if params.keys() <= inspect.signature(stock).parameters.keys():
            return {"func": stock, "params": params}
    return ours


def _entities(robot: Robot, func: Callable[..., Any], params: dict[str, Any]) -> dict[str, Any]:
    """``params`` with Isaac Lab's ``sensor_cfg`` and ``asset_cfg`` in place of our expressions for names."""
    params, found = dict(params), {}
    bodies = params.pop("feet", params.pop("bodies", None))
    joints, sensor = params.pop("joints", None), params.pop("sensor", None)
    if bodies is not None:
        named = {"body_names": [robot.body_names[i] for i in robot.body_ids(bodies)], "preserve_order": True}
        found["sensor_cfg"] = SceneEntityCfg(CONTACTS, **named)
        if func is rewards.feet_slide:
            found["asset_cfg"] = SceneEntityCfg(ROBOT, **named)
    if func in IN_ORDER:
        found["asset_cfg"] = SceneEntityCfg(ROBOT, joint_names=list(robot.joint_names), preserve_order=True)
    elif joints is not None:
        found["asset_cfg"] = SceneEntityCfg(ROBOT, joint_names=joints)
    if sensor is not None:
        found["sensor_cfg"] = SceneEntityCfg(sensor)
    return params | found


def _observations(task: Task, name: str, group: ObservationGroup) -> Any:
    terms = {name: _observation(task, term) for name, term in group.terms.items()}
    cfg = declared(f"{name.title().replace('_', '')}Cfg", terms, ObservationGroupCfg)
    cfg.concatenate_terms, cfg.enable_corruption = True, group.enable_corruption
    cfg.history_length = group.history_length if group.history_length > 1 else None
    return cfg


def _observation(task: Task, term: ObservationTerm) -> Any:
    return ObservationTermCfg(
        **_function(task, term),
        noise=None if term.noise is None else compat.noise_cfg(term.noise.low, term.noise.high),
        clip=term.clip,
        scale=None if term.scale == 1.0 else term.scale,
    )
