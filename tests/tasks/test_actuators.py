"""Actuator laws by hand, at and beyond their limits, in numpy and in torch."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from gaitway_tasks.actuators import dc_motor_torque, implicit_pd_torque, pd_torque
from gaitway_tasks.robots import ANYMAL_C, DCMotor, ImplicitPD
from hypothesis import given, settings

MOTOR = DCMotor(stiffness=40.0, damping=5.0, effort_limit=80.0, saturation_effort=120.0, velocity_limit=7.5)
PD = ImplicitPD(stiffness=80.0, damping=2.0, effort_limit=80.0)


def arrays(*values: float) -> list[np.ndarray]:
    return [np.array([value]) for value in values]


def test_anymal_c_has_the_simple_anydrive():
    assert ANYMAL_C.joint_actuators[0] == MOTOR


def test_pd_by_hand():
    assert pd_torque(0.5, 0.2, -1.0, 40.0, 5.0) == pytest.approx(40 * 0.3 + 5.0)
    assert implicit_pd_torque(PD, *arrays(0.5, 0.2, -1.0)) == pytest.approx(80 * 0.3 + 2.0)
    assert implicit_pd_torque(PD, *arrays(3.0, 0.0, 0.0)) == 80.0
    assert implicit_pd_torque(PD, *arrays(-3.0, 0.0, 0.0)) == -80.0


@pytest.mark.parametrize(
    ("error", "vel", "torque"),
    [
        (0.5, 0.0, 20.0),  # inside every limit
        (0.5, 1.0, 15.0),
        (9.0, 0.0, 80.0),  # effort limit
        (-9.0, 0.0, -80.0),
        (9.0, 2.5, 80.0),  # the corner: 120 (1 - 2.5 / 7.5) = 80
        (9.0, 5.0, 40.0),  # on the torque-speed line: 120 (1 - 5 / 7.5)
        (9.0, 7.5, 0.0),  # no-load speed
        (9.0, 9.0, -24.0),  # beyond it the motor brakes whatever the target: 120 (1 - 9 / 7.5)
        (9.0, 12.5, -80.0),  # the line meets the effort limit at 7.5 (1 + 80 / 120) = 12.5
        (9.0, 30.0, -80.0),
        (-9.0, 5.0, -80.0),  # braking at speed is limited by the drive only
        (9.0, -5.0, 80.0),
        (-9.0, -5.0, -40.0),
        (-9.0, -9.0, 24.0),
    ],
)
def test_dc_motor_by_hand(error, vel, torque):
    assert dc_motor_torque(MOTOR, *arrays(error, 0.0, vel)) == pytest.approx(torque)
    assert dc_motor_torque(MOTOR, *(torch.from_numpy(a) for a in arrays(error, 0.0, vel))).item() == pytest.approx(
        torque
    )


signals = st.floats(-40.0, 40.0, width=32)


@settings(max_examples=200)
@given(st.lists(st.tuples(signals, signals, signals), min_size=1, max_size=8))
def test_numpy_and_torch_agree_and_laws_keep_their_promises(rows):
    target, pos, vel = np.array(rows, dtype=np.float64).T
    for law, function in ((MOTOR, dc_motor_torque), (PD, implicit_pd_torque)):
        torque = function(law, target, pos, vel)
        assert isinstance(torque, np.ndarray)
        in_torch = function(law, *(torch.from_numpy(a.copy()) for a in (target, pos, vel)))
        np.testing.assert_allclose(in_torch.numpy(), torque, rtol=1e-12, atol=1e-12)
        assert (np.abs(torque) <= law.effort_limit).all()
        # The laws are odd: the mirror image of a motion gets the mirror image of its torque.
        np.testing.assert_allclose(function(law, -target, -pos, -vel), -torque, rtol=1e-12, atol=1e-12)
    beyond = np.abs(vel) > MOTOR.velocity_limit
    torque = dc_motor_torque(MOTOR, target, pos, vel)
    assert (torque[beyond] * vel[beyond] < 0).all()
