"""MJCF of other projects: floors that feet meet in pairs, bases of slides and a ball, and settings made for MJX."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from gaitway_sim2real.mujoco.model import lay_ground
from gaitway_sim2real.mujoco.own_model import OwnModel
from gaitway_tasks.ground import LEVEL

LEG = """
<body name="{side}_leg" pos="0 {y} 0">
  <joint name="{side}_hip" axis="0 1 0" range="-1 1"/>
  <geom name="{side}_shin" type="capsule" fromto="0 0 0 0 0 -.3" size=".03" contype="0" conaffinity="0" mass="1"/>
  <geom name="{side}_foot" type="box" condim="1"
    size=".1 .04 .02" pos="0 0 -.32" contype="0" conaffinity="0" mass=".5"/>
</body>"""
MODEL = """
<mujoco><compiler angle="radian"/>
  <option iterations="1" ls_iterations="5"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 .1"/>
    <body name="trunk" pos="0 0 .4">
      {free}
      <geom type="box" size=".1 .2 .05" mass="5"/>{legs}
    </body>
  </worldbody>
  <contact>
    <pair geom1="left_foot" geom2="floor" condim="3"/>
    <pair geom1="right_foot" geom2="floor" condim="3"/>
    <pair geom1="left_shin" geom2="right_shin" condim="1"/>
  </contact>
  <sensor><contact name="touch" geom1="left_foot" geom2="floor" data="found"/></sensor>
</mujoco>"""
FREE = "<freejoint/>"
SLIDES = (
    "".join(f'<joint type="slide" axis="{axis}"/>' for axis in ("1 0 0", "0 1 0", "0 0 1")) + '<joint type="ball"/>'
)


def own(tmp_path, free: str = FREE) -> tuple[OwnModel, mujoco.MjModel]:
    path = tmp_path / "robot.xml"
    legs = "".join(LEG.format(side=side, y=y) for side, y in (("left", 0.1), ("right", -0.1)))
    path.write_text(MODEL.format(free=free, legs=legs))
    robot = OwnModel(path)
    return robot, mujoco.MjModel.from_xml_path(str(robot.robot.mjcf))


def rests_at(spec: mujoco.MjSpec) -> float:
    """Height of the trunk [m] after half a second on a floor of its own, with stiff hips."""
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1])
    for joint in spec.joints:
        if joint.type == mujoco.mjtJoint.mjJNT_HINGE:
            joint.stiffness = 500.0 + 0.0 * joint.stiffness
            joint.damping = 5.0 + 0.0 * joint.damping
    compiled = spec.compile()
    data = mujoco.MjData(compiled)
    mujoco.mj_step(compiled, data, 250)
    return float(data.body("trunk").xpos[2])


def test_feet_that_touch_through_pairs_stand_on_any_floor(tmp_path) -> None:
    robot, model = own(tmp_path)
    assert rests_at(mujoco.MjSpec.from_file(str(robot.robot.mjcf))) == pytest.approx(0.34, abs=0.02)
    assert model.geom("left_foot").condim == 3
    # The two shins still meet each other, and nothing else.
    assert [
        {model.geom(int(g)).name for g in pair} for pair in zip(model.pair_geom1, model.pair_geom2, strict=True)
    ] == [{"left_shin", "right_shin"}]


@pytest.mark.parametrize("name", ["left_shin", "right_shin"])
def test_geoms_of_pairs_among_themselves_touch_no_floor(tmp_path, name: str) -> None:
    _, model = own(tmp_path)
    geom = model.geom(name)
    floor_contype, floor_conaffinity = 1, 1
    assert not (geom.contype & floor_conaffinity) and not (geom.conaffinity & floor_contype)


def test_base_of_slides_and_a_ball_becomes_free(tmp_path) -> None:
    robot, model = own(tmp_path, SLIDES)
    assert robot.robot.joint_names == ("left_hip", "right_hip")
    assert robot.robot.base_name == "trunk"
    assert robot.robot.init_height == pytest.approx(0.4)
    free = [j for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_FREE]
    assert len(free) == 1
    _, same = own(tmp_path, FREE)
    assert model.nv == same.nv
    assert np.allclose(model.body_mass, same.body_mass)


def test_solver_of_a_scene_for_mjx_is_not_taken_over(tmp_path) -> None:
    _, model = own(tmp_path)
    default = mujoco.MjModel.from_xml_string("<mujoco/>")
    assert (model.opt.iterations, model.opt.ls_iterations) == (default.opt.iterations, default.opt.ls_iterations)


def test_collision_shapes_that_were_hidden_are_seen(tmp_path):
    path = tmp_path / "hidden.xml"
    legs = "".join(LEG.format(side=side, y=y) for side, y in (("left", 0.1), ("right", -0.1)))
    hidden = '<default><geom group="3" rgba="1 1 1 0" material="glass"/></default>'
    path.write_text(MODEL.format(free=FREE, legs=legs).replace("<worldbody>", f"{hidden}<worldbody>", 1))
    robot = OwnModel(path)  # its file exists as long as it does
    model = mujoco.MjModel.from_xml_path(str(robot.robot.mjcf))
    assert model.ngeom > 0 and (model.geom_group == 0).all() and (model.geom_rgba[:, 3] == 1.0).all()


def test_feet_of_one_contact_dimension_hold_on_our_ground_as_on_a_floor():
    spec = mujoco.MjSpec.from_string(
        '<mujoco><worldbody><body name="b"><freejoint/><geom type="box" size=".1 .1 .1" condim="1"/></body></worldbody>'
        "</mujoco>"
    )
    lay_ground(spec, LEVEL)
    assert spec.compile().geom_condim.tolist() == [3, 3]
