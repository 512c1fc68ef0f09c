"""The suite of motions: what it measures of robots whose motion is known."""

from dataclasses import replace

import numpy as np
import pytest
from gaitway_files.errors import UserError
from gaitway_onboard.rotation import quat_mul
from gaitway_sim2real.bundle.in_memory import contract_before_training
from gaitway_sim2real.trial.simulate import Trajectory
from gaitway_sim2real.trial.suites import suite_of
from gaitway_tasks.registry import get_task
from gaitway_tracking import suite
from gaitway_tracking.suite import SUITE

N = 3


@pytest.fixture(scope="module")
def contract():
    return contract_before_training(get_task("track-go2-blind", "cpu"))


def recording(contract, *, yaw=0.0, shift=(0.0, 0.0, 0.0), slower=1.0, joints=0.0):
    """Robots that do exactly what the motion says, but for what is given."""
    motion = suite.played_by(contract)
    told = np.zeros((400, N, 1))
    told[20:150] = 1.0
    row = suite.frames(told[..., 0], len(motion.joint_pos), motion.loop)
    turn = np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
    bodies = {name: motion.body_pos[row, motion.body_names.index(name)] for name in SUITE.recorded(contract)}
    bodies = {name: suite.turned(pos, np.full(pos.shape[:-1], yaw)) + shift for name, pos in bodies.items()}
    quat = quat_mul(np.broadcast_to(turn, (400, N, 4)), motion.root_quat_wxyz[row])
    speed = np.gradient(motion.root_pos, 0.02, axis=0)[row] / slower
    shape = (400, N)
    zero = np.zeros((*shape, 12), np.float32)
    return Trajectory(
        control_dt=0.02, mass=np.ones(N), command=told, push=np.zeros((*shape, 2)), alive=np.ones(shape, bool),
        fall_step=np.full(N, -1), fall_cause=("",) * N, start_pos=np.zeros((N, 3)),
        base_pos=bodies[contract.base_body], base_quat=quat, lin_vel=speed, ang_vel=np.zeros((*shape, 3)),
        joint_pos=motion.joint_pos[row] + joints, joint_vel=zero, torque=zero, target=zero,
        foot_contact=np.zeros((*shape, 4), bool), foot_slip=np.zeros((*shape, 4)), qpos=None,
        height=bodies[contract.base_body][..., 2] - shift[2], bodies=bodies,
    )  # fmt: skip


def test_a_perfect_robot_is_perfect_wherever_it_stands(contract):
    rec = recording(contract, yaw=0.7, shift=(3.0, -2.0, 0.5))
    np.testing.assert_allclose(suite.mpkpe(rec, contract), 0.0, atol=1e-9)
    np.testing.assert_allclose(suite.joint_error(rec, contract), 0.0, atol=1e-9)
    assert suite.completed(rec, contract).tolist() == [1.0] * N
    assert suite.velocity_error(rec, contract).max() < 1e-6


def test_errors_are_those_that_were_made(contract):
    lower = recording(contract)
    lower = replace(lower, bodies={name: pos - [0, 0, 0.03] for name, pos in lower.bodies.items()})
    lower = replace(lower, base_pos=lower.base_pos - [0, 0, 0.03], height=lower.height - 0.03)
    np.testing.assert_allclose(suite.mpkpe(lower, contract), 0.03, atol=1e-9)
    np.testing.assert_allclose(suite.joint_error(recording(contract, joints=0.1), contract), 0.1, atol=1e-9)
    motion = suite.played_by(contract)
    full = np.linalg.norm(np.gradient(motion.root_pos, 0.02, axis=0), axis=1).max()
    half = suite.velocity_error(recording(contract, slower=2.0), contract)
    assert (half > 0.35 * full).all() and (half < 0.5 * full).all()


def test_a_robot_that_stands_still_has_not_completed_a_trot(contract):
    """It neither falls nor strays far from the pose: the velocity tells."""
    rec = recording(contract)
    motion = suite.played_by(contract)
    still = {name: np.broadcast_to(motion.body_pos[0, motion.body_names.index(name)], pos.shape)
             for name, pos in rec.bodies.items()}  # fmt: skip
    rec = replace(rec, bodies=still, base_pos=still[contract.base_body], lin_vel=np.zeros_like(rec.lin_vel))
    (limit,) = [each for each in SUITE.scenarios[0].limits if each.metric == "velocity_error"]
    assert suite.velocity_error(rec, contract).min() > limit.for_robot(contract.init_height).value


def test_robots_that_fall_or_lose_the_motion_have_not_completed_it(contract):
    rec = recording(contract)
    fell = np.array([-1, 100, -1])
    alive = np.arange(400)[:, None] <= np.where(fell < 0, 400, fell)
    bodies = {name: pos.copy() for name, pos in rec.bodies.items()}
    for pos in bodies.values():
        pos[200:210, 2, 2] -= 0.2
    lost = replace(rec, fall_step=fell, alive=alive, bodies=bodies)
    assert suite.completed(lost, contract).tolist() == [1.0, 0.0, 0.0]


def test_joints_that_move_after_the_motion_are_seen(contract):
    rec = recording(contract)
    moving = replace(rec, joint_vel=np.full_like(rec.joint_vel, 0.4))
    np.testing.assert_allclose(suite.drift_at_rest(moving, contract), 0.4, rtol=1e-6)
    row = suite.rows(rec, suite.played_by(contract))
    busy = np.where((row > 0)[..., None], 9.0, 0.0) * np.ones(12)
    np.testing.assert_allclose(suite.drift_at_rest(replace(rec, joint_vel=busy), contract), 0.0)


def test_the_contract_leads_to_the_suite_and_needs_its_motion(contract):
    assert suite_of(contract) is SUITE and contract.command_names == ("play",) and contract.still == (0.0,)
    assert contract.time_to_rest((1.0,)) == pytest.approx(len(suite.played_by(contract).joint_pos) * 0.02, abs=0.05)
    with pytest.raises(UserError, match="the bundle has no motion"):
        suite.played_by(replace(contract, motion=None))


def test_commands_begin_and_end_at_rest(contract):
    drawn = SUITE.draw(SUITE.scenarios[0], contract, 0).command[..., 0]
    assert set(np.unique(drawn)) == {0.0, 1.0} and (drawn[-1] == 0).all()
    motion = suite.played_by(contract)
    assert (suite.frames(drawn, len(motion.joint_pos), motion.loop)[-1] == 0).all()
    assert (drawn.sum(0) > 0.19 * len(drawn)).all()
