"""A converted robot of meshes: masses, inertias, joint limits and stance in PhysX and Newton, as in MuJoCo."""

import mujoco
import numpy as np
import pytest
from gaitway_isaaclab.own_robot import check_loaded, robot_in
from gaitway_isaaclab.walk import Walk
from mesh_robot import write_mesh_robot

from gaitway.cli import main

POSE = {"hip": 0.6, "knee": -1.1}
FRICTION, DT, STEPS = 1.0, 0.005, 300


@pytest.fixture
def mule(tmp_path):
    return write_mesh_robot(tmp_path / "mule")


def test_the_command_compares_what_the_engine_has_loaded(lab, physics, mule, tmp_path, capsys):
    out = tmp_path / "mule.usd"
    assert main(["convert", str(mule), "--out", str(out), "--engine", physics]) == 0
    said = capsys.readouterr().out
    assert "9 bodies, 8 joints, base trunk" in said and f"{physics}: 9 bodies of 13.8 kg" in said
    assert "limits of 8 joints within" in said and out.stat().st_size > 1000


URDF = """<robot name="cart">
<link name="base"><inertial><mass value="5"/>
  <inertia ixx="0.1" iyy="0.2" izz="0.2" ixy="0.01" ixz="0" iyz="0"/></inertial>
  <collision><geometry><mesh filename="package://mule/meshes/trunk.obj"/></geometry></collision></link>
<link name="arm"><inertial><mass value="1"/>
  <inertia ixx="0.01" iyy="0.01" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="imu"/>
<joint name="swing" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
<joint name="imu_fixed" type="fixed"><parent link="base"/><child link="imu"/></joint>
</robot>"""


def test_a_urdf_without_limits_or_drives_is_loaded_too(lab, physics, mule, tmp_path, capsys):
    if physics == "newton":
        pytest.skip("the same file; compiling its kernels takes minutes")
    cart, out = mule.with_name("cart.urdf"), tmp_path / "cart.usd"
    cart.write_text(URDF)
    assert main(["convert", str(cart), "--out", str(out), "--engine", physics]) == 0
    assert "3 bodies of 6 kg" in capsys.readouterr().out and out.exists()


def test_a_wrong_inertia_is_named(lab, physics, mule, monkeypatch):
    if physics == "newton":
        pytest.skip("the same code; compiling its kernels takes minutes")
    from gaitway_isaaclab import usd

    inertials = usd.body_inertials

    def heavier(model):
        found = inertials(model)
        found[2].inertia[0, 0] *= 1.05
        return found

    monkeypatch.setattr("gaitway_isaaclab.own_robot.body_inertials", heavier)
    with pytest.raises(ValueError, match="inertia of body FL_thigh"):
        check_loaded(robot_in(mule), physics)


def stance_in_mujoco(mule, target):
    """Base position and joint angles (in the model's order) after the steps, from just above the ground."""
    spec = mujoco.MjSpec.from_file(str(mule))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=1)
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[7:] = data.ctrl[:] = target
    for _ in range(STEPS):
        mujoco.mj_step(model, data)
    return data.qpos[:3].copy(), data.qpos[7:].copy()


def test_it_stands_as_in_mujoco(lab, physics, mule):
    robot = robot_in(mule)
    target = np.array([POSE[name.rpartition("_")[2]] for name in robot.joint_names])
    robot = robot.replace(default_joint_pos=tuple(target.tolist()))
    assert {law.stiffness for law in robot.joint_actuators} == {120.0} and robot.init_height == 0.42
    walk = Walk(robot, 1, physics=physics, physics_dt=DT, decimation=1, friction=FRICTION)
    try:
        start = np.array([[0.0, 0.0, robot.init_height]])
        walk.place(start, np.array([[1.0, 0.0, 0.0, 0.0]]), target[None], np.zeros((1, 3)))
        shanks = [[name] for name in robot.body_names if name.endswith("shank")]
        found = walk.record(lambda step, state: target[None], range(STEPS), shanks, ["trunk"])
    finally:
        walk.close()
    position, angles = stance_in_mujoco(mule, target)
    assert position[2] > 0.25 and not found["press"].any()  # on its feet
    weight = 13.8 * 9.81
    np.testing.assert_allclose(found["foot_force"][-50:, 0, :, 2].sum(1).mean(), weight, rtol=0.02)
    np.testing.assert_allclose(found["base_pos"][-1, 0, 2], position[2], atol=0.005)
    np.testing.assert_allclose(found["joint_pos"][-1, 0], angles, atol=0.05)
