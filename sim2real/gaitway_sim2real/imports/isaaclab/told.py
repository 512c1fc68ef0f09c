"""Facts of a run's ``env.yaml`` that a description of its policy needs, whatever trained it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gaitway_files.reading import VALUE, printable
from gaitway_tasks.commands import TWIST
from gaitway_tasks.vocabulary import BY_ISAACLAB

from .config import Settings, given, read_yaml
from .errors import IsaacLabImportError
from .importer import env_file
from .robot import resolve_robot

ROBOTS = ("robot", "robot_cfg")
"""Keys under which direct tasks have their robot, as a rule."""


def told_by(
    folder: Path,
    known: Collection[str],
    *,
    robot: str | None = None,
    model: Path | None = None,
    joint_order: str | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Keys of a description that ``env.yaml`` of a run tells, and notes on the others.

    ``known`` are the terms that a description can have; ``robot``, ``model`` and ``joint_order`` are as of
    :func:`.robot.resolve_robot`. Raises :class:`IsaacLabImportError` for a folder that is no run.
    """
    path = env_file(folder)
    env = Settings(read_yaml(path), path.name)
    notes: list[str] = []
    told = _robot(env, robot, model, joint_order, notes) | _rates(env) | _action(env, notes)
    if "observations" in env:
        told |= _observation(env, known, notes) | _command(env)
    elif (width := env.data.get("observation_space")) is not None:
        notes.append(f"observation: env.yaml has {printable(width, VALUE)} numbers; the task's code has their order")
    return told, notes


def _robot(
    env: Settings, robot: str | None, model: Path | None, joint_order: str | None, notes: list[str]
) -> dict[str, Any]:
    """Joints, pose, gains and torque limits, as far as the run's robot is known."""
    scene = env.data.get("scene")
    places = (env.data, scene if isinstance(scene, Mapping) else {})
    found = next((place[key] for place in places for key in ROBOTS if isinstance(place.get(key), Mapping)), None)
    if found is None:
        notes.append("joints: env.yaml has no robot")
        return {}
    whole = Settings({**env.data, "scene": {"robot": found}}, env.where)
    try:
        resolved = resolve_robot(whole, "robot", name=robot, model=model, joint_order=joint_order).robot
    except IsaacLabImportError as error:
        notes.append(f"joints: {printable(error, 500)}")
        return {}
    laws = resolved.joint_actuators
    return {
        "robot": resolved.name,
        "joints": list(resolved.joint_names),
        "default_joint_pos": list(resolved.default_joint_pos),
        "stiffness": [law.stiffness for law in laws],
        "damping": [law.damping for law in laws],
        "effort_limit": [law.effort_limit for law in laws],
        "init_height": resolved.init_height,
    }


def _rates(env: Settings) -> dict[str, Any]:
    sim = env.data.get("sim")
    dt = Settings(sim if isinstance(sim, Mapping) else {}, f"{env.where}.sim").get("dt", float)
    decimation = env.get("decimation", int)
    if dt is None or decimation is None:
        return {} if dt is None else {"physics_dt": dt}
    return {"control_dt": round(dt * decimation, 9), "physics_dt": dt}


def _action(env: Settings, notes: list[str]) -> dict[str, Any]:
    """The action's scale: of a direct task's ``action_scale``, or of one joint position term."""
    scale: Any = env.data.get("action_scale")
    terms = list(env.children("actions").values()) if "actions" in env else []
    if len(terms) == 1:
        scale = terms[0].data.get("scale")
    elif terms:
        notes.append(f"action: env.yaml has {len(terms)} terms")
    return {"action": {"scale": scale}} if isinstance(scale, int | float | dict) and given(scale) else {}


def _observation(env: Settings, known: Collection[str], notes: list[str]) -> dict[str, Any]:
    """Known terms of the group ``policy``, in order."""
    group = env.child("observations").data.get("policy")
    rows: list[dict[str, Any]] = []
    for name, term in (group if isinstance(group, Mapping) else {}).items():
        if not isinstance(term, Mapping) or not given(term.get("func")):
            continue
        function = str(term["func"])
        ours = BY_ISAACLAB.get(re.split(r"[:.]", function)[-1], "")
        if ours not in known:
            notes.append(f"observation: {printable(name, VALUE)} is {printable(function, VALUE)}, which is not known")
            continue
        scale, clip = term.get("scale"), term.get("clip")
        row = {"term": ours, "scale": list(scale) if isinstance(scale, tuple) else scale,
               "clip": list(clip) if isinstance(clip, tuple) else clip}  # fmt: skip
        rows.append({key: value for key, value in row.items() if value is not None})
    return {"observation": rows} if rows else {}


def _command(env: Settings) -> dict[str, Any]:
    for term in (env.children("commands") if "commands" in env else {}).values():
        ranges = term.data.get("ranges")
        if isinstance(ranges, Mapping) and all(isinstance(ranges.get(axis), tuple | list) for axis in TWIST):
            return {"command": {"ranges": {axis: list(ranges[axis]) for axis in TWIST}}}
    return {}
