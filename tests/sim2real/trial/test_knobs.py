"""Each knob of the suite does to the physics what its name says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawing import drawn
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import cross, quat_apply, quat_apply_inverse, quat_from_axis, quat_from_rotvec, quat_mul
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.delay import DelayLine
from gaitway_sim2real.mujoco.plant import PHYSICS_DT, Plant, actuator_laws, build_plant
from gaitway_sim2real.mujoco.robots import DIVERGED, RobotBatch
from gaitway_sim2real.trial import running
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import Trajectory, simulate
from gaitway_sim2real.trial.stressors import SensorNoise
from gaitway_tasks.actuators import dc_motor_torque, implicit_pd_torque
from gaitway_tasks.ground import Slope
from gaitway_velocity.commands import command_grid
from gaitway_velocity.needs import TWO_FEET
from gaitway_velocity.scenarios import SCENARIOS
from gaitway_velocity.suite import SUITE
from stand_bundle import make_stand_bundle

RANGES = ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))


STEEP = Slope(angle=np.radians(15))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


@pytest.fixture(scope="module")
def contract(bundle: Path) -> Contract:
    return Contract.load(bundle)


@pytest.fixture(scope="module")
def plant(bundle: Path, contract: Contract) -> Plant:
    return build_plant(contract, bundle / "robot.xml", bundle / "robot.xml")


def small(**changes: object) -> Scenario:
    base = {"name": "small", "title": "", "about": "", "limits": (), "envs": 4, "seconds": 1.0, "commands": "standing"}
    return Scenario(**{**base, **changes})


@pytest.mark.parametrize("law_name", ["dc_motor", "implicit_pd"])
def test_strength_scales_the_delivered_torque(contract: Contract, bundle: Path, law_name: str) -> None:
    [drive] = contract.actuators
    contract = dataclasses.replace(contract, actuators=(dataclasses.replace(drive, law=law_name),))
    plant, laws = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml"), actuator_laws(contract)
    n = 40
    conditions = drawn(small(envs=n, strength=(0.8, 1.2)), RANGES, 12, 0.02, 0)
    robots = RobotBatch(plant, contract, n, 1)
    batch = robots.batch
    robots.randomise(friction=conditions.friction, payload=conditions.payload, strength=conditions.strength)
    rng = np.random.default_rng(1)
    pos, vel, ctrl, force = (batch.bind(name) for name in ("qpos", "qvel", "ctrl", "actuator_force"))
    pos[:, 2] = 3.0
    vel[:, plant.joint_dof] = rng.uniform(-9, 9, (n, 12))
    ctrl[:] = rng.uniform(-1.5, 1.5, (n, 12))
    batch.forward()
    torque = dc_motor_torque if law_name == "dc_motor" else implicit_pd_torque
    nominal = torque(laws[0], ctrl, pos[:, plant.joint_qpos], vel[:, plant.joint_dof])
    assert (np.abs(nominal) == 80.0).any() and (np.abs(nominal) < 80.0).any()  # clipped and unclipped samples
    np.testing.assert_allclose(force, conditions.strength[:, None] * nominal, atol=1e-9)


def test_payload_adds_mass_to_the_base(plant: Plant, contract: Contract) -> None:
    conditions = dataclasses.replace(drawn(small(), RANGES, 12, 0.02, 0), payload=np.array([-5.0, 0.0, 2.0, 5.0]))
    robots = RobotBatch(plant, contract, 4, 1)
    robots.randomise(friction=conditions.friction, payload=conditions.payload, strength=conditions.strength)
    batch, base = robots.batch, plant.base_body
    np.testing.assert_allclose(batch.expand("body_mass")[:, base] - plant.model.body_mass[base], conditions.payload)
    ratio = batch.expand("body_inertia")[:, base] / plant.model.body_inertia[base]
    np.testing.assert_allclose(ratio, (1 + conditions.payload / 19.203)[:, None] * np.ones(3))


def test_payload_leaves_half_of_the_base(bundle: Path, contract: Contract, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    walk = running.simulate

    def watched(plant, contract, policy, conditions, **asked):
        seen.append(conditions)
        return walk(plant, contract, policy, conditions, **asked)

    monkeypatch.setattr(running, "simulate", watched)
    plants = running.Plants(contract, bundle / "robot.xml", bundle / "robot.xml")
    for kilograms in (-15.0, -5.0, 15.0):
        running.run_scenario(SUITE, bundle, contract, plants, small(payload=(kilograms, kilograms)), seed=0)
    np.testing.assert_allclose([conditions.payload[0] for conditions in seen], [-19.203 / 2, -5.0, 15.0])


def test_payload_is_carried_by_the_feet(plant: Plant, contract: Contract, bundle: Path) -> None:
    light, heavy = (run(plant, contract, bundle, small(payload=(kg, kg))) for kg in (-5.0, 5.0))
    sag = light.base_pos[-1, :, 2] - heavy.base_pos[-1, :, 2]
    assert (sag > 0.003).all()


def test_ice_slides_where_rubber_holds(contract: Contract, bundle: Path) -> None:
    """On a slope of 15 degrees friction 0.1 slides and 0.8 holds: tan(15 deg) = 0.27 lies between."""
    slope = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml", ground=STEEP)
    moved = []
    for friction in (0.1, 0.8):
        rec = run(slope, contract, bundle, small(friction=(friction, friction), ground=STEEP))
        moved.append(np.linalg.norm(rec.base_pos[-1, :, :2] - rec.start_pos[:, :2], axis=-1))
    assert (moved[0] > 0.5).all() and (moved[1] < 0.25).all()


def test_slope_rises_along_x(contract: Contract, bundle: Path) -> None:
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml", ground=STEEP)
    rec = run(plant, contract, bundle, small(friction=(0.1, 0.1), ground=STEEP))
    assert (rec.base_pos[-1, :, 0] < rec.start_pos[:, 0] - 0.2).all()
    assert (rec.base_pos[-1, :, 2] < rec.start_pos[:, 2]).all()


@pytest.mark.parametrize(("milliseconds", "expected"), [(0, 0), (5, 1), (10, 2), (20, 4), (35, 7), (40, 8)])
def test_delay_line_is_exact_to_the_physics_step(plant: Plant, milliseconds: int, expected: int) -> None:
    line = DelayLine(np.zeros((1, 1)), np.array([milliseconds / 1000]), PHYSICS_DT, plant.decimation)
    seen = []
    for step in range(1, 6):  # the target of control step k is k
        for count, ctrl in line.push(np.full((1, 1), float(step))):
            seen += [float(ctrl[0, 0])] * count
    undelayed = [float(1 + k // plant.decimation) for k in range(20)]
    assert seen == ([0.0] * expected + undelayed)[:20]


def test_delay_line_mixes_robots_with_different_delays(plant: Plant) -> None:
    delays = np.array([0.0, 0.005, 0.015, 0.025])
    line = DelayLine(np.zeros((4, 1)), delays, PHYSICS_DT, plant.decimation)
    seen = np.zeros((0, 4))
    for step in range(1, 5):
        for count, ctrl in line.push(np.full((4, 1), float(step))):
            seen = np.vstack([seen, np.repeat(ctrl.T, count, axis=0)])
    for i, late in enumerate((0, 1, 3, 5)):
        assert seen[:, i].tolist() == ([0.0] * late + [float(1 + k // 4) for k in range(16)])[:16]


def test_push_is_a_velocity_step(plant: Plant, contract: Contract, bundle: Path) -> None:
    scenario = small(seconds=4.0, push=0.5, envs=8)
    rec = run(plant, contract, bundle, scenario)
    when, who = np.nonzero((rec.push != 0).any(-1))
    assert sorted(who) == list(range(8)) and ((when >= 80) & (when <= 120)).all()
    np.testing.assert_allclose(np.linalg.norm(rec.push[when, who], axis=-1), 0.5, rtol=1e-6)
    after = quat_apply(rec.base_quat[when, who], rec.lin_vel[when, who])[:, :2]
    assert (np.sum(after * rec.push[when, who], axis=-1) > 0.02).all()  # it moves the way it was pushed


def test_noise_has_the_stated_magnitudes() -> None:
    n = 20000
    signals = {
        "joint_pos": np.zeros((n, 1)),
        "joint_vel": np.zeros((n, 1)),
        "gyro": np.zeros((n, 3)),
        "imu_quat_wxyz": np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)),
    }
    noisy = SensorNoise().sensed(signals, np.random.default_rng(0))
    for name, bound in (("joint_pos", 0.01), ("joint_vel", 1.5), ("gyro", 0.2)):
        assert 0.98 * bound < np.abs(noisy[name]).max() <= bound
    gravity = quat_apply_inverse(noisy["imu_quat_wxyz"], np.array([0.0, 0.0, -1.0]))
    assert 0.045 < np.abs(gravity[:, :2]).max() < 0.0525
    np.testing.assert_allclose(np.linalg.norm(noisy["imu_quat_wxyz"], axis=1), 1.0)


def test_conditions_depend_on_seed_and_name_only() -> None:
    scenario = SCENARIOS[-1]
    first, again, other = (drawn(scenario, RANGES, 12, 0.02, seed) for seed in (3, 3, 4))
    for field in dataclasses.fields(first):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(again, field.name))
    assert not np.array_equal(first.command, other.command)
    for field, (low, high) in {
        "friction": (0.4, 1.2),
        "payload": (-5, 5),
        "strength": (0.9, 1.1),
        "delay": (0, 0.02),
    }.items():
        values = getattr(first, field)
        assert values.min() >= low and values.max() <= high and np.ptp(values) > 0.8 * (high - low)


def test_command_grid_has_a_command_in_every_cell_and_all_corners() -> None:
    ranges = np.array(RANGES)
    grid, again = (command_grid(ranges, 288, np.random.default_rng(seed)) for seed in (0, 1))
    low, high = ranges.T
    assert len(grid) == 288 and (grid >= low).all() and (grid <= high).all()
    for rows, axes, third in ((grid[:49], [0, 1], 2), (grid[49:98], [0, 2], 1)):
        cells = np.floor((rows[:, axes] - low[axes]) / (high - low)[axes] * 7).astype(int)
        assert {tuple(cell) for cell in cells} == {(x, y) for x in range(7) for y in range(7)}
        assert (rows[:, third] == 0).all()
    corners = {tuple(row) for row in grid[98:114]}
    assert corners == {(x, y, z) for x in (-1.0, 1.0) for y in (-0.5, 0.5) for z in (-1.0, 1.0)}
    drawn = np.delete(grid, np.s_[98:114], axis=0)
    assert len(np.unique(np.abs(drawn), axis=0)) == 272  # no command, and no mirror image of one, comes twice
    assert not (drawn == np.delete(again, np.s_[98:114], axis=0)).all(1).any()


def test_suite_asks_for_no_less_than_the_agreed_limits() -> None:
    limits = {(s.name, c.metric): (c.value, s.required) for s in SCENARIOS for c in s.limits if TWO_FEET not in c.needs}
    for_two_feet = {(c.metric, c.value, c.unit) for s in SCENARIOS for c in s.limits if TWO_FEET in c.needs}
    assert for_two_feet == {("lin_vel_error", 0.2, ""), ("clearance", 0.02, "length")}  # all that is asked otherwise
    assert limits["command_grid", "lin_vel_error"] == (0.15, True)
    assert limits["command_grid", "yaw_vel_error"] == (0.15, True)
    assert limits["command_grid", "falls"] == (0.01, True)
    assert limits["command_grid", "lin_vel_bias"] == limits["nominal", "lin_vel_bias"] == (0.05, True)
    assert limits["command_grid", "yaw_vel_bias"] == limits["nominal", "yaw_vel_bias"] == (0.05, True)
    assert limits["standing", "drift"] == (0.05, True)
    assert limits["stops", "steps_at_rest"] == limits["stops", "falls"] == (0.01, True)
    assert limits["standing", "steps_at_rest"] == limits["standing", "falls"] == (0.01, True)
    assert (limits["stops", "stop_time"], limits["stops", "stop_way"]) == ((1.5, True), (0.6, True))
    assert (limits["straight", "heading_drift"], limits["straight", "sideways_drift"]) == ((0.03, True), (0.05, True))
    for name in ("standing", "standing_pushed", "standing_slope", "stops"):
        assert (limits[name, "rest_speed"], limits[name, "rest_yaw_rate"]) == ((0.02, True), (0.02, True))
        assert (limits[name, "rest_joint_speed"], limits[name, "rest_torque_change"]) == ((0.05, True), (0.1, True))
    assert limits["pushes", "pushes_survived"] == (0.95, True)
    for name in (
        "friction_0.4",
        "friction_1.2",
        "payload_-5kg",
        "payload_+5kg",
        "strength_90",
        "strength_110",
        "delay_20ms",
    ):
        assert limits[name, "falls"] == (0.05, True)
    assert len({s.name for s in SCENARIOS}) == len(SCENARIOS)


def test_divergence_is_a_fall_not_a_second_chance(
    bundle: Path, contract: Contract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo leaves its log in the working directory
    plant = build_plant(contract, bundle / "robot.xml", bundle / "robot.xml")
    plant.model.body_inertia[plant.model.body("LF_SHANK").id] = 1e-12
    plant.model.body_mass[plant.model.body("LF_SHANK").id] = -50.0  # no physics can hold this
    rec = run(plant, contract, bundle, small(envs=2))
    assert (rec.fall_step >= 0).all()
    assert DIVERGED in rec.fall_cause or all(rec.fall_cause)
    assert np.isfinite(rec.lin_vel[rec.alive]).all()


def test_cross_products_are_numpys_to_the_bit() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 50, 3))
    for left, right in ((a, b), (a, b[0]), (a.astype(np.float32), b.astype(np.float32))):
        found = cross(left, right)
        np.testing.assert_array_equal(found, np.cross(left, right))
        assert found.dtype == left.dtype


def test_rotations() -> None:
    quarter = quat_from_axis(2, np.array(np.pi / 2))
    np.testing.assert_allclose(quat_apply(quarter, np.array([1.0, 2.0, 3.0])), [-2.0, 1.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(quat_apply_inverse(quarter, np.array([-2.0, 1.0, 3.0])), [1.0, 2.0, 3.0], atol=1e-12)
    tilt = quat_from_rotvec(np.array([0.3, 0.0, 0.0]))
    np.testing.assert_allclose(tilt, quat_from_axis(0, np.array(0.3)))
    both = quat_mul(quarter, tilt)
    v = np.array([0.2, -1.0, 0.5])
    np.testing.assert_allclose(quat_apply(both, v), quat_apply(quarter, quat_apply(tilt, v)))


def run(plant: Plant, contract: Contract, bundle: Path, scenario: Scenario) -> Trajectory:
    conditions = SUITE.draw(scenario, contract, 0)
    return simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, scenario.envs), conditions)
