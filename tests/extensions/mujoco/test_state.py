"""State that terms read, against MuJoCo's own sensors and against sequences written by hand."""

import mujoco
import numpy as np
import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_tasks.ground import LEVEL
from gaitway_tasks.mdp import rewards
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import HeightScanner, Reward, Timing
from quiet import quiet_task
from step_ground import Step

FEET = [ANYMAL_C.body_names.index(name) for name in ANYMAL_C.foot_names]
JOINTS = ANYMAL_C.num_joints


def tilted(n):
    """``n`` environments in the air, tilted and spinning, each differently."""
    env = make_env(quiet_task(), n, num_threads=1)
    env.reset()
    g = torch.Generator().manual_seed(0)
    quat = torch.nn.functional.normalize(torch.randn(n, 4, generator=g), dim=1)
    pos = torch.randn(n, 3, generator=g) + torch.tensor([0.0, 0.0, 5.0])
    lin, ang = torch.randn(n, 3, generator=g), 2.0 * torch.randn(n, 3, generator=g)
    ids = torch.arange(n)
    env.world.write_root_state(ids, pos, quat, lin, ang)
    joints = env.world.default_joint_pos + 0.3 * torch.randn(n, JOINTS, generator=g)
    env.world.write_joint_state(ids, joints, torch.randn(n, JOINTS, generator=g))
    env.world.finish_events()
    return env, (pos, quat, lin, ang, joints)


def sensors(env, row):
    """An IMU at the base frame's origin, as MuJoCo measures it in the state of environment ``row``."""
    spec = mujoco.MjSpec.from_file(str(ANYMAL_C.mjcf))
    kinds = {"velocimeter": "mjSENS_VELOCIMETER", "gyro": "mjSENS_GYRO"}
    for name, kind in kinds.items():
        sensor = spec.add_sensor(name=name, type=getattr(mujoco.mjtSensor, kind))
        sensor.objtype, sensor.objname = mujoco.mjtObj.mjOBJ_SITE, "imu"
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:] = env.world._fields["qpos"][row].numpy()
    data.qvel[:] = env.world._fields["qvel"][row].numpy()
    mujoco.mj_forward(model, data)
    return model, data


def test_root_state_agrees_with_an_imu_at_the_base_origin():
    env, (pos, quat, lin, ang, joints) = tilted(6)
    robot = env.world.robot
    torch.testing.assert_close(robot.root_pos_w, pos)
    torch.testing.assert_close(robot.root_quat_wxyz, quat)
    torch.testing.assert_close(robot.root_ang_vel_b, ang)
    torch.testing.assert_close(robot.joint_pos, joints)
    for row in range(6):
        model, data = sensors(env, row)
        np.testing.assert_array_equal(model.site("imu").pos, 0.0)
        np.testing.assert_allclose(robot.root_lin_vel_b[row], data.sensor("velocimeter").data, atol=1e-5)
        np.testing.assert_allclose(robot.root_ang_vel_b[row], data.sensor("gyro").data, atol=1e-5)
        rotation = data.body("base").xmat.reshape(3, 3)
        np.testing.assert_allclose(robot.projected_gravity_b[row], rotation.T @ (0.0, 0.0, -1.0), atol=1e-6)
        np.testing.assert_allclose(rotation @ robot.root_lin_vel_b[row].numpy(), lin[row], atol=1e-5)
        for joint, name in enumerate(ANYMAL_C.joint_names):
            assert robot.joint_pos[row, joint] == pytest.approx(data.joint(name).qpos[0])
            assert robot.joint_vel[row, joint] == pytest.approx(data.joint(name).qvel[0])


def test_a_push_is_in_the_world_frame():
    env, _ = tilted(4)
    before = [sensors(env, row)[1] for row in range(4)]
    push, twist = torch.randn(4, 3), torch.randn(4, 3)
    env.world.add_root_velocity(torch.arange(4), push, twist)
    env.world.finish_events()
    for row, old in enumerate(before):
        _, new = sensors(env, row)
        rotation = new.body("base").xmat.reshape(3, 3)
        for name, change in (("velocimeter", push), ("gyro", twist)):
            difference = rotation @ (new.sensor(name).data - old.sensor(name).data)
            np.testing.assert_allclose(difference, change[row], atol=1e-5)
        np.testing.assert_allclose(env.world.robot.root_ang_vel_b[row], new.sensor("gyro").data, atol=1e-5)


def test_contact_forces_carry_the_standing_robot():
    env = make_env(quiet_task(), 2, num_threads=1)
    env.reset()
    for _ in range(100):
        env.step(torch.zeros(2, JOINTS))
    force = env.world.robot.contact_force_w
    weight = env.world.model.body_subtreemass[0] * 9.81
    torch.testing.assert_close(force[:, FEET, 2].sum(1), torch.full((2,), weight), rtol=0.01, atol=0.0)
    assert (force[:, FEET, 2] > 0.2 * weight).all(), "the ground pushes each foot upwards"
    others = [i for i in range(len(ANYMAL_C.body_names)) if i not in FEET]
    assert (force[:, others] == 0.0).all()
    left = [i for i in FEET if ANYMAL_C.body_names[i].startswith("L")]
    right = [i for i in FEET if ANYMAL_C.body_names[i].startswith("R")]
    assert (force[:, left, 1] < 0.0).all() and (force[:, right, 1] > 0.0).all(), "and inwards, for the legs are spread"


@pytest.mark.parametrize(
    ("lowest", "height", "up", "knee"),
    [("base", 0.2, -1.0, 0.0), ("THIGH", 0.35, 1.0, -2.5), ("SHANK", 0.40, 1.0, 1.9)],
)
def test_a_contact_is_reported_on_the_bodies_that_touch(lowest, height, up, knee):
    """The robot falls on its back, or with its legs folded so that thighs or shanks are what comes down first."""
    env = make_env(quiet_task(), 1, num_threads=1)
    env.reset()
    ids, zero = torch.tensor([0]), torch.zeros(1, 3)
    joints = torch.zeros(1, JOINTS)
    for joint, name in enumerate(ANYMAL_C.joint_names):
        if name.endswith("KFE"):
            joints[0, joint] = knee if name[1] == "F" else -knee
    quat = torch.tensor([[1.0, 0.0, 0.0, 0.0]] if up > 0 else [[0.0, 1.0, 0.0, 0.0]])
    env.world.write_root_state(ids, torch.tensor([[0.0, 0.0, height]]), quat, zero, zero)
    env.world.write_joint_state(ids, joints, torch.zeros(1, JOINTS))
    env.world.finish_events()
    action = (joints - env.world.default_joint_pos) / 0.5
    first: set[str] = set()
    while not first:
        env.world.apply_action(action)
        env.world.step_physics()
        env.world.robot.update(env.world.step_dt)
        force = env.world.robot.contact_force_w[0]
        first = {name for name, f in zip(ANYMAL_C.body_names, force, strict=True) if f.norm() > 1.0}
        assert env.world.robot.root_pos_w[0, 2] > 0.05, "fell through the ground unnoticed"
    assert first <= {name for name in ANYMAL_C.body_names if name.endswith(lowest)}
    assert all(force[ANYMAL_C.body_names.index(name), 2] > 0.0 for name in first)


def test_air_time_bookkeeping_by_hand():
    """Isaac Lab's ContactSensor: one foot in the air for two steps, down for three, up again."""
    robot = make_env(quiet_task(), 1, num_threads=1).world.robot
    dt, foot = 0.02, FEET[2]
    expected = [
        # force [N], current air, last air, current contact, last contact [steps]
        (0.0, 1, 0, 0, 0),
        (0.9, 2, 0, 0, 0),  # below the threshold of 1 N
        (1.1, 0, 3, 1, 0),  # the step that ends in contact counts towards both
        (200.0, 0, 3, 2, 0),
        (50.0, 0, 3, 3, 0),
        (0.0, 1, 3, 0, 4),
        (0.0, 2, 3, 0, 4),
        (9.0, 0, 3, 1, 4),
        (0.0, 1, 3, 0, 2),
    ]
    for force, *steps in expected:
        robot.contact_force_w[:] = 0.0
        robot.contact_force_w[0, foot] = torch.tensor([0.6, 0.0, 0.8]) * force
        robot._update_air_times(dt)
        times = [getattr(robot, name)[0, 2].item() for name in robot.AIR_TIMES]
        assert times == pytest.approx([n * dt for n in steps]), force
        assert robot.current_air_time[0, 0] > 0.0 and robot.current_contact_time[0, 0] == 0.0
    robot.reset(torch.tensor([0]))
    assert all((getattr(robot, name) == 0.0).all() for name in robot.AIR_TIMES)


def test_air_time_of_a_drop_is_the_time_of_free_fall():
    env = make_env(quiet_task(), 1, num_threads=1)
    env.reset()
    robot, ids, zero = env.world.robot, torch.tensor([0]), torch.zeros(1, 3)
    data = sensors(env, 0)[1]
    gap = data.body("LF_FOOT").xpos[2] - 0.03
    drop = 0.5
    upright = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    env.world.write_root_state(ids, robot.root_pos_w + torch.tensor([0.0, 0.0, drop - gap]), upright, zero, zero)
    env.world.finish_events()
    for _ in range(20):
        env.step(torch.zeros(1, JOINTS))
    torch.testing.assert_close(robot.last_air_time, torch.full((1, 4), (2 * drop / 9.81) ** 0.5), rtol=0, atol=0.03)


def scanning(ground, yaw, x=0.0):
    scanner = HeightScanner(resolution=0.1, size=(1.6, 1.0))
    env = make_env(quiet_task(ground=ground, height_scanners={"scan": scanner}), 1, num_threads=1)
    env.reset()
    quat = torch.tensor([[np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]], dtype=torch.float32)
    zero = torch.zeros(1, 3)
    env.world.write_root_state(torch.tensor([0]), torch.tensor([[x, 0.0, 0.75]]), quat, zero, zero)
    env.world.finish_events()
    return env.world.height_scan("scan")


def test_height_scan_over_a_plane_is_the_height_of_the_base():
    scan = scanning(LEVEL, 0.3)
    assert scan.shape == (1, 17 * 11) and scan.dtype == torch.float32
    torch.testing.assert_close(scan, torch.full_like(scan, 0.75), rtol=0, atol=1e-5)


@pytest.mark.parametrize("yaw", [0.0, np.pi / 2, np.pi])
def test_height_scan_sees_a_step_where_it_is(yaw):
    """x runs fastest and the grid turns with the heading; legs and base are not seen."""
    scan = scanning(Step(), yaw).reshape(11, 17)
    xs, ys = np.arange(-8, 9) * 0.1, np.arange(-5, 6) * 0.1
    grid_x, grid_y = np.meshgrid(xs, ys)
    world_x = np.cos(yaw) * grid_x - np.sin(yaw) * grid_y
    clear = np.abs(np.abs(world_x - 1.0) - 0.3) > 1e-3  # not exactly on an edge
    expected = np.where(np.abs(world_x - 1.0) < 0.3, 0.55, 0.75)
    np.testing.assert_allclose(scan.numpy()[clear], expected[clear], atol=1e-5)
    if yaw == 0.0:
        assert (expected[clear] == 0.55).any()


def test_height_scan_follows_the_base():
    scan = scanning(Step(), 0.0, x=1.0).reshape(11, 17)
    assert scan[5, 8] == pytest.approx(0.55, abs=1e-5) and scan[5, 0] == pytest.approx(0.75, abs=1e-5)


def test_a_scanner_on_another_body_is_refused():
    scanner = HeightScanner(body="LF_SHANK")
    with pytest.raises(
        ValueError, match=r"'scan' hangs from the body 'LF_SHANK'.*task\.height_scanners\.scan\.body=null"
    ):
        make_env(quiet_task(height_scanners={"scan": scanner}), 1, num_threads=1)


def sliding_task(physics_dt, decimation):
    task = quiet_task(terminations={})
    slide = Reward(func=rewards.feet_slide, weight=1.0, params={"feet": ".*_FOOT"})
    return task.replace(rewards={"slide": slide}, timing=Timing(physics_dt=physics_dt, decimation=decimation))


def test_velocities_of_bodies_are_those_of_their_centres_of_mass():
    """In the last physics step's first state, in which MuJoCo also measured the contact forces."""
    env = make_env(sliding_task(0.005, 1), 3, num_threads=1)
    env.reset()
    model, data = sensors(env, 0)
    names = ANYMAL_C.body_names
    g = torch.Generator().manual_seed(0)
    for _ in range(20):
        states = [env.world._fields[field].clone() for field in ("qpos", "qvel")]
        env.step(2.0 * torch.randn(3, JOINTS, generator=g))
        for row in range(3):
            data.qpos[:], data.qvel[:] = (state[row].numpy() for state in states)
            mujoco.mj_forward(model, data)
            for i, name in enumerate(names):
                twist = np.zeros(6)
                mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, model.body(name).id, twist, 0)
                np.testing.assert_allclose(env.world.robot.body_lin_vel_w[row, i], twist[3:], atol=1e-4, err_msg=name)
                place = data.body(name).xpos
                np.testing.assert_allclose(env.world.robot.body_pos_w[row, i], place, atol=2e-6, err_msg=name)
    assert env.world.robot.body_lin_vel_w.norm(dim=-1).max() > 0.5


def test_sliding_costs_and_standing_hardly():
    env = make_env(sliding_task(0.005, 4), 2, num_threads=1)
    env.reset()
    for _ in range(50):
        env.step(torch.zeros(2, JOINTS))
    env.world.add_root_velocity(torch.tensor([1]), torch.tensor([[3.0, 0.0, 0.0]]), torch.zeros(1, 3))
    env.world.finish_events()
    _, reward, *_ = env.step(torch.zeros(2, JOINTS))
    standing, pushed = (reward / 0.02).tolist()
    assert standing < 0.2 and pushed > 5.0  # [m/s] over four feet; MuJoCo's soft friction lets each creep a little


def test_velocities_of_bodies_cost_nothing_where_no_term_reads_them():
    env = make_env(quiet_task(), 1, num_threads=1)
    env.reset()
    env.step(torch.zeros(1, JOINTS))
    assert not hasattr(env.world.robot, "body_lin_vel_w")
