"""Up by the legs: forces on the feet that are known give the torques, and those the forces again."""

from pathlib import Path

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.estimation.kinematics import FootKinematics
from gaitway_onboard.estimation.legs import read_legs
from gaitway_onboard.interface import Signals
from gaitway_onboard.rotation import quat_apply_inverse, quat_from_rpy, quat_mul
from gaitway_onboard.safety.checks import SafetyFilter
from gaitway_onboard.safety.limits import SafetyLimits
from gaitway_onboard.safety.support import Support, open_support
from gaitway_tasks.robots import ROBOTS
from stand_bundle import make_stand_bundle

DT = 0.002


class Stander:
    """A robot whose feet press against the ground with its weight, under an IMU whose mounting is off by ``off``."""

    def __init__(self, bundle: Path, lean=(0.0, 0.0, 0.0), weight: float = 1.0):
        self.contract = Contract.load(bundle)
        self.pose = np.array(self.contract.default_joint_pos)
        body = read_legs(bundle / "robot.xml", self.contract.base_body, self.contract.foot_bodies)
        kinematics = FootKinematics(body.legs, self.contract.joint_names)
        self.quat = quat_from_rpy(np.array(lean))
        up = quat_apply_inverse(self.quat, np.array([0.0, 0.0, 1.0]))
        kinematics.update(self.pose, up)
        share = weight * body.mass * 9.81 * up / len(body.legs)
        self.torque = np.zeros(len(self.pose))
        for foot, jacobian in enumerate(kinematics.jacobian):
            self.torque[kinematics.joints[:, foot]] = -jacobian.T @ share
        self.up = up

    def signals(self, time: float, off: float = 0.0) -> Signals:
        quat = quat_mul(self.quat, quat_from_rpy(np.array([0.0, off, 0.0])))
        return Signals(
            joint_pos=self.pose, joint_vel=np.zeros(len(self.pose)), imu_quat_wxyz=quat, gyro=np.zeros(3),
            stamp=time, joint_torque=self.torque,
        )  # fmt: skip

    def first_fault(self, support, off, seconds: float = 6.0):
        """The first fault of a robot whose orientation is off by ``off(time)`` [rad], and the angle then."""
        safety = SafetyFilter(self.contract, self.contract.joint_names, SafetyLimits(max_gyro_error=5.0), None, support)
        for step in range(1, round(seconds / DT)):
            time = step * DT
            if (fault := safety.fault(self.signals(time, off(time)), time)) is not None:
                return fault, off(time)
        return None


@pytest.fixture
def support(exported):
    found = open_support(exported, Contract.load(exported).joint_names)
    assert isinstance(found, Support)
    return found


@pytest.mark.parametrize("lean", [(0.0, 0.0, 0.0), (0.3, -0.4, 1.0), (0.0, 0.6, 0.0)])
def test_a_robot_on_any_slope_is_believed(lean, exported, support):
    assert Stander(exported, lean).first_fault(support, lambda time: 0.0, 3.0) is None
    assert support.angle == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("off", [0.3, -0.6])
def test_the_angle_is_that_of_the_lie(off, exported, support):
    Stander(exported).first_fault(support, lambda time: off, 0.9)
    assert support.angle == 0.0, "before it can know"
    robot = Stander(exported)
    for step in range(1, 1001):
        quat = robot.signals(0.0, off).imu_quat_wxyz
        up = quat_apply_inverse(quat, np.array([0.0, 0.0, 1.0]))
        support.update(robot.signals(step * DT, off), tuple(up), DT)
    # A foot's ball touches elsewhere than this orientation has it.
    assert support.angle == pytest.approx(abs(off), rel=0.06)


def test_a_mounting_that_creeps_is_named_at_the_stated_angle(exported, support):
    fault, angle = Stander(exported).first_fault(support, lambda time: 0.1 * max(0.0, time - 1.0), 9.0)
    assert fault.name == "imu_inconsistent" and "legs" in fault.text
    assert 0.35 < angle < 0.49, "0.1 rad more in the second of the mean"


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_a_robot_on_its_stand_is_not_asked(weight, exported, support):
    assert Stander(exported, weight=weight).first_fault(support, lambda time: 0.6, 4.0) is None


def test_robots_without_such_legs_say_so(tmp_path):
    g1 = ROBOTS["g1-29dof"]
    bundle = make_stand_bundle(tmp_path / "bundle", g1, stiffness=60.0, damping=2.0)
    assert isinstance(open_support(bundle, g1.joint_names), str)
