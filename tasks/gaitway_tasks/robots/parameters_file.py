"""``params.yaml``: the file of :class:`gaitway_tasks.robots.parameters.RobotParameters`. Plain YAML, lossless floats.

Written by ``gaitway identify``, or by hand; read by the worlds that train on it and by the digital twin.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.reading import FileError, MissingFile
from gaitway_files.writing import write_text
from gaitway_files.yaml_files import dump_yaml, read_yaml

from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters

PARAMETERS_VERSION = 1
_FACTORS = ("stiffness_scale", "damping_scale", "strength")
_AMOUNTS = ("armature", "friction", "viscous")
_HEADER = "# What system identification found out about one robot; see docs/identify.md.\n"


class ParameterError(UserError):
    """A parameter file that cannot be used, with the key at fault and the fix."""


def save_parameters(parameters: RobotParameters, path: str | Path) -> Path:
    """Write ``parameters``, atomically; refuses what :func:`load_parameters` would refuse."""
    path = Path(path)
    data = {"gaitway_parameters": PARAMETERS_VERSION, **_plain(parameters)}
    _parse(data, path)
    return write_text(path, _HEADER + dump_yaml(data))


def load_parameters(path: str | Path, robot: str | None = None) -> RobotParameters:
    """Read and check a parameter file; ``robot`` is the name of the robot it must belong to.

    Raises :class:`ParameterError` on a missing file, a key or joint that does not exist, and an impossible
    value.
    """
    path = Path(path)
    try:
        data = read_yaml(path)
    except MissingFile:
        raise ParameterError(f"no parameter file at {path}: gaitway identify writes one") from None
    except FileError as error:
        raise ParameterError(str(error)) from None
    parameters = _parse(data, path)
    if robot is not None and parameters.robot != robot:
        raise ParameterError(f"{path} is of the robot {parameters.robot!r}, not of {robot!r}: identify that robot")
    network = parameters.actuator_network
    if network is not None and not (path.parent / network).is_file():
        raise ParameterError(f"{path}: actuator_network {network!r} is not beside it: copy both files together")
    return parameters


def _plain(parameters: RobotParameters) -> dict[str, Any]:
    """All values that are not None, as YAML types."""
    data: dict[str, Any] = {"robot": parameters.robot, "delay": float(parameters.delay)}
    if parameters.base_mass is not None:
        data["base_mass"] = float(parameters.base_mass)
    if parameters.base_com is not None:
        data["base_com"] = [float(value) for value in parameters.base_com]
    if parameters.actuator_network is not None:
        data["actuator_network"] = parameters.actuator_network
    data["joints"] = {
        name: {key: float(value) for key, value in dataclasses.asdict(joint).items() if value is not None}
        for name, joint in parameters.joints.items()
    }
    data["std"] = {name: float(value) for name, value in parameters.std.items()}
    return data


def _parse(data: Any, path: Path) -> RobotParameters:
    if not isinstance(data, dict) or "gaitway_parameters" not in data:
        raise ParameterError(f"{path} is no parameter file: it has no key gaitway_parameters: {PARAMETERS_VERSION}")
    if data["gaitway_parameters"] != PARAMETERS_VERSION:
        raise ParameterError(
            f"{path}: gaitway_parameters is {data['gaitway_parameters']!r} and this Gaitway reads version "
            f"{PARAMETERS_VERSION}: identify the robot again"
        )
    fields = [field.name for field in dataclasses.fields(RobotParameters)]
    _known(data, ("gaitway_parameters", *fields), path, "")
    name = data.get("robot")
    if not isinstance(name, str) or name not in ROBOTS:
        raise ParameterError(f"{path}: robot is {name!r}; known are {', '.join(ROBOTS)}")
    network = data.get("actuator_network")
    if network is not None and (not isinstance(network, str) or Path(network).name != network):
        raise ParameterError(f"{path}: actuator_network is {network!r}, expected the name of a file beside this one")
    values: dict[str, Any] = {"robot": name, "actuator_network": network}
    values["delay"] = _number(data.get("delay", 0.0), path, "delay", low=0.0)
    if data.get("base_mass") is not None:
        values["base_mass"] = _number(data["base_mass"], path, "base_mass", above=0.0)
    if (com := data.get("base_com")) is not None:
        if not isinstance(com, list) or len(com) != 3:
            raise ParameterError(f"{path}: base_com is {com!r}, expected [x, y, z] in metres")
        values["base_com"] = tuple(_number(item, path, f"base_com[{i}]") for i, item in enumerate(com))
    joints = _mapping(data.get("joints", {}), path, "joints")
    _known(joints, ROBOTS[name].joint_names, path, "joints")
    values["joints"] = {joint: _joint(row, path, f"joints.{joint}") for joint, row in joints.items()}
    std = _mapping(data.get("std", {}), path, "std")
    values["std"] = {str(key): _number(value, path, f"std.{key}", low=0.0) for key, value in std.items()}
    return RobotParameters(**values)


def _joint(row: Any, path: Path, where: str) -> JointParameters:
    row = _mapping(row, path, where)
    _known(row, (*_FACTORS, *_AMOUNTS), path, where)
    values = {}
    for key, value in row.items():
        if value is None and key in _AMOUNTS:
            continue
        bound = {"above": 0.0} if key in _FACTORS else {"low": 0.0}
        values[key] = _number(value, path, f"{where}.{key}", **bound)
    return JointParameters(**values)


def _mapping(value: Any, path: Path, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ParameterError(f"{path}: {where} is {value!r}, expected keys and values")
    return value


def _known(data: dict[str, Any], names: Iterable[str], path: Path, where: str) -> None:
    names = tuple(names)
    if unknown := [str(key) for key in data if key not in names]:
        place = f"{where} has" if where else "has"
        raise ParameterError(f"{path}: {place} the unknown key {unknown[0]!r}; known are {', '.join(names)}")


def _number(value: Any, path: Path, where: str, *, low: float | None = None, above: float | None = None) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ParameterError(f"{path}: {where} is {value!r}, expected a number")
    if (low is not None and value < low) or (above is not None and value <= above):
        bound = f"at least {low:g}" if low is not None else f"above {above:g}"
        raise ParameterError(f"{path}: {where} is {value!r}, expected a number {bound}")
    return float(value)
