"""The terrain curriculum's three outcomes, and commands that grow."""

from dataclasses import replace

import pytest
import torch
from gaitway_tasks.mdp.curriculums import CommandGrowth, terrain_levels_vel, ungrown
from gaitway_tasks.robots import ANYMAL_C, GO2
from gaitway_tasks.spec import Curriculum
from gaitway_tasks.velocity import velocity_flat
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


GROWTH = Curriculum(func=CommandGrowth, params={"command_name": "base_velocity", "share": 0.5, "steps": 100})


def follow(world, growth, share, steps):
    """Let robots go at a share of the speed asked, and one of them restart at every step."""
    world.commands["base_velocity"] = torch.tensor(
        [[0.8, 0.0, 0.0], [0.0, -0.5, 0.0], [0.0, 0.0, 1.0], [0.1, 0.0, 0.0]]
    )
    world.robot.root_lin_vel_b = share * torch.cat((world.commands["base_velocity"][:, :2], torch.zeros(4, 1)), 1)
    for _ in range(steps):
        world.episode_step = world.episode_step + 1
        growth(world, torch.tensor([3]), **GROWTH.params)
        world.episode_step[3] = 0
    return float(growth.level)


def test_commands_grow_with_success_and_never_shrink():
    world = TensorWorld(ANYMAL_C, 4)
    growth = CommandGrowth(GROWTH, world)
    assert follow(world, growth, 0.0, 300) == 0.0 and float(growth.error) > 0.99  # standing still is no success
    level = follow(world, growth, 0.8, 150)  # the error of .2 is below a half after about 100 steps
    assert 0.3 < level < 0.7
    assert follow(world, growth, 0.0, 50) >= level
    assert follow(world, growth, 0.8, 500) == 1.0
    assert world.growth is growth.level


def test_what_has_a_start_grows_after_the_commands():
    world = TensorWorld(ANYMAL_C, 4)
    growth = CommandGrowth(GROWTH, world)
    growth.error.zero_()
    then = replace(GROWTH, params={**GROWTH.params, "then": 40})
    for step in range(1, 151):
        world.commands["base_velocity"] = world.robot.root_lin_vel_b = torch.tensor([[1.0, 0.0, 0.0]]).repeat(4, 1)
        world.episode_step = world.episode_step + 1
        growth(world, torch.tensor([step % 4]), **then.params)
        world.episode_step[step % 4] = 0
        if step == 100:
            assert float(growth.level) == pytest.approx(1.0) and float(world.style) == 0.0
        if step == 120:
            assert float(world.style) == pytest.approx(0.5, abs=0.03)
    assert float(world.style) == 1.0


def test_the_pace_does_not_depend_on_how_often_episodes_end():
    levels = []
    for between in (1, 5):
        world = TensorWorld(ANYMAL_C, 4)
        growth = CommandGrowth(GROWTH, world)
        growth.error.zero_()
        world.commands["base_velocity"] = torch.tensor([[1.0, 0.0, 0.0]]).repeat(4, 1)
        world.robot.root_lin_vel_b = torch.tensor([[1.0, 0.0, 0.0]]).repeat(4, 1)
        for step in range(1, 51):
            world.episode_step = world.episode_step + 1
            if step % between == 0:
                growth(world, torch.tensor([step % 4]), **GROWTH.params)
                world.episode_step[step % 4] = 0
        levels.append(float(growth.level))
    assert levels == pytest.approx([0.5, 0.5])


def test_evaluations_have_whole_commands():
    task = velocity_flat(GO2)
    grows = task.replace(curriculum={"command_growth": GROWTH})
    assert ungrown(grows).curriculum == {} and ungrown(task) is task
