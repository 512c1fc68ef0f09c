"""Commands, events and the curriculum against Isaac Lab's, with every random draw pinned to the same value."""

import types

import pytest
import torch
from gaitway_isaaclab.world import IsaacLabWorld
from gaitway_tasks.managers import EventManager
from gaitway_tasks.mdp import events
from gaitway_tasks.mdp.commands import VelocityCommandGenerator
from gaitway_tasks.mdp.curriculums import terrain_levels_vel
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import Event
from gaitway_tasks.velocity import velocity_flat
from isaac_side import JOINTS, TO_ISAAC, isaac_env
from isaaclab.envs import mdp as isaac_mdp
from isaaclab.managers import EventManager as IsaacEventManager
from isaaclab.managers import EventTermCfg
from isaaclab.terrains import TerrainImporter
from isaaclab_tasks.manager_based.locomotion.velocity import mdp as isaac_velocity
from isaaclab_tasks.manager_based.locomotion.velocity.config.anymal_c.flat_env_cfg import AnymalCFlatEnvCfg
from tensor_world import TensorWorld, close, rotation_matrix

TASK = velocity_flat(ANYMAL_C)
N = 200
ALL = torch.arange(N)


@pytest.fixture
def world():
    return TensorWorld(ANYMAL_C, N).randomize(0)


def isaac_command(env):
    cfg = AnymalCFlatEnvCfg().commands.base_velocity
    cfg.debug_vis = False
    return isaac_mdp.UniformVelocityCommand(cfg, env)


def test_heading_and_standing(world):
    theirs = isaac_command(isaac_env(world))
    ours = VelocityCommandGenerator(TASK.commands["base_velocity"], world, world.generator)
    ours.resample(ALL)
    ours.is_standing[::7] = True
    ours.is_heading[::3] = False
    theirs.vel_command_b[:] = ours.command
    theirs.heading_target[:] = ours.heading_target
    theirs.is_heading_env[:], theirs.is_standing_env[:] = ours.is_heading, ours.is_standing
    theirs._update_command()
    ours.follow()
    close(ours.command, theirs.command, 1e-5)
    clipped = (theirs.command[:, 2].abs() == 1.0).sum()
    assert 0 < clipped < N and (theirs.command == 0).all(1).any()


def test_resampled_commands_have_the_same_distribution():
    n = 20_000
    world = TensorWorld(ANYMAL_C, n)
    theirs = isaac_command(isaac_env(world))
    ours = VelocityCommandGenerator(TASK.commands["base_velocity"], world, world.generator)
    torch.manual_seed(0)
    theirs._resample(torch.arange(n))
    ours.resample(torch.arange(n))
    quantiles = torch.linspace(0.0, 1.0, 11)
    for mine, reference in (
        *zip(ours.command.T, theirs.vel_command_b.T, strict=True),
        (ours.heading_target, theirs.heading_target),
        (ours.time_left, theirs.time_left),
        (ours.is_standing.float(), theirs.is_standing_env.float()),
        (ours.is_heading.float(), theirs.is_heading_env.float()),
    ):
        span = float(reference.max() - reference.min()) or 1.0
        assert abs(mine.mean() - reference.mean()) < 0.02 * span
        close(mine.quantile(quantiles) / span, reference.quantile(quantiles) / span, 0.03)


def test_commands_are_resampled_in_the_same_steps(world):
    theirs = isaac_command(isaac_env(world))
    ours = VelocityCommandGenerator(TASK.commands["base_velocity"], world, world.generator)
    ours.time_left = 2.0 * torch.rand(N, generator=world.generator)
    theirs.time_left[:] = ours.time_left
    for _ in range(100):
        before = ours.time_left.clone(), theirs.time_left.clone()
        ours.step(0.02)
        theirs.compute(0.02)
        assert torch.equal(ours.time_left > before[0], theirs.time_left > before[1])


def test_interval_events_fire_in_the_same_steps(world):
    fired = {"ours": [], "theirs": []}
    draws = (0.3, 0.3)
    ours = EventManager(
        TASK.replace(
            events={
                "push": Event(
                    func=lambda w, ids: fired["ours"].append(ids.tolist()), mode="interval", interval_range_s=draws
                )
            }
        ),
        world,
    )

    def record(env, env_ids):
        fired["theirs"].append(env_ids.tolist())

    theirs = IsaacEventManager(
        {"push": EventTermCfg(func=record, mode="interval", interval_range_s=draws)}, isaac_env(world)
    )
    timers = 2.0 * torch.rand(N, generator=world.generator)
    ours.timers["push"][:] = timers
    theirs._interval_term_time_left[0][:] = timers
    steps = {"ours": [], "theirs": []}
    for step in range(200):
        for name, advance in (
            ("ours", lambda: ours.step(0.02)),
            ("theirs", lambda: theirs.apply("interval", dt=0.02)),
        ):
            fired[name].clear()
            advance()
            steps[name] += [(step, ids) for ids in fired[name]]
    assert steps["ours"] == steps["theirs"] and len(steps["ours"]) > 100


def pinned(**values):
    return {name: (value, value) for name, value in values.items()}


def test_reset_of_the_base(world):
    env = isaac_env(world)
    pose = pinned(x=0.3, y=-0.2, z=0.05, roll=0.2, pitch=-0.4, yaw=1.9)
    velocity = pinned(x=0.5, y=-0.1, z=0.2, roll=0.3, pitch=-0.4, yaw=0.45)
    ids = torch.tensor([4, 9])
    isaac_mdp.reset_root_state_uniform(env, ids, pose, velocity)
    events.reset_root_state_uniform(world, ids, pose, velocity)
    _, pos, quat, lin_vel_w, ang_vel_b = world.written["root_state"]
    written = env.scene["robot"].written
    close(torch.cat((pos, quat), 1), written["root_pose"])
    ang_vel_w = (rotation_matrix(quat).float() @ ang_vel_b[..., None])[..., 0]
    close(torch.cat((lin_vel_w, ang_vel_w), 1), written["root_velocity"])


@pytest.mark.parametrize("factor", [0.5, 1.5, 30.0])  # the last is beyond the soft limits
def test_reset_of_the_joints(world, factor):
    env = isaac_env(world)
    isaac_mdp.reset_joints_by_scale(env, ALL, (factor, factor), (0.0, 0.0))
    events.reset_joints_by_scale(world, ALL, (factor, factor))
    _, pos, vel = world.written["joint_state"]
    assert torch.equal(pos[:, TO_ISAAC], env.scene["robot"].written["joint_pos"])
    assert torch.equal(vel[:, TO_ISAAC], env.scene["robot"].written["joint_vel"])


def test_push(world):
    env = isaac_env(world)
    before = env.scene["robot"].data.root_vel_w.clone()
    velocity = pinned(x=0.5, y=-0.25, yaw=0.1)
    isaac_mdp.push_by_setting_velocity(env, ALL, velocity)
    events.push_by_setting_velocity(world, ALL, velocity)
    _, lin, ang = world.written["root_velocity"]
    close(before + torch.cat((lin, ang), 1), env.scene["robot"].written["root_velocity"])


def climbing(world, env):
    """Isaac Lab's own bookkeeping of terrain levels; its constructor would build meshes in a simulator."""
    g = torch.Generator().manual_seed(1)
    terrain = types.SimpleNamespace(
        cfg=types.SimpleNamespace(terrain_generator=types.SimpleNamespace(size=(8.0, 8.0))),
        terrain_levels=torch.randint(0, 9, (N,), generator=g),  # below the top, whose successor is random
        max_terrain_level=10,
        terrain_types=torch.zeros(N, dtype=torch.int64),
        terrain_origins=torch.zeros(10, 1, 3),
        env_origins=torch.zeros(N, 3),
    )
    terrain.update_env_origins = types.MethodType(TerrainImporter.update_env_origins, terrain)
    env.scene.terrain = terrain
    return env


def test_terrain_curriculum(world):
    world.robot.root_pos_w = 6.0 * torch.randn(N, 3, generator=torch.Generator().manual_seed(1))
    world.commands["base_velocity"] *= 0.5
    theirs, ours = climbing(world, isaac_env(world)), climbing(world, isaac_env(world))
    ids = torch.arange(0, N, 2)
    before = theirs.scene.terrain.terrain_levels.clone()
    expected = isaac_velocity.terrain_levels_vel(theirs, ids)
    value = terrain_levels_vel(IsaacLabWorld(ours, ANYMAL_C), ids, "base_velocity")
    assert torch.equal(ours.scene.terrain.terrain_levels, theirs.scene.terrain.terrain_levels)
    close(value, expected)
    moves = theirs.scene.terrain.terrain_levels - before
    assert (moves == 1).any() and (moves == -1).any() and (moves[ids] == 0).any() and not moves[1::2].any()


def test_joint_order_differs_so_that_these_tests_mean_something():
    assert tuple(JOINTS) != ANYMAL_C.joint_names and set(JOINTS) == set(ANYMAL_C.joint_names)
