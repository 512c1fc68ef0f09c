"""Logs of other programs as flights: the same numbers in npz, CSV and rosbag2, and refusals of other units."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from gaitway_files.errors import UserError
from gaitway_onboard.flight.reading import Flight, read_flight
from gaitway_onboard.wire.ros import encode_imu, encode_joint_state
from gaitway_sim2real.identify.drive_log import read_drive_logs
from gaitway_sim2real.logs.reading import LogOptions, read_any
from gaitway_tasks.robots import GO2
from mcap.writer import Writer

COUNT, PERIOD, START = 400, 0.002, 1_700_000_000.0
JOINTS = GO2.hardware.joint_names  # FR before FL: not the robot's own order
TIME = START + PERIOD * np.arange(COUNT)
PHASE = 9.0 * (TIME - START)[:, None] + np.arange(12)
POS, VEL = 0.3 * np.sin(PHASE), 2.7 * np.cos(PHASE)
TORQUE, TARGETS = 3.0 * np.sin(PHASE), 0.3 * np.sin(PHASE + 0.1)
KP, KD = 20.0 + np.arange(12.0), 0.5 + 0.01 * np.arange(12)
QUAT, GYRO = np.array([0.8, 0.0, 0.6, 0.0]), np.array([0.01, 0.02, 0.03])


def arrays() -> dict[str, np.ndarray]:
    return {
        "time": TIME, "joint_names": np.array(JOINTS), "joint_pos": POS, "joint_vel": VEL, "joint_torque": TORQUE,
        "targets": TARGETS, "stiffness": KP, "damping": KD, "imu_quat_wxyz": np.tile(QUAT, (COUNT, 1)),
        "gyro": np.tile(GYRO, (COUNT, 1)),
    }  # fmt: skip


def npz(folder: Path, **changes: object) -> Path:
    found = {name: value for name, value in (arrays() | changes).items() if value is not None}
    np.savez(folder / "log.npz", **found)
    return folder / "log.npz"


def table(folder: Path, head: dict[str, str] | None = None) -> Path:
    """A CSV with names as others write them."""
    names = {"joint_pos": "q.", "joint_vel": "dq/", "joint_torque": "tau_est_", "targets": "q_des:",
             "stiffness": "kp.", "damping": "kd."} | (head or {})  # fmt: skip
    columns: dict[str, np.ndarray] = {"t": TIME - START, "battery": np.ones(COUNT)}
    for field, value in arrays().items():
        if field in names:
            rows = np.broadcast_to(value, (COUNT, 12))
            columns |= {f"{names[field]}{joint}": rows[:, k] for k, joint in enumerate(JOINTS)}
    columns |= {f"imu_quat_wxyz.{letter}": np.full(COUNT, QUAT[k]) for k, letter in enumerate("wxyz")}
    columns |= {f"gyro.{k}": np.full(COUNT, GYRO[k]) for k in range(3)}
    with (path := folder / "log.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        rows.writerows(zip(*(map(repr, map(float, value)) for value in columns.values()), strict=True))
    return path


def messages(stamped: bool) -> list[tuple[str, str, int, bytes]]:
    """Topic, type, time of recording and content, of states, an IMU, targets and a gripper's."""
    found = []
    for k, now in enumerate(TIME):
        ns = round(1e9 * now)
        stamp, late = ns if stamped else 0, ns + 300_000
        extra = [*JOINTS, "gripper"], np.append(POS[k], 1.0), np.append(VEL[k], 0.0), np.append(TORQUE[k], 0.0)
        state = encode_joint_state(stamp, *extra)
        found.append(("/joint_states", "sensor_msgs/msg/JointState", late, state))
        found.append(("/imu", "sensor_msgs/msg/Imu", late, encode_imu(stamp, QUAT, GYRO, [0.0, 0.0, 9.81])))
        target = encode_joint_state(stamp, [*JOINTS[::-1], "gripper"], np.append(TARGETS[k][::-1], 1.0))
        found.append(("/joint_targets", "sensor_msgs/msg/JointState", late, target))
    return found


def db3(folder: Path, stamped: bool = True) -> Path:
    """A recording as rosbag2's sqlite3 plugin stores it: its two tables."""
    (folder / "bag").mkdir()
    (folder / "bag" / "metadata.yaml").write_text("rosbag2_bagfile_information: {version: 5}\n")
    database = sqlite3.connect(folder / "bag" / "bag_0.db3")
    database.execute("CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, "
                     "serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL)")  # fmt: skip
    database.execute("CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, "
                     "timestamp INTEGER NOT NULL, data BLOB NOT NULL)")  # fmt: skip
    rows = messages(stamped)
    topics = {topic: kind for topic, kind, _, _ in rows}
    numbers = {topic: number for number, topic in enumerate(topics, 1)}
    database.executemany(
        "INSERT INTO topics VALUES (?, ?, ?, 'cdr', '')", [(n, t, topics[t]) for t, n in numbers.items()]
    )
    database.executemany(
        "INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)",
        [(numbers[topic], late, data) for topic, _, late, data in rows],
    )
    database.commit()
    database.close()
    return folder / "bag"


def mcap(folder: Path, stamped: bool = True) -> Path:
    with (path := folder / "rosbag2_0.mcap").open("wb") as file:
        writer = Writer(file)
        writer.start(profile="ros2", library="libmcap")
        channels: dict[str, int] = {}
        for topic, kind, late, data in messages(stamped):
            if topic not in channels:
                schema = writer.register_schema(kind, "ros2msg", b"")
                channels[topic] = writer.register_channel(topic, "cdr", schema)
            writer.add_message(channels[topic], late, data, late)
        writer.finish()
    return path


def gains(folder: Path) -> str:
    path = folder / "gains.yaml"
    path.write_text(f"stiffness: {dict(zip(JOINTS, KP.tolist(), strict=True))}\n"
                    f"damping: {dict(zip(JOINTS, KD.tolist(), strict=True))}\n")  # fmt: skip
    return str(path)


@pytest.mark.parametrize("make", [npz, table, db3, mcap])
def test_a_log_becomes_a_flight_of_its_numbers_in_the_robots_order(tmp_path, make):
    options = LogOptions(robot=GO2, gains=gains(tmp_path) if make in (db3, mcap) else None)
    flight, foreign = read_any(make(tmp_path), options, tmp_path / "log.mcap")
    order = [JOINTS.index(joint) for joint in GO2.joint_names]
    assert foreign and flight.robot == "go2" and flight.joint_names == GO2.joint_names
    np.testing.assert_allclose(flight.state.time, TIME - START, atol=1e-6)
    for name, value in (("joint_pos", POS), ("joint_vel", VEL), ("joint_torque", TORQUE)):
        np.testing.assert_allclose(flight.state.values[name], value[:, order], atol=1e-12)
    for name, value in (("targets", TARGETS), ("stiffness", KP), ("damping", KD)):
        np.testing.assert_allclose(flight.frame.values[name], np.broadcast_to(value, POS.shape)[:, order], atol=1e-12)
    np.testing.assert_allclose(flight.state.imu_quat_wxyz, np.tile(QUAT, (COUNT, 1)))
    np.testing.assert_allclose(flight.state.gyro, np.tile(GYRO, (COUNT, 1)))
    written = read_flight(tmp_path / "log.mcap")
    np.testing.assert_array_equal(written.state.joint_pos, flight.state.joint_pos)
    (log,) = read_drive_logs(tmp_path / "log.mcap", GO2)
    assert log.torque is not None and log.period == pytest.approx(PERIOD, rel=1e-3)
    np.testing.assert_allclose(log.gravity[0], [9.81 * 0.96, 0.0, -9.81 * 0.28], atol=1e-6)


def said(path: Path, **options: object) -> tuple[Flight, str]:
    lines: list[str] = []
    flight, _ = read_any(path, LogOptions(robot=GO2, **options), say=lines.append)
    return flight, "\n".join(lines)


def test_what_is_assumed_and_not_read_is_said(tmp_path):
    flight, text = said(npz(tmp_path, imu_quat_wxyz=None, gyro=None, speed_limit=np.ones(3)))
    assert "level and still" in text and "speed_limit" in text
    np.testing.assert_array_equal(flight.state.imu_quat_wxyz[0], [1.0, 0.0, 0.0, 0.0])
    _, text = said(db3(tmp_path, stamped=False), gains="20,0.5")
    assert "times are those of recording" in text and "gripper" in text and "/joint_targets" in text
    joints = np.vstack([POS, POS[:1]])
    joints[7] = np.nan
    longer = {"joint_pos": joints, "joint_vel": np.vstack([VEL, VEL[:1]]), "time": np.append(TIME, TIME[0]),
              "targets": None, "joint_torque": None, "imu_quat_wxyz": None, "gyro": None}  # fmt: skip
    flight, text = said(npz(tmp_path, **longer))
    assert "2 of 401 rows" in text and len(flight.state) == COUNT - 1 and not len(flight.frame)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"joint_pos": np.degrees(POS), "joint_vel": np.degrees(VEL)}, "in rad"),
        ({"joint_vel": np.degrees(VEL)}, r"57\.3 times.*rad/s"),
        ({"time": 1e3 * (TIME - START)}, "every 2 .*in seconds"),
        ({"joint_vel": None}, "no joint_vel"),
        ({"joint_names": None}, "no joint_names"),
        ({"joint_names": np.array([f"motor_{k}" for k in range(12)])}, "no joint FL_hip_joint.*motor_0"),
        ({"joint_vel": VEL[:, :3]}, r"joint_vel of shape \[400, 3\]; expected \[400, 12\]"),
        ({"targets": TARGETS[:7]}, r"targets of shape \[7, 12\]"),
        ({"stiffness": None}, "no stiffness.*--gains"),
        ({"q": POS}, "joint_pos twice"),
        ({"time": np.tile(TIME, (2, 1))}, "time of shape"),
    ],
)  # fmt: skip
def test_other_units_and_missing_fields_are_refused_by_name(tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        said(npz(tmp_path, **changes))


def test_one_number_or_one_row_stands_for_all_gains(tmp_path):
    flight, _ = said(npz(tmp_path, stiffness=np.array(20.0), damping=np.full(COUNT, 0.5)))
    assert (flight.frame.stiffness == 20.0).all() and (flight.frame.damping == 0.5).all()


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (npz, {"gains": "20,0.5"}, "stiffness and damping itself"),
        (npz, {"topics": ("/joint_states",)}, "topics"),
        (db3, {"gains": "20,-1"}, "damping is -1"),
        (db3, {"gains": "many.yaml"}, "no such file"),
        (mcap, {"topics": ("/robot_states",)}, "no topic /robot_states.*/joint_states"),
        (mcap, {}, "--gains"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, make, options, words):
    with pytest.raises(UserError, match=words):
        said(make(tmp_path), **options)


def test_columns_are_named_by_joint(tmp_path):
    path = table(tmp_path)
    text = path.read_text()
    path.write_text(text.replace("q.FR_hip_joint", "q.0", 1))
    with pytest.raises(UserError, match=r"'q\.0'.*joint_pos\.FL_hip_joint"):
        said(path)
    path.write_text(text.replace("dq/FR_hip_joint", "speed", 1))
    with pytest.raises(UserError, match="joint_vel"):
        said(path)
    path.write_text(text.replace("\n0.0,", "\nnever,", 1))
    with pytest.raises(UserError, match=r"line 2.*never"):
        said(path)


def test_a_database_runs_nothing(tmp_path):
    bag = db3(tmp_path)
    database = sqlite3.connect(bag / "bag_0.db3")
    database.execute("ALTER TABLE messages RENAME TO hidden")
    database.execute("CREATE VIEW messages AS SELECT * FROM hidden")
    database.commit()
    database.close()
    with pytest.raises(UserError, match="no table messages"):
        said(bag)
    (bag / "bag_0.db3").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(UserError, match="git lfs pull"):
        said(bag)
    (bag / "bag_0.db3").write_bytes(b"SQLite format 3\0" + bytes(2000))
    with pytest.raises(UserError, match="bag_0"):
        said(bag)
