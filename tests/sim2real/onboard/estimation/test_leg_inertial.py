"""The velocity that legs and inertial unit give, against a simulation that knows it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest
from gaitway_onboard.bundle.contract import BundleError, Contract
from gaitway_onboard.estimation.contacts import ContactDetector
from gaitway_onboard.estimation.estimators import open_estimator
from gaitway_onboard.estimation.kinematics import FootKinematics
from gaitway_onboard.estimation.leg_inertial import LegInertialEstimator
from gaitway_onboard.estimation.legs import read_legs
from gaitway_onboard.interface import Signals
from gaitway_sim2real.lockstep.robot import LockstepRobot
from gaitway_tasks.robots import ANYMAL_C
from stand_bundle import make_stand_bundle

DT = 0.002


class Sway:
    """ANYmal on its feet, whose stance is moved to and fro; every sensor of it, and the truth."""

    def __init__(self, bundle: Path):
        self.robot = LockstepRobot(bundle)
        self.robot.model.opt.timestep = DT
        self.default = np.array(ANYMAL_C.default_joint_pos)
        self.rng = np.random.default_rng(0)
        self.step(1.0)
        self.stood = np.zeros(mujoco.mj_stateSize(self.robot.model, mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_getState(self.robot.model, self.robot.data, self.stood, mujoco.mjtState.mjSTATE_INTEGRATION)

    def stand_again(self) -> None:
        model, data = self.robot.model, self.robot.data
        mujoco.mj_setState(model, data, self.stood, mujoco.mjtState.mjSTATE_INTEGRATION)
        mujoco.mj_forward(model, data)
        self.rng = np.random.default_rng(1)

    def step(self, seconds: float, sway: float = 0.0, **changes: object) -> list[tuple[Signals, np.ndarray]]:
        """Signals and the base's true velocity, for each state of the time."""
        robot, found = self.robot, []
        data, plant = robot.data, robot.plant
        for _ in range(round(seconds / DT)):
            phase = 2.0 * np.pi * 1.5 * robot.clock()
            pose = self.default.reshape(4, 3) + sway * np.array([0.5 * np.sin(0.7 * phase), np.sin(phase), 0.0])
            robot.write(pose.ravel()[robot._ctrl], np.full(12, 300.0), np.full(12, 6.0))
            robot.sleep_until(robot.clock() + DT)
            found.append((self.signals(**changes), robot.lin_vel().copy()))
        assert plant.base_dof == 0 and abs(data.qpos[3]) > 0.9
        return found

    def signals(self, **changes: object) -> Signals:
        signals, data, noise = self.robot.read(), self.robot.data, self.rng.normal
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, data.qpos[3:7])
        force = turn.reshape(3, 3).T @ (data.qacc[:3] + np.array([0.0, 0.0, 9.81]))
        order = self.robot._ctrl
        return dataclasses.replace(
            signals,
            joint_pos=signals.joint_pos + noise(0.0, 0.001, 12),
            joint_vel=signals.joint_vel + noise(0.0, 0.05, 12),
            gyro=signals.gyro + noise(0.0, 0.01, 3),
            accelerometer=force + np.array([0.1, -0.1, 0.05]) + noise(0.0, 0.1, 3),
            joint_torque=data.actuator_force[order].copy(),
            **changes,
        )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("estimation") / "bundle")


@pytest.fixture(scope="module")
def standing(bundle: Path) -> Sway:
    return Sway(bundle)


@pytest.fixture
def sway(standing: Sway) -> Sway:
    """The robot as it has just come to stand."""
    standing.stand_again()
    return standing


def follow(estimator: LegInertialEstimator, states: list[tuple[Signals, np.ndarray]]) -> np.ndarray:
    """Errors [m/s], (T, 3)."""
    errors = []
    for signals, truth in states:
        estimator.update(signals)
        assert signals.base_lin_vel is not None
        errors.append(signals.base_lin_vel - truth)
    return np.array(errors)


def rms(errors: np.ndarray) -> float:
    return float(np.sqrt((errors**2).sum(1).mean()))


@pytest.mark.parametrize("contact", ["torque", "sensors", "height"])
def test_velocity_on_moving_legs(bundle: Path, sway: Sway, contact: str) -> None:
    changes = {"torque": {}, "sensors": {"foot_force": np.full(4, 30.0)}, "height": {}}[contact]
    estimator = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names)
    states = sway.step(1.6, sway=0.08, **changes)
    if contact != "torque":
        for signals, _ in states:
            signals.joint_torque = None
    speed = rms(np.array([truth for _, truth in states]))
    errors = follow(estimator, states)
    assert speed > 0.15
    assert rms(errors[300:]) < min(0.06, 0.25 * speed)
    assert estimator.contact.sum() > 2.0


def test_a_foot_that_slips_is_outvoted(bundle: Path, sway: Sway) -> None:
    """One leg's joints report what is not so: a foot that slides at half a metre per second."""
    estimator = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names)
    follow(estimator, sway.step(0.5))
    slipping = sway.step(0.5)
    legs = [name.startswith("LF") and name.endswith("HFE") for name in sway.robot.joint_names]
    for signals, _ in slipping:
        signals.joint_vel = signals.joint_vel + np.where(legs, 1.2, 0.0)
    assert rms(follow(estimator, slipping)[-50:]) < 0.05  # a quarter of its 0.5 m/s would be 0.12


def test_in_the_air_it_falls_and_then_fades(bundle: Path, sway: Sway) -> None:
    """Weightless, with slack legs: the accelerometer alone says that the robot goes on as it was."""
    estimator = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names)
    (standing, _) = sway.step(0.5)[-1]
    for number in range(50):
        shoved = dataclasses.replace(
            standing,
            stamp=standing.stamp + number * DT,
            accelerometer=np.array([10.0, 0.0, 9.81]),
            joint_torque=np.zeros(12),
            gyro=np.zeros(3),
        )
        estimator.update(shoved)
    assert shoved.base_lin_vel is not None
    assert shoved.base_lin_vel[0] == pytest.approx(1.0, abs=0.1)
    for number in range(2500):
        drifting = dataclasses.replace(
            shoved, stamp=shoved.stamp + (number + 1) * DT, accelerometer=np.array([0.0, 0.0, 9.81])
        )
        estimator.update(drifting)
    assert drifting.base_lin_vel is not None
    assert abs(drifting.base_lin_vel[0]) < 0.95  # by a share of e in 2^2 seconds twice over


def test_reset_forgets_and_a_repeated_state_changes_nothing(bundle: Path, sway: Sway) -> None:
    estimator = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names)
    states = sway.step(0.2, sway=0.08)
    follow(estimator, states)
    last = dataclasses.replace(states[-1][0], base_lin_vel=None)
    estimator.update(last)
    np.testing.assert_array_equal(last.base_lin_vel, states[-1][0].base_lin_vel)
    again = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names)
    estimator.reset()
    more = sway.step(0.1, sway=0.08)
    np.testing.assert_array_equal(follow(estimator, more), follow(again, more))


def test_the_unit_may_sit_anywhere(bundle: Path, tmp_path: Path, sway: Sway) -> None:
    """Turning on the spot, an accelerometer off the middle feels what the base's origin does not."""
    text = (bundle / "robot.xml").read_text()
    assert '<site name="imu"' in text
    moved = tmp_path / "moved.xml"
    moved.write_text(text.replace('<site name="imu"', '<site name="imu" pos="0.3 0 0.1"'))
    body = read_legs(moved, "base", ANYMAL_C.foot_names)
    estimator = LegInertialEstimator(body, sway.robot.joint_names, DT)
    states = sway.step(1.6, sway=0.08)
    gyros = np.array([signals.gyro for signals, _ in states])
    true = np.array([np.zeros(3), *np.diff(gyros, axis=0) / DT])
    arm = np.array([0.3, 0.0, 0.1])
    for (signals, _), spin, turning in zip(states, gyros, true, strict=True):
        smooth = np.clip(turning, -20.0, 20.0)
        signals.accelerometer = signals.accelerometer + np.cross(smooth, arm) + np.cross(spin, np.cross(spin, arm))
    assert rms(follow(estimator, states)[300:]) < 0.06


def test_without_an_accelerometer_it_says_so(bundle: Path, sway: Sway) -> None:
    estimator = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names)
    with pytest.raises(ValueError, match="base_lin_vel needs an accelerometer"):
        estimator.update(dataclasses.replace(sway.signals(), accelerometer=None))


def test_a_reading_that_is_not_finite_reaches_no_policy(bundle: Path, sway: Sway) -> None:
    estimator = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names)
    follow(estimator, sway.step(0.2))
    broken = dataclasses.replace(sway.step(DT)[0][0], accelerometer=np.array([np.nan, 0.0, 9.81]))
    estimator.update(broken)
    assert np.isnan(broken.base_lin_vel).all()
    assert rms(follow(estimator, sway.step(0.1))) < 0.05


def test_loads_of_standing_feet_carry_the_robot(bundle: Path, sway: Sway) -> None:
    body = read_legs(bundle / "robot.xml", "base", ANYMAL_C.foot_names)
    kinematics = FootKinematics(body.legs, sway.robot.joint_names)
    detector = ContactDetector(kinematics, body.mass)
    signals = sway.signals()
    up = np.array([0.0, 0.0, 1.0])
    kinematics.update(np.asarray(signals.joint_pos, dtype=float), up)
    loads = detector.loads(np.asarray(signals.joint_torque))
    assert body.mass == pytest.approx(float(sway.robot.plant.mass), rel=1e-6)
    assert loads[:, 2].sum() == pytest.approx(9.81 * body.mass, rel=0.35)  # legs have a third of the mass
    assert (loads[:, 2] > 50.0).all()


def test_the_bundle_names_its_estimator(bundle: Path, tmp_path: Path) -> None:
    assert open_estimator(bundle, ANYMAL_C.joint_names) is None
    contract = Contract.load(bundle)
    with pytest.raises(BundleError, match="estimators names base_lin_vel, which the policy does not read"):
        dataclasses.replace(contract, estimators={"base_lin_vel": "leg-inertial"}).save(tmp_path)


def test_a_robot_that_does_not_move_at_all_has_no_velocity(bundle: Path, sway: Sway) -> None:
    """Exact zeros, as a robot that hangs from a stand may report them."""
    still = dataclasses.replace(
        sway.signals(),
        joint_vel=np.zeros(12),
        gyro=np.zeros(3),
        imu_quat_wxyz=np.array([1.0, 0.0, 0.0, 0.0]),
        accelerometer=np.array([0.0, 0.0, 9.81]),
    )
    estimator = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names)
    for number in range(5):
        now = dataclasses.replace(still, stamp=number * DT)
        estimator.update(now)
        np.testing.assert_allclose(now.base_lin_vel, 0.0, atol=1e-12)


def test_sensors_are_taken_in_the_order_of_their_feet(bundle: Path, sway: Sway) -> None:
    """One foot carries nothing: it is that foot which does not stand."""
    feet = ("RH_FOOT", "LF_FOOT", "RF_FOOT", "LH_FOOT")
    estimator = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names, DT, feet)
    loaded = dataclasses.replace(sway.signals(), foot_force=np.array([90.0, 80.0, 0.0, 70.0]))
    estimator.update(loaded)
    assert dict(zip(ANYMAL_C.foot_names, estimator.contact, strict=True)) == {
        "LF_FOOT": 1.0, "LH_FOOT": 1.0, "RF_FOOT": 0.0, "RH_FOOT": 1.0,
    }  # fmt: skip
    dead = dataclasses.replace(loaded, stamp=loaded.stamp + DT, foot_force=np.zeros(4))
    other = LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names, DT, feet)
    other.update(dead)
    assert other.contact.sum() > 2.0, "sensors that show nothing leave it to the torques"
    with pytest.raises(ValueError, match="the sensors are under toe"):
        LegInertialEstimator.of_bundle(bundle, sway.robot.joint_names, DT, ("toe",))
