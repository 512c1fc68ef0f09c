"""Robots adopted from their files alone, from the file to the package."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from adoptable_robots import adopted, dog, refusal, urdf, written
from gaitway_sim2real.adopt.standing import stands
from gaitway_tasks.robots import ANYMAL_C

BOX = """<mujoco><asset><mesh name="b" vertex="-.2 -.08 -.05 .2 -.08 -.05 -.2 .08 -.05 .2 .08 -.05 -.2 -.08 .05
.2 -.08 .05 -.2 .08 .05 .2 .08 .05"/></asset><worldbody><geom type="mesh" mesh="b"/></worldbody></mujoco>"""


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


def test_a_urdf_with_a_root_on_the_ground_and_a_missing_mesh(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, urdf(), "dog.urdf"))
    assert found.base_name == "trunk" and found.init_height == pytest.approx(0.37, abs=0.02)
    assert found.foot_names == ("LF_foot", "RF_foot", "LH_foot", "RH_foot")
    assert "camera" not in found.body_names and list(found.mirrors) == ["left-right", "front-back"]
    assert found.joint_actuators[0].velocity_limit == 20.0
    assert any("trunk.stl" in line for line in lines) and any("a box between the hips" in line for line in lines)
    assert not stands(found)[1]


def test_a_urdf_that_only_shows_shapes_collides_with_them(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, urdf().replace("collision>", "visual>"), "dog.urdf"))
    assert any("<visual>" in line for line in lines)
    assert found.foot_height == pytest.approx(0.02, abs=1e-4) and not stands(found)[1]


def test_a_urdf_with_two_materials_in_a_shape_and_a_mesh_named_twice_by_its_folder(tmp_path):
    box = mujoco.MjSpec.from_string(BOX).compile()
    (tmp_path / "meshes").mkdir()
    corners = "".join(f"v {x} {y} {z}\n" for x, y, z in box.mesh_vert)
    (tmp_path / "meshes/trunk.obj").write_text(corners + "".join(f"f {a} {b} {c}\n" for a, b, c in box.mesh_face + 1))
    text = urdf().replace("package://dog/trunk.stl", "meshes/trunk.obj")
    paint = '<material name="a"><color rgba="1 0 0 1"/></material><material name="b"/>'
    text = text.replace("<collision>", f"<visual><geometry><sphere radius='.1'/></geometry>{paint}</visual><collision>")
    text = text.replace(
        '<robot name="dog">', '<robot name="dog"><mujoco><compiler meshdir="meshes" strippath="false"/></mujoco>'
    )
    found, lines = adopted(tmp_path, written(tmp_path, text, "dog.urdf"))
    assert not any("trunk.obj" in line for line in lines)
    model = mujoco.MjModel.from_xml_path(str(found.mjcf))
    (trunk,) = (k for k in range(model.ngeom) if model.geom_bodyid[k] == model.body("trunk").id)
    assert model.geom_size[trunk] == pytest.approx([0.065, 0.135, 0.0], abs=1e-3)  # in place of a long box


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
