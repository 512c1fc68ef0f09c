"""Event terms: what they write, for which environments, within which bounds."""

import math

import pytest
import torch
from gaitway_tasks.mdp import events
from gaitway_tasks.robots import ANYMAL_C
from tensor_world import TensorWorld, close, rotation_matrix

IDS = torch.tensor([1, 3, 4])


@pytest.fixture
def world():
    return TensorWorld(ANYMAL_C, 8)


def spread(values, low, high):
    """Within bounds, and not all the same: a range of [low, high] is really drawn from."""
    assert (values >= low).all() and (values <= high).all()
    assert low == high or values.unique().numel() == values.numel()


@pytest.mark.parametrize(
    ("event", "params", "written", "shape"),
    [
        (events.randomize_rigid_body_material, {"friction_range": (0.3, 1.2)}, "friction", (3,)),
        (events.randomize_rigid_body_mass, {"mass_distribution_params": (-5.0, 5.0)}, "added_mass", (3,)),
        (events.randomize_motor_strength, {"strength_range": (0.9, 1.1)}, "motor_strength", (3, 12)),
        (events.randomize_joint_offset, {"offset_range": (-0.03, 0.03)}, "joint_offset", (3, 12)),
        (events.randomize_action_delay, {"delay_range": (0.0, 0.04)}, "action_delay", (3,)),
    ],
)
def test_uniform_randomisation(world, event, params, written, shape):
    event(world, IDS, **params)
    ids, values = world.written[written]
    assert torch.equal(ids, IDS) and values.shape == shape
    spread(values, *next(iter(params.values())))


def test_mass_is_scaled_uniformly_in_its_logarithm():
    world, ids = TensorWorld(ANYMAL_C, 4000), torch.arange(4000)
    events.scale_rigid_body_mass(world, ids, (0.8, 1.25), "LF_SHANK")
    found, factor, body = world.written["mass_scale"]
    assert torch.equal(found, ids) and body == "LF_SHANK"
    assert 0.8 <= factor.min() < 0.801 and 1.249 < factor.max() <= 1.25
    assert abs(float(factor.log().mean())) < 0.01
    assert 0.47 < float((factor < 1.0).float().mean()) < 0.53


def test_gains_are_scaled_independently(world):
    events.randomize_actuator_gains(world, IDS, (0.8, 1.2), (0.5, 0.6))
    _, stiffness, damping = world.written["gain_scale"]
    assert stiffness.shape == damping.shape == (3, 12)
    spread(stiffness, 0.8, 1.2)
    spread(damping, 0.5, 0.6)


def test_centre_of_mass_leaves_unnamed_axes_alone(world):
    events.randomize_rigid_body_com(world, IDS, {"x": (-0.05, 0.05), "z": (-0.01, 0.01)})
    _, offset = world.written["com_offset"]
    spread(offset[:, 0], -0.05, 0.05)
    spread(offset[:, 1], 0.0, 0.0)
    spread(offset[:, 2], -0.01, 0.01)


def test_reset_of_the_base(world):
    pose = {"x": (-0.5, 0.5), "y": (1.0, 1.5), "yaw": (-3.14, 3.14)}
    velocity = {"x": (0.2, 0.5), "yaw": (-0.5, -0.1)}
    events.reset_root_state_uniform(world, IDS, pose, velocity)
    ids, pos, quat, lin_vel_w, ang_vel_b = world.written["root_state"]
    assert torch.equal(ids, IDS)
    spread(pos[:, 0], -0.5, 0.5)
    spread(pos[:, 1], 1.0, 1.5)
    spread(pos[:, 2], *2 * (torch.tensor(ANYMAL_C.init_height).item(),))
    close(quat.norm(dim=1), [1.0] * 3)
    close(quat[:, 1:3], torch.zeros(3, 2))
    spread(lin_vel_w[:, 0], 0.2, 0.5)
    close(lin_vel_w[:, 1:], torch.zeros(3, 2))
    spread(ang_vel_b[:, 2], -0.5, -0.1)
    close(ang_vel_b[:, :2], torch.zeros(3, 2))


def test_reset_orientation_is_yaw_after_pitch_after_roll(world):
    fixed = {"roll": (0.3, 0.3), "pitch": (-0.5, -0.5), "yaw": (1.1, 1.1)}
    spin = {"roll": (0.2, 0.2), "pitch": (0.4, 0.4), "yaw": (-0.6, -0.6)}
    events.reset_root_state_uniform(world, torch.tensor([0]), fixed, spin)
    _, _, quat, _, ang_vel_b = world.written["root_state"]

    def about(axis, angle):
        c, s = math.cos(angle), math.sin(angle)
        i, j = (axis + 1) % 3, (axis + 2) % 3
        matrix = torch.eye(3, dtype=torch.float64)
        matrix[i, i], matrix[i, j], matrix[j, i], matrix[j, j] = c, -s, s, c
        return matrix

    expected = about(2, 1.1) @ about(1, -0.5) @ about(0, 0.3)
    close(rotation_matrix(quat)[0].float(), expected)
    # The drawn spin is about the world's axes; the world takes it in the base frame.
    close(ang_vel_b[0], expected.T @ torch.tensor([0.2, 0.4, -0.6]).double())


def test_reset_of_the_joints_scales_the_default_pose_within_soft_limits(world):
    events.reset_joints_by_scale(world, IDS, (0.5, 1.5))
    _, pos, vel = world.written["joint_state"]
    assert not vel.any() and pos.shape == vel.shape == (3, 12)
    assert not pos[:, ::3].any()  # HAA: zero, whatever the factor
    spread(pos[:, 1] / 0.4, 0.5, 1.5)
    spread(pos[:, 2] / -0.8, 0.5, 1.5)
    narrow = TensorWorld(ANYMAL_C.replace(joint_limits=((-1.0, 1.0),) * 12, soft_joint_pos_limit_factor=0.5), 4)
    events.reset_joints_by_scale(narrow, torch.arange(4), (1.4, 1.5))
    _, pos, _ = narrow.written["joint_state"]
    close(pos[:, 2], [-0.5] * 4)  # -0.8 x 1.4 is beyond the soft limit
    close(pos[:, 5], [0.5] * 4)


def test_a_push_is_in_the_world_frame(world):
    events.push_by_setting_velocity(world, IDS, {"x": (-0.5, 0.5), "y": (0.1, 0.5), "yaw": (0.2, 0.3)})
    _, lin, ang = world.written["root_velocity"]
    spread(lin[:, 0], -0.5, 0.5)
    spread(lin[:, 1], 0.1, 0.5)
    close(lin[:, 2], [0.0] * 3)
    close(ang[:, :2], torch.zeros(3, 2))
    spread(ang[:, 2], 0.2, 0.3)


def test_draws_come_from_the_world_s_generator_alone():
    first, second = TensorWorld(ANYMAL_C, 4, seed=7), TensorWorld(ANYMAL_C, 4, seed=7)
    torch.manual_seed(0)
    events.randomize_motor_strength(first, torch.arange(4), (0.9, 1.1))
    torch.manual_seed(1)
    events.randomize_motor_strength(second, torch.arange(4), (0.9, 1.1))
    assert torch.equal(first.written["motor_strength"][1], second.written["motor_strength"][1])
