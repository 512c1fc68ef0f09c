"""Terms about objects, on states that a test writes down."""

from types import SimpleNamespace

import pytest
import torch
from gaitway_tasks.mdp import objects
from gaitway_tasks.robots import FRANKA
from tensor_world import TensorWorld

N, HAND, COMMAND = 5, "panda_hand", "object_pose"


@pytest.fixture
def world():
    """Bases that are turned and shifted, hands that point down, and objects at random places."""
    world = TensorWorld(FRANKA, N).randomize(0)
    random = torch.Generator().manual_seed(1)
    world.robot.body_quat_wxyz = torch.zeros(N, len(FRANKA.body_names), 4)
    world.robot.body_quat_wxyz[..., 1] = 1.0  # half a turn about x
    world.objects["object"] = SimpleNamespace(
        root_pos_w=torch.rand(N, 3, generator=random), default_pos=torch.tensor([0.5, 0.0, 0.055])
    )
    world.commands[COMMAND] = torch.rand(N, 6, generator=random)
    return world


def test_where_an_object_is_and_how_far_from_its_goal(world):
    place = objects.object_position_in_robot_root_frame(world)
    away = world.objects["object"].root_pos_w - world.robot.root_pos_w
    torch.testing.assert_close(place.norm(dim=1), away.norm(dim=1))
    error = objects.object_position_error(world, COMMAND)
    torch.testing.assert_close(error + place, world.commands[COMMAND][:, :3])
    torch.testing.assert_close(objects.goal_distance(world, COMMAND), error.norm(dim=1))


def test_rewards(world):
    hand = world.robot.body_pos_w[:, FRANKA.body_ids(HAND)[0]]
    tip = hand - torch.tensor([0.0, 0.0, objects.TIP])
    distance = (world.objects["object"].root_pos_w - tip).norm(dim=1)
    torch.testing.assert_close(objects.object_ee_distance(world, 0.1, HAND), 1.0 - torch.tanh(distance / 0.1))
    height = world.objects["object"].root_pos_w[:, 2]
    middle = float(height.median())
    lifted = objects.object_is_lifted(world, middle)
    assert lifted.sum() == 2 and (lifted == (height > middle)).all()
    near = 1.0 - torch.tanh(objects.goal_distance(world, COMMAND) / 0.3)
    torch.testing.assert_close(objects.object_goal_distance(world, 0.3, middle, COMMAND), lifted * near)
    assert (objects.object_height_below_minimum(world, middle) == (height < middle)).all()


def test_the_encoders_tell_where_the_fingertips_are(world):
    """With the arm in a pose whose hand is known, of a base at the origin."""
    rest = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(N, 1)
    world.set_root(rest, torch.zeros(N, 3), torch.zeros(N, 3), torch.zeros(N, 3))
    world.robot.joint_pos = torch.tensor([0.0, -0.255, 0.0, -2.438, 0.0, 2.183, 0.785, 0.0, 0.0]).repeat(N, 1)
    way = objects.measured_object_distance(world, HAND)
    tip = torch.tensor([0.45, 0.0, 0.4 - objects.TIP])  # the command's rest of reaching
    torch.testing.assert_close(way, world.objects["object"].root_pos_w - tip, atol=2e-3, rtol=0.0)
    tilt = objects.measured_tilt(world, HAND)
    assert (tilt[:, 1:].abs() < 2e-3).all()
    world.robot.joint_pos[:, 5] += 0.2
    turned = objects.measured_tilt(world, HAND)[:, 1:].norm(dim=1)
    torch.testing.assert_close(turned, torch.full((N,), 0.1), atol=3e-3, rtol=0.0)


def test_objects_are_reset_at_their_place(world):
    ids = torch.arange(3)
    ranges = {"x": (-0.1, 0.1), "y": (0.2, 0.3)}
    objects.reset_object_state_uniform(world, ids, ranges, {"z": (1.0, 1.0)})
    rows, name, place, quat, velocity, turning = world.written["object_state"]
    assert rows is ids and name == "object" and (quat == torch.tensor([1.0, 0.0, 0.0, 0.0])).all()
    way = place - world.objects["object"].default_pos
    assert (way[:, 0].abs() <= 0.1).all() and way[:, 0].std() > 0.0 and ((way[:, 1] - 0.25).abs() <= 0.05).all()
    assert (way[:, 2] == 0.0).all() and (velocity == torch.tensor([0.0, 0.0, 1.0])).all() and not turning.any()
    objects.scale_object_mass(world, ids, (0.5, 2.0))
    _, _, factor = world.written["object_mass_scale"]
    assert ((factor >= 0.5) & (factor <= 2.0)).all() and factor.std() > 0.0
