"""The terrain curriculum's three outcomes."""

import torch
from gaitway_tasks.mdp.curriculums import terrain_levels_vel
from gaitway_tasks.robots import ANYMAL_C
from tensor_world import TensorWorld, close


class Tiles:
    tile_size = 8.0

    def __init__(self, level):
        self.level = level

    def origin(self, env_ids):
        return torch.tensor([[10.0, -4.0, 0.0]]).repeat(len(env_ids), 1)

    def move(self, env_ids, up, down):
        self.level[env_ids] += up.long() - down.long()


def terrain_world(levels, distances, speed=0.5):
    world = TensorWorld(ANYMAL_C, len(levels))
    world.ground = Tiles(torch.tensor(levels))
    world.robot.root_pos_w = world.ground.origin(torch.arange(len(levels)))
    world.robot.root_pos_w[:, 1] += torch.tensor(distances)
    world.commands["base_velocity"] = torch.tensor([[0.0, speed, 1.0]]).repeat(len(levels), 1)
    return world


def test_who_fell_does_not_move_up_however_far_it_came():
    world = terrain_world([3, 3, 3, 3], [3.1, 3.1, 2.9, 0.9])
    world.terminated = torch.tensor([False, True, False, False])
    rule = {"reach": 0.375, "least": 0.1, "falls": True}  # 3 m of 8 m, and 1 m of the 10 m that are commanded
    terrain_levels_vel(world, torch.arange(4), "base_velocity", **rule)
    assert world.ground.level.tolist() == [4, 3, 3, 2]


def test_up_down_and_stay():
    # 0.5 m/s for 20 s is 10 m: below 5 m is too little, but beyond half a tile (4 m) is always enough.
    world = terrain_world([3, 3, 3, 3], [4.1, 4.0, 3.9, 0.0])
    mean = terrain_levels_vel(world, torch.arange(4), "base_velocity")
    assert world.ground.level.tolist() == [4, 2, 2, 2]
    close(mean, 2.5)
    world = terrain_world([3, 3], [1.0, 0.9], speed=0.1)  # 2 m commanded, so 1 m is half
    terrain_levels_vel(world, torch.arange(2), "base_velocity")
    assert world.ground.level.tolist() == [3, 2]


def test_only_the_given_environments_move():
    world = terrain_world([3, 3, 3], [5.0, 5.0, 5.0])
    terrain_levels_vel(world, torch.tensor([2]), "base_velocity")
    assert world.ground.level.tolist() == [3, 3, 4]


def test_what_counts_as_far_grows_with_the_tiles():
    world = terrain_world([3, 3], [4.1, 6.1])
    world.ground.tile_size = 12.0
    terrain_levels_vel(world, torch.arange(2), "base_velocity")
    assert world.ground.level.tolist() == [2, 4]
