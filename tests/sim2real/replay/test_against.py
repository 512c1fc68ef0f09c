"""A flight against bundles: its own, another, another robot's; and in MuJoCo with the right and the wrong drives."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_onboard.flight.reading import Columns, Flight, read_flight
from gaitway_sim2real.replay.compare import EVERY, Comparison, compare, motion_of
from gaitway_sim2real.replay.motion import make_body, reconstruct
from gaitway_sim2real.replay.open_loop import play
from gaitway_sim2real.replay.policy_check import PolicyCheck, rerun
from gaitway_sim2real.replay.summary import ReplayError
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from stand_bundle import make_stand_bundle

from .leaning import lean_bundle, record

WEAK = RobotParameters(
    robot="go2", joints={name: JointParameters(strength=0.8, friction=0.6) for name in GO2.joint_names}, delay=0.012
)


def changed(flight: Flight, **policy: np.ndarray) -> Flight:
    return dataclasses.replace(flight, policy=Columns({**flight.policy.values, **policy}, 0))


def test_the_policy_computes_what_was_recorded(flight: Flight, lean: Path) -> None:
    check = rerun(flight, lean)
    assert check.same and check.same_bundle and check.own_memory and check.steps == len(flight.policy)
    assert np.nanmax(check.error) < 1e-6
    assert "actions as recorded" in check.text(flight)


def test_where_it_diverges_is_named(flight: Flight, lean: Path) -> None:
    action = flight.policy.action.copy()
    action[40:, 3] += 0.001
    check = rerun(changed(flight, action=action), lean)
    assert check.diverges == 40 and "from step 40 on" in check.text(flight) and not verdict(check)
    assert check.target_rmse.max() < 1e-6, "the targets were not changed"


def test_signals_that_were_changed_are_noticed(flight: Flight, lean: Path) -> None:
    """The joints of two legs swapped: what a wrong motor order would motion_of like."""
    order = [3, 4, 5, 0, 1, 2, *range(6, 12)]
    swapped = Columns({**flight.state.values, "joint_pos": flight.state.joint_pos[:, order]}, 0)
    assert not rerun(dataclasses.replace(flight, state=swapped), lean).same


def test_a_policy_with_another_memory_carries_its_own(flight: Flight, lean: Path) -> None:
    """Steps were recorded from the reset on, so that it arrives at the same."""
    check = rerun(changed(flight, memory=np.zeros((len(flight.policy), 3))), lean)
    assert not check.own_memory and check.same


def test_another_bundle_is_another_policy(flight: Flight, tmp_path: Path) -> None:
    check = rerun(flight, lean_bundle(tmp_path / "other", feedback=-0.3))
    assert not check.same and not check.same_bundle and check.diverges is not None
    assert 0.001 < check.target_rmse.max() < 0.2
    assert verdict(check), "a difference is no fault there"


def verdict(check: PolicyCheck) -> bool:
    return Comparison(bundle="", policy=check, windows=None, walk=None, why_no_walk="").ok


def test_another_robot_is_refused(flight: Flight, lean: Path, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="is for another robot"):
        compare(flight, make_stand_bundle(tmp_path / "anymal"))
    with pytest.raises(ReplayError, match=r"is a flight of a1, and .* is for go2"):
        rerun(dataclasses.replace(flight, metadata={**flight.metadata, "robot": "a1"}), lean)
    with pytest.raises(ReplayError, match="'toaster' is not one of"):
        motion_of(dataclasses.replace(flight, metadata={**flight.metadata, "robot": "toaster"}))
    empty = dataclasses.replace(flight, policy=Columns({}, 0))
    with pytest.raises(ReplayError, match="never in charge"):
        rerun(empty, lean)


def test_motion_is_the_sensors_own(flight: Flight, flown: tuple[Path, np.ndarray]) -> None:
    body = make_body(flight)
    motion = reconstruct(flight, body, EVERY)
    assert np.allclose(motion.qpos[:, body.plant.joint_qpos], flight.state.joint_pos[motion.index])
    assert np.allclose(motion.qpos[:, 3:7], flight.state.imu_quat_wxyz[motion.index], atol=1e-6)
    for row in (5, len(motion.time) // 2):
        body.data.qpos[:] = motion.qpos[row]
        mujoco.mj_kinematics(body.model, body.data)
        feet = [body.data.geom_xpos[g, 2] - body.model.geom_size[g, 0] for g in _spheres(body.model)]
        assert min(feet) == pytest.approx(0.0, abs=1e-6), "the lowest foot touches the ground"
    truth = flown[1]
    chosen = (motion.time > truth[0, 0] + 0.4) & (motion.time < truth[-1, 0] - 0.6)
    assert "leg-inertial filter" in motion.source
    error = np.stack([np.interp(motion.time, truth[:, 0], truth[:, k]) for k in (1, 2, 3)], 1) - motion.lin_vel_b
    assert np.sqrt((error[chosen] ** 2).mean(0)).max() < 0.08
    assert np.abs(truth[:, 1]).max() > 0.1, "it was pushed"


def _spheres(model: mujoco.MjModel) -> list[int]:
    return [model.geom(name).id for name in ("FL_foot", "FR_foot", "RL_foot", "RR_foot")]


def test_recorded_frames_and_commands_through_mujoco(flight: Flight, lean: Path) -> None:
    """The flight was a simulation of the same robot: the same must come out, up to what no sensor tells."""
    found = compare(flight, lean)
    assert found.ok and found.policy is not None and found.policy.same
    assert len(found.windows.start) > 50
    assert np.sqrt((found.windows.pos_rmse**2).mean(1)) == pytest.approx([0.0, 0.0], abs=0.01)
    assert found.walk is not None and found.walk.fell is None
    assert len(found.walk.time) == len(flight.policy)
    assert np.abs(found.walk.sim_pos - found.walk.robot_pos)[:20].max() < 0.03, "until it was pushed"
    said = found.text(flight)
    assert "actions as recorded" in said and "windows" in said and "the same commands through MuJoCo" in said


def test_identified_drives_explain_a_hung_flight(lean: Path, tmp_path: Path) -> None:
    """Weak, rubbing and late drives: MuJoCo is far off until it has them too."""
    record(tmp_path / "weak.mcap", lean, 1.0, hung=True, parameters=WEAK)
    flight = read_flight(tmp_path / "weak.mcap")
    errors = []
    for parameters in (None, WEAK):
        body = make_body(flight, parameters=parameters)
        motion = reconstruct(flight, body, EVERY, hung=True)
        assert motion.source == "the robot hangs on its stand" and not motion.lin_vel_b.any()
        windows = play(flight, body, motion, hung=True, parameters=parameters)
        errors.append(np.sqrt((windows.pos_rmse**2).mean(1)))
    assert (errors[1] < 0.25 * errors[0]).all() and (errors[1] < 0.002).all(), errors
    found = compare(flight, lean, hung=True, parameters=WEAK)
    assert found.walk is None and "hung on its stand" in found.why_no_walk


def test_gaps_and_silence_are_refused(flight: Flight, lean: Path) -> None:
    sparse = {name: values[::60] for name, values in flight.state.values.items()}
    with pytest.raises(ReplayError, match="without a gap"):
        compare(dataclasses.replace(flight, state=Columns(sparse, 0)), lean)
    with pytest.raises(ReplayError, match="states and frames together"):
        compare(dataclasses.replace(flight, frame=Columns({}, 0)), lean)
    blind = {**flight.state.values, "joint_pos": np.full_like(flight.state.joint_pos, np.nan)}
    with pytest.raises(ReplayError, match="finite reading"):
        motion_of(dataclasses.replace(flight, state=Columns(blind, 0)))
