import dataclasses

import mujoco
import numpy as np
import pytest
from gaitway_sim2real.mujoco.body import Body
from gaitway_tasks.robots import ANYMAL_C, GO2, H1, ROBOTS
from gaitway_tasks.robots.mjcf import ModelError, load_spec
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from step_ground import Step

JOINTS = GO2.hardware.joint_names
NONE = np.zeros(12)


def stand(body, seconds=1.0, stiffness=80.0, damping=3.0):
    count = len(body.joint_names)
    kp, kd, limit = np.full(count, stiffness), np.full(count, damping), np.full(count, 60.0)
    body.set_drives(kp * body.default_pos, kp, kd, -limit, limit)
    for _ in range(round(seconds / 0.002)):
        body.step()


def test_a_hung_robot_stays_where_it_hangs_whatever_its_legs_do():
    body = Body(GO2, JOINTS)
    body.place(body.default_pos, hung=True)
    before = body.truth(0.0)
    body.set_drives(np.full(12, 20.0), NONE, NONE, np.full(12, -20.0), np.full(12, 20.0))
    for _ in range(200):
        body.step()
    after = body.truth(0.4)
    assert np.abs(after.joint_pos - before.joint_pos).max() > 0.5
    np.testing.assert_allclose(after.base_pos, before.base_pos, atol=1e-4)
    assert after.tilt < 1e-4 and not after.foot_contact.any()


def test_it_falls_once_it_is_let_go_and_can_be_hung_up_again():
    body = Body(GO2, JOINTS)
    body.place(body.default_pos, hung=True)
    height = body.truth(0.0).base_pos[2]
    body.hung = False
    for _ in range(50):
        body.step()
    fallen = body.truth(0.1)
    assert fallen.base_pos[2] == pytest.approx(height - 0.5 * 9.81 * 0.01, abs=2e-3)
    np.testing.assert_allclose(body.imu()[2], 0.0, atol=0.1)
    body.hung = True
    for _ in range(100):
        body.step()
    np.testing.assert_allclose(body.truth(0.3).base_pos, fallen.base_pos, atol=0.02)


def test_it_is_let_down_on_its_feet_as_it_is_posed():
    body = Body(GO2, JOINTS, ground=Step(start=-1.0, end=1.0, rise=0.3))
    body.place(body.default_pos, hung=True)
    stand(body, 0.2)
    body.let_down()
    landed = body.truth(0.2)
    assert not body.hung and landed.base_lin_vel.max() == 0.0
    stand(body, 0.3)
    stood = body.truth(0.5)
    assert stood.foot_contact.all() and stood.height == pytest.approx(landed.height, abs=0.02)


def test_height_is_above_the_ground_that_it_stands_on():
    level, raised = Body(GO2, JOINTS), Body(GO2, JOINTS, ground=Step(start=-1.0, end=1.0, rise=0.3))
    for body in (level, raised):
        stand(body, 0.5)
    low, high = level.truth(0.5), raised.truth(0.5)
    assert high.foot_contact.all() and high.base_pos[2] == pytest.approx(low.base_pos[2] + 0.3, abs=1e-3)
    assert high.height == pytest.approx(low.height, abs=1e-3) and low.height == low.base_pos[2]


@pytest.mark.parametrize("robot", [GO2, ANYMAL_C], ids=lambda robot: robot.name)
def test_standing_feels_gravity_and_its_own_weight(robot):
    body = Body(robot, robot.joint_names)
    stand(body, 1.5)
    _, gyro, force = body.imu()
    truth = body.truth(1.5)
    np.testing.assert_allclose(np.linalg.norm(force), 9.81, atol=0.02)
    np.testing.assert_allclose(gyro, 0.0, atol=0.02)
    assert truth.tilt < 0.1 and truth.foot_contact.all()
    weight = 9.81 * float(body.model.body_mass.sum())
    assert truth.foot_force.sum() == pytest.approx(weight, rel=0.03)


def test_velocity_is_that_of_the_base_in_its_own_frame():
    body = Body(GO2, JOINTS)
    body.place(body.default_pos, hung=False)
    body.data.qpos[2] = 1.0
    body.data.qpos[3:7] = [np.cos(0.4), 0.0, 0.0, np.sin(0.4)]  # turned left by 0.8 rad
    body.data.qvel[:6] = [1.0, 0.0, 0.0, 0.3, 0.2, -0.1]
    truth = body.truth(0.0)
    np.testing.assert_allclose(truth.base_lin_vel, [np.cos(0.8), -np.sin(0.8), 0.0], atol=1e-12)
    np.testing.assert_allclose(truth.base_ang_vel, [0.3, 0.2, -0.1])


@pytest.mark.parametrize(
    "robot", [robot for robot in ROBOTS.values() if len(robot.foot_names) == 4], ids=lambda r: r.name
)
def test_lying_is_folded_within_the_ranges_and_lower_than_standing(robot):
    body = Body(robot, robot.joint_names)
    height = body.truth(0.0).base_pos[2]
    folded = body.folded()
    assert (folded >= body.limits[:, 0]).all() and (folded <= body.limits[:, 1]).all()
    body.place(folded, hung=False)
    assert body.truth(0.0).base_pos[2] < 0.6 * height


def test_joints_that_the_hardware_lacks_are_held_still():
    kept = tuple(name for name in H1.joint_names if "elbow" not in name)
    body = Body(H1, kept)
    assert body.model.nv == 6 + len(kept)


def test_identified_parameters_are_the_bodys():
    known = RobotParameters(
        robot="go2",
        joints={"FR_calf_joint": JointParameters(armature=0.05, friction=0.7, viscous=0.3)},
        base_mass=8.0,
        base_com=(0.03, 0.0, 0.01),
    )
    plain, body = Body(GO2, JOINTS), Body(GO2, JOINTS, parameters=known)
    dof, base = body.model.joint("FR_calf_joint").dofadr[0], body.model.body("base").id
    assert body.model.dof_armature[dof] == 0.05
    assert (body.model.dof_frictionloss[dof], body.model.dof_damping[dof]) == (0.7, 0.3)
    assert body.model.body_mass[base] == 8.0 and body.model.body_ipos[base].tolist() == [0.03, 0.0, 0.01]
    np.testing.assert_allclose(
        body.model.body_inertia[base], plain.model.body_inertia[base] * 8.0 / plain.model.body_mass[base]
    )
    other = [dof for dof in range(6, 18) if dof != body.model.joint("FR_calf_joint").dofadr[0]]
    np.testing.assert_array_equal(body.model.dof_armature[other], plain.model.dof_armature[other])


def test_another_file_whose_base_points_elsewhere_has_the_same_imu(tmp_path):
    spec = load_spec(GO2.mjcf)
    base = spec.body("base")
    turn, anti = np.array([np.sqrt(0.5), 0, 0, np.sqrt(0.5)]), np.array([np.sqrt(0.5), 0, 0, -np.sqrt(0.5)])
    for part in [*base.bodies, *base.geoms, *base.sites]:
        part.pos = _rotate(anti, part.pos)
        quat = np.zeros(4)
        mujoco.mju_mulQuat(quat, anti, part.quat)
        part.quat = quat
    base.ipos = _rotate(anti, base.ipos)
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, anti)
    rotation = rotation.reshape(3, 3)
    xx, yy, zz, xy, xz, yz = base.fullinertia
    inertia = rotation @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ rotation.T
    base.fullinertia = [*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    turned = tmp_path / "turned.xml"
    turned.write_text(spec.to_xml())
    assert turn @ anti == pytest.approx(0.0)
    own, other = Body(GO2, JOINTS), Body(GO2, JOINTS, model=turned)
    for body in (own, other):
        body.place(body.default_pos, hung=False)
        stand(body, 0.3, stiffness=50.0)
        body.tip(1.0)
        stand(body, 0.1, stiffness=50.0)
    for mine, theirs in zip(own.imu(), other.imu(), strict=True):
        np.testing.assert_allclose(theirs, mine, atol=0.05)
    np.testing.assert_allclose(other.truth(0.0).base_lin_vel, own.truth(0.0).base_lin_vel, atol=0.01)


def _rotate(quat, vector):
    out = np.zeros(3)
    mujoco.mju_rotVecQuat(out, np.array(vector), quat)
    return out


def test_files_that_are_no_such_robot_are_refused(tmp_path):
    with pytest.raises(ModelError, match="no joint named"):
        Body(GO2, JOINTS, model=ANYMAL_C.mjcf)
    with pytest.raises(ModelError, match="no MJCF file"):
        Body(dataclasses.replace(GO2, mjcf=tmp_path / "missing.xml"), JOINTS)
