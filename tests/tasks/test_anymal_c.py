"""ANYmal C's MJCF against the published parameters, in base-aligned axes at zero joint angles."""

import mujoco
import numpy as np
import pytest
from gaitway_tasks.robots import ANYMAL_C

TOTAL_MASS = 44.9652

# mass [kg]; centre of mass from the body's origin [m]; inertia about it [kg m^2]: xx yy zz xy xz yz
INERTIALS = {
    "base": (19.203, (0.0025, 0, 0.05021), (0.21737, 0.63956, 0.62403, 0, 0, 0)),
    "LF_HIP": (
        2.781, (0.05666, 0.01739, -0.00046),
        (0.0032955, 0.0049383, 0.005833, -4.4534e-05, -9.7914e-05, 0.00013581),
    ),
    "LF_THIGH": (
        3.071, (-5e-05, 0.03081, -0.2457), (0.029904, 0.029564, 0.0048611, -4.4298e-05, -9.4448e-05, 0.0041425),
    ),
    "LF_SHANK": (
        0.58842, (0.06125, 0.00546, -0.08066), (0.0088104, 0.010161, 0.0015498, 5.3572e-05, 0.0018194, -2.2653e-05),
    ),
    "RF_HIP": (
        2.781, (0.05676, -0.01739, -0.00046), (0.0032955, 0.0049401, 0.0058348, -4.5029e-05, 0.0001, -0.00013581),
    ),
    "RF_THIGH": (
        3.071, (5e-05, -0.03081, -0.2457), (0.029904, 0.029564, 0.0048611, -4.4388e-05, 0.00011479, -0.0041424),
    ),
    "RF_SHANK": (
        0.58842, (0.06125, -0.00546, -0.08066), (0.0088104, 0.010161, 0.0015498, -5.3572e-05, 0.0018194, 2.2653e-05),
    ),
    "LH_HIP": (
        2.781, (-0.05676, 0.01739, -0.00046), (0.0032955, 0.0049401, 0.0058348, -4.5029e-05, -0.0001, 0.00013581),
    ),
    "LH_THIGH": (
        3.071, (-5e-05, 0.03081, -0.2457), (0.029904, 0.029564, 0.0048611, -4.4388e-05, -0.00011479, 0.0041424),
    ),
    "LH_SHANK": (
        0.58842, (-0.06125, 0.00546, -0.08066),
        (0.0088104, 0.010161, 0.0015498, -5.3572e-05, -0.0018194, -2.2653e-05),
    ),
    "RH_HIP": (
        2.781, (-0.05666, -0.01739, -0.00046),
        (0.0032955, 0.0049383, 0.005833, -4.4534e-05, 9.7914e-05, -0.00013581),
    ),
    "RH_THIGH": (
        3.071, (5e-05, -0.03081, -0.2457), (0.029904, 0.029564, 0.0048611, -4.4298e-05, 9.4448e-05, -0.0041425),
    ),
    "RH_SHANK": (
        0.58842, (-0.06125, -0.00546, -0.08066),
        (0.0088104, 0.010161, 0.0015498, 5.3572e-05, -0.0018194, 2.2653e-05),
    ),
}  # fmt: skip

# Body origins at zero joint angles, base at the world's origin [m], of the left front leg; the others are mirrored.
ORIGINS = {
    "HIP": (0.2999, 0.104, 0.0),
    "THIGH": (0.3598, 0.18781, 0.0),
    "SHANK": (0.3598, 0.28811, -0.285),
    "FOOT": (0.3598 + 0.0879, 0.28811 + 0.0131, -0.285 - 0.3155),
}
LEGS = {"LF": (1, 1), "RF": (1, -1), "LH": (-1, 1), "RH": (-1, -1)}


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_path(str(ANYMAL_C.mjcf))


@pytest.fixture(scope="module")
def at_zero(model):
    data = mujoco.MjData(model)
    data.qpos[:] = 0.0
    data.qpos[3] = 1.0
    mujoco.mj_forward(model, data)
    return data


def test_total_mass(model):
    assert model.body_subtreemass[0] == pytest.approx(TOTAL_MASS, abs=0.001)


def test_every_body_is_there_and_feet_weigh_nothing(model):
    names = {model.body(i).name for i in range(1, model.nbody)}
    assert names == set(ANYMAL_C.body_names) == set(INERTIALS) | set(ANYMAL_C.foot_names)
    assert all(model.body(foot).mass[0] == 0.0 for foot in ANYMAL_C.foot_names)


@pytest.mark.parametrize("name", INERTIALS)
def test_inertial(model, at_zero, name):
    mass, com, (xx, yy, zz, xy, xz, yz) = INERTIALS[name]
    body, placed = model.body(name), at_zero.body(name)
    assert body.mass[0] == pytest.approx(mass, abs=1e-9)
    np.testing.assert_allclose(placed.xipos - placed.xpos, com, atol=1e-9)
    axes = placed.ximat.reshape(3, 3)  # principal axes in the world, which is the base at zero joint angles
    np.testing.assert_allclose(
        axes @ np.diag(body.inertia) @ axes.T, [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], atol=1e-9
    )


@pytest.mark.parametrize("leg", LEGS)
def test_frames_and_feet(at_zero, leg):
    front, left = LEGS[leg]
    for link, (x, y, z) in ORIGINS.items():
        placed = at_zero.body(f"{leg}_{link}")
        np.testing.assert_allclose(placed.xpos, (front * x, left * y, z), atol=1e-9)
        np.testing.assert_allclose(placed.xmat.reshape(3, 3), np.eye(3), atol=1e-12)


def test_joints(model, at_zero):
    assert model.njnt == 13 and model.joint("root").type[0] == mujoco.mjtJoint.mjJNT_FREE
    assert ANYMAL_C.joint_names == (
        "LF_HAA", "LF_HFE", "LF_KFE", "LH_HAA", "LH_HFE", "LH_KFE",
        "RF_HAA", "RF_HFE", "RF_KFE", "RH_HAA", "RH_HFE", "RH_KFE",
    )  # fmt: skip
    for name, limits in zip(ANYMAL_C.joint_names, ANYMAL_C.joint_limits, strict=True):
        leg, _, kind = name.partition("_")
        joint = model.joint(name)
        np.testing.assert_allclose(at_zero.joint(name).xaxis, (1, 0, 0) if kind == "HAA" else (0, 1, 0), atol=1e-12)
        expected = {"L": (-0.72, 0.49), "R": (-0.49, 0.72)}[leg[0]] if kind == "HAA" else (-9.4248, 9.4248)
        assert limits == expected
        assert joint.limited[0] and tuple(joint.range) == expected
        child = model.body(joint.bodyid[0]).name
        assert child == f"{leg}_{ {'HAA': 'HIP', 'HFE': 'THIGH', 'KFE': 'SHANK'}[kind] }"


def test_joints_turn_the_right_way(model):
    """Positive HAA lifts the left leg outwards and the right one inwards; positive HFE swings a leg backwards."""
    data = mujoco.MjData(model)

    def foot(leg, **angles):
        data.qpos[:] = 0.0
        data.qpos[3] = 1.0
        for kind, angle in angles.items():
            data.joint(f"{leg}_{kind}").qpos = angle
        mujoco.mj_kinematics(model, data)
        return data.body(f"{leg}_FOOT").xpos.copy()

    for leg in LEGS:
        assert foot(leg, HAA=0.1)[1] > foot(leg)[1]
        assert foot(leg, HFE=0.1)[0] < foot(leg)[0]
        assert foot(leg, KFE=0.1)[0] < foot(leg)[0]


def test_the_default_pose_stands_level_with_feet_under_the_hips(model):
    data = mujoco.MjData(model)
    data.qpos[:7] = (0, 0, ANYMAL_C.init_height, 1, 0, 0, 0)
    for name, angle in zip(ANYMAL_C.joint_names, ANYMAL_C.default_joint_pos, strict=True):
        data.joint(name).qpos = angle
    mujoco.mj_kinematics(model, data)
    feet = np.array([data.body(name).xpos for name in ANYMAL_C.foot_names])
    assert np.ptp(feet[:, 2]) < 1e-9
    assert 0.03 < feet[0, 2] < 0.12  # dropped from a few centimetres, as in Isaac Lab; foot spheres are 3 cm
    np.testing.assert_allclose(feet.mean(0)[:2], 0.0, atol=1e-9)
    np.testing.assert_allclose(np.abs(feet[:, 0]), np.abs(feet[0, 0]), atol=1e-9)
    assert model.geom("LF_FOOT").size[0] == 0.03


def test_nothing_visual_collides_or_weighs(model):
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    assert set(model.geom_group[collides]) == {3}
    assert set(model.geom_group[~collides]) == {2}
    assert model.nu == 0
