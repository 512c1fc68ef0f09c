"""Joint orders against those of Isaac Lab's sim2sim_transfer configurations (ANYmal D, Go2, H1, G1; siblings alike)."""

from xml.etree import ElementTree

import pytest
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots.orders import newton_order, physx_order

ANYMAL = tuple(f"{leg}_{joint}" for joint in ("HAA", "HFE", "KFE") for leg in ("LF", "LH", "RF", "RH"))
UNITREE = tuple(f"{leg}_{joint}_joint" for joint in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR"))
H1 = (
    "left_hip_yaw", "right_hip_yaw", "torso", "left_hip_roll", "right_hip_roll", "left_shoulder_pitch",
    "right_shoulder_pitch", "left_hip_pitch", "right_hip_pitch", "left_shoulder_roll", "right_shoulder_roll",
    "left_knee", "right_knee", "left_shoulder_yaw", "right_shoulder_yaw", "left_ankle", "right_ankle", "left_elbow",
    "right_elbow",
)  # fmt: skip
G1 = tuple(
    f"{name}_joint"
    for name in (
        "left_hip_pitch", "right_hip_pitch", "torso", "left_hip_roll", "right_hip_roll", "left_shoulder_pitch",
        "right_shoulder_pitch", "left_hip_yaw", "right_hip_yaw", "left_shoulder_roll", "right_shoulder_roll",
        "left_knee", "right_knee", "left_shoulder_yaw", "right_shoulder_yaw", "left_ankle_pitch", "right_ankle_pitch",
        "left_elbow_pitch", "right_elbow_pitch", "left_ankle_roll", "right_ankle_roll", "left_elbow_roll",
        "right_elbow_roll", "left_five", "left_three", "left_zero", "right_five", "right_three", "right_zero",
        "left_six", "left_four", "left_one", "right_six", "right_four", "right_one", "left_two", "right_two",
    )
)  # fmt: skip
_SDK = (0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 22, 4, 10, 16, 23, 5, 11, 17, 24, 18, 25, 19, 26, 20, 27, 21, 28)
"""Slot of each joint in Isaac Lab's order: ``joint_ids_map`` of unitree_rl_lab's deploy.yaml."""
G1_29DOF = tuple(ROBOTS["g1-29dof"].hardware.motors[slot] for slot in _SDK)
G1_23DOF = (
    *("left_hip_pitch_joint", "right_hip_pitch_joint", "waist_yaw_joint"),
    *(
        f"{side}_{joint}_joint"
        for leg, arm in (
            ("hip_roll", "shoulder_pitch"),
            ("hip_yaw", "shoulder_roll"),
            ("knee", "shoulder_yaw"),
            ("ankle_pitch", "elbow"),
            ("ankle_roll", "wrist_roll"),
        )
        for joint in (leg, arm)
        for side in ("left", "right")
    ),
)
PHYSX = {
    **{f"anymal-{x}": ANYMAL for x in "bcd"},
    **dict.fromkeys(("a1", "go1", "go2"), UNITREE),
    "franka": ROBOTS["franka"].joint_names,
    **{"h1": H1, "g1": G1, "g1-29dof": G1_29DOF, "g1-23dof": G1_23DOF},
}


@pytest.mark.parametrize("name", ROBOTS)
def test_physx_order(name):
    assert physx_order(ROBOTS[name]) == PHYSX[name]


@pytest.mark.parametrize("name", ROBOTS)
def test_newton_order_is_depth_first_with_the_same_siblings(name):
    robot = ROBOTS[name]
    assert newton_order(robot) == robot.joint_names  # canonical order is leg by leg, from the base outwards
    assert newton_order(ROBOTS["anymal-c"])[:4] == ("LF_HAA", "LF_HFE", "LF_KFE", "LH_HAA")
    assert newton_order(ROBOTS["go2"])[:4] == ("FL_hip_joint", "FL_thigh_joint", "FL_calf_joint", "FR_hip_joint")


def test_siblings_are_in_the_order_of_their_joints_names_and_on_physx_hinges_first(tmp_path):
    """Seen in Isaac Lab 3.0.0 with an ANYmal C whose USD lists its legs backwards; of slides its resolver tells."""
    robot = ROBOTS["anymal-c"]
    tree = ElementTree.parse(robot.mjcf)
    base = tree.find("worldbody/body")
    legs = base.findall("body")
    for leg in legs:
        base.remove(leg)
    base.extend(reversed(legs))
    tree.write(tmp_path / "backwards.xml")
    backwards = robot.replace(mjcf=tmp_path / "backwards.xml")
    assert physx_order(backwards) == physx_order(robot)
    assert newton_order(backwards) == newton_order(robot)
    legs[0].find("joint").set("type", "slide")
    tree.write(tmp_path / "sliding.xml")
    sliding = robot.replace(mjcf=tmp_path / "sliding.xml")
    assert physx_order(sliding)[:4] == ("LH_HAA", "RF_HAA", "RH_HAA", "LF_HAA")
    assert newton_order(sliding) == newton_order(robot)


def test_joints_that_the_robot_does_not_list_are_left_out():
    go2 = ROBOTS["go2"]
    front = go2.replace(joint_names=go2.joint_names[:6])
    assert physx_order(front) == tuple(name for name in UNITREE if name.startswith("F"))


def test_bad_input_is_named(tmp_path):
    go2 = ROBOTS["go2"]
    with pytest.raises(ValueError, match=r"'go2' lists joint tail_joint, which .*go2\.xml does not have"):
        physx_order(go2.replace(joint_names=(*go2.joint_names, "tail_joint")))
    with pytest.raises(ValueError, match=r"nowhere\.xml cannot be parsed"):
        newton_order(go2.replace(mjcf=tmp_path / "nowhere.xml"))
    (tmp_path / "included.xml").write_text('<mujoco><include file="go2.xml"/></mujoco>')
    with pytest.raises(ValueError, match=r"included\.xml has no worldbody of its own"):
        newton_order(go2.replace(mjcf=tmp_path / "included.xml"))
