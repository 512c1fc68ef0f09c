"""Gaitway's events as Isaac Lab's own event terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gaitway_tasks.mdp import events as ours
from gaitway_tasks.mdp.curriculums import CommandGrowth
from gaitway_tasks.spec import Event, Task
from isaaclab.envs import mdp
from isaaclab.managers import EventTermCfg, SceneEntityCfg

from .compat import IsaacLabError
from .world import growth_of

Params = Mapping[str, Any]


def _material(task: Task, given: Params) -> tuple[Callable[..., Any], dict[str, Any]]:
    static = given["friction_range"]
    return mdp.randomize_rigid_body_material, {
        "asset_cfg": SceneEntityCfg("robot", body_names=".*"),
        "static_friction_range": static,
        "dynamic_friction_range": given.get("dynamic_friction_range") or static,
        "restitution_range": (0.0, 0.0),
        "num_buckets": 64,
    }


def _mass(task: Task, given: Params) -> tuple[Callable[..., Any], dict[str, Any]]:
    return mdp.randomize_rigid_body_mass, {
        "asset_cfg": _base(task),
        "mass_distribution_params": given["mass_distribution_params"],
        "operation": "add",
    }


def _mass_scale(task: Task, given: Params) -> tuple[Callable[..., Any], dict[str, Any]]:
    return mdp.randomize_rigid_body_mass, {
        "asset_cfg": SceneEntityCfg("robot", body_names=given.get("body") or task.robot.base_name),
        "mass_distribution_params": given["scale_range"],
        "operation": "scale",
        "distribution": "log_uniform",
    }


def _com(task: Task, given: Params) -> tuple[Callable[..., Any], dict[str, Any]]:
    return mdp.randomize_rigid_body_com, {"asset_cfg": _base(task), "com_range": dict(given["com_range"])}


def _gains(task: Task, given: Params) -> tuple[Callable[..., Any], dict[str, Any]]:
    return mdp.randomize_actuator_gains, {
        "asset_cfg": SceneEntityCfg("robot", joint_names=".*"),
        "stiffness_distribution_params": given["stiffness_range"],
        "damping_distribution_params": given["damping_range"],
        "operation": "scale",
    }


def _reset_base(task: Task, given: Params) -> tuple[Callable[..., Any], dict[str, Any]]:
    return mdp.reset_root_state_uniform, {key: dict(value) for key, value in given.items()}


def _reset_joints(task: Task, given: Params) -> tuple[Callable[..., Any], dict[str, Any]]:
    return mdp.reset_joints_by_scale, {"position_range": given["position_range"], "velocity_range": (0.0, 0.0)}


def _push(task: Task, given: Params) -> tuple[Callable[..., Any], dict[str, Any]]:
    grows = any(term.func is CommandGrowth for term in task.curriculum.values())
    return grown_push if grows else mdp.push_by_setting_velocity, {"velocity_range": dict(given["velocity_range"])}


def grown_push(env: Any, env_ids: Any, velocity_range: Mapping[str, tuple[float, float]]) -> None:
    """Isaac Lab's push, as large as the curriculum of the commands has let it grow."""
    level = growth_of(env)
    grown = 1.0 if level is None else float(level)
    mdp.push_by_setting_velocity(env, env_ids, {k: (grown * a, grown * b) for k, (a, b) in velocity_range.items()})


COUNTERPARTS: dict[Callable[..., Any], Callable[[Task, Params], tuple[Callable[..., Any], dict[str, Any]]]] = {
    ours.randomize_rigid_body_material: _material,
    ours.randomize_rigid_body_mass: _mass,
    ours.scale_rigid_body_mass: _mass_scale,
    ours.randomize_rigid_body_com: _com,
    ours.randomize_actuator_gains: _gains,
    ours.reset_root_state_uniform: _reset_base,
    ours.reset_joints_by_scale: _reset_joints,
    ours.push_by_setting_velocity: _push,
}
BY_ACTION = {ours.randomize_action_delay}
"""Events implemented by the action term; see :mod:`gaitway_isaaclab.actions`."""


def event_cfgs(task: Task) -> dict[str, Any]:
    """``EventTermCfg`` of each event.

    Raises :class:`IsaacLabError` with the list of the events without a counterpart in Isaac Lab.
    """
    unknown = [
        f"{name} ({event.func.__name__})"
        for name, event in task.events.items()
        if event.func not in COUNTERPARTS and event.func not in BY_ACTION
    ]
    if unknown:
        raise IsaacLabError(
            f"{task.name}: Isaac Lab has no counterpart of the events {', '.join(unknown)}: "
            "take them out of the task, or train it with --world mujoco"
        )
    return {name: _event_cfg(task, event) for name, event in task.events.items() if event.func not in BY_ACTION}


def _event_cfg(task: Task, event: Event) -> Any:
    func, params = COUNTERPARTS[event.func](task, event.params)
    return EventTermCfg(func=func, mode=event.mode, params=params, interval_range_s=event.interval_range_s)


def _base(task: Task) -> Any:
    return SceneEntityCfg("robot", body_names=task.robot.base_name)
