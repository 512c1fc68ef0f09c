"""Lowest points of feet from the poses of their links, against MuJoCo's distances of the same shapes from a plane."""

import mujoco
import numpy as np
import pytest
from gaitway_sim2real.mujoco.shapes import foot_shapes, lineage, lowest_point

SHAPES = {
    "sphere": '<geom type="sphere" size=".03" pos=".01 .02 -.1"/>',
    "capsule": '<geom type="capsule" size=".02 .05" pos=".01 0 -.1" quat=".8 .1 .5 .2"/>',
    "cylinder": '<geom type="cylinder" size=".02 .05" pos=".01 0 -.1" quat=".8 .1 .5 .2"/>',
    "box": '<geom type="box" size=".02 .05 .01" pos=".01 0 -.1" quat=".8 .1 .5 .2"/>',
    "ellipsoid": '<geom type="ellipsoid" size=".02 .05 .01" pos=".01 0 -.1" quat=".8 .1 .5 .2"/>',
    "mesh": '<geom type="mesh" mesh="m" pos=".01 0 -.1" quat=".8 .1 .5 .2"/>',
}
SHAPES["two below"] = f'{SHAPES["sphere"]}<body name="toe" pos=".1 0 0" quat=".9 .3 0 0">{SHAPES["box"]}</body>'


def model_of(shape: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><asset><mesh name="m" vertex="0 0 0  .1 0 0  0 .1 0  0 0 .1"/></asset>
        <worldbody><geom name="ground" type="plane" size="5 5 1"/>
        <body name="foot"><freejoint/><geom type="sphere" size=".2" contype="0" conaffinity="0"/>{shape}</body>
        </worldbody></mujoco>"""
    )


def soles(model: mujoco.MjModel) -> np.ndarray:
    return np.flatnonzero((model.geom_bodyid > 0) & (model.geom_contype > 0))


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_as_far_from_the_ground_as_mujoco_says(shape):
    model = model_of(SHAPES[shape])
    data = mujoco.MjData(model)
    (shapes,) = foot_shapes(model, ["foot"], soles(model))
    rng = np.random.default_rng(0)
    quat = rng.normal(size=(20, 4))
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    pos = rng.uniform(0.3, 1.0, (20, 3))
    found = lowest_point(shapes, pos, quat)
    assert found.shape == (20, 3)
    for k in range(20):
        data.qpos[:3], data.qpos[3:] = pos[k], quat[k]
        mujoco.mj_forward(model, data)
        ends = np.zeros(6)
        far = [mujoco.mj_geomDistance(model, data, 0, geom, 5.0, None) for geom in soles(model)]
        assert found[k, 2] == pytest.approx(min(far), abs=1e-6)
        mujoco.mj_geomDistance(model, data, 0, soles(model)[np.argmin(far)], 5.0, ends)
        if shape == "sphere":
            np.testing.assert_allclose(found[k], ends[3:], atol=1e-6)


def test_poses_may_have_any_leading_dimensions():
    model = model_of(SHAPES["box"])
    (shapes,) = foot_shapes(model, ["foot"], soles(model))
    upright = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (3, 2, 4))
    assert lowest_point(shapes, np.zeros((3, 2, 3)), upright).shape == (3, 2, 3)


def test_lineage_goes_up_to_the_base():
    model = model_of(SHAPES["two below"])
    assert lineage(model, model.body("toe").id) == [model.body("toe").id, model.body("foot").id]
