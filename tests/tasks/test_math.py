"""Quaternion maths against rotations known by hand and against rotation matrices."""

import math

import hypothesis.strategies as st
import torch
from gaitway_tasks.math import (
    projected_gravity,
    quat_apply,
    quat_apply_inverse,
    quat_from_yaw,
    quat_mul,
    wrap_to_pi,
    yaw_of,
)
from hypothesis import given
from tensor_world import close, rotation_matrix

HALF = math.sqrt(0.5)
X_90 = torch.tensor([HALF, HALF, 0.0, 0.0])
Y_90 = torch.tensor([HALF, 0.0, HALF, 0.0])
Z_90 = torch.tensor([HALF, 0.0, 0.0, HALF])
CYCLE = torch.tensor([0.5, 0.5, 0.5, 0.5])  # 120 degrees about (1, 1, 1): x -> y -> z -> x

components = st.lists(st.floats(-2.0, 2.0, width=32), min_size=4, max_size=4)
vectors = st.lists(st.floats(-5.0, 5.0, width=32), min_size=3, max_size=3).map(torch.tensor)
quaternions = (
    components.filter(lambda c: sum(v * v for v in c) > 1e-2)
    .map(torch.tensor)
    .map(lambda q: torch.nn.functional.normalize(q, dim=0))
)


def test_right_handed_quarter_turns():
    x, y, z = torch.eye(3)
    close(quat_apply(X_90, y), z)
    close(quat_apply(Y_90, z), x)
    close(quat_apply(Z_90, x), y)


def test_a_rotation_that_no_component_order_mistake_survives():
    vec = torch.tensor([1.0, 2.0, 3.0])
    close(quat_apply(CYCLE, vec), [3.0, 1.0, 2.0])
    close(quat_apply_inverse(CYCLE, vec), [2.0, 3.0, 1.0])
    # 90 degrees about z, then 90 degrees about the new x: body y ends up pointing at world z.
    q = quat_mul(Z_90, X_90)
    close(q, [0.5, 0.5, 0.5, 0.5])
    # The other order is the other cycle.
    close(quat_mul(X_90, Z_90), [0.5, 0.5, -0.5, 0.5])


def test_projected_gravity_by_hand():
    close(projected_gravity(torch.tensor([1.0, 0.0, 0.0, 0.0])), [0.0, 0.0, -1.0])
    # Rolled 90 degrees to the right side down: body y points up, so gravity is along -y of the body.
    close(projected_gravity(X_90), [0.0, -1.0, 0.0])
    # Pitched nose-down by 90 degrees: gravity along +x of the body.
    close(projected_gravity(Y_90), [1.0, 0.0, 0.0])
    close(projected_gravity(Z_90), [0.0, 0.0, -1.0])


def test_yaw_by_hand():
    close(yaw_of(Z_90), math.pi / 2)
    angles = torch.tensor([-3.0, -1.2, 0.0, 0.7, 3.1])
    close(yaw_of(quat_from_yaw(angles)), angles)
    # Yaw 0.7 then roll 0.5: heading stays 0.7.
    roll = torch.tensor([math.cos(0.25), math.sin(0.25), 0.0, 0.0])
    close(yaw_of(quat_mul(quat_from_yaw(torch.tensor(0.7)), roll)), 0.7)


def test_wrap_to_pi_by_hand():
    angles = torch.tensor([0.0, 1.0, 4.0, -4.0, 7.0, 3 * math.pi + 0.5, -9.0])
    wrapped = [0.0, 1.0, 4.0 - 2 * math.pi, 2 * math.pi - 4.0, 7.0 - 2 * math.pi, 0.5 - math.pi, 2 * math.pi - 9.0]
    close(wrap_to_pi(angles), wrapped, 1e-5)


@given(quaternions, vectors)
def test_apply_is_the_rotation_matrix(q, vec):
    matrix = rotation_matrix(q)
    close(quat_apply(q, vec), matrix @ vec.double(), 1e-5)
    close(quat_apply_inverse(q, vec), matrix.mT @ vec.double(), 1e-5)
    close(projected_gravity(q), matrix.mT @ torch.tensor([0.0, 0.0, -1.0]).double(), 1e-5)


@given(quaternions, quaternions, vectors)
def test_product_composes_rotations(a, b, vec):
    close(quat_apply(quat_mul(a, b), vec), quat_apply(a, quat_apply(b, vec)), 2e-5)
    close(rotation_matrix(quat_mul(a, b)).float(), (rotation_matrix(a) @ rotation_matrix(b)), 1e-5)


@given(st.floats(-50.0, 50.0), st.integers(-5, 5))
def test_wrapping_has_period_two_pi_and_range_pi(angle, turns):
    wrapped = wrap_to_pi(torch.tensor([angle, angle + turns * 2 * math.pi], dtype=torch.float64))
    assert (wrapped >= -math.pi).all() and (wrapped <= math.pi).all()
    assert math.isclose(math.cos(wrapped[0] - angle), 1.0, abs_tol=1e-9)
    assert math.isclose(math.cos(wrapped[0] - wrapped[1]), 1.0, abs_tol=1e-9)


def test_batches_and_views_that_are_not_contiguous():
    q = torch.stack((X_90, Y_90, Z_90, CYCLE), 1).T  # strides (1, 4)
    assert not q.is_contiguous()
    vec = torch.tensor([1.0, 2.0, 3.0]).expand(4, 3)
    close(quat_apply(q, vec), torch.stack([quat_apply(row.contiguous(), vec[0]) for row in q]))
