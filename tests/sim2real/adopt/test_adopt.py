"""Robots adopted from their files alone: what is found in them, what stands, and what is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_files.errors import UserError
from gaitway_mujoco.mirrors import verify_mirrors
from gaitway_sim2real.adopt import motors, pose
from gaitway_sim2real.adopt.adopt import Options, adopt
from gaitway_sim2real.adopt.standing import stands
from gaitway_sim2real.adopt.feet import find_feet
from gaitway_sim2real.adopt.stance import Stance
from gaitway_sim2real.adopt.reading import read_tree
from gaitway_tasks.robots import ANYMAL_C, ROBOTS, Robot
from gaitway_tasks.robots.check import check_robot

from adoptable_robots import dog, human, linked_dog, robot, spider, written


def adopted(folder: Path, path: Path, **options) -> tuple[Robot, list[str]]:
    """The robot of the package that adopting ``path`` writes, and the lines that are printed."""
    lines = adopt(path, folder / "made", "made", Options(**options), verify_mirrors)
    spec = importlib.util.spec_from_file_location("made", folder / "made/__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check_robot(module.ROBOT)
    return module.ROBOT, lines


def refusal(folder: Path, text: str, name: str = "robot.xml", **options) -> str:
    with pytest.raises(UserError) as caught:
        adopt(written(folder, text, name), folder / "made", "made", Options(**options), verify_mirrors)
    assert not (folder / "made").exists()
    return str(caught.value)


def test_the_facts_of_anymal_c_come_back_from_its_model(tmp_path):
    found, lines = adopted(tmp_path, ANYMAL_C.mjcf, efforts={".*": 80.0})
    assert set(found.joint_names) == set(ANYMAL_C.joint_names)
    assert found.foot_names == ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
    legs = [name.split("_")[0] for name in found.joint_names]
    assert legs == [leg for leg in ("LF", "RF", "LH", "RH") for _ in range(3)]
    limits = dict(zip(ANYMAL_C.joint_names, ANYMAL_C.joint_limits, strict=True))
    np.testing.assert_allclose(found.joint_limits, [limits[name] for name in found.joint_names], atol=1e-4)
    assert dict(found.mirrors) == dict(ANYMAL_C.mirrors) | {
        title: mirror.__class__(axis=mirror.axis, pairs=mirror.pairs, flip=tuple(f"_{end}" for end in mirror.flip))
        for title, mirror in ANYMAL_C.mirrors.items()
    }
    assert found.init_height == pytest.approx(ANYMAL_C.init_height, rel=0.15)
    assert found.foot_height == pytest.approx(ANYMAL_C.foot_height, abs=0.005)
    ours, theirs = (mujoco.MjModel.from_xml_path(str(each.mjcf)) for each in (found, ANYMAL_C))
    assert ours.body_mass.sum() == pytest.approx(theirs.body_mass.sum())
    assert (tmp_path / "made/LICENSE").read_text() == ANYMAL_C.mjcf.with_name("LICENSE").read_text()
    assert any(line.startswith("stands for") for line in lines)


@pytest.mark.parametrize("name", ["anymal-b", "anymal-c", "a1", "go1", "go2", "g1-29dof", "h1"])
def test_the_legs_gains_are_about_those_of_our_robots(name):
    """ANYmal's are those of the preset cpu, with which it is trained."""
    ours = ROBOTS[name]
    tree = read_tree(ours.mjcf, [])
    stance = Stance(tree, find_feet(tree)[0])
    legs = pose.find_legs(stance)
    stance.put(dict(zip(ours.joint_names, ours.default_joint_pos, strict=True)))
    efforts = {joint: law.effort_limit for joint, law in zip(ours.joint_names, ours.joint_actuators, strict=True)}
    found, _ = motors.find_gains(stance, legs, efforts, dict.fromkeys(ours.joint_names, 0.0))
    known = {joint: law.stiffness for joint, law in zip(ours.joint_names, ours.joint_actuators, strict=True)}
    for joint, gain in found.items():
        if gain.part == "leg":
            wanted = 80.0 if name.startswith("anymal") else known[joint]
            assert wanted / 1.5 <= gain.kp <= 1.5 * wanted, joint


def test_shanks_that_end_in_nothing_get_feet(tmp_path):
    found, _ = adopted(tmp_path, written(tmp_path, dog(feet=False)))
    assert found.foot_names == tuple(f"{leg}_shank_foot" for leg in ("FL", "FR", "RL", "RR"))
    assert found.foot_height == pytest.approx(0.015, abs=1e-4)
    assert list(found.mirrors) == ["left-right", "front-back"]
    tilt, fallen = stands(found)
    assert tilt < 0.1 and not fallen


def test_names_without_a_scheme_are_mirrored_whole(tmp_path):
    text = dog()
    for leg, number in (("FL", "1"), ("FR", "10"), ("RL", "2"), ("RR", "100")):
        text = text.replace(f"{leg}_hip_joint", f"joint_{number}")
    found, _ = adopted(tmp_path, written(tmp_path, text))
    assert list(found.mirrors) == ["left-right", "front-back"]
    verify_mirrors(found)


def test_limits_that_are_no_mirror_images_leave_no_mirror(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, dog(knee="-2.5 -.2")))
    assert list(found.mirrors) == ["left-right"]
    assert any("no mirror front-back" in line and "knee" in line for line in lines)


def test_six_legs_that_stand_sideways(tmp_path):
    found, _ = adopted(tmp_path, written(tmp_path, spider()))
    assert found.foot_names == tuple(f"{side}{row}_tibia_foot" for row in range(3) for side in "lr")
    assert not stands(found)[1]


def test_two_legs_with_flat_feet(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, human()))
    assert found.foot_names == ("left_ankle", "right_ankle")
    pitch = dict(zip(found.joint_names, found.default_joint_pos, strict=True))
    legs = [pitch[f"left_{joint}"] for joint in ("hip_pitch", "knee", "ankle_pitch")]
    assert legs[1] > 0.2 and sum(legs) == pytest.approx(0.0, abs=0.01), "knees bent, soles flat"
    assert any("a policy does" in line for line in lines)


ARM = """<body name="arm" pos=".1 0 .06"><joint name="arm_yaw" axis="0 0 1"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 .3" mass=".5"/></body>"""


def test_an_arm_on_four_legs_is_held_unless_it_is_to_move(tmp_path):
    motor = '<motor joint="arm_yaw" ctrlrange="-5 5"/></actuator>'
    path = written(tmp_path, dog(on_base=ARM).replace("</actuator>", motor))
    found, lines = adopted(tmp_path, path)
    assert "arm_yaw" not in found.joint_names and any("held still: arm_yaw" in line for line in lines)
    (tmp_path / "again").mkdir()
    found, _ = adopted(tmp_path / "again", path, moved=("arm_.*",))
    assert found.joint_names[-1] == "arm_yaw"


KEY = '<keyframe><key name="home" qpos="0 0 .4 1 0 0 0 {}"/></keyframe>'


def test_the_files_own_pose_is_taken_if_it_stands(tmp_path):
    found, _ = adopted(tmp_path, written(tmp_path, dog(end=KEY.format("0 .5 -1 " * 4))))
    assert found.default_joint_pos == (0.0, 0.5, -1.0) * 4
    (tmp_path / "bad").mkdir()
    found, lines = adopted(tmp_path / "bad", written(tmp_path, dog(end=KEY.format("0 .5 -1 0 .5 1 " * 2))))
    assert found.default_joint_pos[2] != -1.0 and any("keyframe" in line for line in lines)


def test_what_the_user_says_counts(tmp_path):
    told = {"FL_knee_joint": -0.9}
    found, _ = adopted(tmp_path, written(tmp_path, dog()), pose=told, gains={".*_knee_joint": (30.0, 1.0)})
    values = dict(zip(found.joint_names, found.default_joint_pos, strict=True))
    assert values["FL_knee_joint"] == values["FR_knee_joint"] == -0.9 and values["RL_knee_joint"] == 0.9
    laws = dict(zip(found.joint_names, found.joint_actuators, strict=True))
    assert (laws["RR_knee_joint"].stiffness, laws["RR_knee_joint"].damping) == (30.0, 1.0)


def test_a_base_whose_own_z_is_not_up_gets_the_files_axes(tmp_path):
    parts = dog().replace('<body name="base" pos="0 0 0.5">', '<body name="base" pos="0 0 .5" euler="1.570796 0 0">', 1)
    turned = parts.replace('type="box" size=".2 .08 .05"', 'type="box" size=".2 .05 .08"')
    for y in (0.07, -0.07):  # each hip turns back what the base is turned
        for x in (0.2, -0.2):
            turned = turned.replace(f'pos="{x} {y} 0">', f'pos="{x} 0 {-y}" euler="-1.570796 0 0">')
    found, _ = adopted(tmp_path, written(tmp_path, turned))
    assert list(found.mirrors) == ["left-right", "front-back"] and not stands(found)[1]


WHEEL = """<body name="w{n}" pos="{x} {y} -.1"><joint name="j{n}" axis="0 1 0"/>
<geom type="cylinder" size=".06 .02" euler="1.5708 0 0" mass=".5"/></body>"""
WHEELS = "".join(
    WHEEL.format(n=n, x=x, y=y) for n, (x, y) in enumerate([(0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1)])
)
OTHER = '<body name="cat" pos="1 0 1"><geom size=".1"/><body><joint/><geom size=".1"/></body></body>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (dog(more=OTHER), ("2 robots", "'base'", "'cat'")),
        (dog(effort=None), ("FL_knee_joint", "RR_hip_joint", "--effort")),
        (dog(effort=2.0), ("too weak", "knee", "3.", "2", "--effort")),
        (dog(effort=5000.0), ("5000 N m", "--effort")),
        (robot(WHEELS), ("'w0'", "wheel", "'j0'")),
        (dog().replace('axis="1 0 0" range="-0.8 0.8"', 'type="ball"', 1), ("'FL_hip_joint'", "axis")),
        (dog().replace('size=".2 .08 .05"', 'size=".2 .08 .4"'), ("'base'", "--pose")),
        (robot('<body name="tail"><joint/><geom size=".05" pos="-.3 0 0" mass="1"/></body>'), ("tail", "--feet")),
        (robot(""), ("no hinge",)),
        (dog().replace('mass=".2"', 'mass="0"', 1).replace('mass=".05"', 'mass="0"', 1), ("FL_shank", "<inertial>")),
    ],
)  # fmt: skip
def test_what_no_walking_robot_can_be_made_of_is_refused(tmp_path, text, words):
    said = refusal(tmp_path, text)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"base": "FL_hip"}, "--base FL_hip"),
        ({"feet": ("FL_foot", "nope")}, "--feet nope"),
        ({"pose": {"FL_knee_joint": 9.0}}, "-2.5 to 2.5"),
        ({"pose": {"nope": 0.0}}, "--pose nope"),
        ({"gains": {"nope": (1.0, 1.0)}}, "--gains nope"),
        ({"efforts": {"nope": 1.0}}, "--effort nope"),
        ({"forward": "y"}, "--forward"),
    ],
)
def test_what_the_user_says_of_parts_that_are_not_there_is_refused(tmp_path, options, word):
    assert word in refusal(tmp_path, dog(), **options)


def test_closed_loops_stay_closed_and_stand(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, linked_dog()))
    assert found.joint_names[:2] == ("FL_hip", "FL_motor") and not any("knee" in name for name in found.joint_names)
    assert any("without a motor" in line and "FL_knee" in line for line in lines)
    model = mujoco.MjModel.from_xml_path(str(found.mjcf))
    data = mujoco.MjData(model)
    for name, value in zip(found.joint_names, found.default_joint_pos, strict=True):
        data.joint(name).qpos = value
    mujoco.mj_forward(model, data)
    assert np.abs(data.efc_pos[: 3 * 4]).max() < 1e-3, "they are closed where an episode begins"
    assert not stands(found)[1]
    assert all(word in refusal(tmp_path / "made", linked_dog(0.3)) for word in ("loop", "'FL_rod'", "'FL_shank'"))


URDF_LINK = """<link name="{name}"><inertial><mass value="{mass}"/><origin xyz="0 0 {low}"/>
<inertia ixx=".002" iyy=".002" izz=".002" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><origin xyz="0 0 {low}"/><geometry>{shape}</geometry></collision></link>"""
URDF_JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{at}"/>
<axis xyz="{axis}"/><limit lower="-1.8" upper="1.8" effort="20" velocity="20"/></joint>"""


def urdf(velocity: str = "20") -> str:
    """A dog with a massless root on the ground, a camera, a mesh that is not there, and feet on fixed joints."""
    mesh, ball = '<mesh filename="package://dog/trunk.stl"/>', '<sphere radius="0.02"/>'
    rod = '<cylinder radius="0.02" length="0.15"/>'
    parts = ['<link name="base_footprint"/>', URDF_LINK.format(name="trunk", mass=6, low=0, shape=mesh)]
    parts += [
        URDF_JOINT.format(name="up", kind="fixed", parent="base_footprint", child="trunk", at="0 0 .4", axis="1 0 0")
    ]
    parts += ['<link name="camera"/>']
    parts += [URDF_JOINT.format(name="eye", kind="fixed", parent="trunk", child="camera", at=".3 0 0", axis="1 0 0")]
    for leg, x, y in (("LF", 0.2, 0.1), ("RF", 0.2, -0.1), ("LH", -0.2, 0.1), ("RH", -0.2, -0.1)):
        chain = (
            ("HAA", "revolute", "trunk", "hip", f"{x} {y} 0", "1 0 0", 0.5, 0, ball),
            ("HFE", "revolute", f"{leg}_hip", "thigh", f"0 {0.4 * y} 0", "0 1 0", 0.6, -0.1, rod),
            ("KFE", "revolute", f"{leg}_thigh", "shank", "0 0 -.2", "0 1 0", 0.2, -0.1, rod),
            ("sole", "fixed", f"{leg}_shank", "foot", "0 0 -.2", "0 1 0", 0.05, 0, ball),
        )
        for joint, kind, parent, child, at, axis, mass, low, shape in chain:
            parts.append(URDF_LINK.format(name=f"{leg}_{child}", mass=mass, low=low, shape=shape))
            parts.append(
                URDF_JOINT.format(
                    name=f"{leg}_{joint}", kind=kind, parent=parent, child=f"{leg}_{child}", at=at, axis=axis
                )
            )
    return f'<robot name="dog">{"".join(parts)}</robot>'.replace('velocity="20"', f'velocity="{velocity}"')


def test_a_urdf_with_a_root_on_the_ground_and_a_missing_mesh(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, urdf(), "dog.urdf"))
    assert found.base_name == "trunk" and found.init_height == pytest.approx(0.37, abs=0.02)
    assert found.foot_names == ("LF_foot", "RF_foot", "LH_foot", "RH_foot")
    assert "camera" not in found.body_names and list(found.mirrors) == ["left-right", "front-back"]
    assert found.joint_actuators[0].velocity_limit == 20.0
    assert any("trunk.stl" in line for line in lines) and any("a box between the hips" in line for line in lines)
    assert not stands(found)[1]


@pytest.mark.parametrize(
    ("out", "name", "word"),
    [("made", "go2", "--name"), ("my-robot", "x", "my_robot"), ("numpy", "x", "numpy"), (".", "x", "exists")],
)
def test_names_that_cannot_be_are_refused(tmp_path, out, name, word):
    with pytest.raises(UserError, match=word):
        adopt(written(tmp_path, dog()), tmp_path / out, name, Options())
