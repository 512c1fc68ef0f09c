"""Twins: what each of their differences changes, and that a walk of one does not depend on who is beside it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.population import population
from gaitway_sim2real.population.twin import Kind, Motors, Twin
from gaitway_sim2real.population.walk import Blow, Draws, Sensors, Walk, walk
from gaitway_tasks.robots.mjcf import DriveParameters
from gaitway_velocity import tour as tours

from gaitway.demo import bundle_of

SEED = (3,)


@pytest.fixture(scope="module")
def kind() -> Kind:
    bundle = bundle_of("anymal-c")
    return Kind(bundle, Contract.load(bundle))


@pytest.fixture(scope="module")
def policy(kind: Kind) -> BatchedPolicy:
    return BatchedPolicy(bundle_of("anymal-c") / "policy.onnx", kind.contract, 1)


def test_the_default_twin_is_the_model(kind):
    ours, own = kind.model(Twin()), kind.plant.model
    names = (
        "body_mass", "body_inertia", "body_pos", "body_ipos", "geom_pos", "geom_size", "geom_solref", "geom_solimp",
        "dof_armature", "dof_frictionloss", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange",
    )  # fmt: skip
    assert [name for name in names if not np.array_equal(getattr(ours, name), getattr(own, name))] == []


def test_mass_and_place_of_a_payload(kind):
    heavy, own = kind.model(Twin(payload=0.1, payload_at=(0.2, 0.0, 0.0))), kind.plant.model
    base, added = kind.plant.base_body, 0.1 * kind.plant.mass
    assert heavy.body_subtreemass[base] == pytest.approx(1.1 * kind.plant.mass)
    # centre of mass = (m * 0 + p * d) / (m + p)
    shift = added * 0.2 * kind.plant.stand_height / (own.body_mass[base] + added)
    np.testing.assert_allclose(heavy.body_ipos[base] - own.body_ipos[base], [shift, 0.0, 0.0], atol=1e-12)


def test_a_longer_link_carries_what_hangs_on_it_further_away(kind):
    own = kind.plant.model
    thigh, shank = own.body("LF_THIGH").id, own.body("LF_SHANK").id
    factors = np.ones(own.nbody)
    factors[thigh] = 1.02
    longer = kind.model(Twin(link_length=tuple(factors)))
    np.testing.assert_allclose(longer.body_pos[shank], 1.02 * own.body_pos[shank])
    assert np.array_equal(longer.body_pos[thigh], own.body_pos[thigh])


def test_drives_floor_and_feet(kind):
    own, drives = kind.plant.model, DriveParameters(kind.plant.model)
    twin = Twin(
        strength=0.9, stiffness=1.1, damping=0.8, armature=1.5, joint_friction=0.01, friction=0.4, softness=0.01,
        impedance=0.95, cone="pyramidal", impratio=20.0, foot_size=1.2,
    )  # fmt: skip
    model = kind.model(twin)
    found = DriveParameters(model)
    np.testing.assert_allclose(found.stiffness, 0.9 * 1.1 * drives.stiffness)
    np.testing.assert_allclose(found.damping, 0.9 * 0.8 * drives.damping)
    np.testing.assert_allclose(found.effort_limit, 0.9 * drives.effort_limit)
    dofs, soles = kind.plant.joint_dof, kind.plant.soles
    np.testing.assert_allclose(model.dof_armature[dofs], 1.5 * own.dof_armature[dofs])
    np.testing.assert_allclose(model.dof_frictionloss[dofs] - own.dof_frictionloss[dofs], 0.01 * drives.effort_limit)
    assert set(model.geom_friction[soles, 0]) == {0.4}
    assert set(map(tuple, model.geom_solref[soles])) == {(0.01, 1.0)}
    assert (model.opt.cone, model.opt.impratio) == (0, 20.0)
    feet = [geom for geom in soles if own.body(own.geom_bodyid[geom]).name in kind.plant.foot_names]
    assert max(model.geom_size[feet, 0] / own.geom_size[feet, 0]) == pytest.approx(1.2)


def test_motors_are_late_filtered_and_have_play(kind):
    dt, joints = kind.plant.model.opt.timestep, kind.contract.num_joints
    rest, stall = np.array(kind.contract.default_joint_pos), DriveParameters(kind.plant.model).effort_limit
    offset = np.full(joints, 0.01)
    twins = [
        Twin(delay=2 * dt),
        Twin(jitter=2 * dt),
        Twin(bandwidth=1.0 / (2 * np.pi * 10 * dt)),  # a time constant of ten steps
        Twin(backlash=0.02),
        Twin(encoder_offset=tuple(offset)),
    ]
    motors, still = Motors(kind.plant, kind.contract, twins), np.zeros((len(twins), joints))
    motors.command(0.0, np.tile(rest + 1.0, (len(twins), 1)), np.ones(len(twins)))
    moved = np.stack([motors.targets(step * dt, still) - rest for step in range(10)])[:, :, 0]
    np.testing.assert_allclose(moved[:, 0], [0.0, 0.0, *[1.0] * 8])
    np.testing.assert_allclose(moved[:, 1], [0.0, 0.0, *[1.0] * 8])
    np.testing.assert_allclose(moved[9, 2], 1.0 - np.exp(-1.0))
    np.testing.assert_allclose(moved[:, 4], 0.99)
    pushed = motors.targets(10 * dt, np.tile(stall, (len(twins), 1)))
    np.testing.assert_allclose(motors.slack[3], 0.01)
    np.testing.assert_allclose(pushed[3] - rest, 0.99)


def test_later_targets_do_not_overtake_earlier_ones(kind):
    dt, late = kind.plant.model.opt.timestep, 3
    motors = Motors(kind.plant, kind.contract, [Twin(jitter=late * kind.contract.control_dt)])
    rest, still = np.array(kind.contract.default_joint_pos)[None], np.zeros((1, kind.contract.num_joints))
    motors.command(0.0, rest + 1.0, np.ones(1))  # due after three control steps
    motors.command(kind.contract.control_dt, rest + 2.0, np.zeros(1))  # due at once, and held back
    seen = [
        float((motors.targets(now, still) - rest)[0, 0]) for now in np.arange(0.0, 4 * kind.contract.control_dt, dt)
    ]
    assert sorted(seen) == seen and set(seen) == {0.0, 2.0}


def test_sensors_are_off_tilted_and_drift(kind):
    joints = kind.contract.num_joints
    twins = [Twin(), Twin(imu_tilt=(0.02, 0.0), imu_drift=(0.001, 0.0, 0.0), gyro_bias=(0.0, 0.0, 0.03),
                          encoder_offset=(0.01,) * joints)]  # fmt: skip
    world = RobotBatch(kind.plant, kind.contract, 2, 1)
    world.place(yaw=np.zeros(2), joint_offset=np.zeros((2, joints)), velocity=np.zeros((2, 2)))
    quiet = np.zeros((2, 2 * joints + 6))
    read = Sensors(twins).read(world, Motors(kind.plant, kind.contract, twins), 10.0, quiet)
    np.testing.assert_allclose(read["joint_pos"][1] - read["joint_pos"][0], 0.01, atol=1e-12)
    np.testing.assert_allclose(read["gyro"][1] - read["gyro"][0], [0.0, 0.0, 0.03], atol=1e-12)
    # half the angle of 0.02 + 10 x 0.001 rad
    np.testing.assert_allclose(read["imu_quat_wxyz"][1][1], np.sin(0.015), atol=1e-9)
    noisy = Sensors([Twin(joint_vel_noise=0.5)] * 2).read(
        world, Motors(kind.plant, kind.contract, twins), 0.0, quiet + 2
    )
    np.testing.assert_allclose(noisy["joint_vel"] - world.signals()["joint_vel"], 1.0)


def test_the_population_is_what_its_ranges_say(kind):
    drawn = [population.twin(kind, number) for number in range(64)]
    for name, (low, high) in population.RANGES.items():
        values = [getattr(twin, name) for twin in drawn]
        assert low <= min(values) < low + 0.2 * (high - low) and high - 0.2 * (high - low) < max(values) <= high
    assert {twin.foot_shape for twin in drawn} == set(population.FOOT_SHAPES)
    assert population.twin(kind, 5) == drawn[5] != population.twin(kind, 5, seed=1)
    different = {field.name for field in fields(Twin) if getattr(drawn[0], field.name) != getattr(Twin(), field.name)}
    assert different >= {field.name for field in fields(Twin)} - {"foot_size", "foot_shape"}


def test_a_blow_throws_a_robot_over_and_a_breath_does_not(kind, policy):
    steps = 100
    command = np.zeros((steps, 2, 3))
    blows = [(Blow(at=0.5, impulse=(0.0, size)),) for size in (0.1, 6.0)]
    found = walk(kind, policy.fresh(2), [Twin(), Twin()], command, blows, SEED)
    assert found.fell.tolist() == [False, True]
    assert 0.5 < found.fall_time[1] < 2.0 and found.fall_time[0] == np.inf


def test_a_walk_does_not_depend_on_who_is_beside(kind, policy):
    drawn = [population.twin(kind, number) for number in (4, 9)]
    command = np.tile([0.5, 0.0, 0.0], (60, 2, 1))
    both = walk(kind, policy.fresh(2), drawn, command, [(), ()], SEED, numbers=(4, 9))
    alone = walk(kind, policy.fresh(1), drawn[1:], command[:, :1], [()], SEED, numbers=(9,))
    np.testing.assert_allclose(alone.base_pos[:, 0], both.base_pos[:, 1], atol=1e-5)


def test_draws_are_those_of_the_number():
    several, one = Draws(SEED, (1, 2), 3), Draws(SEED, (2,), 3)
    for _ in range(Draws.BLOCK + 1):
        (normal, uniform), (alone, lag) = several.next(), one.next()
        assert np.array_equal(normal[1], alone[0]) and uniform[1] == lag[0]


def test_a_tour_visits_six_legs_and_stays_within_the_ranges(kind):
    low, high = np.array(kind.contract.command_ranges).T
    for number in range(20):
        found = tours.tour(kind.contract, kind.plant.stand_height, number, 1)
        assert (found.command >= low).all() and (found.command <= high).all()
        assert len(found.command) * kind.contract.control_dt == pytest.approx(27.0)
        assert len(found.blows) == tours.LEGS_OF_A_TOUR
        legs = found.command[50:-100].reshape(tours.LEGS_OF_A_TOUR, -1, 3)
        assert (legs == legs[:, :1]).all() and len(np.unique(legs[:, 0], axis=0)) == tours.LEGS_OF_A_TOUR


def test_who_stands_still_does_not_survive(kind, policy):
    """Nor who goes a third of the way; a fall counts whatever was gone before."""
    steps = round(27.0 / 0.02)
    command = np.zeros((steps, 4, 3))
    command[50:-100] = [1.0, 0.0, 0.5]
    zero, ones = np.zeros((steps, 4, 3), np.float32), np.ones((steps, 4), bool)
    speed, turn = zero.copy(), zero.copy()
    speed[..., 0] = [1.0, 0.3, 0.0, 1.0]
    turn[..., 2] = [0.5, 0.5, 0.0, 0.5]
    found = Walk(control_dt=0.02, command=command, lin_vel=speed, ang_vel=turn, base_pos=zero, alive=ones,
                 fall_cause=("", "", "", "base tilt"))  # fmt: skip
    np.testing.assert_allclose(tours.progress(found)[:, 0], [1.0, 0.3, 0.0, 1.0], atol=1e-6)
    assert tours.survived(found).tolist() == [True, False, False, False]
    stands = replace(found, command=zero)
    assert tours.survived(stands).tolist() == [True, True, True, False]
