"""Tiles in MuJoCo: what robots stand on, what terms are told, and what a curriculum changes."""

import numpy as np
import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_tasks.mdp import curriculums, rewards, terminations
from gaitway_tasks.spec import Curriculum, HeightScanner, Reward, Termination
from gaitway_tasks.terrain import SubTerrain, TerrainGenerator, Tiles
from quiet import quiet_task
from rays import height_of, placed
from terrain_kinds import PARAMS

ALL, N = torch.arange(8), 8
COLUMNS = ("pyramid_stairs", "random_grid", "random_uniform", "inverted_pyramid_slope")
LEVELS = {"levels": Curriculum(func=curriculums.terrain_levels_vel, params={"command_name": "base_velocity"})}
HALF = 3.0


def tiles(seed=0, kinds=COLUMNS, max_init_level=1):
    subs = {kind: SubTerrain(kind=kind, proportion=1.0, params=PARAMS[kind]) for kind in kinds}
    generator = TerrainGenerator(
        sub_terrains=subs, size=(2 * HALF, 2 * HALF), num_rows=3, num_cols=4, border_width=1.0, seed=seed
    )
    return Tiles(generator=generator, max_init_level=max_init_level)


def make(ground=None, **changes):
    task = quiet_task("velocity-rough-anymal-c", ground=ground or tiles(), **{"curriculum": LEVELS, **changes})
    env = make_env(task, N, num_threads=1)
    env.reset()
    return env


@pytest.fixture(scope="module")
def env():
    """Environments in several rows, two of each kind."""
    env = make()
    ground = env.world.ground
    ground.move(ALL, ALL % 3 == 0, ALL < 0)
    env.reset()
    return env


def place(env, xy):
    """Robots in their default pose at ``xy`` (N, 2) [m] on the tile that each stands on."""
    world = env.world
    pos = torch.cat((xy, world.ground.height(xy)[:, None] + world.spec.init_height), 1)
    upright, zero = torch.tensor([[1.0, 0.0, 0.0, 0.0]]).repeat(N, 1), torch.zeros(N, 3)
    world.write_root_state(ALL, pos, upright, zero, zero)
    world.write_joint_state(ALL, world.default_joint_pos.expand(N, -1), 0.0 * world.default_joint_pos.expand(N, -1))
    world.finish_events()


def test_heights_are_what_the_robots_stand_on(env):
    world, rng = env.world, np.random.default_rng(0)
    points = rng.uniform(-HALF - 0.95, HALF + 0.95, (N, 60, 2))
    found = world.ground.height(torch.tensor(points, dtype=torch.float32)).numpy()
    for n in range(N):
        rays = height_of(placed(world.batch.get_model(n)), points[n])
        np.testing.assert_allclose(found[n], rays, atol=2e-5)
    assert len(np.unique(np.asarray(world.batch.expand("geom_dataid"))[:, world.model.geom("ground").id])) > 4


def test_robots_start_on_the_middle_of_their_tile(env):
    ground, generated = env.world.ground, tiles().generator.tiles()
    origin = ground.origin(ALL)
    for n in range(N):
        tile = generated[int(ground.level[n])][n * 4 // N]
        np.testing.assert_allclose(origin[n], [0.0, 0.0, tile.origin], atol=1e-6)
    z = env.world.robot.root_pos_w[:, 2]
    torch.testing.assert_close(z, origin[:, 2] + env.world.spec.init_height)
    off = ground.origin(ALL, torch.tensor([[2.0, -1.5]]).repeat(N, 1))
    torch.testing.assert_close(off[:, 2], ground.height(off[:, :2]))


def test_scan_reward_and_fall_are_relative_to_the_ground():
    low = Termination(func=terminations.root_height_below_minimum, params={"minimum_height": 0.3})
    height = Reward(func=rewards.base_height_l2, weight=1.0, params={"target_height": 0.0})
    env = make(tiles(kinds=("pyramid_slope",)), terminations={"low": low}, rewards={"height": height})
    place(env, torch.zeros(N, 2))
    world = env.world
    scan = world.height_scan("height_scanner")
    torch.testing.assert_close(scan[:, scan.shape[1] // 2], torch.full((N,), world.spec.init_height), atol=1e-5, rtol=0)
    for _ in range(25):
        _, reward, terminated, _, _ = env.step(torch.zeros(N, world.spec.num_joints))
    assert not terminated.any() and (reward - reward[0]).abs().max() < 2e-2 * reward[0]
    heights = world.ground.above(world.robot.root_pos_w)
    torch.testing.assert_close(reward, heights.square() * env.world.step_dt, rtol=1e-4, atol=0.0)
    assert world.ground.height(torch.zeros(N, 2)).unique().numel() > 1


def test_who_leaves_a_tile_comes_in_on_its_other_side(env):
    world, ground = env.world, env.world.ground
    env.reset()
    xy = torch.zeros(N, 2)
    xy[0], xy[1], xy[2] = torch.tensor([HALF - 0.01, 0.5]), torch.tensor([0.2, -HALF + 0.01]), torch.full((2,), HALF)
    place(env, xy)
    velocity = torch.zeros(N, 3)
    velocity[0, 0], velocity[1, 1], velocity[2, :2] = 2.0, -2.0, 2.0
    world.add_root_velocity(ALL, velocity, torch.zeros(N, 3))
    world.finish_events()
    env.step(torch.zeros(N, world.spec.num_joints))
    pos = world.robot.root_pos_w[:, :2]
    assert pos[0, 0] < -HALF + 0.1 and abs(pos[0, 1] - 0.5) < 0.1
    assert pos[1, 1] > HALF - 0.1 and (pos[2] < -HALF + 0.1).all() and (pos[3:].abs() < 0.1).all()
    went = pos - ground.origin(ALL)[:, :2]
    torch.testing.assert_close(went[:3], xy[:3], atol=0.1, rtol=0.0)
    start = ground.origin(ALL)
    assert (start[:3, :2].abs().amax(1) > HALF).all() and (start[3:, :2] == 0.0).all()
    before = ground.level.clone()
    curriculums.terrain_levels_vel(world, ALL[:3], "base_velocity")  # more than half a tile, though each is back
    moved = ground.level - before
    assert ((moved == 1) | (before == 2))[:3].all() and (moved[3:] == 0).all()
    env.reset()
    torch.testing.assert_close(ground.origin(ALL)[:, :2], torch.zeros(N, 2))


def test_rows_up_down_and_anywhere_past_the_last():
    env = make()
    ground, none = env.world.ground, ALL < 0
    assert int(ground.level.max()) <= 1  # max_init_level
    ground.level[:] = 0
    ground.move(ALL, none, ~none)
    assert (ground.level == 0).all()
    ground.move(ALL[2:], ~none[2:], none[2:])
    assert ground.level.tolist() == [0, 0, *[1] * 6]
    found = set()
    for _ in range(8):
        ground.level[:] = 2
        ground.move(ALL, ~none, none)
        found |= set(ground.level.tolist())
    assert found == {0, 1, 2}


def test_where_environments_may_start():
    assert set(make(tiles(max_init_level=0)).world.ground.level.tolist()) == {0}
    assert int(make(tiles(max_init_level=None)).world.ground.level.max()) == 2
    for wrong in (-1, 3):
        with pytest.raises(ValueError, match=f"max_init_level {wrong}: there are the rows 0 to 2"):
            tiles(max_init_level=wrong)


def test_a_checkpoint_goes_on_exactly_and_on_these_tiles_only(env):
    env.reset()
    world, action = env.world, torch.zeros(N, env.world.spec.num_joints)
    xy = torch.full((N, 2), HALF - 0.005)
    place(env, xy)
    world.add_root_velocity(ALL, torch.tensor([[1.0, 1.0, 0.0]]).repeat(N, 1), torch.zeros(N, 3))
    world.finish_events()
    for _ in range(3):
        env.step(action)
    state = env.state_dict()
    other = make()
    other.load_state_dict(state)
    assert torch.equal(other.world.ground.level, world.ground.level)
    torch.testing.assert_close(other.world.ground.origin(ALL), world.ground.origin(ALL), atol=0.0, rtol=0.0)
    assert (world.ground.origin(ALL)[:, :2].abs() > HALF).all()  # they were over the edge
    for _ in range(5):
        ours, theirs = env.step(action), other.step(action)
        assert torch.equal(ours[1], theirs[1])
    assert torch.equal(world.robot.root_pos_w, other.world.robot.root_pos_w)
    with pytest.raises(ValueError, match=r"other tiles.*generator\.seed"):
        make(tiles(seed=1)).load_state_dict(state)
    with pytest.raises(ValueError, match="ask the ground of a world"):
        tiles().height(torch.zeros(1, 2))


def test_a_scan_that_would_leave_the_tile_is_refused():
    far = {"height_scanner": HeightScanner(resolution=0.2, size=(2.0, 2.0))}
    with pytest.raises(ValueError, match=r"'height_scanner' looks 1\.41 m far.* make task\.height_scanners"):
        make(height_scanners=far)


def test_holes_are_isaac_lab_s():
    params = {**PARAMS["pyramid_stairs"], "holes": True}
    generator = TerrainGenerator(sub_terrains={"s": SubTerrain(kind="pyramid_stairs", proportion=1.0, params=params)})
    with pytest.raises(ValueError, match="holes=false, or --world isaaclab"):
        make(Tiles(generator=generator))
