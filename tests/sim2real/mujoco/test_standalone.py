"""Models of several files, in one: the same masses, the same motion."""

from __future__ import annotations

import struct
from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_sim2real.mujoco.standalone import copy_standalone
from gaitway_tasks.robots.mjcf import ModelError

CORNERS = np.array([(0.2, 0.1, 0.0), (-0.1, 0.1, 0.0), (0.0, -0.2, 0.0), (0.05, 0.0, 0.3)], np.float32)
FACES = ((0, 2, 1), (0, 1, 3), (1, 2, 3), (2, 0, 3))
MAIN = """
<mujoco><compiler angle="radian" meshdir="parts"/>
  <asset>
    <mesh name="hull" file="hull.stl" scale="1 1.5 1"/>
    <mesh name="looks" file="hull.stl"/>
    <material name="skin" rgba="1 0 0 1"/>
  </asset>
  <default><default class="painted"><geom material="skin" contype="0" conaffinity="0" mass="0"/></default></default>
  <worldbody>
    <body name="trunk" pos="0 0 .5"><freejoint/>
      <geom type="mesh" mesh="hull" pos=".1 0 0" euler=".3 .2 .1" mass="4"/>
      <geom class="painted" type="mesh" mesh="looks"/>
      <include file="leg.xml"/>
      <site name="imu" pos=".1 0 0"/>
    </body>
  </worldbody>
  <include file="drives.xml"/>
</mujoco>"""
LEG = """<mujoco><body name="leg" pos="0 .1 0"><joint name="hip" axis="0 1 0" range="-1 1" damping=".2" armature=".01"/>
  <geom type="mesh" mesh="hull" pos="0 0 -.4" quat="0 1 0 0" density="500"/></body></mujoco>"""
DRIVES = '<mujoco><actuator><position name="hip" joint="hip" kp="20" forcerange="-9 9"/></actuator></mujoco>'


def stl() -> bytes:
    """A tetrahedron as binary STL."""
    triangles = [struct.pack("<12fH", 0, 0, 0, *CORNERS[list(face)].ravel(), 0) for face in FACES]
    return bytes(80) + struct.pack("<I", len(triangles)) + b"".join(triangles)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "robot"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "hull.stl").write_bytes(stl())
    (folder / "leg.xml").write_text(LEG)
    (folder / "drives.xml").write_text(DRIVES)
    (folder / "robot.xml").write_text(MAIN)
    return folder / "robot.xml"


def moved(path: Path | str) -> tuple[mujoco.MjModel, np.ndarray]:
    """The model, and its state (steps, 8 + 7) while it falls on a floor with its leg driven."""
    spec = mujoco.MjSpec.from_file(str(path))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1])
    compiled = spec.compile()
    data = mujoco.MjData(compiled)
    data.ctrl[:] = 0.6
    states = []
    for _ in range(400):
        mujoco.mj_step(compiled, data)
        states.append(np.concatenate([data.qpos, data.qvel]))
    return compiled, np.array(states)


def test_a_copy_needs_no_other_file_and_moves_as_the_original(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "robot.xml"
    copy.parent.mkdir()
    copy_standalone(model, copy)
    (before, was), (after, now) = moved(model), moved(copy)
    assert after.body("trunk").mass[0] == pytest.approx(4.0)
    np.testing.assert_allclose(after.body_mass, before.body_mass, rtol=1e-6)
    np.testing.assert_allclose(after.body_inertia, before.body_inertia, rtol=1e-5)
    np.testing.assert_allclose(now, was, atol=2e-3)
    assert np.abs(was[-1, :3] - was[0, :3]).max() > 0.05  # it fell
    assert after.site("imu").pos[0] == 0.1


def test_a_model_of_one_file_is_copied_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "robot.xml"
    path.write_text('<mujoco>\n <!-- mine -->\n<worldbody><body name="b"/></worldbody></mujoco>')
    copy_standalone(path, tmp_path / "copy.xml")
    assert (tmp_path / "copy.xml").read_bytes() == path.read_bytes()


def test_a_mesh_that_is_not_there_is_named(model: Path, tmp_path: Path) -> None:
    (model.parent / "parts" / "hull.stl").unlink()
    with pytest.raises(ModelError, match="hull"):
        copy_standalone(model, tmp_path / "copy.xml")
