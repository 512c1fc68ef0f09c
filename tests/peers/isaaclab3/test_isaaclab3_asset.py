"""The converted robot as the engines load it: masses, frames, limits, and feet that carry it."""

import mujoco
import numpy as np
import pytest
import torch
from gaitway_tasks.robots.anymal_c import ANYMAL_C


@pytest.fixture(scope="module")
def env(lab, physics):
    """The stock task around our robot, without what changes masses or how it lands: feet stay where they grip."""
    cfg = lab.stock_cfg(lab.STOCK_FLAT, 2, physics)
    cfg.events.add_base_mass = cfg.events.push_robot = cfg.events.base_com = None
    cfg.events.reset_base.params |= {"pose_range": {}, "velocity_range": {}}
    cfg.events.reset_robot_joints.params["position_range"] = (1.0, 1.0)
    env = lab.make_env(cfg)
    yield env
    env.close()


@pytest.fixture
def model():
    return mujoco.MjModel.from_xml_path(str(ANYMAL_C.mjcf))


def test_masses_are_those_of_the_mjcf_and_feet_share_their_shanks(env, model):
    data, names = env.scene["robot"].data, env.scene["robot"].body_names
    assert set(names) == set(ANYMAL_C.body_names)
    masses = dict(zip(names, data.body_mass.torch[0].tolist(), strict=True))
    for leg in ("LF", "LH", "RF", "RH"):
        masses[f"{leg}_SHANK"] += masses.pop(f"{leg}_FOOT")
    for name, mass in masses.items():
        assert mass == pytest.approx(model.body(name).mass[0], rel=1e-6), name
    assert data.body_mass.torch.sum(1).tolist() == pytest.approx([model.body_mass.sum()] * 2, rel=1e-6)
    for name in ("base", "LF_HIP", "RH_THIGH"):
        row = names.index(name)
        axes = np.empty(9)
        mujoco.mju_quat2Mat(axes, model.body(name).iquat)
        axes = axes.reshape(3, 3)
        expected = axes @ np.diag(model.body(name).inertia) @ axes.T
        np.testing.assert_allclose(data.body_inertia.torch[0, row].view(3, 3), expected, atol=1e-6)
        np.testing.assert_allclose(data.body_com_pos_b.torch[0, row], model.body(name).ipos, atol=1e-6)


def test_bodies_are_where_mujoco_has_them(env, model):
    robot = env.scene["robot"]
    generator = torch.Generator().manual_seed(0)
    joint_pos = torch.rand(2, 12, generator=generator) - 0.5
    quat = torch.nn.functional.normalize(torch.randn(2, 4, generator=generator), dim=1)  # w, x, y, z
    pose = torch.cat([torch.tensor([[0.3, -0.2, 2.0]] * 2), quat[:, [1, 2, 3, 0]]], dim=1)
    robot.write_root_pose_to_sim_index(root_pose=pose)
    robot.write_joint_position_to_sim_index(position=joint_pos)
    env.sim.forward()
    env.scene.update(0.0)
    data = mujoco.MjData(model)
    data.qpos[:3], data.qpos[3:7] = pose[1, :3], quat[1]
    for name, angle in zip(robot.joint_names, joint_pos[1].tolist(), strict=True):
        data.joint(name).qpos = angle
    mujoco.mj_forward(model, data)
    for row, name in enumerate(robot.body_names):
        np.testing.assert_allclose(robot.data.body_pos_w.torch[1, row], data.body(name).xpos, atol=2e-6)
    limits = dict(zip(robot.joint_names, robot.data.joint_pos_limits.torch[0].tolist(), strict=True))
    for name in ANYMAL_C.joint_names:
        assert limits[name] == pytest.approx(model.joint(name).range, abs=1e-6)


def standing_in_mujoco(model):
    """Base height and joint angles after 2 s in MuJoCo under the drives' PD torques."""
    (law,) = set(ANYMAL_C.joint_actuators)
    spec = mujoco.MjSpec.from_file(str(ANYMAL_C.mjcf))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], contype=1, conaffinity=1)
    model, target = spec.compile(), np.array(ANYMAL_C.default_joint_pos)
    data = mujoco.MjData(model)
    data.qpos[2], data.qpos[7:] = ANYMAL_C.init_height, target
    for _ in range(400):
        torque = law.stiffness * (target - data.qpos[7:]) - law.damping * data.qvel[6:]
        data.qfrc_applied[6:] = torque.clip(-law.effort_limit, law.effort_limit)
        mujoco.mj_step(model, data)
    return data.qpos[2], dict(zip(ANYMAL_C.joint_names, data.qpos[7:], strict=True))


def test_it_stands_on_its_feet_as_in_mujoco(env, model):
    env.reset()
    for _ in range(100):
        _, _, terminated, _, _ = env.step(torch.zeros(2, 12))
        assert not terminated.any()
    sensor, robot = env.scene["contact_forces"], env.scene["robot"]
    force = sensor.data.net_normal_forces_w.torch[..., 2]
    feet = [sensor.body_names.index(name) for name in ANYMAL_C.foot_names]
    weight = robot.data.body_mass.torch.sum(1) * 9.81
    torch.testing.assert_close(force[:, feet].sum(1), weight, rtol=0.05, atol=0.0)
    others = [row for row in range(len(sensor.body_names)) if row not in feet]
    assert not force[:, others].any()
    height, angles = standing_in_mujoco(model)
    assert robot.data.root_pos_w.torch[:, 2].tolist() == pytest.approx([height] * 2, abs=0.01)
    # How far each leg gives depends on where it landed; their mean does not.
    for kind in ("HFE", "KFE"):
        names = [name for name in ANYMAL_C.joint_names if name.endswith(kind)]
        given = robot.data.joint_pos.torch[:, [robot.joint_names.index(name) for name in names]].abs().mean().item()
        assert given == pytest.approx(np.mean([abs(angles[name]) for name in names]), abs=0.05)
