"""The command of a motion in training: its clock, its place, where episodes begin, and the terms that read it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_tasks.math import quat_apply, quat_from_yaw, quat_mul, yaw_of
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ROBOTS
from gaitway_tracking import mdp
from gaitway_tracking.clock import frames
from gaitway_tracking.command import MotionCommand, reference_base
from gaitway_tracking.motion import MotionError
from gaitway_tracking.reference import bundled, reference

GO2, N = ROBOTS["go2"], 6
CPU = torch.device("cpu")


def world(n=N, **changes):
    """What a command needs of a world, of robots that stand anywhere."""
    generator = torch.Generator().manual_seed(1)
    place, heading = torch.rand(n, 3, generator=generator), 3 * torch.rand(n, generator=generator)
    robot = SimpleNamespace(root_pos_w=place, root_quat_wxyz=quat_from_yaw(heading))
    return SimpleNamespace(
        spec=GO2, num_envs=n, device=CPU, step_dt=0.02, robot=robot, episode_step=torch.ones(n, dtype=torch.int64),
        terminated=torch.zeros(n, dtype=torch.bool), **changes,
    )  # fmt: skip


def sampler(**settings):
    made = MotionCommand(clip="turn", **settings)
    return made.sampler(world(), torch.Generator().manual_seed(0))


def test_training_and_the_suite_count_alike():
    """Torch's clock, step by step, against numpy's."""
    motion = reference("trot", GO2, 0.02, CPU)
    rng = np.random.default_rng(0)
    play = (np.repeat(rng.random((12, N)), 60, 0) < 0.7).astype(float)
    frame, found = torch.zeros(N), []
    for told in play:
        frame = motion.next(frame, torch.tensor(told, dtype=torch.float32))
        found.append(frame.numpy().copy())
    np.testing.assert_array_equal(found, frames(play, len(motion), motion.loop))
    assert (np.array(found) > motion.loop[1]).any() and (np.array(found)[300:] == motion.loop[0]).any()


@pytest.mark.parametrize("local", [False, True])
def test_the_place_goes_on_where_a_motion_jumps(local):
    """The base of the reference moves by one step's way, in its loop and at its end; by a robot's place if local."""
    made = sampler(local=local)
    motion, ids = made.reference, torch.arange(N)
    made.place(ids, torch.full((N,), motion.loop[1] - 3.0), torch.rand(N, 3), torch.rand(N))
    made.play[:3], made.play[3:], made.time_left[:] = 1.0, 0.0, 1e9
    for _ in range(len(motion) - motion.loop[1] + 6):
        if local:  # the robot does what it is told
            base, quat = reference_base(motion, made.command[:, 0], made.command)
            made.world.robot.root_pos_w, made.world.robot.root_quat_wxyz = base, quat
        before, turn = reference_base(motion, made.command[:, 0], made.command)
        made.step(0.02)
        after, turned = reference_base(motion, made.command[:, 0], made.command)
        assert (after - before).norm(dim=1).max() < 0.02
        assert (yaw_of(turned) - yaw_of(turn)).abs().max() < 0.05
    assert (made.command[3:, 0] == 0).all() and (made.command[:3, 0] > 0).all()


def test_episodes_begin_where_others_fell():
    made = sampler(rel_standing_envs=0.0, failure_average=0.01)
    ids = torch.arange(N)
    made.world.terminated[:] = True
    hard = 5
    for _ in range(60):
        made.command[:, 0] = hard * made.bin_steps + 1.0
        made.restart(ids)
    assert made.chances()[[hard - 1, hard]].sum() > 0.8
    assert made.chances().min() > 0.05 / len(made.chances())
    starts = torch.cat([made.restart(ids) for _ in range(50)])
    assert ((starts / made.bin_steps).long() == hard).float().mean() > 0.35
    assert starts.max() <= len(made.reference) - 2 and starts.min() >= 0


def test_a_checkpoint_has_the_whole_state():
    one, other = sampler(), sampler()
    for _ in range(30):
        one.step(0.02)
    other.load_state_dict(one.state_dict())
    for name in one.STATE:
        torch.testing.assert_close(getattr(other, name), getattr(one, name))


def test_a_robot_begins_where_its_reference_is():
    """Without noise every error is 0 and every reward of tracking 1; with a robot that is held there as well."""
    task = get_task("track-go2")
    event = task.events["reset_in_motion"]
    still = {**event.params, "pose_range": {}, "velocity_range": {}, "joint_range": (0.0, 0.0)}
    env = make_env(task.replace(events={"reset_in_motion": replace(event, params=still)}), 8, num_threads=1)
    env.reset(seed=3)
    named = {"command_name": "motion"}
    for term in (mdp.motion_anchor_pos_b, mdp.motion_body_pos_error_b):
        assert term(env.world, **named).abs().max() < 2e-3
    eye = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    torch.testing.assert_close(mdp.motion_anchor_ori_b(env.world, **named), eye.expand(8, 6), atol=1e-3, rtol=0)
    for name, reward in task.rewards.items():
        if name.startswith("motion_"):
            assert reward.func(env.world, **reward.params).min() > (0.9 if "vel" in name else 0.999), name
    for name, end in task.terminations.items():
        assert not end.func(env.world, **end.params).any(), name


def test_terms_of_a_robot_that_is_elsewhere():
    """Each formula by hand: one body off by a known way, a base off by a known angle."""
    env = make_env(get_task("track-go2"), 4, num_threads=1)
    env.reset(seed=0)
    told = mdp.targets(env.world, "motion")
    angle, way = 0.3, torch.tensor([0.1, -0.2, 0.05])
    off = quat_from_yaw(torch.full((4,), angle))
    robot = SimpleNamespace(
        root_pos_w=told.pos_w[:, 0] + way, root_quat_wxyz=quat_mul(off, told.quat_wxyz[:, 0]),
        body_pos_w=told.relative_pos_w.clone(), body_quat_wxyz=told.relative_quat_wxyz,
        body_lin_vel_w=told.lin_vel_w + way, body_ang_vel_w=told.ang_vel_w,
    )  # fmt: skip
    fake = SimpleNamespace(
        robot=robot, spec=GO2, device=CPU, step_dt=0.02, command=env.world.command, command_of=env.world.command_of
    )
    named = {"command_name": "motion"}
    squared = float(way.square().sum())
    expected = {
        mdp.motion_global_anchor_position_error_exp: np.exp(-squared / 0.3**2),
        mdp.motion_global_anchor_orientation_error_exp: np.exp(-(angle**2) / 0.3**2),
        mdp.motion_global_body_linear_velocity_error_exp: np.exp(-squared / 0.3**2),
        mdp.motion_global_body_angular_velocity_error_exp: 1.0,
    }
    for term, value in expected.items():
        torch.testing.assert_close(term(fake, **named, std=0.3), torch.full((4,), float(value)), rtol=1e-4, atol=1e-5)
    # Targets follow place and heading: from the turned base, at the reference's height.
    moved = mdp.targets(fake, "motion").relative_pos_w
    turned = quat_apply(off[:, None].expand(-1, 17, -1), told.pos_w - told.pos_w[:, :1])
    place = torch.cat((robot.root_pos_w[:, :2], told.pos_w[:, 0, 2:]), 1)
    torch.testing.assert_close(moved, place[:, None] + turned, atol=1e-5, rtol=0)
    assert mdp.bad_anchor_pos_z_only(fake, **named, threshold=0.04).all()
    assert not mdp.bad_anchor_pos_z_only(fake, **named, threshold=0.06).any()


def test_a_bundle_has_the_motion_at_the_rate_of_the_control():
    import io

    arrays = np.load(io.BytesIO(bundled("bow", GO2, 0.02)), allow_pickle=False)
    assert tuple(arrays["body_names"]) == GO2.body_names and arrays["body_pos"].shape[1:] == (17, 3)
    assert len(arrays["joint_pos"]) == len(reference("bow", GO2, 0.02, CPU))


def test_a_clip_that_is_not_there_is_told_before_a_training():
    with pytest.raises(MotionError, match="motion 'jump' is neither a file"):
        MotionCommand(clip="jump").sampler(world(), torch.Generator())
