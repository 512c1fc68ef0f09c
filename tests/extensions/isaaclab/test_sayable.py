"""A converted robot is that of its file: masses are the text's, and what a USD cannot hold is refused by name."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from gaitway_isaaclab.usd import compile_file
from gaitway_tasks.robots import GO2
from gaitway_tasks.robots.source import urdf_inertials
from pxr import Usd, UsdPhysics

from gaitway.cli import main

MOMENTS = {"xx": 0.02, "yy": 0.024, "zz": 0.03, "xy": 0.002, "xz": -0.004, "yz": 0.001}
"""Inertia of a link of 1 kg [m^2]."""
TRUNK = '<box size="0.5 0.25 0.2"/>'


def link(name: str, mass: float | None = 1.0, collision: str = '<sphere radius="0.05"/>', inertial: str = "") -> str:
    moments = " ".join(f'i{axes}="{value * (mass or 0.0)}"' for axes, value in MOMENTS.items())
    told = inertial or f'<origin xyz="0.02 -0.01 -0.1" rpy="0.3 -0.2 0.5"/><mass value="{mass}"/><inertia {moments}/>'
    told = "" if mass is None else f"<inertial>{told}</inertial>"
    shape = f"<collision><geometry>{collision}</geometry></collision>" if collision else ""
    return f'<link name="{name}">{told}{shape}</link>'


def joint(name: str, parent: str, child: str, kind: str = "revolute", more: str = "") -> str:
    limit = '<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="30" velocity="10"/>' if kind == "revolute" else ""
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="0.1 0.05 -0.2" rpy="0.1 0.2 0.3"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{limit}{more}</joint>'


def dog(*parts: str) -> str:
    base = link("base", 10.0, TRUNK)
    return f'<robot name="dog">{base}{link("leg", 2.0)}{joint("hip", "base", "leg")}{"".join(parts)}</robot>'


def converted(tmp_path: Path, text: str, name: str = "dog.urdf") -> Usd.Stage:
    (tmp_path / name).write_text(text)
    assert main(["convert", str(tmp_path / name), "--out", str(tmp_path / "dog.usda")]) == 0
    return Usd.Stage.Open(str(tmp_path / "dog.usda"))


def masses(stage: Usd.Stage) -> dict[str, float]:
    bodies = [prim for prim in stage.GetDefaultPrim().GetChildren() if prim.HasAPI(UsdPhysics.MassAPI)]
    return {prim.GetName(): UsdPhysics.MassAPI(prim).GetMassAttr().Get() for prim in bodies}


def told_masses(text: str) -> float:
    return sum(float(value) for value in re.findall(r'<mass value="([^"]+)"', text))


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (link("foot", None), joint("ankle", "leg", "foot", "fixed")),  # a collision shape alone: no mass in ROS
        (link("shell", None, '<box size="0.6 0.3 0.3"/>'), joint("screws", "base", "shell", "fixed")),
        (link("imu", None, ""), joint("imu_joint", "base", "imu", "fixed")),
        (
            link("rotor", None),
            link("shank", 1.5),
            joint("knee", "leg", "rotor"),
            joint("bolt", "rotor", "shank", "fixed"),
        ),
    ],
    ids=["plain", "foot", "shell", "frame", "dummy"],
)
def test_the_usd_weighs_what_the_urdf_says(tmp_path, parts, capsys):
    text = dog(*parts)
    found = masses(converted(tmp_path, text))
    assert sum(found.values()) == pytest.approx(told_masses(text)) and min(found.values()) > 0.0
    assert f"{told_masses(text):.6g} kg" in capsys.readouterr().out


def test_a_base_link_without_mass_takes_some_of_what_is_fixed_to_it(tmp_path):
    trunk = link("trunk", 10.0) + joint("bolts", "base", "trunk", "fixed")
    text = dog(trunk).replace(link("base", 10.0, TRUNK), link("base", None, ""))
    found = masses(converted(tmp_path, text))
    assert found == pytest.approx({"base": 0.1, "trunk": 9.9, "leg": 2.0})


def test_centres_and_inertias_are_those_of_the_text(tmp_path):
    """rpy turns about the fixed axes x, y, z in this order; the tensor is given in the turned frame."""
    (tmp_path / "dog.urdf").write_text(dog())
    told, model = urdf_inertials(tmp_path / "dog.urdf")["leg"], compile_file(tmp_path / "dog.urdf")
    moments = 2.0 * np.array([[0.02, 0.002, -0.004], [0.002, 0.024, 0.001], [-0.004, 0.001, 0.03]])
    np.testing.assert_allclose(np.linalg.eigvalsh(told.inertia), np.linalg.eigvalsh(moments))
    np.testing.assert_allclose(np.sort(model.body("leg").inertia), np.linalg.eigvalsh(moments), rtol=1e-6)
    np.testing.assert_allclose(model.body("leg").ipos, [0.02, -0.01, -0.1], atol=1e-12)


MJCF = GO2.mjcf.read_text()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (dog(link("shank"), joint("knee", "leg", "shank", more='<mimic joint="hip"/>')), "'knee'.*'hip'"),
        (dog(link("shank", None), joint("knee", "leg", "shank")), "'shank'.*<inertial>"),
        (dog(link("cad", inertial='<mass value="1"/><inertia ixx="1" iyy="1" izz="3" ixy="0" ixz="0" iyz="0"/>'),
             joint("k", "leg", "cad")), "'cad'.*1, 1, 3"),
        (MJCF.replace("</worldbody>", '</worldbody><equality><connect body1="base" body2="FL_foot" anchor="0 0 0"/>'
                      "</equality>"), "'base'.*'FL_foot'.*connect"),
        (MJCF.replace("</worldbody>", '</worldbody><tendon><fixed name="belt"><joint joint="FL_hip_joint" coef="1"/>'
                      "</fixed></tendon>"), "tendon 'belt'"),
        (MJCF.replace('<joint name="FL_hip_joint"', '<joint name="FL_hip_joint" stiffness="5"'), "FL_hip.*spring"),
        (MJCF.replace('<body name="FL_hip"', '<body name="FL_hip" gravcomp="1"'), "FL_hip.*gravcomp=1"),
    ],
    ids=["mimic", "massless", "cad", "loop", "tendon", "spring", "gravcomp"],
)  # fmt: skip
def test_what_a_usd_cannot_hold_is_refused_by_name(tmp_path, text, told, capsys):
    path = tmp_path / ("dog.xml" if "<mujoco" in text else "dog.urdf")
    path.write_text(text)
    assert main(["convert", str(path), "--out", str(tmp_path / "dog.usda")]) == 2
    assert re.search(told, capsys.readouterr().err) and not (tmp_path / "dog.usda").exists()


def filtered(stage: Usd.Stage) -> set[tuple[str, str]]:
    found = set()
    for prim in stage.GetDefaultPrim().GetChildren():
        if prim.HasAPI(UsdPhysics.FilteredPairsAPI):
            targets = UsdPhysics.FilteredPairsAPI(prim).GetFilteredPairsRel().GetTargets()
            found |= {(prim.GetName(), target.name) for target in targets}
    return found


def test_bodies_that_mujoco_lets_through_each_other_are_filtered(tmp_path):
    """The foot is welded to the shank, which hangs on the thigh; the ear is excluded; the tail's bits differ."""
    ball = '<geom type="sphere" size="0.05" mass="1"/>'
    text = f"""<mujoco><compiler angle="radian"/><worldbody><body name="base" pos="0 0 1"><freejoint/>{ball}
      <body name="thigh" pos="0 0 -0.2"><joint name="hip"/>{ball}
        <body name="shank" pos="0 0 -0.2"><joint name="knee"/>{ball}
          <body name="foot" pos="0 0 -0.2">{ball}</body></body></body>
      <body name="ear" pos="0.2 0 0"><joint name="a"/>{ball}</body>
      <body name="tail" pos="-0.3 0 0"><joint name="b"/>{ball.replace("/>", ' contype="2" conaffinity="2"/>')}</body>
    </body></worldbody><contact><exclude body1="ear" body2="shank"/></contact></mujoco>"""
    found = filtered(converted(tmp_path, text, "dog.xml"))
    tails = {("thigh", "tail"), ("shank", "tail"), ("foot", "tail"), ("ear", "tail")}
    assert found == {("thigh", "foot"), ("shank", "ear"), *tails}


def test_names_that_a_usd_cannot_have_are_changed_and_said(tmp_path, capsys):
    text = dog(
        link("front-left"), joint("Lhip-pitch", "leg", "front-left"), link("joints"), joint("x", "leg", "joints")
    )
    stage = converted(tmp_path, text, "3dog.urdf")
    assert stage.GetDefaultPrim().GetName() == "_3dog"
    assert {"front_left", "joints_"} < masses(stage).keys()
    assert stage.GetPrimAtPath("/_3dog/joints/Lhip_pitch").IsA(UsdPhysics.RevoluteJoint)
    said = capsys.readouterr().out
    assert all(words in said for words in ("front-left is front_left", "Lhip-pitch is Lhip_pitch", "joints is joints_"))


TETRAHEDRON = [(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)]
FACETS = "".join(
    "".join(["facet normal 0 0 0\nouter loop\n", *(f"vertex {x} {y} {z}\n" for x, y, z in face), "endloop\nendfacet\n"])
    for face in itertools.combinations(TETRAHEDRON, 3)
)


@pytest.mark.parametrize("kind", ["package://dog/leg.stl", "leg.stl", "file://{folder}/leg.stl"])
def test_a_mesh_in_text_is_read(tmp_path, kind):
    (tmp_path / "leg.stl").write_text(f"solid leg\n{FACETS}endsolid leg\n")
    shape = f'<mesh filename="{kind.format(folder=tmp_path)}"/>'
    converted(tmp_path, dog(link("shank", 1.0, shape), joint("knee", "leg", "shank")))
    model = compile_file(tmp_path / "dog.urdf")
    vertices = model.mesh_vert + model.mesh_pos[0]
    assert model.mesh_vertnum.tolist() == [4] and len(vertices) == 4


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("leg.stl", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS.*git lfs pull"),
        ("leg.obj", "<!DOCTYPE html><html><body>404</body></html>", "web page.*raw file"),
        ("leg.dae", "<COLLADA/>", "no .dae: convert it to STL or OBJ"),
        ("leg.stl", f"solid leg\n{FACETS.replace('0.1', 'nine')}", "damaged STL.*vertex"),
    ],
)
def test_what_is_no_mesh_is_told_with_the_cure(tmp_path, name, content, told, capsys):
    (tmp_path / name).write_text(content)
    text = dog(link("shank", 1.0, f'<mesh filename="{name}"/>'), joint("knee", "leg", "shank"))
    (tmp_path / "dog.urdf").write_text(text)
    assert main(["convert", str(tmp_path / "dog.urdf"), "--out", str(tmp_path / "dog.usda")]) == 2
    assert re.search(told, capsys.readouterr().err)


@pytest.mark.parametrize(
    "foreign",
    [
        "<gazebo><plugin name='a'/><size njmax='1e9'/></gazebo>",
        "<transmission><plugin/></transmission>",
        "<ros2_control><hardware><plugin>x</plugin></hardware></ros2_control>",
    ],
)
def test_words_of_other_programs_are_theirs(tmp_path, foreign):
    assert masses(converted(tmp_path, dog(foreign))).keys() == {"base", "leg"}


def test_what_is_left_out_knowingly_is_listed(tmp_path, capsys):
    more = '<sensor><gyro site="imu" name="w"/></sensor><actuator><motor joint="FL_hip_joint"/></actuator>'
    converted(tmp_path, MJCF.replace("</worldbody>", f"</worldbody>{more}"), "dog.xml")
    assert "left out: 1 other actuator, 1 sensor" in capsys.readouterr().out
