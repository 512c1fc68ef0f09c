"""Logs of ROS 2: rosbag2's files, read without ROS."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from gaitway_files.reading import FileError, printable
from gaitway_files.sqlite_files import read_rows
from gaitway_onboard.flight.reading import read_messages
from gaitway_onboard.interface import Array
from gaitway_onboard.wire.declarations import JOINT_STATE
from gaitway_onboard.wire.idl import decode
from gaitway_onboard.wire.ros import JointReading, JointStateReader, read_imu

from .log import Log

JOINTS, IMU = "sensor_msgs/msg/JointState", "sensor_msgs/msg/Imu"
STATES = "/joint_states"
SUFFIXES = (".db3", ".mcap")
CLOCKS = 2.0
"""Most that the stamps of states and commands may differ from the times of recording, to be of one clock [s]."""
Messages = list[tuple[int, bytes]]


def bag_files(path: Path) -> list[Path]:
    """Files of a recording: ``path`` itself, or those in its folder. Raises :class:`FileError`."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
    if packed := [file for file in path.iterdir() if file.suffix == ".zstd"]:
        raise FileError(packed[0], "is compressed as a whole: unpack it with zstd -d")
    if not found:
        raise FileError(path, "has no .db3 or .mcap file: is it a recording of ros2 bag?")
    return found


def read_bag(path: Path, topics: Sequence[str] = ()) -> Log:
    """The joint states of a recording, the joint targets of another JointState topic, and its IMU.

    ``topics`` are those of states, targets and IMU, where there are several. Raises :class:`FileError`.
    """
    kinds: dict[str, str] = {}
    messages: dict[str, Messages] = defaultdict(list)
    notes: list[str] = []
    for file in bag_files(path):
        for kind in (JOINTS, IMU):
            for topic, found in _messages(file, kind, notes).items():
                kinds[topic] = kind
                messages[topic] += found
    if unknown := [topic for topic in topics if topic not in kinds]:
        raise FileError(path, f"has no topic {unknown[0]} of {JOINTS} or {IMU}; of these: {', '.join(kinds) or 'none'}")
    states = _chosen(path, kinds, JOINTS, topics, STATES)
    if states is None:
        listed = ", ".join(topic for topic, kind in kinds.items() if kind == JOINTS) or "none"
        raise FileError(path, f"has no topic {STATES} of {JOINTS} (of that type: {listed}): name it with --topics")
    start = messages[states][0][0]
    joints, time, stamps, arrays = _joint_states(path, states, messages[states], start)
    if "joint_vel" not in arrays:
        raise FileError(path, f"has no velocities in {states}: record a state broadcaster that has them")
    others = {topic: kind for topic, kind in kinds.items() if topic != states}
    commands: dict[str, Array] = {}
    command_time = time
    use_stamps = _one_clock(time, stamps)
    if (targets := _chosen(path, others, JOINTS, topics)) is not None:
        moved, command_time, command_stamps, told = _joint_states(path, targets, messages[targets], start)
        if set(moved) != set(joints):
            raise FileError(path, f"has targets of {', '.join(moved)} in {targets}, and states of {', '.join(joints)}")
        commands = {"targets": told["joint_pos"][:, [moved.index(joint) for joint in joints]]}
        if use_stamps := use_stamps and _one_clock(command_time, command_stamps):
            command_time = command_stamps
        notes.append(f"states from {states}, joint targets from {targets}")
    if use_stamps:
        time = stamps
    else:
        notes.append("times are those of recording: the messages' own stamps are not of one clock")
    if (imu := _chosen(path, others, IMU, topics)) is not None:
        arrays |= _imu(imu, messages[imu], start, time, use_stamps, notes)
    return Log(
        path=path, joints=joints, time=time, states=arrays, command_time=command_time, commands=commands, notes=notes
    )


def _messages(file: Path, kind: str, notes: list[str]) -> dict[str, Messages]:
    """Messages of one type by topic, in the order of their times."""
    if file.suffix == ".mcap":
        found, whole = read_messages(file, [kind])
        if not whole:
            notes.append(f"{file.name} is damaged or was not finished: the rest of it is read")
    else:
        found = defaultdict(list)
        for number, topic, encoding in read_rows(file, "topics", ("id", "name", "serialization_format"), "type", kind):
            if encoding != "cdr":
                raise FileError(file, f"has {printable(topic, 80)} in {printable(encoding, 80)}; cdr is read")
            found[str(topic)] += read_rows(file, "messages", ("timestamp", "data"), "topic_id", number)
    return {printable(topic, 80): sorted(rows, key=lambda row: row[0]) for topic, rows in found.items()}


def _chosen(path: Path, kinds: dict[str, str], kind: str, topics: Sequence[str], usual: str = "") -> str | None:
    """The topic of a type: the first of ``topics`` that has it, else the usual or only one."""
    present = [topic for topic, found in kinds.items() if found == kind]
    named = [topic for topic in topics if topic in present]
    if named or usual in present:
        return named[0] if named else usual
    if usual or topics or not present:
        return None
    if len(present) > 1:
        raise FileError(
            path, f"has {len(present)} topics of {kind} ({', '.join(present)}): name those to read with --topics"
        )
    return present[0]


def _joint_states(
    path: Path, topic: str, messages: Messages, start: int
) -> tuple[tuple[str, ...], Array, Array, dict[str, Array]]:
    """Joints, times of recording and stamps (N,) [s] since ``start`` [ns], and the arrays of a topic."""
    joints = tuple(decode(JOINT_STATE, messages[0][1])["name"])
    if len(set(joints)) != len(joints) or not joints:
        raise FileError(path, f"has a message in {topic} that names no joint, or one twice")
    reader = JointStateReader(joints)
    read = [(time, reading) for time, data in messages if (reading := reader.read(data)) is not None]
    readings = [reading for _, reading in read]
    parts = {"joint_pos": "position", "joint_vel": "velocity", "joint_torque": "effort"}
    arrays = {name: _rows(readings, part, len(joints)) for name, part in parts.items()}
    return (
        joints,
        np.array([time - start for time, _ in read], float) / 1e9,
        np.array([reading.stamp - start for reading in readings], float) / 1e9,
        {name: value for name, value in arrays.items() if not np.isnan(value).all()},
    )


def _rows(readings: Iterable[JointReading], name: str, width: int) -> Array:
    """One number of each joint (N, J); NaN where a message has none."""
    values = (getattr(reading, name) for reading in readings)
    return np.array([np.full(width, np.nan) if value is None else value for value in values], float).reshape(-1, width)


def _one_clock(times: Array, stamps: Array) -> bool:
    """True if stamps run on, beside the times of recording."""
    late = times - stamps
    return bool((np.diff(stamps) >= 0.0).all() and np.ptp(stamps) > 0.0 and np.abs(late).max() < CLOCKS)


def _imu(topic: str, messages: Messages, start: int, time: Array, stamps: bool, notes: list[str]) -> dict[str, Array]:
    """Orientation, turning and acceleration as they were known at each ``time`` [s] after ``start`` [ns], (N,)."""
    readings = [(at, read_imu(data)) for at, data in messages]
    known = np.array([(reading.stamp if stamps else at) - start for at, reading in readings], float) / 1e9
    newest = np.maximum(np.searchsorted(known, time, side="right") - 1, 0)
    found = {
        "gyro": np.array([reading.gyro for _, reading in readings])[newest],
        "accelerometer": np.array([reading.accelerometer for _, reading in readings])[newest],
    }
    notes.append(f"IMU from {topic}, taken to be aligned with the base")
    if all(reading.oriented for _, reading in readings):
        found["imu_quat_wxyz"] = np.array([reading.quat_wxyz for _, reading in readings])[newest]
    return found
