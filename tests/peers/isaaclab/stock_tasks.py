"""Isaac Lab's own velocity tasks, and their configurations in a form that can be compared with ours."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

from gaitway_isaaclab.registration import names
from gaitway_tasks.robots import Robot
from isaaclab.utils.string import resolve_matching_names, resolve_matching_names_values

VELOCITY = "isaaclab_tasks.manager_based.locomotion.velocity.config"
PREFIXES = {
    "anymal-b": "AnymalB",
    "anymal-c": "AnymalC",
    "anymal-d": "AnymalD",
    "a1": "UnitreeA1",
    "go1": "UnitreeGo1",
    "go2": "UnitreeGo2",
    "h1": "H1",
    "g1": "G1",
}
"""Prefixes of the names of each robot's configuration classes."""


def robot_of(task: str) -> str:
    """Name of the robot of a velocity task."""
    return task.removesuffix("-blind").split("-", 2)[2]


STOCK = [name for name in names("2.3") if not name.endswith("-blind") and robot_of(name) in PREFIXES]
"""Our tasks of which Isaac Lab has its own."""


def stock_cfg(robot: str, ground: str, play: bool = False) -> Any:
    """Isaac Lab's configuration of its task for ``robot`` on ``ground``, ``"flat"`` or ``"rough"``."""
    module = importlib.import_module(f"{VELOCITY}.{robot.replace('-', '_')}.{ground}_env_cfg")
    return getattr(module, f"{PREFIXES[robot]}{ground.title()}EnvCfg{'_PLAY' if play else ''}")()


def stock_runner_cfg(robot: str, ground: str) -> Any:
    """Isaac Lab's settings of rsl_rl for that task."""
    module = importlib.import_module(f"{VELOCITY}.{robot.replace('-', '_')}.agents.rsl_rl_ppo_cfg")
    return getattr(module, f"{PREFIXES[robot]}{ground.title()}PPORunnerCfg")()


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """``(path, ours, theirs)`` of every leaf that differs; what is absent and what is None are the same."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in [*ours, *(k for k in theirs if k not in ours)]:
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}".lstrip("."))
    elif ours != theirs:
        yield path, ours, theirs


def resolved(tree: dict[str, Any], robot: Robot) -> dict[str, Any]:
    """``tree`` with names instead of expressions for names, terms by their function's own name, drives by joint."""
    cfg, joints = tree["scene"]["robot"], list(robot.joint_names)
    pose = dict.fromkeys(joints, 0.0)
    _, names, values = resolve_matching_names_values(cfg["init_state"]["joint_pos"], joints)
    pose.update(zip(names, values, strict=True))
    cfg["init_state"]["joint_pos"] = pose
    cfg["actuators"] = _by_joint(cfg["actuators"], joints)
    action = tree["actions"]["joint_pos"]
    action["joint_names"] = _matching(action["joint_names"], joints)
    for terms in (tree["rewards"], tree["terminations"], tree["curriculum"], *tree["observations"].values()):
        for term in terms.values():
            if isinstance(term, dict):
                term["func"] = re.split(r"[.:]", term["func"])[-1]
                term["params"] = _named(term["params"], robot)
    for event in tree["events"].values():
        if event and (asset := event["params"].get("asset_cfg")):
            asset["body_names"] = asset["body_names"] and _matching(asset["body_names"], list(robot.body_names))
    if isinstance(tree["curriculum"].get("terrain_levels"), dict):
        # Isaac Lab's function names the command itself.
        assert tree["curriculum"]["terrain_levels"]["params"].pop("command_name", "base_velocity") == "base_velocity"
    return tree


def _named(params: dict[str, Any], robot: Robot) -> dict[str, Any]:
    """Parameters of a term with lists of ``bodies`` and ``joints`` instead of whatever says which they are."""
    params = dict(params)
    bodies = [params.pop(key) for key in ("feet", "bodies") if key in params]
    joints = params.pop("joints", None)
    for key in ("sensor_cfg", "asset_cfg"):
        entity = params.pop(key, None) or {}
        if entity.get("body_names") is not None:
            bodies.append(entity["body_names"])
        elif key == "sensor_cfg" and entity:
            params["sensor"] = entity["name"]
        if entity.get("joint_names") is not None:
            assert joints is None
            joints = entity["joint_names"]
    found = [_matching(names, list(robot.body_names)) for names in bodies]
    if found:
        assert all(names == found[0] for names in found)  # contacts and velocities of the same feet
        params["bodies"] = found[0]
    if joints is not None:
        params["joints"] = _matching(joints, list(robot.joint_names))
    return params


def _matching(patterns: Any, names: list[str]) -> list[str]:
    return sorted(resolve_matching_names(patterns, names)[1])


def _by_joint(groups: dict[str, Any], joints: list[str]) -> dict[str, Any]:
    """``{joint: settings}`` from groups whose settings are numbers or ``{expression: number}``."""
    drives: dict[str, Any] = {}
    for group in groups.values():
        mine = resolve_matching_names(group.pop("joint_names_expr"), joints)[1]
        for key, value in group.items():
            by_name = dict.fromkeys(mine, value)
            if isinstance(value, dict):
                _, found, values = resolve_matching_names_values(value, mine)
                by_name = dict(zip(found, values, strict=True))
            for name in mine:
                drives.setdefault(name, {})[key] = by_name[name]
    assert sorted(drives) == sorted(joints)
    return drives
