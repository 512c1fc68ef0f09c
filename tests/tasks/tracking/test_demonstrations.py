"""Motions as observations: the same numbers as of a robot in simulation, mirrors, shares, and what is refused."""

from dataclasses import replace

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_mujoco import make_env
from gaitway_tasks.layout import history_order
from gaitway_tasks.math import quat_apply, yaw_of
from gaitway_tasks.mdp import observations
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.spec import Event, ObservationTerm
from gaitway_tasks.symmetry import group_mirror
from gaitway_tracking.demonstrations import RESTING, amp_group, observed, transitions
from gaitway_tracking.generator import generate
from gaitway_tracking.mdp import reset_in_clips
from gaitway_tracking.motion import MotionError
from gaitway_tracking.reference import reference

CPU, DT = torch.device("cpu"), 0.02


def task_of(robot="go2"):
    task = get_task(f"velocity-flat-{robot}")
    return task.replace(observations={**task.observations, "amp": amp_group(task)})


@pytest.mark.parametrize(("robot", "clip"), [("go2", "turn"), ("anymal-c", "trot")])
def test_a_robot_in_each_frame_observes_the_frame(robot, clip):
    """MuJoCo's kinematics of the batch against the motion's, at every frame: to 1e-5."""
    task = task_of(robot)
    motion = reference(clip, task.robot, DT, CPU)
    group, count = task.observations["amp"], len(motion)
    env = make_env(task.replace(events={}), num_envs=count, seed=0)
    env.reset()
    world, ids = env.world, torch.arange(count)
    quat = motion.body_quat_wxyz[:, 0]
    spin = world_to_base(quat, motion.body_ang_vel[:, 0])
    world.write_root_state(ids, motion.body_pos[:, 0], quat, motion.root_lin_vel, spin)
    world.write_joint_state(ids, motion.joint_pos, motion.joint_vel)
    world.finish_events()
    live = env.managers.observations["amp"].finite_frame()
    found = observed(task, group, generate(clip, task.robot, 1.0 / DT), CPU)
    assert found.shape == live.shape == (count, 10 + 2 * task.robot.num_joints + 12)
    torch.testing.assert_close(found, live, atol=1e-5, rtol=1e-5)
    assert found.std(0).gt(0.0).float().mean() > 0.8, "frames differ in most numbers"


def world_to_base(quat, vector):
    conjugate = quat * torch.tensor([1.0, -1.0, -1.0, -1.0])
    return quat_apply(conjugate, vector)


def test_a_transition_is_laid_out_as_an_observation_of_two_frames():
    """What an environment makes of two steps is what the motion makes of two frames, column by column."""
    task = task_of()
    group = task.observations["amp"]
    motion = generate("trot", task.robot, 1.0 / DT)
    frames = observed(task, group, motion, CPU)
    env = make_env(task, num_envs=1, seed=0)
    env.reset()
    manager = env.managers.observations["amp"]
    manager.append(frames[70:71], torch.tensor([0]))
    both = manager.append(frames[71:72])
    rows = transitions(task, group, ["trot"], CPU)
    assert (rows - both).abs().max(1).values.min() < 1e-6
    assert rows.shape[1] == 2 * frames.shape[1] == manager.dim


def test_mirror_images_are_among_them_and_shares_are_even():
    task = task_of()
    group = task.observations["amp"]
    rows = transitions(task, group, ["turn"], CPU)
    half = len(rows) // 2
    (perm, sign) = group_mirror(task, group, task.robot.mirrors["left-right"])
    torch.testing.assert_close(rows[half:], sign * rows[:half][:, perm])
    turning = observed(task, group, generate("turn", task.robot, 50.0), CPU)[:, 9].mean()
    assert turning > 0.1 and abs(float(rows[:, 18].mean())) < 1e-6, "to both sides alike"
    assert torch.equal(sign * (sign * rows[:, perm])[:, perm], rows)
    # Robots that stand before and after the motion are a small part of what is imitated.
    loop = generate("turn", task.robot, 50.0).loop
    assert 1.0 - (loop[1] - loop[0]) * round(half / (loop[1] - loop[0])) / half <= RESTING
    both = transitions(task, group, ["turn", "squat"], CPU)
    assert len(both) > 1.8 * len(rows) - 1


def test_mirrored_feet_are_where_the_mirror_has_them():
    """By geometry: a mirrored pose has mirrored feet."""
    task = task_of("anymal-c")
    group, robot = task.observations["amp"], task.robot
    motion = generate("trot", robot, 50.0)
    for mirror in robot.mirrors.values():
        perm, sign = group_mirror(task, replace(group, history_length=1), mirror)
        names = [mirror.image(name) for name in robot.joint_names]
        flips = torch.tensor([-1.0 if name.endswith(mirror.flip) else 1.0 for name in robot.joint_names])
        columns = [robot.joint_names.index(name) for name in names]
        other = replace(motion, joint_pos=motion.joint_pos[:, columns] * flips.numpy())
        feet = slice(-12, None)
        mirrored = (sign * observed(task, group, motion, CPU)[:, perm])[:, feet]
        torch.testing.assert_close(mirrored, observed(task, group, other, CPU)[:, feet], atol=1e-5, rtol=0)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_episodes_begin_in_frames_of_the_clips(share):
    """What such a robot observes is a frame that is repeated, wherever it stands and heads."""
    task, clips, count = task_of(), ["trot", "turn"], 60
    event = Event(func=reset_in_clips, mode="reset", params={"clips": clips, "share": share})
    env = make_env(task.replace(events={"reset_in_amp": event}), num_envs=count, seed=0)
    seen = env.reset()[0]["amp"]
    rows = []
    for clip in clips:
        motion = generate(clip, task.robot, 50.0)
        frames = observed(task, task.observations["amp"], motion, CPU)
        rows.append(frames[motion.loop[0] : motion.loop[1]])
    twice = torch.cat([torch.cat((part, part), 1) for part in rows])  # an episode's first observation, twice one frame
    order = history_order(list(env.managers.observations["amp"].dims.values()), 2)
    away = (seen[:, None] - twice[:, order]).abs().amax(2).min(1)
    begun = away.values < 1e-4
    assert begun.all() if share == 1.0 else 0.3 < begun.float().mean() < 0.7
    assert len(away.indices[begun].unique()) > 0.25 * count, "of all frames"
    yaw = yaw_of(env.world.robot.root_quat_wxyz[begun])
    assert yaw.min() < -1.0 and yaw.max() > 1.0


def test_heights_are_left_out_on_rough_ground():
    assert "base_height" not in amp_group(get_task("velocity-rough-go2")).terms


def test_what_is_no_reference_is_refused(tmp_path):
    task = task_of()
    group = task.observations["amp"]
    other = tmp_path / "a1.npz"
    generate("trot", ROBOTS["a1"], 50.0).save(other)
    with pytest.raises(MotionError, match=r"a1\.npz was made for a1, and the robot is go2.*motion retarget"):
        transitions(task, group, [str(other)], CPU)
    anymal = tmp_path / "anymal.npz"
    generate("trot", ROBOTS["anymal-c"], 50.0).save(anymal)
    with pytest.raises(MotionError, match="lacks the joints FL_hip_joint"):
        transitions(task, group, [str(anymal)], CPU)
    coarse = tmp_path / "coarse.npz"
    generate("trot", task.robot, 10.0).save(coarse)
    with pytest.raises(MotionError, match=r"10 frames per second, and the robot is controlled at 50.* 20 or more"):
        transitions(task, group, [str(coarse)], CPU)
    with pytest.raises(MotionError, match="'gallop' is neither a file"):
        transitions(task, group, ["gallop"], CPU)
    with pytest.raises(UserError, match="history_length 2, not 1"):
        transitions(task, replace(group, history_length=1), ["trot"], CPU)
    told = {"command": ObservationTerm(func=observations.generated_commands, params={"command_name": "base_velocity"})}
    with pytest.raises(UserError, match="reads 'command': leave that term out"):
        transitions(task, replace(group, terms=told), ["trot"], CPU)
