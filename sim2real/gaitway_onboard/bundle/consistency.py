"""Faults of a contract that need two of its keys to be seen."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaitway_files.reading import NAME

from .parts import ESTIMATE, ESTIMATED, IMU, MEASURED, NUMBERS, OUTPUTS, TWIST, VELOCITY, HeightScan, frozen

MAX_DECIMATION, MAX_SCAN_POINTS = 1000, 10_000
"""Bounds far above any robot's; the largest single numbers are in contract.schema.json."""
POSE_SLACK = 0.05
"""Distance of the default pose outside a joint's limits that rounding and calibration explain [rad]."""


def inconsistencies(data: dict[str, Any]) -> list[str]:
    """Faults of a contract's content that fits the schema."""
    names, faults = data["joint_names"], []
    if len(data["commands"]) != 1 or not all(data["commands"].values()):
        told = ", ".join(map(str, data["commands"])) or "nothing"
        return [f"commands has {told}, and a bundle has one command with numbers"]
    if wrong := [name for name in next(iter(data["commands"].values())) if not isinstance(name, str)]:
        return [f"commands has a number named {wrong[0]!r}: a name is text"]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        faults.append(f"joint_names lists {', '.join(twice)} twice")
    faults += [
        f"{key} has {len(data[key])} characters, {NAME} at most" for key in ("task", "robot") if len(data[key]) > NAME
    ]
    faults += [
        f"{key} has {len(data[key])} entries for {len(names)} joint_names"
        for key in ("default_joint_pos", "joint_pos_limits")
        if len(data[key]) != len(names)
    ]
    numbers = next(iter(data["commands"].values()))
    faults += _of_command(data, numbers)
    if not data["foot_bodies"] and not data.get("fixed_base"):
        faults.append("foot_bodies is empty, which only a robot with fixed_base may have")
    ranges = [*zip(names, data["joint_pos_limits"], strict=False), *numbers.items()]
    faults += [f"the range of {name} is empty: [{low}, {high}]" for name, (low, high) in ranges if low > high]
    for name, pose, (low, high) in zip(names, data["default_joint_pos"], data["joint_pos_limits"], strict=False):
        if not low - POSE_SLACK <= pose <= high + POSE_SLACK:
            turned = math.radians(pose)
            hint = f" (in degrees? then it is {turned:.4g} rad)" if low <= turned <= high else ""
            faults.append(f"default_joint_pos of {name} is {pose}, outside its joint_pos_limits [{low}, {high}]{hint}")
    motor = {"saturation_effort", "velocity_limit"}
    grouped: Counter[str] = Counter()
    for number, actuator in enumerate(data["actuators"]):
        grouped.update(actuator["joints"])
        if actuator["law"] == "dc_motor" and (lacking := sorted(motor - actuator.keys())):
            faults.append(f"actuators[{number}].law dc_motor needs {' and '.join(lacking)}")
    if wrong := [name for name in dict.fromkeys((*names, *grouped)) if grouped[name] != 1 or name not in names]:
        faults.append(f"actuators must list each of joint_names once, and do not: {', '.join(wrong)}")
    for key in ("scale", "offset", "clip"):
        if len(values := data["action"].get(key) or names) != len(names):
            faults.append(f"action.{key} has {len(values)} entries for {len(names)} joint_names")
    ratio = data["control_dt"] / data["physics_dt"]
    if not 1 <= round(ratio) <= MAX_DECIMATION or abs(ratio - round(ratio)) > 1e-6:
        faults.append(
            f"control_dt {data['control_dt']} is not a multiple of physics_dt {data['physics_dt']}, "
            f"from 1 to {MAX_DECIMATION}"
        )
    scan = data.get("height_scan")
    dims = {"joint_pos": len(names), "joint_vel": len(names), "imu_quat_wxyz": 4, "gyro": 3, "command": len(numbers),
            "base_lin_vel": 3, "object_pos": 3, "height_scan": HeightScan(**frozen(scan)).num_points if scan else 0,
            "state": data["state_dim"], "joint_pos_target": len(names), "action": len(names),
            "next_state": data["state_dim"]}  # fmt: skip
    if dims["height_scan"] > MAX_SCAN_POINTS:
        faults.append(f"height_scan has {dims['height_scan']} points, and {MAX_SCAN_POINTS} at most")
    inputs = [signal["name"] for signal in data["inputs"]]
    if ("height_scan" in inputs) != (scan is not None):
        faults.append("height_scan must describe the input of that name, and be absent without one")
    if len(objects := data.get("objects") or {}) != 1 and ("object_pos" in inputs or objects):
        faults.append(f"objects has {len(objects)}, and a policy that reads object_pos has one")
    measured = (name for name in MEASURED if not (data.get("fixed_base") and name in IMU))
    read = (*measured, *(name for name in ESTIMATED if name in inputs), "state")
    if unread := [name for name in data.get("estimators", {}) if name not in inputs or name not in ESTIMATED]:
        faults.append(f"estimators names {', '.join(unread)}, which the policy does not read")
    estimates = (signal["name"] for signal in data["outputs"] if signal["name"].startswith(ESTIMATE))
    for key, expected in (("inputs", read), ("outputs", (*OUTPUTS[:-1], *estimates, OUTPUTS[-1]))):
        if (found := tuple(signal["name"] for signal in data[key])) != expected:
            faults.append(f"{key} are {', '.join(found)}; expected {', '.join(expected)}")
        faults += [
            f"{signal['name']} has shape {signal['shape']}, expected ['N', {dims[signal['name']]}]"
            for signal in data[key]
            if signal["name"] in dims and signal["shape"] != ["N", dims[signal["name"]]]
        ]
    faults += [f"files: {name!r} is not a plain file name" for name in data["files"] if Path(name).name != name]
    return faults


def _of_command(data: dict[str, Any], numbers: Mapping[str, Any]) -> list[str]:
    """Faults of the command."""
    faults = []
    operator = data.get("operator", VELOCITY)
    if operator == VELOCITY and set(numbers) != set(TWIST):
        twist = ", ".join(TWIST)
        faults.append(f"commands has {', '.join(numbers)}; a velocity has {twist}, others have operator: {NUMBERS}")
    for key in ("command_acceleration", "command_rest"):
        if len(data.get(key) or numbers) != len(numbers):
            faults.append(f"{key} has {len(data[key])} entries for {len(numbers)} numbers of the command")
    if operator != VELOCITY and "command_acceleration" not in data:
        faults.append(f"command_acceleration is missing, and nothing else limits how fast {', '.join(numbers)} change")
    for (name, (low, high)), value in zip(numbers.items(), data.get("command_rest") or (), strict=False):
        if not low <= value <= high:
            faults.append(f"command_rest of {name} is {value}, outside its range [{low}, {high}]")
    units = next((signal["unit"] for signal in data["inputs"] if signal["name"] == "command"), "")
    if operator != VELOCITY and len(units.split(", ")) != len(numbers):
        faults.append(f"the unit of command is {units!r}; expected one, and a comma, for each of {', '.join(numbers)}")
    if operator != VELOCITY and "command_calibration" in data:
        faults.append("command_calibration is for velocities")
    if "suite" in data and (operator == VELOCITY or not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", data["suite"])):
        faults.append(f"suite is {data['suite']!r}; expected module:OBJECT, of a command that is no velocity")
    return faults
