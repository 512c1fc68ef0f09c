"""Quaternion maths, number by number, on random (never symmetric) rotations."""

import math

import pytest
import torch
from gaitway_tasks import math as ours
from gaitway_tasks.mdp.events import reset_root_state_uniform
from gaitway_tasks.robots import ANYMAL_C
from isaaclab.utils import math as isaac
from tensor_world import close

G = torch.Generator().manual_seed(0)
Q = torch.nn.functional.normalize(torch.randn(500, 4, generator=G), dim=1)
P = torch.nn.functional.normalize(torch.randn(500, 4, generator=G), dim=1)
V = 3.0 * torch.randn(500, 3, generator=G)
ANGLES = (torch.rand(500, generator=G) - 0.5) * 40.0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ours.quat_apply(Q, V), isaac.quat_apply(Q, V)),
        (ours.quat_apply_inverse(Q, V), isaac.quat_apply_inverse(Q, V)),
        (ours.quat_mul(Q, P), isaac.quat_mul(Q, P)),
        (ours.projected_gravity(Q), isaac.quat_apply_inverse(Q, torch.tensor([0.0, 0.0, -1.0]).repeat(500, 1))),
        (ours.quat_from_yaw(ours.yaw_of(Q)), isaac.yaw_quat(Q)),
        (ours.wrap_to_pi(ANGLES), isaac.wrap_to_pi(ANGLES)),
        (ours.quat_from_yaw(ANGLES), isaac.quat_from_euler_xyz(0 * ANGLES, 0 * ANGLES, ANGLES)),
    ],
    ids=["quat_apply", "quat_apply_inverse", "quat_mul", "projected_gravity", "yaw", "wrap_to_pi", "quat_from_yaw"],
)
def test_equal(value, expected):
    close(value, expected, 5e-6)


def test_heading_is_where_the_base_s_x_axis_points():
    forward = isaac.quat_apply(Q, torch.tensor([1.0, 0.0, 0.0]).repeat(500, 1))
    difference = ours.wrap_to_pi(ours.yaw_of(Q) - torch.atan2(forward[:, 1], forward[:, 0]))
    close(difference, torch.zeros(500), 1e-4)


def test_half_turns_are_the_same_angle_with_either_sign():
    # The one place where the two differ: Isaac Lab keeps +pi, ours is half open. Both are half a turn.
    assert isaac.wrap_to_pi(torch.tensor(math.pi)) == pytest.approx(math.pi)
    assert ours.wrap_to_pi(torch.tensor(math.pi)).abs() == pytest.approx(math.pi)


def test_euler_angles_of_a_reset():
    from tensor_world import TensorWorld

    angles = {"roll": 0.4, "pitch": -0.7, "yaw": 2.1}
    world = TensorWorld(ANYMAL_C)
    fixed = {name: (value, value) for name, value in angles.items()}
    reset_root_state_uniform(world, torch.tensor([0]), fixed, {})
    expected = isaac.quat_from_euler_xyz(*(torch.tensor([value]) for value in angles.values()))
    close(world.written["root_state"][2], expected)
