"""Every robot: its model agrees with its data, weighs what the maker says, stands, and is its own mirror image."""

import re

import mujoco
import numpy as np
import pytest
import torch
from gaitway_tasks.ground import LEVEL
from gaitway_tasks.robots import ROBOTS, Robot, mjcf
from gaitway_tasks.symmetry import joint_mirror
from tree import ROOT

# [kg] as the sources named in each MJCF sum to
MASSES = {
    "anymal-b": 30.421,
    "anymal-c": 44.965,
    "anymal-d": 51.539,
    "a1": 13.741,
    "go1": 13.101,
    "go2": 15.019,
    "h1": 51.601,
    "g1": 32.239,
    "g1-29dof": 35.112,
    "g1-23dof": 32.107,
    "franka": 17.452,
}
robots = pytest.mark.parametrize("robot", ROBOTS.values(), ids=ROBOTS)
WALKERS = [robot for robot in ROBOTS.values() if not robot.fixed_base]


def is_biped(robot: Robot) -> bool:
    return len(robot.foot_names) == 2


@pytest.fixture(scope="module")
def models():
    return {robot.name: mujoco.MjModel.from_xml_path(str(robot.mjcf)) for robot in ROBOTS.values()}


@robots
def test_a_model_has_the_notice_of_every_source_that_it_names(robot):
    """Beside it, and in the list of the whole project."""
    model, licence = robot.mjcf.read_text("utf-8"), robot.mjcf.with_name("LICENSE").read_text("utf-8")
    sources = set(re.findall(r"(?:ANYbotics|unitreerobotics|frankaemika)/\w+|MuJoCo Menagerie", model))
    assert sources and not sorted(source for source in sources if source not in licence)
    owners = re.findall(r"^Copyright .+$", licence, re.MULTILINE)
    assert robot.mjcf.name in licence and owners[-1] == "Copyright (c) 2026, the Gaitway contributors"
    everything = (ROOT / "THIRD_PARTY_LICENSES").read_text("utf-8")
    assert len(owners) > 1 and not [owner for owner in owners[:-1] if owner not in everything]
    terms = licence.partition("Redistribution and use")[2]
    assert "IN NO EVENT SHALL THE COPYRIGHT" in terms and terms in everything


@robots
def test_model_has_the_robots_joints_limits_and_bodies(robot, models):
    model = models[robot.name]
    assert {model.joint(i).name for i in range(model.njnt)} == {*robot.joint_names} | (
        set() if robot.fixed_base else {"root"}
    )
    assert {model.body(i).name for i in range(1, model.nbody)} == set(robot.body_names)
    for name, limits in zip(robot.joint_names, robot.joint_limits, strict=True):
        np.testing.assert_allclose(model.joint(name).range, limits, atol=1e-5, err_msg=name)
    assert set(robot.foot_names) <= set(robot.body_names) and robot.base_name == robot.body_names[0]
    assert model.body_parentid[model.body(robot.base_name).id] == 0 and model.nu == 0


@robots
def test_default_pose_is_within_the_limits_and_each_joint_has_a_drive(robot):
    for name, angle, (low, high) in zip(robot.joint_names, robot.default_joint_pos, robot.joint_limits, strict=True):
        assert low <= angle <= high, name
    assert len(robot.joint_actuators) == robot.num_joints


@robots
def test_total_mass(robot, models):
    assert models[robot.name].body_subtreemass[0] == pytest.approx(MASSES[robot.name], abs=0.001)


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("go2", "FL_foot", (0.1934, 0.142, -0.426)),
        ("go2", "RR_foot", (-0.1934, -0.142, -0.426)),
        ("h1", "left_ankle_link", (0.03947, 0.20286, -0.9742)),
        ("g1-29dof", "left_ankle_roll_link", (0.0, 0.11851, -0.75686)),
        ("g1-29dof", "torso_link", (-0.00396, 0.0, 0.054)),
        ("g1-29dof", "right_wrist_yaw_link", (0.19977, -0.14865, 0.09523)),
        ("g1-23dof", "right_ankle_roll_link", (0.0, -0.11851, -0.75686)),
        ("g1-23dof", "left_wrist_roll_link", (0.11577, 0.14868, 0.09524)),
        ("franka", "panda_link7", (0.088, 0.0, 1.033)),  # by Franka's Denavit-Hartenberg parameters
        ("franka", "panda_hand", (0.088, 0.0, 0.926)),
    ],
)
def test_where_bodies_are_with_all_joints_at_zero(name, body, expected, models):
    """[m] from the base, as Unitree's MuJoCo models and Franka's documentation have them."""
    model = models[name]
    data = mujoco.MjData(model)
    if not ROBOTS[name].fixed_base:
        data.qpos[:3], data.qpos[3:7] = 0.0, (1.0, 0.0, 0.0, 0.0)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(data.body(body).xpos, expected, atol=1e-4)


@pytest.mark.parametrize("name", [robot.name for robot in ROBOTS.values() if len(robot.foot_names) == 4])
def test_soles_are_as_far_below_the_foot_frames_as_declared(name, models):
    robot, model = ROBOTS[name], models[name]
    data = mujoco.MjData(model)
    data.qpos[[model.joint(joint).qposadr[0] for joint in robot.joint_names]] = robot.default_joint_pos
    mujoco.mj_kinematics(model, data)
    for foot in robot.foot_names:
        spheres = [
            geom
            for geom in range(model.ngeom)
            if model.geom_bodyid[geom] == model.body(foot).id
            and model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE
            and model.geom_conaffinity[geom]
        ]
        sole = min(data.geom_xpos[geom, 2] - model.geom_size[geom, 0] for geom in spheres)
        assert data.body(foot).xpos[2] - sole == pytest.approx(robot.foot_height, abs=5e-4)


SOLES = {"h1": (-0.10, 0.20, -0.070), "g1-29dof": (-0.05, 0.12, -0.035), "g1-23dof": (-0.05, 0.12, -0.035)}
"""Heel, toe and ground [m] from the ankle's frame, as the sources named in each MJCF have them."""


@pytest.mark.parametrize("name", SOLES)
def test_a_humanoid_stands_on_the_whole_of_its_sole(name, models):
    """A heel that is missing makes a policy fall that was trained with one."""
    for foot in ROBOTS[name].foot_names:
        model = models[name]
        soles = np.flatnonzero((model.geom_bodyid == model.body(foot).id) & (model.geom_conaffinity > 0))
        ends = np.array([model.geom_pos[geom] + sign * model.geom_size[geom] for geom in soles for sign in (-1, 1)])
        assert (model.geom_type[soles] == mujoco.mjtGeom.mjGEOM_BOX).all()
        np.testing.assert_allclose([ends[:, 0].min(), ends[:, 0].max(), ends[:, 2].min()], SOLES[name], atol=1e-6)


@robots
def test_nothing_visual_collides_or_weighs(robot, models):
    model = models[robot.name]
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    assert set(model.geom_group[collides]) == {3} and set(model.geom_group[~collides]) == {2}
    bodies = {model.body(body).name for body in model.geom_bodyid[collides]}
    assert bodies >= {robot.base_name, *robot.foot_names}
    assert all(set(model.geom_group[model.geom_bodyid == body]) & {2} for body in range(1, model.nbody))  # all seen
    spec = mjcf.load_spec(robot.mjcf)
    mjcf.strip_visuals(spec)
    np.testing.assert_array_equal(spec.compile().body_inertia, model.body_inertia)


def standing(robot):
    """Held in the default pose for 5 s: height at which the pose would touch the ground, and the base's path.

    A humanoid's ankles are too soft to balance it, by Isaac Lab's choice, so its pelvis slides on a vertical rail.
    """
    spec = mjcf.load_spec(robot.mjcf)
    mjcf.strip_visuals(spec)
    mjcf.add_ground(spec, LEVEL, (0.95, 0.99, 0.001))
    mjcf.set_actuators(spec, robot.joint_names, robot.joint_actuators)
    if is_biped(robot):
        base = spec.body(robot.base_name)
        spec.delete(base.joints[0])
        base.add_joint(name="rail", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, 1])
        base.pos = [0, 0, robot.init_height]
    model = spec.compile()
    model.opt.timestep = 0.005
    data = mujoco.MjData(model)
    if not is_biped(robot):
        data.qpos[2], data.qpos[3] = robot.init_height, 1.0
    for name, angle in zip(robot.joint_names, robot.default_joint_pos, strict=True):
        data.joint(name).qpos = angle
        data.actuator(name).ctrl = angle
    mujoco.mj_forward(model, data)
    ground = model.geom("ground").id
    clearance = {
        model.body(model.geom_bodyid[geom]).name: mujoco.mj_geomDistance(model, data, ground, geom, 2.0, None)
        for geom in range(model.ngeom)
        if geom != ground
    }
    assert min(clearance, key=clearance.get) in robot.foot_names
    height = []
    for _ in range(1000):
        mujoco.mj_step(model, data)
        height.append(data.body(robot.base_name).xpos[2])
    return model, data, robot.init_height - min(clearance.values()), np.array(height)


@pytest.mark.parametrize("robot", WALKERS, ids=lambda robot: robot.name)
def test_stands_in_the_default_pose(robot):
    model, data, on_tiptoe, height = standing(robot)
    assert 0.0 < robot.init_height - on_tiptoe < 0.15  # Isaac Lab drops it from this height
    settled = height[200]
    assert on_tiptoe * 0.75 < settled < on_tiptoe  # legs give, ANYmal D's by a fifth
    assert np.abs(height[200:] / settled - 1.0).max() < 0.1
    assert data.body(robot.base_name).xmat[8] > 0.97
    assert np.abs(data.qvel).max() < 0.02
    touching = {model.body(model.geom_bodyid[geom]).name for contact in data.contact for geom in contact.geom}
    assert touching == {"world", *robot.foot_names}


@pytest.mark.parametrize(
    ("robot", "mirror"),
    [(robot, name) for robot in ROBOTS.values() for name in robot.mirrors],
    ids=lambda value: getattr(value, "name", value),
)
def test_mirrored_state_has_the_mirrored_accelerations(robot, mirror, models):
    """In the air, in a random pose with random velocities and torques; and every body is where its image is."""
    model, mirror = models[robot.name], robot.mirrors[mirror]
    perm, sign = (part.numpy() for part in joint_mirror(robot, mirror))
    polar = np.ones(3)
    polar["xyz".index(mirror.axis)] = -1.0
    axial = polar.prod() * polar  # angular velocities, and the vector parts of quaternions
    joints = [model.joint(name).id for name in robot.joint_names]
    qpos, dofs = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    rng = np.random.default_rng(0)

    def state(quat, lin, ang, pos, vel, force):
        data = mujoco.MjData(model)
        data.qpos[3:7] = quat
        data.qvel[:6] = *lin, *ang
        data.qpos[qpos], data.qvel[dofs], data.qfrc_applied[dofs] = pos, vel, force
        mujoco.mj_forward(model, data)
        return data

    for _ in range(5):
        quat = np.array([1.0, 0.0, 0.0, 0.0]) + 0.3 * rng.normal(size=4)
        quat /= np.linalg.norm(quat)
        lin, ang = rng.normal(size=3), rng.normal(size=3)
        pos = np.array(robot.default_joint_pos) + 0.2 * rng.normal(size=robot.num_joints)
        pos = np.clip(pos, *np.array(robot.soft_joint_limits()).T)
        vel = rng.normal(size=robot.num_joints)
        force = vel * model.dof_M0[dofs] * 50.0
        one = state(quat, lin, ang, pos, vel, force)
        two = state(
            np.concatenate((quat[:1], quat[1:] * axial)),
            lin * polar,
            ang * axial,
            *(sign * value[perm] for value in (pos, vel, force)),
        )
        for name in robot.body_names:
            image = two.body(twin(name, mirror.pairs)).xpos
            np.testing.assert_allclose(image, one.body(name).xpos * polar, atol=1e-3, err_msg=name)
        expected = np.concatenate((one.qacc[:3] * polar, one.qacc[3:6] * axial, sign * one.qacc[dofs][perm]))
        actual = np.concatenate((two.qacc[:6], two.qacc[dofs]))
        assert np.linalg.norm(actual - expected) < 0.02 * np.linalg.norm(expected)  # centres of mass are a bit off


def twin(name, pairs):
    swap = {**pairs, **{b: a for a, b in pairs.items()}}
    return re.sub(rf"^({'|'.join(swap)})(?=_)", lambda match: swap[match[0]], name)


@robots
def test_mirrors_are_their_own_inverse(robot):
    for mirror in robot.mirrors.values():
        perm, sign = joint_mirror(robot, mirror)
        torch.testing.assert_close(perm[perm], torch.arange(robot.num_joints))
        torch.testing.assert_close(sign * sign[perm], torch.ones(robot.num_joints))
        pose = torch.tensor(robot.default_joint_pos)
        torch.testing.assert_close(sign * pose[perm], pose)
