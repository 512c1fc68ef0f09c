"""Isaac Lab's managers running Gaitway's configurations give the numbers that they give running Isaac Lab's own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import gaitway_isaaclab
import pytest
import torch
from gaitway_isaaclab.compat import IsaacLabError
from gaitway_isaaclab.world import IsaacLabWorld, world_of
from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.managers import ObservationManager as OurObservationManager
from gaitway_tasks.mdp.curriculums import CommandGrowth
from gaitway_tasks.mdp.events import randomize_action_delay
from gaitway_tasks.mdp.rewards import ang_vel_xy_l2, track_mean_ang_vel_z_exp
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import Curriculum, Event, Reward
from gpu_work import GpuWork
from isaac_side import BODIES, JOINTS, TO_ISAAC, gaitway_env, isaac_env, layout
from isaaclab.managers import CurriculumManager, ObservationManager, RewardManager, TerminationManager
from stock_tasks import STOCK, stock_cfg
from tensor_world import TensorWorld, close

N = 256
FLAT, BLIND = "velocity-flat-anymal-c", "velocity-flat-anymal-c-blind"


def our_cfg(task_name):
    return gaitway_isaaclab.env_cfg(get_task(task_name), N, "cpu", asset="nucleus")


def stock(task_name):
    _, ground, robot = task_name.split("-", 2)
    return stock_cfg(robot, ground)


@pytest.fixture(scope="module", params=STOCK)
def pair(request):
    """``(task name, our environment, Isaac Lab's)`` in the same random state."""
    world = TensorWorld(get_task(request.param).robot, N).randomize(2)
    ours, theirs = gaitway_env(world, our_cfg(request.param)), isaac_env(world)
    hits = world.robot.root_pos_w[:, None].repeat(1, 187, 1)
    hits[..., 2] -= 0.5 + torch.randn(N, 187, generator=torch.Generator().manual_seed(3))  # a third is clipped
    scanner = SimpleNamespace(data=SimpleNamespace(pos_w=world.robot.root_pos_w, ray_hits_w=hits))
    for env in (ours, theirs):
        env.scene.sensors["height_scanner"] = env.scene["height_scanner"] = scanner
    return request.param, ours, theirs


def test_rewards_term_by_term(pair):
    name, ours, theirs = pair
    ours_manager = RewardManager(our_cfg(name).rewards, ours)
    theirs_manager = RewardManager(stock(name).rewards, theirs)
    close(ours_manager.compute(0.02), theirs_manager.compute(0.02), 2e-6)
    assert sorted(ours_manager.active_terms) == sorted(theirs_manager.active_terms)
    for column, term in enumerate(ours_manager.active_terms):
        weight = ours_manager.get_term_cfg(term).weight
        assert weight == theirs_manager.get_term_cfg(term).weight
        expected = theirs_manager._step_reward[:, theirs_manager.active_terms.index(term)]
        assert (expected.unique().numel() > 1) == (weight != 0.0), f"the states do not exercise {term}"
        close(ours_manager._step_reward[:, column], expected, 1e-5)


def test_terminations(pair):
    name, ours, theirs = pair
    ours_manager = TerminationManager(our_cfg(name).terminations, ours)
    theirs_manager = TerminationManager(stock(name).terminations, theirs)
    assert torch.equal(ours_manager.compute(), theirs_manager.compute())
    assert torch.equal(ours_manager.terminated, theirs_manager.terminated)
    assert torch.equal(ours_manager.time_outs, theirs_manager.time_outs)
    assert 0 < ours_manager.terminated.sum() < N and 0 < ours_manager.time_outs.sum() < N


def test_observations(pair):
    name, ours, theirs = pair
    cfg, stock_group = our_cfg(name).observations, stock(name).observations
    cfg.policy.enable_corruption = stock_group.policy.enable_corruption = False
    ours_manager, theirs_manager = ObservationManager(cfg, ours), ObservationManager(stock_group, theirs)
    terms, robot = ours_manager.active_terms["policy"], get_task(name).robot
    assert terms == theirs_manager.active_terms["policy"]
    value, expected, start = ours_manager.compute()["policy"], theirs_manager.compute()["policy"], 0
    assert value.shape == expected.shape == (N, 12 + 3 * robot.num_joints + 187 * ("rough" in name))
    for term, (width,) in zip(terms, theirs_manager.group_obs_term_dim["policy"], strict=True):
        mine, isaac_lab_s = value[:, start : start + width], expected[:, start : start + width]
        in_our_order = isaac_lab_s[:, layout(robot).to_ours] if term in ("joint_pos", "joint_vel", "actions") else None
        assert torch.equal(mine, isaac_lab_s if in_our_order is None else in_our_order), term
        start += width
    if "rough" in name:
        clipped = (expected[:, -187:].abs() == 1.0).float().mean()
        assert 0.2 < clipped < 0.5


def test_noise_is_drawn_by_isaac_lab(pair):
    name, ours, theirs = pair
    values = []
    for env, cfg in ((ours, our_cfg(name).observations), (theirs, stock(name).observations)):
        manager = ObservationManager(cfg, env)
        torch.manual_seed(5)
        noisy = manager.compute()["policy"]
        cfg.policy.enable_corruption = False
        values.append(noisy - ObservationManager(cfg, env).compute()["policy"])
    # The same draws fall on other joints, so the sorted noise of every term is the same.
    close(values[0].sort(1).values, values[1].sort(1).values, 1e-5)
    assert values[0].abs().max() > 1.4


def test_history_and_critic_are_those_of_gaitway_s_own_manager():
    """Isaac Lab's manager on the blind task's groups, against Gaitway's, which the bundle's runtime mirrors."""
    task, states = get_task(BLIND), [TensorWorld(ANYMAL_C, 6).randomize(seed) for seed in range(10)]
    world = TensorWorld(ANYMAL_C, 6)
    cfg = gaitway_isaaclab.env_cfg(task, 6, "cpu", asset="nucleus")
    cfg.observations.policy.enable_corruption = False
    env = gaitway_env(states[0], cfg)
    theirs = ObservationManager(cfg.observations, env)
    quiet = {name: OurObservationManager(_clean(group), world, world.generator) for name, group in groups(task)}
    resets = {0: range(6), 4: [1, 5], 5: [5]}
    for step, state in enumerate(states):
        world.robot, world.action, world.commands = state.robot, state.action, state.commands
        del env._gaitway_world
        vars(env).update(vars(gaitway_env(state, cfg)))
        first = torch.tensor(list(resets.get(step, [])), dtype=torch.int64)
        if len(first):
            theirs.reset(first)
        computed = theirs.compute(update_history=True)
        for name, manager in quiet.items():
            assert torch.equal(manager.append(manager.frame(), first), computed[name]), f"{name}, step {step}"
    assert computed["policy"].shape == (6, 8 * 45) and computed["critic"].shape == (6, 48)


def groups(task):
    return task.observations.items()


def _clean(group):
    from dataclasses import replace

    return replace(group, enable_corruption=False)


# ---- terms with memory -----------------------------------------------------------------------------------------------


def growing_cfg(n):
    """ANYmal's flat task with commands and pushes that grow, and a reward of the mean yaw rate."""
    command = {"command_name": "base_velocity"}
    task = get_task(FLAT)
    mean = Reward(func=track_mean_ang_vel_z_exp, weight=2.0, params={"std": 0.5, "time": 0.1, **command})
    growth = Curriculum(func=CommandGrowth, params={"share": 0.5, "steps": 10, **command})
    task = task.replace(rewards={"mean": mean}, curriculum={"growth": growth})
    return gaitway_isaaclab.env_cfg(task, n, "cpu", asset="nucleus")


def test_a_class_of_ours_is_a_term_of_isaac_lab_s_managers_with_memory_and_resets():
    world, cfg = TensorWorld(ANYMAL_C, 4).randomize(0), growing_cfg(4)
    manager = RewardManager(cfg.rewards, gaitway_env(world, cfg))
    ours = track_mean_ang_vel_z_exp(None, world)
    for step in range(6):
        if step == 3:
            manager.reset(torch.tensor([2]))
            ours.reset(torch.tensor([2]))
        expected = 2.0 * 0.02 * ours(world, 0.5, "base_velocity", 0.1)
        close(manager.compute(0.02), expected)
    manager.reset(None)
    ours.reset(torch.arange(4))
    close(manager.compute(0.02), 2.0 * 0.02 * ours(world, 0.5, "base_velocity", 0.1))


def test_a_reward_with_a_start_grows():
    world = TensorWorld(ANYMAL_C, 4).randomize(0)
    task = get_task(FLAT).replace(rewards={"roll": Reward(func=ang_vel_xy_l2, weight=1.0, params={"start": 0.2})})
    cfg = gaitway_isaaclab.env_cfg(task, 4, "cpu", asset="nucleus")
    env = gaitway_env(world, cfg)
    manager = RewardManager(cfg.rewards, env)
    whole = ang_vel_xy_l2(world)
    close(manager.compute(1.0), whole)
    world_of(env).style = torch.tensor(0.5)
    close(manager.compute(1.0), 0.6 * whole)


def test_commands_and_pushes_grow_in_isaac_lab():
    n = 2000
    world, cfg = TensorWorld(ANYMAL_C, n).randomize(0), growing_cfg(n)
    env = gaitway_env(world, cfg)
    curriculum = CurriculumManager(cfg.curriculum, env)
    command = cfg.commands.base_velocity
    command.debug_vis, command.heading_command = False, False
    generator = command.class_type(command, env)
    generator._resample(torch.arange(n))
    forwards, *small = generator.command.unbind(1)
    assert forwards.min() >= 0.0 and all(part.abs().max() <= 0.2 + 1e-6 for part in small)
    push = cfg.events.push_robot
    push.func(env, torch.arange(n), **push.params)
    close(env.scene["robot"].written["root_velocity"], env.scene["robot"].data.root_vel_w)
    world.robot.root_lin_vel_b[:, :2] = world.commands["base_velocity"][:, :2]  # they go as they are told
    for _ in range(200):
        env.episode_length_buf += 1
        curriculum.compute(torch.tensor([0]))
    assert float(world_of(env).growth) == 1.0
    generator._resample(torch.arange(n))
    assert generator.command.min(0).values.max() < -0.9
    push.func(env, torch.arange(n), **push.params)
    pushed = env.scene["robot"].written["root_velocity"] - env.scene["robot"].data.root_vel_w
    assert pushed[:, :2].abs().max() > 0.45


# ---- actions ---------------------------------------------------------------------------------------------------------


def targets(cfg, env, actions):
    term = cfg.class_type(cfg, env)
    term.process_actions(actions)
    term.apply_actions()
    return env.scene["robot"].written["target"]


def test_the_same_joints_get_the_same_targets():
    world = TensorWorld(ANYMAL_C, N).randomize(4)
    cfg = our_cfg(FLAT)
    ours = targets(cfg.actions.joint_pos, gaitway_env(world, cfg), world.action)
    theirs = targets(stock(FLAT).actions.joint_pos, isaac_env(world), world.action[:, TO_ISAAC])
    assert torch.equal(ours, theirs)
    close(ours, (world.default_joint_pos + 0.5 * world.action)[:, TO_ISAAC])


def test_targets_with_scales_offsets_and_clips_per_joint():
    world = TensorWorld(ANYMAL_C, N).randomize(4)
    action = JointPositionAction(
        scale={".*_HAA": 0.3, ".*_KFE": 0.7}, offset={"LF_.*": 0.1}, clip={".*_HFE": (-0.5, 0.4)}, raw_clip=0.9
    )
    task = get_task(FLAT).replace(actions=action)
    cfg = gaitway_isaaclab.env_cfg(task, N, "cpu", asset="nucleus")
    env = gaitway_env(world, cfg)
    value = targets(cfg.actions.joint_pos, env, world.action)
    clamped = world.action.clamp(-0.9, 0.9)
    expected = torch.tensor(action.offsets(ANYMAL_C)) + torch.tensor(action.scales(ANYMAL_C)) * clamped
    low, high = torch.tensor(action.clips(ANYMAL_C)).unbind(1)
    close(value, expected.clamp(low, high)[:, TO_ISAAC])
    assert torch.equal(world_of(env).action, clamped)
    assert torch.equal(world_of(env).previous_action, world.previous_action.clamp(-0.9, 0.9))


# ---- commands and delays ---------------------------------------------------------------------------------------------


def drawn_commands(n, **changes):
    """Isaac Lab's generator of the preset's commands with changes, after a draw for all environments."""
    command = replace(get_task(FLAT, "cpu").commands["base_velocity"], **changes)
    task = get_task(FLAT).replace(commands={"base_velocity": command})
    cfg = gaitway_isaaclab.env_cfg(task, n, "cpu", asset="nucleus").commands.base_velocity
    cfg.debug_vis = False
    generator = cfg.class_type(cfg, isaac_env(TensorWorld(ANYMAL_C, n)))
    torch.manual_seed(0)
    generator._resample(torch.arange(n))
    return generator


def test_commands_along_one_axis():
    share, standing = 0.3, 0.15
    generator = drawn_commands(20_000, rel_ends=0.0)
    assert generator.cfg.rel_zero_axis == share
    zero = generator.command == 0.0
    for axis in (0, 1):
        assert abs(zero[:, axis].float().mean() - share) < 0.02
    assert abs((zero[:, 0] & zero[:, 1]).float().mean() - share**2) < 0.02
    assert not zero[:, 2].any()
    generator._update_command()
    assert (generator.command == 0.0).all(1).float().mean() == pytest.approx(standing, abs=0.005)


def test_commands_at_the_ends_and_beyond_by_the_margin():
    """Of the ends' share three quarters ask each speed; of the others none is larger than its range and margin."""
    generator = drawn_commands(20_000, rel_ends=0.25, rel_zero_axis=0.0)
    ranges = generator.cfg.ranges
    assert (generator.command == 0.0).any(1).float().mean() == pytest.approx(0.25 * (1 - 0.75**3), abs=0.02)
    for axis, (low, high) in enumerate((ranges.lin_vel_x, ranges.lin_vel_y, ranges.ang_vel_z)):
        column = generator.command[:, axis]
        assert 1.05 * low > column.min() >= 1.1 * low - 1e-6 and 1.05 * high < column.max() <= 1.1 * high + 1e-6


OURS = ("class_type", "rel_zero_axis", "rel_ends", "margin")


@pytest.fixture
def commands():
    """Makes Isaac Lab's velocity command and ours, with the same settings and the same robots."""

    def make(n=64, **settings):
        from isaaclab.envs.mdp import UniformVelocityCommandCfg

        env = isaac_env(TensorWorld(ANYMAL_C, n).randomize(5))
        cfg = gaitway_isaaclab.env_cfg(get_task(FLAT), n, "cpu", asset="nucleus").commands.base_velocity
        cfg.debug_vis = False
        for name, value in settings.items():
            setattr(cfg, name, value)
        theirs = {name: value for name, value in vars(cfg).items() if name not in OURS}
        theirs = UniformVelocityCommandCfg(**theirs)
        return cfg.class_type(cfg, env), theirs.class_type(theirs, env)

    return make


def test_commands_are_drawn_and_followed_as_isaac_lab_does(commands):
    ours, theirs = commands(rel_standing_envs=0.3, rel_heading_envs=0.6)
    for generator in (ours, theirs):
        torch.manual_seed(3)
        generator.reset(torch.arange(64))
        before = torch.get_rng_state()
        for _ in range(40):  # less than the timers: nothing more is drawn
            generator.compute(0.02)
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(ours.command, theirs.command) and torch.equal(ours.time_left, theirs.time_left)
    assert ours.command.unique(dim=0).shape[0] > 30


def test_no_step_of_a_command_waits_for_the_device(commands):
    """Timers run out when Isaac Lab's do; the draws behind them are new each time, and of the same ranges."""
    ours, theirs = commands(resampling_time_range=(0.1, 0.1), rel_standing_envs=0.2)
    changes, work = 0, {ours: GpuWork(), theirs: GpuWork()}
    for generator in work:
        generator.reset(torch.arange(64))
    late = torch.arange(0, 64, 3)
    for step in range(1, 40):
        drawn = ours.heading_target.clone()
        for generator, counted in work.items():
            if step == 13:
                generator.reset(late)
            with counted:
                generator.compute(0.02)
        assert torch.equal(ours.time_left, theirs.time_left)
        assert torch.equal(ours.command_counter, theirs.command_counter)
        if step != 13:
            renewed = ours.heading_target != drawn
            assert torch.equal(renewed, ours.time_left > 0.09), step
            changes += int(renewed.sum())
    assert changes > 64 * 6 and len(work[theirs].waits) >= 3 * 39 and work[ours].waits == []
    low, high = ours.cfg.ranges.heading
    assert low <= ours.heading_target.min() < low + 0.3 and high - 0.3 < ours.heading_target.max() <= high


def test_late_targets_are_those_of_isaac_lab_s_delay_buffer_after_the_default_pose():
    from isaaclab.utils import DelayBuffer

    n = 64
    event = Event(func=randomize_action_delay, mode="reset", params={"delay_range": (0.001, 0.018)})
    task = get_task(FLAT).replace(events={"delay": event})
    whole = gaitway_isaaclab.env_cfg(task, n, "cpu", asset="nucleus")
    cfg, env = whole.actions.joint_pos, gaitway_env(TensorWorld(ANYMAL_C, n).randomize(4), whole)
    env.physics_dt = 0.005
    torch.manual_seed(1)
    term = cfg.class_type(cfg, env)
    late, reference = term._delay_line.steps_late, DelayBuffer(4, n, "cpu")
    assert set(late.tolist()) == {1, 2, 3, 4}  # whole steps, rounded up, as in MuJoCo
    reference.set_time_lag(late.int())
    actions, age = torch.randn(8, n, 12, generator=torch.Generator().manual_seed(0)), torch.zeros(n, dtype=torch.int64)
    default = term._rest()
    for step in range(32):  # of physics; an action holds for four
        if step == 21:
            rows = torch.arange(0, n, 3)
            before = late.clone()
            term.reset(rows)
            reference.set_time_lag(late[rows].int(), rows)
            reference.reset(rows)
            age[rows] = 0
            assert (late != before)[rows].any() and torch.equal(late[1::3], before[1::3])
        term.process_actions(actions[step // 4])
        asked = term.processed_actions.clone()
        term.apply_actions()
        expected = torch.where((age < late)[:, None], default, reference.compute(asked))
        assert torch.equal(env.scene["robot"].written["target"][:, term._joint_ids], expected), f"step {step}"
        assert torch.equal(term.processed_actions, asked)
        age += 1


# ---- the adapter -----------------------------------------------------------------------------------------------------


def test_one_world_for_each_environment():
    env = gaitway_env(TensorWorld(ANYMAL_C, 3), our_cfg(FLAT))
    assert world_of(env) is world_of(env)
    assert world_of(gaitway_env(TensorWorld(ANYMAL_C, 3), our_cfg(FLAT))) is not world_of(env)
    assert world_of(env).spec == ANYMAL_C


def test_names_that_the_simulated_robot_has_not():
    env = isaac_env(TensorWorld(ANYMAL_C, 3))
    env.scene["robot"].joint_names = [name.lower() for name in JOINTS]
    with pytest.raises(IsaacLabError, match=r"no joint LF_HAA, .*it has lf_haa"):
        IsaacLabWorld(env, ANYMAL_C)
    env = isaac_env(TensorWorld(ANYMAL_C, 3))
    env.scene["contact_forces"].body_names = BODIES[:-1]
    with pytest.raises(IsaacLabError, match="no contact sensor on body RH_FOOT"):
        IsaacLabWorld(env, ANYMAL_C)
