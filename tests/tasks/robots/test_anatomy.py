"""Facts that models tell: weights, legs, waists, and lifted feet."""

import mujoco
import numpy as np
import pytest
from gaitway_tasks.robots.anatomy import anatomy, lift
from gaitway_tasks.robots.known import own

LEGGED = ["anymal-c", "go2", "h1", "g1-29dof", "g1-23dof"]


def feet_at(robot, pose):
    """Places (F, 3) and rotations (F, 3, 3) of the feet with the base at rest."""
    model = mujoco.MjModel.from_xml_path(str(robot.mjcf))
    data = mujoco.MjData(model)
    for name, angle in zip(robot.joint_names, pose, strict=True):
        data.joint(name).qpos[0] = angle
    mujoco.mj_kinematics(model, data)
    feet = [model.body(name).id for name in robot.foot_names]
    return data.xpos[feet].copy(), data.xmat[feet].reshape(-1, 3, 3).copy()


@pytest.mark.parametrize("name", LEGGED)
def test_each_foot_rises_straight_up_with_its_sole_level_and_the_others_stay(name):
    robot = own()[name].robot
    height = 0.12 * robot.init_height
    offsets = lift(robot, height)
    rest, level = feet_at(robot, robot.default_joint_pos)
    for foot, offset in enumerate(offsets):
        places, turned = feet_at(robot, np.array(robot.default_joint_pos) + offset)
        moved = places - rest
        np.testing.assert_allclose(np.delete(moved, foot, 0), 0.0, atol=1e-9)
        np.testing.assert_allclose(moved[foot], [0.0, 0.0, height], atol=0.02 * height)
        if len(robot.foot_names) == 2:
            np.testing.assert_allclose(turned[foot], level[foot], atol=0.02)
    limits = np.array(robot.joint_limits)
    poses = np.array(robot.default_joint_pos) + offsets
    assert (poses >= limits[:, 0] - 1e-9).all() and (poses <= limits[:, 1] + 1e-9).all()


def test_mirror_images_of_feet_are_lifted_by_mirror_images_of_angles():
    robot = own()["g1-29dof"].robot
    left, right = lift(robot, 0.08)
    for joint, angle in zip(robot.joint_names[:6], left[:6], strict=True):
        image = joint.replace("left_", "right_")
        sign = -1.0 if joint.endswith(("_yaw_joint", "_roll_joint")) else 1.0
        assert right[robot.joint_names.index(image)] == pytest.approx(sign * angle, abs=1e-6)


def test_waists_carry_a_trunk_and_arms_do_not():
    def names(robot, joints):
        return {robot.joint_names[joint] for joint in joints}

    g1, h1, dog = (own()[name].robot for name in ("g1-29dof", "h1", "anymal-c"))
    facts = anatomy(g1)
    assert names(g1, facts.waists) == {"waist_yaw_joint", "waist_roll_joint", "waist_pitch_joint"}
    assert len(facts.arms) == 14 and [len(leg) for leg in facts.legs] == [6, 6]
    assert names(g1, facts.legs[1]) == set(g1.joint_names[6:12])
    assert names(h1, anatomy(h1).waists) == {"torso"}
    assert anatomy(dog).waists == anatomy(dog).arms == [] and [len(leg) for leg in anatomy(dog).legs] == [3] * 4
    assert 30.0 < facts.mass < 36.0 < anatomy(dog).mass < 55.0
