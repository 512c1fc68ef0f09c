"""Standing and stopping, of motions that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gaitway_onboard.bundle.contract import Contract
from gaitway_velocity.rest import at_rest, rest_metrics, stop_metrics
from recording import recording
from stand_bundle import make_stand_bundle

STEPS = 400  # 8 s
STOP = 150  # 3 s


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Contract:
    return Contract.load(make_stand_bundle(tmp_path_factory.mktemp("stand")))


def test_rest_begins_two_seconds_after_a_start_a_stop_and_a_push() -> None:
    command, push = np.zeros((STEPS, 4, 3)), np.zeros((STEPS, 4, 2))
    command[:STOP, 1, 0] = 1.0
    push[200, 2, 1] = 0.5
    command[:, 3, 2] = 0.1
    rest = at_rest(recording(steps=STEPS, robots=4, command=command, push=push))
    assert [np.flatnonzero(robot).tolist() for robot in rest.T] == [
        list(range(100, STEPS)), list(range(STOP + 99, STEPS)), [*range(100, 200), *range(300, STEPS)], [],
    ]  # fmt: skip


def test_a_step_at_rest_is_a_foot_off_the_ground(contract: Contract) -> None:
    contact = np.ones((STEPS, 3, 4), bool)
    contact[50, 0, 1] = False  # while it settles
    contact[250, 1, 2] = False
    alive = np.ones((STEPS, 3), bool)
    alive[90:, 2] = False
    found = rest_metrics(recording(steps=STEPS, robots=3, feet=4, foot_contact=contact, alive=alive), contract)
    np.testing.assert_array_equal(found["steps_at_rest"], [0.0, 1.0, np.nan])


def test_speeds_and_trembling_at_rest(contract: Contract) -> None:
    effort = np.array(contract.per_joint("effort_limit"))
    values = {name: np.zeros((STEPS, 1, width)) for name, width in (("lin_vel", 3), ("ang_vel", 3), ("joint_vel", 12))}
    values["lin_vel"][:, 0] = [0.03, 0.0, 0.04]
    values["ang_vel"][:, 0, 2] = -0.2
    values["joint_vel"][:, 0, 0] = 0.6
    for name in values:
        values[name][:100] *= 100.0  # while it settles
    torque = np.zeros((STEPS, 1, 12))
    torque[::2, 0] = 0.01 * effort  # by 1 % of the limit, to and fro, 50 times a second
    found = {
        name: float(value[0])
        for name, value in rest_metrics(recording(steps=STEPS, robots=1, torque=torque, **values), contract).items()
    }
    assert found == pytest.approx(
        {
            "steps_at_rest": 0.0, "rest_speed": 0.05, "rest_yaw_rate": 0.2, "rest_joint_speed": 0.6 / np.sqrt(12),
            "rest_torque_change": 0.5, "hand_drift": np.nan,
        },
        nan_ok=True,
    )  # fmt: skip


def test_stopping_time_and_distance() -> None:
    """0.8 s at 0.5 m/s after the stop, then still; and one that only turns on for 0.3 s."""
    command, lin_vel, ang_vel = (np.zeros((STEPS, 2, 3)) for _ in range(3))
    command[:STOP, 0, 0], command[:STOP, 1, 2] = 1.0, 1.0
    lin_vel[: STOP + 40, 0, 0] = 0.5
    lin_vel[STOP + 45, 0, 0] = -0.099  # slow enough
    ang_vel[: STOP + 15, 1, 2] = 0.2
    base_pos = np.cumsum(lin_vel, axis=0) * 0.02
    rec = recording(steps=STEPS, robots=2, command=command, lin_vel=lin_vel, ang_vel=ang_vel, base_pos=base_pos)
    found = stop_metrics(rec)
    np.testing.assert_allclose(found["stop_time"], [0.8, 0.3])
    np.testing.assert_allclose(found["stop_way"], [0.4, 0.0], atol=1e-9)
    lin_vel[-1, 0, 0] = 0.2  # it moves again
    np.testing.assert_allclose(stop_metrics(replace(rec, lin_vel=lin_vel))["stop_time"], [5.0, 0.3])
    alive = np.ones((STEPS, 2), bool)
    alive[300:, 1] = False
    np.testing.assert_allclose(stop_metrics(replace(rec, alive=alive))["stop_time"][1], 5.0)


def test_who_does_not_stop_has_no_time() -> None:
    command, push = np.zeros((STEPS, 4, 3)), np.zeros((STEPS, 4, 2))
    command[:, 0, 0] = 1.0  # never; robot 1 never walks; robot 2 fell before; robot 3 is pushed while it stops
    command[:STOP, 2:, 0] = 1.0
    push[300, 3, 0] = 0.5
    alive = np.ones((STEPS, 4), bool)
    alive[100:, 2] = False
    found = stop_metrics(recording(steps=STEPS, robots=4, command=command, push=push, alive=alive))
    assert np.isnan(found["stop_time"]).all() and np.isnan(found["stop_way"]).all()
