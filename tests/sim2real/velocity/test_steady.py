"""Bias, oscillation and straightness of motions that are known."""

from __future__ import annotations

import numpy as np
import pytest
from gaitway_onboard.rotation import quat_from_axis
from gaitway_sim2real.trial.simulate import Trajectory
from gaitway_velocity.steady import steady_metrics
from recording import recording

DT = 0.02


def walking(seconds: float = 8.0, *, command: tuple[float, float, float], **motion: float) -> Trajectory:
    """One robot that sways at 1.3 Hz with amplitude ``sway`` about ``vx``, ``vy`` and ``turn``."""
    steps = round(seconds / DT)
    time = DT * np.arange(steps)
    lin_vel, ang_vel = np.zeros((steps, 1, 3)), np.zeros((steps, 1, 3))
    sway = motion.get("sway", 0.0) * np.sin(2 * np.pi * 1.3 * time + 0.7)
    lin_vel[:, 0, 0] = motion.get("vx", 0.0) + sway
    lin_vel[:, 0, 1] = motion.get("vy", 0.0)
    ang_vel[:, 0, 2] = motion.get("turn", 0.0) + sway
    heading = np.cumsum(ang_vel[:, 0, 2]) * DT
    return recording(
        steps=steps, robots=1, command=np.tile(np.array(command), (steps, 1, 1)), lin_vel=lin_vel, ang_vel=ang_vel,
        base_quat=quat_from_axis(2, heading)[:, None],
    )  # fmt: skip


def of(rec: Trajectory) -> dict[str, float]:
    return {name: float(values[0]) for name, values in steady_metrics(rec).items()}


@pytest.mark.parametrize("seconds", [7.6, 8.0, 8.3])  # wherever the last stride is cut off
def test_a_sway_is_no_bias(seconds: float) -> None:
    found = of(walking(seconds, command=(0.5, 0.0, 0.2), vx=0.5, turn=0.2, sway=0.3))
    assert found["lin_vel_bias"] < 0.002 and found["yaw_vel_bias"] < 0.002
    assert found["lin_vel_oscillation"] == pytest.approx(0.3 * 2 / np.pi, rel=0.02)
    assert found["yaw_vel_oscillation"] == pytest.approx(0.3 * 2 / np.pi, rel=0.02)


def test_a_bias_is_no_sway() -> None:
    found = of(walking(command=(0.5, 0.0, 0.2), vx=0.46, vy=0.03, turn=0.27))
    assert found["lin_vel_bias"] == pytest.approx(0.05)
    assert found["yaw_vel_bias"] == pytest.approx(0.07)
    assert found["lin_vel_oscillation"] == pytest.approx(0.0, abs=1e-9)
    assert np.isnan(found["heading_drift"]) and np.isnan(found["sideways_drift"])  # it was told to turn


def test_straightness_is_across_the_command_and_in_the_plane() -> None:
    found = of(walking(command=(0.0, -0.5, 0.0), vx=0.04, vy=-0.4, turn=-0.03, sway=0.0))
    assert found["sideways_drift"] == pytest.approx(0.1)
    assert found["heading_drift"] == pytest.approx(0.03)
    assert of(walking(command=(0.5, 0.0, 0.0)))["sideways_drift"] == 0.0
    assert np.isnan(of(walking(command=(0.1, 0.0, 0.0), vx=0.1))["sideways_drift"])  # too slow to go anywhere


def test_a_robot_that_hardly_moves_does_not_divide_by_nothing() -> None:
    found = of(walking(command=(1.0, 0.0, 0.0), vx=0.001, vy=0.05))
    assert found["sideways_drift"] == pytest.approx(0.1)  # of half its command


def test_what_changes_or_falls_early_says_nothing() -> None:
    rec = walking(command=(0.5, 0.0, 0.0), vx=0.5)
    rec.command[300:] = 0.0
    assert all(np.isnan(value) for value in of(rec).values())
    rec = walking(command=(0.5, 0.0, 0.0), vx=0.4)
    rec.alive[140:] = False  # 0.8 s after the ramp
    assert all(np.isnan(value) for value in of(rec).values())
    rec = walking(command=(0.5, 0.0, 0.0), vx=0.4)
    rec.alive[160:] = False
    rec.lin_vel[160:] = 9.0
    assert of(rec)["lin_vel_bias"] == pytest.approx(0.1)
