"""Feet as the on-board half computes them, beside MuJoCo."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_onboard.estimation.kinematics import FLAT, FootKinematics
from gaitway_onboard.estimation.legs import LegError, read_legs
from gaitway_tasks.robots import ROBOTS, Robot

TILTED = """
<mujoco>
  <compiler angle="degree" eulerseq="XYz"/>
  <default>
    <joint axis="0 1 0"/>
    <default class="roll"><joint axis="2 0 0" pos="0.01 0.02 0.03"/></default>
    <default class="shoe"><geom type="box" size="0.1 0.04 0.02"/></default>
  </default>
  <worldbody>
    <body name="trunk">
      <freejoint/>
      <geom type="box" size="0.1 0.1 0.1"/>
      <site name="imu" pos="0.1 0 0.05"/>
      <frame pos="0.1 0.2 0" euler="10 20 30">
        <body name="upper" pos="0 0.1 -0.1" quat="0.9 0.1 -0.3 0.2" childclass="roll">
          <joint name="a"/>
          <joint name="b" axis="0 0 1" pos="0 0 -0.02" class="main"/>
          <geom size="0.03"/>
          <body name="lower" pos="0.05 0 -0.3" axisangle="1 1 0 25">
            <joint name="c" axis="0 3 1"/>
            <geom size="0.03"/>
            <body name="shoe" pos="0 0 -0.2" euler="5 -10 15">
              <geom class="shoe" pos="0.03 0 -0.01" euler="0 0 20"/>
              <geom type="capsule" size="0.02 0.05" pos="0 0 0.1"/>
            </body>
          </body>
        </body>
      </frame>
      <body name="other" pos="0 -0.2 0">
        <joint name="d"/>
        <geom size="0.03"/>
        <body name="heel" pos="0 0 -0.4"><geom type="capsule" size="0.01" fromto="-0.1 0 0 0.1 0 0"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def compare(path: Path, base: str, feet: tuple[str, ...], joint_names: tuple[str, ...]) -> None:
    """Positions, orientations and Jacobians of 20 random poses, at machine precision."""
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    body = read_legs(path, base, feet)
    kinematics = FootKinematics(body.legs, joint_names)
    rng = np.random.default_rng(0)
    qpos = [model.joint(name).qposadr[0] for name in joint_names]
    dof = [model.joint(name).dofadr[0] for name in joint_names]
    for _ in range(20):
        data.qpos[qpos] = rng.uniform(-2.0, 2.0, len(qpos))
        quat = rng.normal(size=4)
        data.qpos[3:7] = quat / np.linalg.norm(quat)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        turn = data.xmat[model.body(base).id].reshape(3, 3)
        origin = data.xpos[model.body(base).id]
        kinematics.update(data.qpos[qpos], turn.T @ [0.0, 0.0, 1.0])
        speed = rng.normal(size=len(joint_names))
        for row, foot in enumerate(feet):
            index = model.body(foot).id
            np.testing.assert_allclose(kinematics.position[row], turn.T @ (data.xpos[index] - origin), atol=1e-9)
            np.testing.assert_allclose(kinematics.turn[row], turn.T @ data.xmat[index].reshape(3, 3), atol=1e-9)
            jacobian = np.zeros((3, model.nv))
            point = origin + turn @ kinematics.contact[row]
            mujoco.mj_jac(model, data, jacobian, None, point, index)
            expected = turn.T @ jacobian[:, dof] @ speed
            np.testing.assert_allclose(kinematics.velocity(speed)[row], expected, atol=1e-9)


@pytest.mark.parametrize("robot", [each for each in ROBOTS.values() if each.foot_names], ids=lambda each: each.name)
def test_feet_are_where_mujoco_has_them(robot: Robot) -> None:
    compare(robot.mjcf, robot.base_name, robot.foot_names, robot.joint_names[::-1])


def test_turned_frames_joint_anchors_and_classes(tmp_path: Path) -> None:
    path = tmp_path / "tilted.xml"
    path.write_text(TILTED)
    compare(path, "trunk", ("shoe", "heel"), ("d", "c", "b", "a"))
    body = read_legs(path, "trunk", ("shoe", "heel"))
    np.testing.assert_allclose(body.imu, [0.1, 0.0, 0.05])
    assert [len(leg.sole) for leg in body.legs] == [8 + 2, 2]


@pytest.mark.parametrize("robot", ["go2", "anymal-b", "h1", "g1"])
def test_the_lowest_point_of_a_foot_touches(robot: str) -> None:
    """Lower the robot until MuJoCo finds a contact: the computed points lie on the ground."""
    known = ROBOTS[robot]
    spec = mujoco.MjSpec.from_file(str(known.mjcf))
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1)
    model = spec.compile()
    data = mujoco.MjData(model)
    kinematics = FootKinematics(read_legs(known.mjcf, known.base_name, known.foot_names).legs, known.joint_names)
    qpos = [model.joint(name).qposadr[0] for name in known.joint_names]
    data.qpos[qpos] = known.default_joint_pos
    kinematics.update(data.qpos[qpos], np.array([0.0, 0.0, 1.0]))
    highest = -kinematics.contact[:, 2].min()  # of the base, with a foot on the ground
    slack = 1e-4 if known.num_joints == 12 else FLAT  # a sole that is not quite level touches below its middle
    for height, touches in ((highest + slack, False), (highest - 1e-4, True)):
        data.qpos[2] = height
        mujoco.mj_forward(model, data)
        assert bool(data.ncon) is touches


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name="heel"', 'name="hoof"', "no body named heel"),
        ('axisangle="1 1 0 25"', 'zaxis="0 1 1"', "'lower' is turned by zaxis"),
        ('<joint name="d"/>', '<joint name="d" type="slide"/>', "'d' of a leg must be a hinge"),
        ('<joint name="d"/>', '<joint name="e"/>', "reports no joint e"),
        ("<worldbody>", '<worldbody><include file="a.xml"/>', "uses <include>"),
        ("</mujoco>", "", "not a readable MJCF"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "bad.xml"
    path.write_text(TILTED.replace(old, new))
    with pytest.raises(LegError, match=message):
        FootKinematics(read_legs(path, "trunk", ("shoe", "heel")).legs, ("a", "b", "c", "d"))
