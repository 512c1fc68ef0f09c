"""Closed loops of a robot."""

from __future__ import annotations

import mujoco
import numpy as np
from adoptable_robots import adopted, linked_dog, refusal, written
from gaitway_sim2real.adopt.standing import stands


def test_closed_loops_stay_closed_and_stand(tmp_path):
    found, lines = adopted(tmp_path, written(tmp_path, linked_dog()))
    assert found.joint_names[:2] == ("FL_hip", "FL_motor") and not any("knee" in name for name in found.joint_names)
    assert any("without a motor" in line and "FL_knee" in line for line in lines)
    model = mujoco.MjModel.from_xml_path(str(found.mjcf))
    data = mujoco.MjData(model)
    for name, value in zip(found.joint_names, found.default_joint_pos, strict=True):
        data.joint(name).qpos = value
    mujoco.mj_forward(model, data)
    assert np.abs(data.efc_pos[: 3 * 4]).max() < 1e-3, "they are closed where an episode begins"
    assert not stands(found)[1]
    assert all(word in refusal(tmp_path / "made", linked_dog(0.3)) for word in ("loop", "'FL_rod'", "'FL_shank'"))
