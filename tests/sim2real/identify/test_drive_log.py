"""Flights as drive logs: order of joints, bad states, torques that are none, stretches with the same gains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.interface import Health, Signals
from gaitway_sim2real.identify.drive_log import DriveLog, IdentificationError, read_drive_logs, steady_part
from gaitway_tasks.robots import GO2

JOINTS = GO2.hardware.joint_names  # FR before FL: not the canonical order
COUNT, PERIOD = 400, 0.002
KP = np.arange(12) + 20.0


def fly(path: Path, *, torque: float | None = 1.0, bad: int | None = None, robot: str = "go2") -> Path:
    """Joint j of the wire reads j + time; 100 frames of damping, then the gains ``KP``."""
    log = open_flight(path, JOINTS, {"robot": robot, "hardware": "unitree-go2"}, realtime=False)
    number = np.arange(12.0)
    for tick in range(COUNT):
        now = PERIOD * tick
        pos = np.full(12, np.nan) if tick == bad else number + now
        tau = None if torque is None else torque * np.sin(now + number)
        stamp = now + 0.0005 * (tick % 3)
        state = Signals(
            joint_pos=pos,
            joint_vel=np.ones(12),
            imu_quat_wxyz=np.eye(4)[0],
            gyro=np.zeros(3),
            stamp=stamp,
            joint_torque=tau,
            health=Health(tick=2 * tick),
        )
        log.state(state)
        damped = tick < 100
        targets = np.full(12, np.nan) if damped else number
        log.frame(now, "damp" if damped else "policy", targets, 0.0 * KP if damped else KP, 0.1 * KP, targets)
    log.close()
    return path


def read(path: Path) -> DriveLog:
    (log,) = read_drive_logs(path, GO2)
    return log


def test_joints_are_in_the_canonical_order_and_stamps_steady(tmp_path):
    log = read(fly(tmp_path / "a.mcap"))
    order = [JOINTS.index(name) for name in GO2.joint_names]
    np.testing.assert_allclose(log.stiffness[-1], KP[order])
    np.testing.assert_allclose(log.pos[0], np.array(order, float), atol=1e-6)
    np.testing.assert_allclose(np.diff(log.time), PERIOD, rtol=1e-2)
    np.testing.assert_allclose(log.gravity, np.tile([0.0, 0.0, -9.81], (COUNT, 1)), atol=1e-9)
    assert np.isfinite(log.targets).all() and log.torque is not None


def test_states_that_are_none_are_left_out(tmp_path):
    log = read(fly(tmp_path / "a.mcap", bad=200))
    assert len(log.time) == COUNT - 1 and np.isfinite(log.pos).all()
    assert np.diff(log.time).max() == pytest.approx(2 * PERIOD, rel=1e-2)


@pytest.mark.parametrize("torque", [None, 0.0])
def test_a_wire_that_reports_no_torque_or_zeros_has_none(tmp_path, torque):
    assert read(fly(tmp_path / "a.mcap", torque=torque)).torque is None


def test_the_steady_part_has_one_set_of_gains(tmp_path):
    part = steady_part(read(fly(tmp_path / "a.mcap")))
    assert len(part.frame_time) == COUNT - 100 and (part.stiffness == part.stiffness[0]).all()
    assert part.time[0] >= part.frame_time[0] and abs(len(part.time) - len(part.frame_time)) <= 2


def test_a_folder_is_all_its_flights(tmp_path):
    for name in ("b.mcap", "a.mcap"):
        fly(tmp_path / name)
    assert [Path(log.source).name for log in read_drive_logs(tmp_path, GO2)] == ["a.mcap", "b.mcap"]


def test_another_robots_flight_is_refused(tmp_path):
    with pytest.raises(IdentificationError, match="flight of h1, not of go2"):
        read(fly(tmp_path / "a.mcap", robot="h1"))
