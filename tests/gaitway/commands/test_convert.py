"""URDFs as MJCFs: the masses of the file, every link, and what no program can read said with the way out."""

from __future__ import annotations

import re
from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_sim2real.mujoco.own_model import OwnModel
from gaitway_tasks.robots.mjcf import ModelError, load_spec

from gaitway.cli import main

LINK = """<link name="{name}"><inertial><origin xyz="0.01 0 -0.05"/><mass value="{mass}"/>
<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><sphere radius="0.05"/></geometry></collision></link>"""
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>
<origin xyz="0.2 0.1 -0.1"/><axis xyz="0 1 0"/>
<limit lower="-1.5" upper="{upper}" effort="33" velocity="10"/></joint>"""

CORNERS, FACES = "v 0 0 0\nv 1 0 0\nv 0 1 0\n", "f 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"


def link(name: str, mass: float, moments: tuple[float, float, float] | None = None) -> str:
    xx, yy, zz = moments or (0.02 * mass, 0.03 * mass, 0.025 * mass)
    return LINK.format(name=name, mass=mass, xx=xx, yy=yy, zz=zz)


def joint(name: str, parent: str, child: str, kind: str = "revolute", upper: float = 0.5) -> str:
    return JOINT.format(name=name, parent=parent, child=child, kind=kind, upper=upper)


def dog(*more: str) -> str:
    legs = "".join(
        link(f"{leg}_shank", 0.5) + f'<link name="{leg}_foot"><collision><geometry><sphere radius="0.02"/></geometry>'
        f"</collision></link>{joint(f'{leg}_knee', 'base', f'{leg}_shank')}"
        f"{joint(f'{leg}_ankle', f'{leg}_shank', f'{leg}_foot', 'fixed')}"
        for leg in ("left", "right")
    )
    return f'<robot name="dog">{link("base", 10.0)}{legs}{"".join(more)}</robot>'


def written(folder: Path, text: str) -> Path:
    (folder / "dog.urdf").write_text(text)
    assert main(["convert", str(folder / "dog.urdf"), "--out", str(folder / "dog.xml")]) == 0
    return folder / "dog.xml"


def told_mass(text: str) -> float:
    return sum(float(value) for value in re.findall(r'<mass value="([^"]+)"', text))


@pytest.mark.parametrize(
    "more",
    [
        "",
        "<!-- <xacro:macro name='old'/> -->",
        link("root_frame", 1e-6, (0.0, 0.0, 3e-6)) + joint("at", "base", "root_frame", "fixed"),  # no body's inertia
        link("payload", 1.5, (0.0, 0.0, 0.0)) + joint("screws", "base", "payload", "fixed"),  # a point
        link("rod", 0.2, (1e-3, 1e-3, -1e-12)) + joint("clamp", "base", "rod", "fixed"),  # rounded
        link("wheel", 0.3) + joint("axle", "base", "wheel", upper=1e16),
    ],
)
def test_a_urdf_becomes_a_model_of_the_same_masses(tmp_path: Path, more: str) -> None:
    text = dog(more)
    path = written(tmp_path, text)
    model = mujoco.MjModel.from_xml_path(str(path))
    assert float(model.body_mass.sum()) == pytest.approx(told_mass(text), rel=1e-9)
    assert model.joint(0).type[0] == mujoco.mjtJoint.mjJNT_FREE
    assert tuple(model.joint("left_knee").range) == (-1.5, 0.5)
    np.testing.assert_allclose(model.body("base").inertia, sorted((0.2, 0.3, 0.25), reverse=True))
    robot = OwnModel(path).robot
    assert {"left_foot", "right_foot"} <= set(robot.body_names) and {"left_knee", "right_knee"} <= set(
        robot.joint_names
    )


def test_meshes_of_a_package_come_along(tmp_path: Path) -> None:
    shape = '<mesh filename="package://dog/meshes/shell.obj"/>'
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "shell.obj").write_text(f"{CORNERS}v 0 0 1\n{FACES}")
    path = written(tmp_path, dog().replace('<sphere radius="0.05"/>', shape, 1))
    (tmp_path / "meshes" / "shell.obj").unlink()
    model = mujoco.MjModel.from_xml_path(str(path))
    assert model.nmesh == 1 and model.body_mass.sum() == pytest.approx(11.0)


def test_a_flat_mesh_needs_no_volume_where_links_say_their_masses(tmp_path: Path) -> None:
    (tmp_path / "nub.obj").write_text(f"{CORNERS}v .3 .3 1e-9\n{FACES}")
    path = written(tmp_path, dog().replace('<sphere radius="0.05"/>', '<mesh filename="nub.obj"/>', 1))
    assert mujoco.MjModel.from_xml_path(str(path)).body_mass.sum() == pytest.approx(11.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (dog(link("shell", 1.0, (0.001, 0.001, 0.01)) + joint("s", "base", "shell", "fixed")), ("shell", "0.01")),
        ('<robot name="dog" xmlns:xacro="x"><xacro:macro name="leg"/></robot>', ("xacro", "ros2 run")),
        ('<robot name="dog"><link name="base"/></robot>', ("'base'", "no mass")),
    ],
)
def test_what_cannot_be_read_is_told_with_the_way_out(tmp_path: Path, capsys, text: str, told: tuple[str, ...]) -> None:
    path = tmp_path / "dog.urdf"
    path.write_text(text)
    assert main(["convert", str(path), "--out", str(tmp_path / "dog.xml")]) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in told) and error.count("\n") == 1 and not (tmp_path / "dog.xml").exists()


@pytest.mark.parametrize("name", ["dog.urdf", "dog.xml"])
def test_a_urdf_in_the_place_of_a_model_is_told_the_way(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(f"<?xml version='1.0'?><!-- a dog -->{dog()}")
    with pytest.raises(ModelError, match=rf"{name} is a URDF.*gaitway convert \S+ --out \S+\.xml"):
        load_spec(tmp_path / name)
    with pytest.raises(ModelError, match="is a URDF"):
        OwnModel(tmp_path / name)


def test_a_model_in_the_place_of_a_task_is_told_the_way(capsys) -> None:
    assert main(["train", "robots/dog.urdf"]) == 2
    error = capsys.readouterr().err
    assert "robots/dog.urdf" in error and "your_robot.md" in error and "gaitway convert" in error
