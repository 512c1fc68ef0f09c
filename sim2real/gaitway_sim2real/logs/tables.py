"""Logs as tables: arrays in an ``.npz`` file, or columns in a CSV file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from gaitway_files.archives import read_npz
from gaitway_files.reading import GIB, FileError, as_text, read_lines
from gaitway_onboard.interface import Array

from .log import COMMAND, STATE, Log

CSV_BYTES = 4 * GIB
VECTORS = {"imu_quat_wxyz": "wxyz", "gyro": "xyz", "accelerometer": "xyz"}
"""Fields of the base, and the letters of their numbers."""
NAMES = {
    "time": ("time", "t", "timestamp"),
    "joint_pos": ("joint_pos", "q", "pos", "position"),
    "joint_vel": ("joint_vel", "qd", "dq", "vel", "velocity"),
    "joint_torque": ("joint_torque", "tau", "tau_est", "torque", "effort"),
    "targets": ("targets", "q_des", "q_cmd", "command", "target"),
    "stiffness": ("stiffness", "kp"),
    "damping": ("damping", "kd"),
    "imu_quat_wxyz": ("imu_quat_wxyz", "quat_wxyz"),
    "gyro": ("gyro", "angular_velocity"),
    "accelerometer": ("accelerometer", "linear_acceleration"),
    "command_time": ("command_time",),
    "joint_names": ("joint_names", "joints"),
}
"""Names under which a field may stand, in small letters."""
FIELDS = {name: field for field, names in NAMES.items() for name in names}
_COLUMN = re.compile(
    rf"({'|'.join(sorted(map(re.escape, FIELDS), key=len, reverse=True))})(?:[._/:\[]([^\]]+)\]?)?", re.IGNORECASE
)


def read_table(path: Path) -> Log:
    """The log in a ``.npz`` or ``.csv`` file. Raises :class:`FileError`."""
    arrays, joints, unread = _npz(path) if path.suffix.lower() == ".npz" else _csv(path)
    for name in ("time", "joint_pos", "joint_vel"):
        if name not in arrays:
            raise FileError(path, f"has no {name} ({' or '.join(NAMES[name])}); docs/identify.md lists the fields")
    if not joints:
        raise FileError(path, "has no joint_names: add them, in the order of the columns of joint_pos")
    rows, times = len(arrays["time"]), arrays.get("command_time", arrays["time"])
    states = {
        name: _shaped(path, name, arrays[name], rows, len(joints) if name in STATE else len(VECTORS[name]))
        for name in (*STATE, *VECTORS)
        if name in arrays
    }
    commands = {
        name: _shaped(path, name, arrays[name], len(times), len(joints), repeat=name != "targets")
        for name in COMMAND
        if name in arrays and "targets" in arrays
    }
    notes = [f"not read: {', '.join(unread[:20])}{', ...' if len(unread) > 20 else ''}"] if unread else []
    return Log(
        path=path, joints=joints, time=arrays["time"], states=states, command_time=times, commands=commands, notes=notes
    )


def _npz(path: Path) -> tuple[dict[str, Array], tuple[str, ...], list[str]]:
    arrays: dict[str, Array] = {}
    unread: list[str] = []
    joints: tuple[str, ...] = ()
    for name, value in read_npz(path).items():
        field = FIELDS.get(name.lower())
        if field == "joint_names":
            joints = tuple(map(str, value.ravel()))
        elif field is None or value.dtype.kind not in "biuf":
            unread.append(name)
        elif field in arrays:
            raise FileError(path, f"has {field} twice: {' or '.join(NAMES[field])}")
        else:
            arrays[field] = value.astype(float)
    if "time" in arrays and arrays["time"].ndim != 1:
        raise FileError(path, f"has time of shape {list(arrays['time'].shape)}; expected one number for each row")
    return arrays, joints, unread


def _csv(path: Path) -> tuple[dict[str, Array], tuple[str, ...], list[str]]:
    rows = csv.reader(_lines(path))
    header = [name.strip() for name in next(rows, [])]
    numbers, columns = [], len(header)
    for row in rows:
        if not row:
            continue
        if len(row) != columns:
            raise FileError(path, f"line {rows.line_num} has {len(row)} columns, and the first line {columns}")
        try:
            numbers.append([float(value) if value.strip() else np.nan for value in row])
        except ValueError:
            bad = next(value for value in row if value.strip() and not _number(value))
            raise FileError(path, f"line {rows.line_num} has {bad[:80]!r}, expected numbers") from None
    table = np.array(numbers, float).reshape(-1, columns)
    found: dict[str, dict[str, int]] = {}
    unread = []
    for index, name in enumerate(header):
        match = _COLUMN.fullmatch(name)
        if match is None:
            unread.append(name)
            continue
        field, part = FIELDS[match[1].lower()], match[2] or ""
        if part in found.setdefault(field, {}):
            raise FileError(path, f"has the column {name!r} twice, as {header[found[field][part]]!r}")
        found[field][part] = index
    joints = tuple(found.get("joint_pos", {}))
    if numbered := [joint for joint in joints if joint.isdigit() or not joint]:
        raise FileError(
            path, f"has the column {header[found['joint_pos'][numbered[0]]]!r}: name columns by joint, such as "
            "joint_pos.FL_hip_joint"
        )  # fmt: skip
    return {f: _columns(path, f, parts, joints, table) for f, parts in found.items()}, joints, unread


def _columns(path: Path, field: str, parts: Mapping[str, int], joints: tuple[str, ...], table: Array) -> Array:
    """The columns of a field, in the order of the joints or of the vector's letters."""
    if tuple(parts) == ("",):
        return table[:, parts[""]]
    if field in VECTORS:
        letters = VECTORS[field]
        wanted = tuple(letters) if set(parts) == set(letters) else tuple(map(str, range(len(letters))))
    else:
        wanted = joints
    if set(wanted) != set(parts):
        raise FileError(path, f"has {field} of {', '.join(parts)}; expected {', '.join(wanted)}")
    return table[:, [parts[name] for name in wanted]]


def _shaped(path: Path, name: str, value: Array, rows: int, width: int, repeat: bool = False) -> Array:
    """``value`` as (rows, width); with ``repeat``, one number or row may stand for all."""
    if repeat and value.shape == (rows,):
        value = value[:, None]
    if repeat and (value.ndim < 2 or value.shape[1] == 1):
        value = np.broadcast_to(value, (rows, width)) if value.shape in ((), (width,), (rows, 1)) else value
    if value.shape != (rows, width):
        raise FileError(path, f"has {name} of shape {list(value.shape)}; expected [{rows}, {width}]")
    return value


def _lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(read_lines(path, CSV_BYTES)):
        yield as_text(line, path).lstrip("\ufeff" if number == 0 else "")


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
