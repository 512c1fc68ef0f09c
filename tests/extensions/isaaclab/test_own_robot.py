"""A user's own MJCF and URDF as USD: meshes, drives, a floating base, and what is refused."""

import math

import mujoco
import numpy as np
import pytest
from gaitway_isaaclab.own_robot import robot_in
from gaitway_isaaclab.usd import compile_file, write_usd
from mesh_robot import DENT, write_mesh_robot
from pxr import Usd, UsdGeom, UsdPhysics

from gaitway.cli import main

URDF = """<robot name="cart">
<link name="base">
  <inertial><origin xyz="0.01 0 0"/><mass value="5"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.2" ixy="0.01" ixz="0" iyz="0"/></inertial>
  <visual><geometry><mesh filename="package://mule/meshes/trunk.dae"/></geometry></visual>
  <collision><geometry><mesh filename="package://mule/meshes/trunk.obj"/></geometry></collision>
</link>
<link name="leg">
  <inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="0 0 -0.2"/><geometry><sphere radius="0.03"/></geometry></collision>
</link>
<link name="imu"/>
<joint name="hip" type="revolute"><parent link="base"/><child link="leg"/><axis xyz="0 1 0"/>
  <limit lower="0.5" upper="1.5" effort="23" velocity="10"/><dynamics damping="0.1" friction="0.2"/></joint>
<joint name="imu_fixed" type="fixed"><parent link="base"/><child link="imu"/><origin xyz="0.1 0 0"/></joint>
</robot>"""


@pytest.fixture
def mule(tmp_path):
    return write_mesh_robot(tmp_path / "mule")


@pytest.fixture
def cart(mule):
    (mule.parent / "urdf").mkdir()
    path = mule.parent / "urdf" / "cart.urdf"
    path.write_text(URDF)
    return path


def test_meshes_collide_as_their_hulls_where_mujoco_has_them(mule, tmp_path):
    robot = robot_in(mule)
    stage = Usd.Stage.Open(str(write_usd(robot, tmp_path / "mule.usda")))
    model = mujoco.MjModel.from_xml_path(str(mule))
    data = mujoco.MjData(model)
    data.qpos[:7] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    mujoco.mj_forward(model, data)
    places = UsdGeom.XformCache()
    root = stage.GetDefaultPrim().GetPath()
    trunk, ball = model.mesh("trunk"), model.mesh("ball")
    assert trunk.vertnum[0] == DENT + 1
    seen = 0
    for geom in range(model.ngeom):
        body = model.body(model.geom_bodyid[geom])
        mesh = model.mesh(model.geom_dataid[geom])
        kind = "visual" if mesh.id == ball.id else "collision"
        prim = stage.GetPrimAtPath(root.AppendPath(f"{body.name}/{kind}_{geom - body.geomadr[0]}"))
        points = np.array([list(p) for p in UsdGeom.Mesh(prim).GetPointsAttr().Get()])
        if kind == "visual":
            assert not prim.HasAPI(UsdPhysics.CollisionAPI) and len(points) == DENT + 1  # dent and all
            seen += 1
        else:
            assert UsdPhysics.MeshCollisionAPI(prim).GetApproximationAttr().Get() == UsdPhysics.Tokens.convexHull
            assert len(points) == (DENT if mesh.id == trunk.id else mesh.vertnum[0])
        vertices = model.mesh_vert[mesh.vertadr[0] : mesh.vertadr[0] + mesh.vertnum[0]]
        expected = vertices @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
        at = np.array(places.GetLocalToWorldTransform(prim))
        found = points @ at[:3, :3] + at[3, :3]
        assert np.linalg.norm(found[:, None] - expected[None], axis=-1).min(1).max() < 1e-5
    assert seen == 4


def test_drives_are_the_files_position_actuators(mule, tmp_path):
    robot = robot_in(mule)
    assert {(law.stiffness, law.damping, law.effort_limit) for law in robot.joint_actuators} == {(120.0, 4.0, 40.0)}
    stage = Usd.Stage.Open(str(write_usd(robot, tmp_path / "mule.usd")))
    knee = stage.GetPrimAtPath("/mule/joints/RL_knee")
    drive = UsdPhysics.DriveAPI(knee, "angular")
    assert drive.GetStiffnessAttr().Get() == pytest.approx(math.radians(120.0))
    assert drive.GetMaxForceAttr().Get() == 40.0
    assert UsdPhysics.RevoluteJoint(knee).GetLowerLimitAttr().Get() == pytest.approx(math.degrees(-2.2))


def test_a_urdf_floats_and_keeps_its_fixed_links(cart, tmp_path):
    robot = robot_in(cart)
    assert robot.body_names == ("base", "leg", "imu") and robot.joint_names == ("hip",)
    assert robot.default_joint_pos == (0.5,) and robot.joint_actuators[0].effort_limit == 23.0
    assert compile_file(cart).body_mass.tolist() == [0.0, 5.0, 1.0, 0.0]
    stage = Usd.Stage.Open(str(write_usd(robot, tmp_path / "cart.usd")))
    masses = {
        prim.GetName(): UsdPhysics.MassAPI(prim).GetMassAttr().Get()
        for prim in stage.GetDefaultPrim().GetChildren()
        if prim.HasAPI(UsdPhysics.MassAPI)
    }
    assert masses == pytest.approx({"base": 4.95, "leg": 1.0, "imu": 0.05})  # simulators refuse massless links
    hip = UsdPhysics.RevoluteJoint(stage.GetPrimAtPath("/cart/joints/hip"))
    assert hip.GetUpperLimitAttr().Get() == pytest.approx(math.degrees(1.5))
    assert len(UsdGeom.Mesh(stage.GetPrimAtPath("/cart/base/collision_0")).GetPointsAttr().Get()) == DENT


def test_a_joint_without_limit_or_drive_is_free(cart, tmp_path):
    text = URDF.replace('type="revolute"', 'type="continuous"')
    cart.write_text(text.replace('<limit lower="0.5" upper="1.5" effort="23" velocity="10"/>', ""))
    robot = robot_in(cart)
    assert robot.joint_limits == ((-math.inf, math.inf),) and robot.joint_actuators[0].effort_limit == math.inf
    stage = Usd.Stage.Open(str(write_usd(robot, tmp_path / "cart.usda")))
    hip = stage.GetPrimAtPath("/cart/joints/hip")
    assert not UsdPhysics.RevoluteJoint(hip).GetUpperLimitAttr().HasAuthoredValue()
    assert not UsdPhysics.DriveAPI(hip, "angular").GetMaxForceAttr().HasAuthoredValue()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("trunk.obj", "nose.obj", "package://mule/meshes/nose.obj is in no folder above the file"),
        ('type="revolute"', 'type="prismatic"', "body 'leg' has a slide joint, and needs one hinge or no joint"),
        ('<child link="leg"/>', "", "cart.urdf"),
        ('<mass value="1"/>', '<mass value="-1"/>', "cart.urdf"),
    ],
)
def test_what_a_urdf_must_not_have(cart, tmp_path, capsys, old, new, message):
    assert old in URDF
    cart.write_text(URDF.replace(old, new))
    assert main(["convert", str(cart), "--out", str(tmp_path / "out.usd")]) == 2
    said = capsys.readouterr().err
    assert message in said and len(said.splitlines()) == 1
    assert not (tmp_path / "out.usd").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<freejoint/>", "", "its first body needs a free joint"),
        ('file="taper.obj"', 'file="tapir.obj"', "tapir.obj"),
        ('name="FL_hip" axis', 'name="FL_hip" type="slide" axis', "body 'FL_thigh' has a slide joint"),
        (
            "</worldbody>",
            '<body name="rock"><geom size=".1"/></body></worldbody>',
            "hang on 'trunk'",
        ),
    ],
)
def test_what_an_mjcf_must_not_have(mule, tmp_path, capsys, old, new, message):
    text = mule.read_text()
    assert old in text
    mule.write_text(text.replace(old, new))
    assert main(["convert", str(mule), "--out", str(tmp_path / "out.usd")]) == 2
    said = capsys.readouterr().err
    assert message in said and len(said.splitlines()) == 1


def test_names_of_files(mule, tmp_path, capsys):
    assert main(["convert", str(mule), "--out", str(tmp_path / "out.obj")]) == 2
    assert "out.obj: end it with .xml, .usd, .usda, .usdc" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "gone.xml"), "--out", str(tmp_path / "out.usd")]) == 2
    assert "gone.xml" in capsys.readouterr().err
