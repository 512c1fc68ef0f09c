"""Hidden parameters of a hung Go2, simulated without the fit's code, are found from 24 s of noisy motion."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gaitway_sim2real.identify.hung_model import KINDS, HungModel, Values
from gaitway_sim2real.identify.identify import Identification, UnexplainedError, identify
from gaitway_sim2real.identify.least_squares import normal_equations
from gaitway_sim2real.identify.report import report
from gaitway_sim2real.identify.unknowns import Unknowns, choose, joint_groups
from gaitway_sim2real.identify.windows import cut
from gaitway_tasks.robots import ANYMAL_C, GO2, H1
from gaitway_tasks.robots.parameters import RobotParameters
from sim2real.identify.hung_robot import hidden, record

SECONDS, TILT = 24.0, 0.1


@pytest.fixture(scope="module")
def truth() -> RobotParameters:
    return hidden(GO2, seed=11)


@pytest.fixture(scope="module")
def log(truth):
    return record(GO2, truth, seconds=SECONDS, seed=3, tilt=TILT)


@pytest.fixture(scope="module")
def found(log) -> Identification:
    return identify([log], GO2, threads=1)


@pytest.mark.slow
def test_every_joint_is_found_and_the_delay(found, truth):
    assert found.parameters.delay == pytest.approx(truth.delay, abs=1e-3)
    for kind in KINDS:
        for name in GO2.joint_names:
            real, guess = getattr(truth.joints[name], kind), getattr(found.parameters.joints[name], kind)
            assert guess == pytest.approx(real, rel=0.12 if kind == "viscous" else 0.06), (name, kind)


@pytest.mark.slow
def test_it_predicts_what_it_did_not_see(found, log):
    found.check()
    assert found.missed < 0.02
    assert (found.after.roll_pos < 0.1 * found.before.roll_pos).all()
    assert (found.after.step_vel < found.before.step_vel).all()


@pytest.mark.slow
def test_standard_deviations_are_of_the_size_of_the_errors(found, truth):
    """Half of them within 3; with 75 numbers, and two integrators that are not quite the same."""
    scores = []
    for name in GO2.joint_names:
        for kind in KINDS:
            error = getattr(found.parameters.joints[name], kind) - getattr(truth.joints[name], kind)
            scores.append(abs(error) / found.parameters.std[f"joints.{name}.{kind}"])
    assert 0.3 < np.median(scores) < 3.0


@pytest.mark.slow
def test_the_page_and_the_summary_say_it(found):
    page = report(found).html()
    assert "IDENTIFIED" in page and all(name in page for name in GO2.joint_names)
    assert "base_mass" in page and page.count("<svg") == 3
    assert "delay" in found.summary() and "not told" in found.summary()


@pytest.mark.slow
def test_parameters_that_explain_nothing_are_refused(found):
    lost = dataclasses.replace(found, after=dataclasses.replace(found.after, roll_pos=found.held_out.spread))
    with pytest.raises(UnexplainedError, match="miss 100% of the motion"):
        lost.check()


def true_values(truth: RobotParameters) -> Values:
    joints = {kind: np.array([getattr(truth.joints[name], kind) for name in GO2.joint_names]) for kind in KINDS}
    return Values(joints=joints, delay=truth.delay)


def test_the_model_predicts_the_truth_to_the_noise_at_any_step(log, truth):
    windows = cut([log])
    for dt, most in ((0.002, 6e-4), (0.001, 6e-4)):
        predicted = HungModel(GO2, GO2.mjcf, dt, 1).predict(true_values(truth), windows)
        errors = (predicted.pos - windows.pos)[windows.scored]
        assert np.sqrt((errors**2).mean(0)).max() < most


def test_without_torques_only_products_with_the_strength_are_told(log, truth):
    """Strengths, all else true: the motion is the same under every strength whose products with the gains are."""
    windows = cut([dataclasses.replace(log, torque=None)])
    model = HungModel(GO2, GO2.mjcf, 0.002, 1)
    unknowns = choose(model, windows.damping.mean(0), has_torque=False)
    assert not any(item.kind == "strength" for item in unknowns.items)
    values = true_values(truth)
    strength = values.joints["strength"]
    joints = values.joints | {
        "stiffness_scale": strength * values.joints["stiffness_scale"],
        "damping_scale": strength * values.joints["damping_scale"],
        "strength": np.ones(12),
    }
    other = model.predict(Values(joints=joints, delay=values.delay), windows)
    np.testing.assert_allclose(other.pos, model.predict(values, windows).pos, atol=1e-9)


def test_limbs_are_perturbed_together_as_if_alone(log, truth):
    """The normal equations are those of one perturbation after the other."""
    windows = cut([log]).take(slice(1, 2))
    model = HungModel(GO2, GO2.mjcf, 0.002, 1)
    unknowns = choose(model, windows.damping.mean(0))
    colours = unknowns.colours(model.trees)
    assert sorted(number for colour in colours for number in colour) == list(range(len(unknowns)))
    assert len(colours) == 3 + 18
    some = [0, 1, *(n for n, item in enumerate(unknowns.items) if item.kind == "friction")]
    few = Unknowns(tuple(unknowns.items[n] for n in some), true_values(truth))
    theta = np.array([0.01, 0.001, *(0.3,) * 12])
    noise = np.array([[1e-3], [0.1], [0.1]]) * np.ones(12)
    together = normal_equations(model, windows, few, theta, noise)
    alone = normal_equations(_OneLimb(model), windows, few, theta, noise)
    np.testing.assert_allclose(together.hessian, alone.hessian, rtol=1e-6, atol=1e-6 * np.abs(alone.hessian).max())
    np.testing.assert_allclose(together.gradient, alone.gradient, rtol=1e-6, atol=1e-6 * np.abs(alone.gradient).max())


class _OneLimb:
    """The same model, said to be one limb."""

    def __init__(self, model: HungModel):
        self.trees = (tuple(range(12)),)
        self.predict = model.predict


def test_joints_share_numbers_by_the_robots_own_symmetry():
    assert list(joint_groups(GO2, "type")) == ["hip_joint", "thigh_joint", "calf_joint"]
    assert len(joint_groups(ANYMAL_C, "type")["KFE"]) == 4
    pairs = joint_groups(H1, "type")
    assert len(pairs["knee"]) == 2 and len(pairs["torso"]) == 1
    assert len(joint_groups(GO2, "joint")) == 12 and len(joint_groups(GO2, "robot")["robot"]) == 12
