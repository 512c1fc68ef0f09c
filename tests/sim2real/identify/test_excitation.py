"""The excitation is a policy that keeps every robot whole: limits, speed, torque, and limbs that do not meet."""

import mujoco
import numpy as np
import pytest
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.interface import Signals
from gaitway_sim2real.identify.excitation import CONTROL_DT, TOP_SPEED, Excitation, ExcitationError
from gaitway_tasks.robots import GO2, H1, ROBOTS

QUADRUPEDS = [robot for robot in ROBOTS.values() if len(robot.foot_names) == 4]
STILL = (0.0, 0.0, 0.0)


def signals(robot) -> Signals:
    zero = np.zeros(robot.num_joints)
    return Signals(joint_pos=zero, joint_vel=zero, imu_quat_wxyz=np.eye(4)[0], gyro=np.zeros(3), stamp=0.0)


def motion(robot, **options) -> np.ndarray:
    excitation = Excitation(robot, **options)
    steps = round(excitation.seconds / CONTROL_DT)
    return np.array([excitation.step(signals(robot), STILL) for _ in range(steps)])


def test_it_has_the_interface_of_a_policy():
    public = {name for name in vars(OnboardPolicy) if not name.startswith("_")} | {"contract"}
    excitation = Excitation(GO2, seconds=10.0)
    assert all(hasattr(excitation, name) for name in public)
    excitation.step(signals(GO2), STILL)
    assert excitation.action.shape == (12,) and excitation.state.tolist() == [1.0]
    excitation.reset()
    assert excitation.state.tolist() == [0.0]


@pytest.mark.parametrize("robot", QUADRUPEDS, ids=lambda robot: robot.name)
def test_targets_stay_where_the_robot_can_go(robot):
    targets = motion(robot, seconds=20.0, seed=3)
    low, high = np.array(robot.soft_joint_limits()).T
    default = np.array(robot.default_joint_pos)
    assert (targets >= low - 1e-6).all() and (targets <= high + 1e-6).all()
    assert np.abs(targets - default).max() <= 0.4 + 1e-6
    np.testing.assert_allclose(targets[[0, -1]], [default, default], atol=1e-6)
    waves = np.abs(np.diff(targets[: int(0.69 * len(targets))], axis=0)).max() / CONTROL_DT
    assert waves <= TOP_SPEED + 1.0
    stiffness = np.array([law.stiffness for law in robot.joint_actuators])
    effort = np.array([law.effort_limit for law in robot.joint_actuators])
    assert (np.abs(np.diff(targets, axis=0)) * stiffness < 0.6 * effort).all()
    assert np.ptp(targets, axis=0).min() > 0.3


def test_the_same_seed_gives_the_same_motion_and_another_one_another():
    first, again, other = (motion(GO2, seconds=10.0, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0.1


def test_joints_come_in_the_robots_order():
    order = GO2.joint_names[::-1]
    turned = Excitation(GO2, order, seconds=10.0)
    straight = Excitation(GO2, seconds=10.0)
    for _ in range(300):
        np.testing.assert_array_equal(turned.step(signals(GO2), STILL), straight.step(signals(GO2), STILL)[::-1])


def test_no_joint_moves_like_another():
    targets = motion(GO2, seconds=30.0)
    related = np.corrcoef(targets.T) - np.eye(12)
    assert np.abs(related).max() < 0.7


@pytest.mark.parametrize("robot", QUADRUPEDS, ids=lambda robot: robot.name)
def test_limbs_do_not_meet(robot):
    model = mujoco.MjModel.from_xml_path(str(robot.mjcf))
    data = mujoco.MjData(model)
    pairs = _pairs(model)
    addresses = [model.joint(name).qposadr[0] for name in robot.joint_names]
    closest = np.inf
    for pose in motion(robot, seconds=20.0)[::25]:
        data.qpos[addresses] = pose
        mujoco.mj_kinematics(model, data)
        closest = min(closest, *(mujoco.mj_geomDistance(model, data, a, b, 0.3, None) for a, b in pairs))
    assert closest > 0.05


def _pairs(model: mujoco.MjModel) -> list[tuple[int, int]]:
    """Colliding geoms of bodies that are not within two joints of each other."""

    def chain(body: int) -> list[int]:
        up = [body]
        while len(up) < 3 and up[-1]:
            up.append(int(model.body_parentid[up[-1]]))
        return up

    solid = (model.geom_bodyid > 0) & ((model.geom_contype > 0) | (model.geom_conaffinity > 0))
    body = model.geom_bodyid
    geoms = np.flatnonzero(solid)
    return [
        (int(a), int(b))
        for a in geoms
        for b in geoms
        if a < b and body[b] not in chain(int(body[a])) and body[a] not in chain(int(body[b]))
    ]


def test_what_would_tell_nothing_or_hurt_is_refused():
    with pytest.raises(ExcitationError, match="at least 10 s"):
        Excitation(GO2, seconds=5.0)
    with pytest.raises(ExcitationError, match="at most 1"):
        Excitation(GO2, reach=2.0)
    with pytest.raises(ExcitationError, match="four-legged"):
        Excitation(H1)
