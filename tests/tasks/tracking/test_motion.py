"""Motions: files, rates, orders of joints, clips of the generator, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from gaitway_tasks.registry import UnknownNameError
from gaitway_tasks.robots import ROBOTS
from gaitway_tracking.clock import frames
from gaitway_tracking.feasibility import examine
from gaitway_tracking.formats import read_motion
from gaitway_tracking.generator import MOTIONS, generate
from gaitway_tracking.kinematics import Skeleton, bodies_of
from gaitway_tracking.motion import Motion, MotionError, load
from gaitway_tracking.reference import motion_of
from gaitway_tracking.retarget import retarget

GO2 = ROBOTS["go2"]


@pytest.fixture(scope="module")
def trot():
    return generate("trot", GO2, 50.0)


def test_a_file_holds_a_motion(trot, tmp_path):
    trot.save(tmp_path / "trot.npz")
    found = load(tmp_path / "trot.npz")
    assert (found.fps, found.loop, found.robot, found.joint_names) == (50.0, trot.loop, "go2", trot.joint_names)
    np.testing.assert_array_equal(found.joint_pos, trot.joint_pos)


def test_joints_are_found_by_name_and_frames_by_time(trot):
    names = tuple(reversed(trot.joint_names))
    turned = trot.ordered(names)
    np.testing.assert_array_equal(turned.joint_pos, trot.joint_pos[:, ::-1])
    twice = trot.resampled(100.0)
    assert len(twice) == 2 * len(trot) - 1 and twice.loop == (2 * trot.loop[0], 2 * trot.loop[1])
    np.testing.assert_allclose(twice.joint_pos[::2], trot.joint_pos, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(twice.root_quat_wxyz, axis=1), 1.0, atol=1e-12)
    with pytest.raises(MotionError, match="lacks the joints tail: it has FL_hip_joint"):
        trot.ordered((*trot.joint_names, "tail"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fps": 0.0}, "0 frames per second"),
        ({"root_quat_wxyz": lambda m: 2 * m.root_quat_wxyz}, "quaternion of frame 0 has the length 2.000"),
        ({"joint_pos": lambda m: np.degrees(m.joint_pos)}, "are its angles in degrees"),
        ({"joint_pos": lambda m: np.where(np.arange(len(m))[:, None] == 7, np.nan, m.joint_pos)}, "frame 7 is not"),
        ({"root_pos": lambda m: m.root_pos[:-1]}, r"root_pos has the shape \(304, 3\): expected \(305, 3\)"),
        ({"loop": (5, 5)}, "loop 5 to 5"),
        ({"joint_names": lambda m: (m.joint_names[0], *m.joint_names[:-1])}, "joints appear twice"),
    ],
)
def test_what_is_no_motion_is_refused(trot, changes, says):
    with pytest.raises(MotionError, match=says):
        replace(trot, **{name: value(trot) if callable(value) else value for name, value in changes.items()})


@pytest.mark.parametrize("name", sorted(MOTIONS))
def test_clips_begin_and_end_in_the_default_pose_and_can_be_done(name):
    motion = generate(name, GO2, 50.0)
    findings = {finding.name: finding for finding in examine(motion, GO2)}
    assert all(finding.ok for finding in findings.values()), [f for f in findings.values() if not f.ok]
    first, last = motion.loop
    np.testing.assert_allclose(motion.joint_pos[first], motion.joint_pos[last], atol=0.01)


def test_feet_that_stand_stay(trot):
    """In the model's own kinematics: lowest feet do not move, and each foot is lifted by the gait's height."""
    feet = bodies_of(GO2, trot).pos[:, [GO2.body_names.index(name) for name in GO2.foot_names]]
    low = feet[..., 2] < feet[..., 2].min() + 1e-3
    speed = np.linalg.norm(np.diff(feet, axis=0), axis=-1) * 50
    assert speed[low[:-1] & low[1:]].max() < 0.06
    assert (feet[..., 2].max(0) - feet[..., 2].min(0)).min() > 0.05


def test_the_body_turns_as_fast_as_the_base():
    motion = generate("turn", GO2, 50.0)
    bodies = bodies_of(GO2, motion)
    middle = len(motion) // 2
    rate = 0.2 * np.sqrt(9.81 / GO2.init_height)
    np.testing.assert_allclose(bodies.ang_vel[middle, 0], [0, 0, rate], atol=0.01)


def test_a_motion_that_no_robot_can_do_is_told(trot):
    fast = replace(trot, fps=250.0)
    found = {finding.name: finding for finding in examine(fast, GO2)}
    assert not found["joint speed over its limit"].ok or not found["torque over its limit"].ok
    deep = replace(trot, root_pos=trot.root_pos - [0, 0, 0.05])
    assert not {f.name: f for f in examine(deep, GO2)}["foot in the floor"].ok
    with pytest.raises(UnknownNameError, match="unknown motion 'trott': did you mean 'trot'"):
        generate("trott", GO2, 50.0)
    with pytest.raises(MotionError, match="has 2 feet: gaits are made for four and six"):
        generate("trot", ROBOTS["g1-29dof"], 50.0)


def test_the_clock_repeats_ends_and_rests():
    """Of nine frames, told to play for ten steps, with a loop from 2 to 5."""
    play = np.zeros((20, 1))
    play[1:11] = 1.0
    assert frames(play, 9, (2, 5))[:, 0].tolist() == [0, 1, 2, 3, 4, 2, 3, 4, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0]
    again = np.ones((12, 1))
    assert frames(again, 5, (0, 4))[:, 0].tolist() == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0]


def test_unitrees_rows_are_read(trot, tmp_path):
    """x y z, quaternion x y z w, joints in the order of Unitree's messages; 30 frames a second."""
    robot = ROBOTS["g1-29dof"]
    squat = generate("squat", robot, 30.0)
    order = [squat.joint_names.index(name) for name in robot.hardware.joint_names]
    rows = np.concatenate((squat.root_pos, squat.root_quat_wxyz[:, [1, 2, 3, 0]], squat.joint_pos[:, order]), 1)
    np.savetxt(tmp_path / "squat.csv", rows, delimiter=",")
    found = read_motion(tmp_path / "squat.csv", robot).ordered(robot.joint_names)
    assert found.fps == 30.0
    np.testing.assert_allclose(found.joint_pos, squat.joint_pos, atol=1e-9)
    np.testing.assert_allclose(found.root_quat_wxyz, squat.root_quat_wxyz, atol=1e-9)
    np.savetxt(tmp_path / "short.csv", rows[:, :-1], delimiter=",")
    with pytest.raises(MotionError, match="it has 35 columns: expected 36 for g1-29dof"):
        read_motion(tmp_path / "short.csv", robot)


def test_quaternions_in_another_order_are_told(tmp_path):
    robot = ROBOTS["g1-29dof"]
    squat = generate("squat", robot, 50.0)
    tilted = replace(squat, root_quat_wxyz=squat.root_quat_wxyz[:, [1, 2, 3, 0]])
    wrong = replace(tilted, root_quat_wxyz=np.tile([0.0, 1.0, 0.0, 0.0], (len(squat), 1)))
    found = {finding.name: finding for finding in examine(wrong, robot)}["share of frames with the base upside down"]
    assert found.value == 1.0 and found.where == "is the quaternion x, y, z, w?"


def test_files_that_are_not_what_they_are_taken_for_are_refused_by_trainings(trot, tmp_path):
    for name, changes, says in (
        ("turned", {"root_quat_wxyz": np.tile([0.0, 1.0, 0.0, 0.0], (len(trot), 1))}, "base upside down 1.00 is the"),
        ("sunk", {"root_pos": trot.root_pos - [0, 0, 0.2]}, "foot in the floor 0.20 m"),
    ):
        replace(trot, **changes).save(tmp_path / f"{name}.npz")
        with pytest.raises(MotionError, match=says):
            motion_of(str(tmp_path / f"{name}.npz"), GO2, 50.0)
    trot.save(tmp_path / "good.npz")
    assert len(motion_of(str(tmp_path / "good.npz"), GO2, 50.0)) == len(trot)


def test_files_of_others_name_their_joints_or_not(trot, tmp_path):
    """whole_body_tracking's has Isaac Lab's order and no names, holosoma's MuJoCo's qpos and names."""
    from gaitway_tasks.robots.orders import physx_order

    bodies = bodies_of(GO2, trot)
    order = [trot.joint_names.index(name) for name in physx_order(GO2)]
    common = {"fps": np.array([50]), "body_pos_w": bodies.pos, "body_quat_w": bodies.quat_wxyz}
    np.savez(tmp_path / "wbt.npz", joint_pos=trot.joint_pos[:, order], **common)
    qpos = np.concatenate((trot.root_pos, trot.root_quat_wxyz, trot.joint_pos), 1)
    np.savez(tmp_path / "holo.npz", joint_pos=qpos, joint_names=np.array(trot.joint_names), **common)
    for name in ("wbt", "holo"):
        found = read_motion(tmp_path / f"{name}.npz", GO2).ordered(GO2.joint_names)
        np.testing.assert_allclose(found.joint_pos, trot.joint_pos)
        np.testing.assert_allclose(found.root_pos, trot.root_pos)
    np.savez(tmp_path / "none.npz", angles=qpos)
    with pytest.raises(MotionError, match=r"none.npz: it has angles: expected joint_pos and body_pos_w"):
        read_motion(tmp_path / "none.npz", GO2)


def laikago(path, frames=40):
    """A clip as motion_imitation has them: a Laikago that marches on the spot."""
    import json

    turn = np.array([0.5, 0.5, 0.5, 0.5])
    stand = np.array([0.0, 0.07, -0.59])  # of its model: 0.67 and -1.25 with its offsets
    rows = []
    for t in range(frames):
        lift = 0.25 * np.sin(np.pi * np.clip(2 * (t / (frames - 1)) - np.array([0.0, 1.0, 1.0, 0.0]), 0, 1))
        legs = [stand + np.array([0.0, each, -2 * each]) for each in lift]
        rows.append([0.0, 0.0, 0.42, *turn, *np.concatenate(legs)])
    path.write_text(json.dumps({"LoopMode": "Wrap", "FrameDuration": 0.02, "Frames": rows}))
    return path


@pytest.mark.parametrize("name", ["go2", "anymal-c", "go1"])
def test_a_clip_of_a_laikago_is_done_by_others(name, tmp_path):
    robot = ROBOTS[name]
    clip = read_motion(laikago(tmp_path / "march.txt"), robot)
    found = retarget(clip, robot, 50.0)
    feet = bodies_of(robot, found).pos[:, [robot.body_names.index(each) for each in robot.foot_names]]
    raised = feet[..., 2].max(0) - feet[..., 2].min(0)
    assert raised.min() > 0.03
    np.testing.assert_allclose(found.joint_pos[[0, -1]], [robot.default_joint_pos] * 2, atol=1e-9)
    assert np.abs(np.diff(found.joint_pos, axis=0)).max() * 50 < 15.0
    slower = retarget(clip, robot, 50.0, slower=2.0)
    assert len(slower) - len(found) == pytest.approx(39, abs=1)


def test_a_humanoid_gets_no_dogs_clip(tmp_path):
    robot = ROBOTS["h1"]
    with pytest.raises(MotionError, match="clips of quadrupeds need four"):
        retarget(read_motion(laikago(tmp_path / "march.txt"), robot), robot, 50.0)


def test_bodies_are_where_the_model_has_them(trot):
    skeleton, bodies = Skeleton(GO2), bodies_of(GO2, trot)
    data = skeleton.pose(trot.root_pos[100], trot.root_quat_wxyz[100], trot.joint_pos[100])
    for number, name in enumerate(GO2.body_names):
        np.testing.assert_allclose(bodies.pos[100, number], data.body(name).xpos, atol=1e-12)


def test_a_motion_is_a_motion():
    with pytest.raises(MotionError, match="2 frames: expected 3 or more"):
        Motion(fps=50.0, joint_names=("a",), joint_pos=np.zeros((2, 1)), root_pos=np.zeros((2, 3)),
               root_quat_wxyz=np.tile([1.0, 0, 0, 0], (2, 1)), loop=(0, 1))  # fmt: skip
