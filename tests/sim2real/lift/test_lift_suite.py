"""The suite of lifting: what its scenarios change, and that faults that are planted fail it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gaitway_files import trust as trusting
from gaitway_lift.stressors import ObjectFriction, ObjectMass, ObjectNoise, ObjectSize
from gaitway_lift.suite import SCENARIOS, SUITE
from gaitway_sim2real.bundle.in_memory import contract_before_training
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial.examination import Examiner
from gaitway_sim2real.trial.suites import suite_of
from gaitway_tasks.registry import get_task
from scripted_lift import ScriptedLift

TASK = get_task("lift-franka", "cpu")
CONTRACT = contract_before_training(TASK)
N = 8


def robots():
    return RobotBatch(build_plant(CONTRACT, TASK.robot.mjcf, TASK.robot.mjcf), CONTRACT, N, 1)


def test_the_contract_names_it_and_it_needs_no_trust(monkeypatch):
    monkeypatch.setattr(trusting, "_trusted", set())
    assert suite_of(CONTRACT) is SUITE and not trusting.trusted()
    assert CONTRACT.estimated == ("object_pos",) and CONTRACT.gravity_compensation
    cube = CONTRACT.objects["object"]
    assert cube.size == (0.048,) * 3 and cube.spread == ((-0.1, 0.1), (-0.25, 0.25), (0.0, 0.0))


def test_objects_start_where_training_has_them():
    conditions = SUITE.draw(SCENARIOS[0], CONTRACT, 0)
    assert conditions.objects.shape == (64, 1, 3) and (conditions.objects[..., 2] == 0.0).all()
    assert np.abs(conditions.objects[..., :2]).max((0, 1)) == pytest.approx((0.1, 0.25), rel=0.1)
    assert (SUITE.draw(SCENARIOS[0], CONTRACT, 0).objects == conditions.objects).all()
    assert (SUITE.draw(SCENARIOS[1], CONTRACT, 0).objects != conditions.objects).any()
    world = robots()
    still = {"yaw": np.zeros(N), "joint_offset": np.zeros((N, 9)), "velocity": np.zeros((N, 2))}
    world.place(**still, objects=conditions.objects[:N])
    expected = np.array([0.5, 0.0, 0.055]) + conditions.objects[:N, 0]
    np.testing.assert_allclose(world.signals()["object_pos"], expected, atol=1e-12)
    np.testing.assert_allclose(world.positions(("object",))["object"], expected, atol=1e-12)


def test_stressors_change_the_object_alone():
    world, rng = robots(), np.random.default_rng(0)
    model = world.plant.model
    body, geom = model.body("object").id, model.geom("object").id
    before = world.batch.expand("body_mass").copy()
    ObjectMass(0.5, 3.0).start(world, rng)
    after = world.batch.expand("body_mass")
    factor = after[:, body] / before[:, body]
    assert factor.min() >= 0.5 and factor.max() <= 3.0 and np.ptp(factor) > 0.5
    assert (np.delete(after, body, 1) == np.delete(before, body, 1)).all()
    ObjectFriction(0.5, 1.0).start(world, rng)
    friction = world.batch.expand("geom_friction")
    assert (friction[:, geom, 0] <= 1.0).all() and np.ptp(friction[:, geom, 0]) > 0.1
    ObjectSize(0.9, 1.1).start(world, rng)
    world.place(yaw=np.zeros(N), joint_offset=np.zeros((N, 9)), velocity=np.zeros((N, 2)))
    for _ in range(100):
        world.step(1)
    height, half = world.object_pos()["object"][:, 2], world.batch.expand("geom_size")[:, geom, 2]
    np.testing.assert_allclose(height, half, atol=1e-3)  # it lies on the table
    assert np.ptp(half) > 0.001


def test_noise_of_the_place_stays_and_jitters():
    world = robots()
    stressor = ObjectNoise(0.005, 0.001)
    kept = stressor.start(world, np.random.default_rng(0))
    true = {"object_pos": np.zeros((N, 3)), "joint_pos": np.zeros((N, 9))}
    seen = np.array([stressor.sensed(true, kept)["object_pos"] for _ in range(200)])
    assert 0.003 < np.abs(seen.mean(0)).max() <= 0.0051 and seen.std(0).max() < 0.001 and not true["object_pos"].any()


@pytest.mark.slow
def test_a_scripted_grasp_passes_and_planted_faults_fail():
    """A hand that opens at the end, one that closes late on nothing, and an arm that trembles."""
    few = tuple(replace(scenario, envs=4) for scenario in SCENARIOS[:1])

    def missed(fault):
        found = Examiner(TASK, scenarios=few)(ScriptedLift(TASK, fault))
        return {row.check.metric.name for row in found.checks if not row.check.passed}

    last = torch.eye(8)[7]
    assert not missed(lambda action, step: action)
    assert {"success", "drops"} <= missed(lambda action, step: action + last * 2.0 * (step > 320))
    assert "success" in missed(lambda action, step: action * (1.0 - last) + last)
    assert "rest_speed" in missed(lambda action, step: action + 0.6 * (-1.0) ** (step // 8) * (1.0 - last))
