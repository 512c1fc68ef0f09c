"""Every term of the velocity tasks, and Gaitway's managers, on the same states as Isaac Lab's.

Terms are called twice: on the states themselves, and on Isaac Lab's articulation and sensors through the adapter.
"""

from __future__ import annotations

import pytest
import torch
from gaitway_isaaclab.world import IsaacLabWorld
from gaitway_tasks.managers import ObservationManager, RewardManager, TerminationManager
from gaitway_tasks.mdp import observations, rewards, terminations
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import ObservationGroup
from gaitway_tasks.velocity import velocity_flat
from isaac_side import JOINTS, TO_OURS, gaitway_env, isaac_env
from isaaclab.envs import mdp as isaac_mdp
from isaaclab.managers import ObservationManager as IsaacObservationManager
from isaaclab.managers import RewardManager as IsaacRewardManager
from isaaclab.managers import SceneEntityCfg
from isaaclab.managers import TerminationManager as IsaacTerminationManager
from isaaclab_tasks.manager_based.locomotion.velocity import mdp as isaac_velocity
from isaaclab_tasks.manager_based.locomotion.velocity.config.anymal_c.flat_env_cfg import AnymalCFlatEnvCfg
from tensor_world import TensorWorld, close

N = 256
TASK = velocity_flat(ANYMAL_C)
CMD = "base_velocity"


@pytest.fixture(scope="module")
def world():
    world = TensorWorld(ANYMAL_C, N).randomize(0)
    # Rounding may make a gravity vector longer than one; Isaac Lab's acos then yields NaN, so keep it shorter.
    world.robot.projected_gravity_b = world.robot.projected_gravity_b * (1 - 1e-6)
    return world


@pytest.fixture(scope="module")
def env(world):
    return isaac_env(world)


@pytest.fixture(scope="module", params=["states", "adapter"])
def seen(request, world):
    """World that our terms are given."""
    return world if request.param == "states" else IsaacLabWorld(gaitway_env(world, None), ANYMAL_C)


def contacts(env, bodies):
    cfg = SceneEntityCfg("contact_forces", body_names=bodies)
    cfg.resolve(env.scene)
    return cfg


def bodies_of_robot(env, bodies):
    cfg = SceneEntityCfg("robot", body_names=bodies)
    cfg.resolve(env.scene)
    return cfg


REWARDS = {
    "is_alive": (rewards.is_alive, lambda e: isaac_mdp.is_alive(e)),
    "is_terminated": (rewards.is_terminated, lambda e: isaac_mdp.is_terminated(e)),
    "lin_vel_z_l2": (rewards.lin_vel_z_l2, lambda e: isaac_mdp.lin_vel_z_l2(e)),
    "ang_vel_xy_l2": (rewards.ang_vel_xy_l2, lambda e: isaac_mdp.ang_vel_xy_l2(e)),
    "flat_orientation_l2": (rewards.flat_orientation_l2, lambda e: isaac_mdp.flat_orientation_l2(e)),
    "base_height_l2": (lambda w: rewards.base_height_l2(w, 0.55), lambda e: isaac_mdp.base_height_l2(e, 0.55)),
    "joint_torques_l2": (rewards.joint_torques_l2, lambda e: isaac_mdp.joint_torques_l2(e)),
    "joint_acc_l2": (rewards.joint_acc_l2, lambda e: isaac_mdp.joint_acc_l2(e)),
    "joint_vel_l2": (rewards.joint_vel_l2, lambda e: isaac_mdp.joint_vel_l2(e)),
    "joint_deviation_l1": (rewards.joint_deviation_l1, lambda e: isaac_mdp.joint_deviation_l1(e)),
    "joint_pos_limits": (rewards.joint_pos_limits, lambda e: isaac_mdp.joint_pos_limits(e)),
    "action_rate_l2": (rewards.action_rate_l2, lambda e: isaac_mdp.action_rate_l2(e)),
    "action_l2": (rewards.action_l2, lambda e: isaac_mdp.action_l2(e)),
    "undesired_contacts": (
        lambda w: rewards.undesired_contacts(w, ".*_THIGH", 1.0),
        lambda e: isaac_mdp.undesired_contacts(e, 1.0, contacts(e, ".*THIGH")),
    ),
    "track_lin_vel_xy_exp": (
        lambda w: rewards.track_lin_vel_xy_exp(w, 0.5, CMD),
        lambda e: isaac_mdp.track_lin_vel_xy_exp(e, 0.5, CMD),
    ),
    "track_ang_vel_z_exp": (
        lambda w: rewards.track_ang_vel_z_exp(w, 0.5, CMD),
        lambda e: isaac_mdp.track_ang_vel_z_exp(e, 0.5, CMD),
    ),
    "track_lin_vel_xy_yaw_frame_exp": (
        lambda w: rewards.track_lin_vel_xy_yaw_frame_exp(w, 0.5, CMD),
        lambda e: isaac_velocity.track_lin_vel_xy_yaw_frame_exp(e, 0.5, CMD),
    ),
    "track_ang_vel_z_world_exp": (
        lambda w: rewards.track_ang_vel_z_world_exp(w, 0.5, CMD),
        lambda e: isaac_velocity.track_ang_vel_z_world_exp(e, CMD, 0.5),
    ),
    "feet_air_time": (
        lambda w: rewards.feet_air_time(w, CMD, ".*_FOOT", 0.5),
        lambda e: isaac_velocity.feet_air_time(e, CMD, contacts(e, ".*FOOT"), 0.5),
    ),
    "feet_air_time_positive_biped": (
        lambda w: rewards.feet_air_time_positive_biped(w, CMD, 0.4, "(LF|RF)_FOOT"),
        lambda e: isaac_velocity.feet_air_time_positive_biped(e, CMD, 0.4, contacts(e, ["LF_FOOT", "RF_FOOT"])),
    ),
    "feet_slide": (
        lambda w: rewards.feet_slide(w, ".*_FOOT"),
        lambda e: isaac_velocity.feet_slide(e, contacts(e, ".*FOOT"), bodies_of_robot(e, ".*FOOT")),
    ),
    "stand_still_joint_deviation_l1": (
        lambda w: rewards.stand_still_joint_deviation_l1(w, CMD),
        lambda e: isaac_velocity.stand_still_joint_deviation_l1(e, CMD),
    ),
}

TERMINATIONS = {
    "time_out": (terminations.time_out, lambda e: isaac_mdp.time_out(e)),
    "illegal_contact": (
        lambda w: terminations.illegal_contact(w, "base", 1.0),
        lambda e: isaac_mdp.illegal_contact(e, 1.0, contacts(e, "base")),
    ),
    "bad_orientation": (
        lambda w: terminations.bad_orientation(w, 1.0), lambda e: isaac_mdp.bad_orientation(e, 1.0),
    ),
    "root_height_below_minimum": (
        lambda w: terminations.root_height_below_minimum(w, 0.3),
        lambda e: isaac_mdp.root_height_below_minimum(e, 0.3),
    ),
    "joint_pos_out_of_limit": (
        terminations.joint_pos_out_of_limit, lambda e: isaac_mdp.joint_pos_out_of_limit(e),
    ),
}  # fmt: skip

# term: whether its columns are joints
OBSERVATIONS = {
    "base_pos_z": (observations.base_pos_z, isaac_mdp.base_pos_z, False),
    "base_lin_vel": (observations.base_lin_vel, isaac_mdp.base_lin_vel, False),
    "base_ang_vel": (observations.base_ang_vel, isaac_mdp.base_ang_vel, False),
    "projected_gravity": (observations.projected_gravity, isaac_mdp.projected_gravity, False),
    "joint_pos": (observations.joint_pos, isaac_mdp.joint_pos, True),
    "joint_pos_rel": (observations.joint_pos_rel, isaac_mdp.joint_pos_rel, True),
    "joint_vel_rel": (observations.joint_vel_rel, isaac_mdp.joint_vel_rel, True),
    "last_action": (observations.last_action, isaac_mdp.last_action, True),
}


def public(module):
    return {
        name for name, f in vars(module).items() if getattr(f, "__module__", "") == module.__name__ and name[0] != "_"
    }


def test_no_reward_or_termination_is_left_uncompared():
    assert public(rewards) - set(REWARDS) == {
        "first_contacts",  # compared through feet_air_time
        "feet_air_time_variance",  # of 3.0, compared there
        "feet_gait",  # Isaac Lab has no clock
        "feet_phase",
        "feet_stumble",  # legged_gym's
        "lin_vel_xy_progress",  # Isaac Lab rewards speed by exponentials alone
        "track_mean_ang_vel_z_exp",  # the momentary one is compared
        "ground_orientation_l2",  # Isaac Lab's flat_orientation_l2 asks for a level base
        "stand_still_action_rate_l2",  # Isaac Lab's is about joint positions
        "stand_still_joint_vel_l1",
        "torque_limits",  # legged_gym's
    }
    assert public(terminations) == set(TERMINATIONS)
    assert public(observations) - set(OBSERVATIONS) == {
        "generated_commands",  # compared in the whole group
        "height_scan",  # compared below
        "feet_contact",  # Isaac Lab has no such term
        "gait_phase",  # nor a clock
    }


@pytest.mark.parametrize("name", REWARDS)
def test_reward(seen, env, name):
    ours, theirs = REWARDS[name]
    value, expected = ours(seen), theirs(env).float()
    assert expected.unique().numel() > 1, "the states do not exercise this term"
    close(value, expected, 2e-6)


@pytest.mark.parametrize("name", TERMINATIONS)
def test_termination(seen, env, name):
    ours, theirs = TERMINATIONS[name]
    expected = theirs(env)
    assert 0 < expected.sum() < N, "the states do not exercise this term"
    assert torch.equal(ours(seen), expected)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observation(seen, env, name):
    ours, theirs, joints = OBSERVATIONS[name]
    value, expected = ours(seen), theirs(env)
    assert torch.equal(value, expected[:, TO_OURS] if joints else expected)


def test_height_scan():
    world = TensorWorld(ANYMAL_C, 4).randomize(1)
    env = isaac_env(world)
    hits = torch.randn(4, 187, 3, generator=torch.Generator().manual_seed(0))
    from types import SimpleNamespace

    env.scene.sensors["height_scanner"] = SimpleNamespace(
        data=SimpleNamespace(pos_w=world.robot.root_pos_w, ray_hits_w=hits)
    )
    world.scans["height_scanner"] = world.robot.root_pos_w[:, 2:] - hits[..., 2]
    expected = isaac_mdp.height_scan(env, SceneEntityCfg("height_scanner"))
    close(observations.height_scan(world, "height_scanner"), expected)
    assert torch.equal(observations.height_scan(IsaacLabWorld(env, ANYMAL_C), "height_scanner"), expected)


def test_reward_manager(world, env):
    theirs = IsaacRewardManager(AnymalCFlatEnvCfg().rewards, env)
    ours = RewardManager(TASK, world)
    for _ in range(3):
        close(ours.compute(), theirs.compute(world.step_dt), 2e-6)
    ids = torch.tensor([3, 200, 17])
    logged = theirs.reset(ids)
    means = ours.reset(ids, world.max_episode_length * world.step_dt)
    for name, mean in means.items():
        assert mean == pytest.approx(logged[f"Episode_Reward/{name}"].item(), rel=1e-5, abs=1e-9)
    assert set(theirs.active_terms) - set(means) == {"dof_pos_limits"}  # weight zero
    close(ours.compute(), theirs.compute(world.step_dt), 2e-6)


def test_termination_manager(world, env):
    theirs = IsaacTerminationManager(AnymalCFlatEnvCfg().terminations, env)
    dones = theirs.compute()
    terminated, truncated, _ = TerminationManager(TASK, world).compute()
    assert torch.equal(terminated | truncated, dones)
    assert torch.equal(terminated, theirs.terminated)
    # Isaac Lab reports a fall in the last step of an episode as both; Gymnasium's contract asks for one.
    assert torch.equal(truncated, theirs.time_outs & ~theirs.terminated)


def observation_pair(world, env, history_length, enable_corruption):
    cfg = AnymalCFlatEnvCfg().observations
    cfg.policy.enable_corruption = enable_corruption
    cfg.policy.history_length = history_length if history_length > 1 else None
    group = ObservationGroup(
        terms=TASK.observations["policy"].terms, history_length=history_length, enable_corruption=enable_corruption
    )
    theirs = IsaacObservationManager(cfg, env)
    return ObservationManager(group, world, torch.Generator().manual_seed(0)), theirs


def columns(history_length):
    """Indices of Isaac Lab's observation in our order: joints are permuted within every frame of every term."""
    order, start = [], 0
    for name, width in (("lin", 3), ("ang", 3), ("gravity", 3), ("command", 3), ("q", 12), ("qd", 12), ("a", 12)):
        inner = TO_OURS if width == len(JOINTS) else range(width)
        order += [start + frame * width + i for frame in range(history_length) for i in inner]
        start += history_length * width
        assert name
    return order


def test_observation_group(world, env):
    ours, theirs = observation_pair(world, env, 1, False)
    assert ours.dim == 48 and theirs.group_obs_dim["policy"] == (48,)
    expected = theirs.compute()["policy"][:, columns(1)]
    assert torch.equal(ours.append(ours.frame()), expected)


def test_observation_history_through_resets():
    history = 5
    states = [TensorWorld(ANYMAL_C, 6).randomize(seed) for seed in range(9)]
    world, env = TensorWorld(ANYMAL_C, 6), isaac_env(states[0])
    ours, theirs = observation_pair(world, env, history, False)
    resets = {0: [0, 1, 2, 3, 4, 5], 3: [1, 4], 4: [4], 7: [0]}
    for step, state in enumerate(states):
        world.robot, world.action, world.commands = state.robot, state.action, state.commands
        vars(env).update(vars(isaac_env(state)))
        first = torch.tensor(resets.get(step, []), dtype=torch.int64)
        if len(first):
            theirs.reset(first)
        expected = theirs.compute(update_history=True)["policy"][:, columns(history)]
        assert torch.equal(ours.append(ours.frame(), first), expected), f"step {step}"


def test_noise_has_isaac_lab_s_bounds_and_spread():
    n = 4000
    world = TensorWorld(ANYMAL_C, n)
    ours, theirs = observation_pair(world, isaac_env(world), 1, True)
    torch.manual_seed(0)
    clean = torch.cat([t.func(world, **t.params) for t in TASK.observations["policy"].terms.values()], 1)
    mine, reference = ours.frame() - clean, theirs.compute()["policy"][:, columns(1)] - clean
    bound = torch.tensor([0.1] * 3 + [0.2] * 3 + [0.05] * 3 + [0.0] * 3 + [0.01] * 12 + [1.5] * 12 + [0.0] * 12)
    for noise in (mine, reference):
        assert (noise.abs() <= bound + 1e-6).all()
        close(noise.amax(0), bound, 5e-3)
        close(noise.amin(0), -bound, 5e-3)
        # Standard deviation of a uniform variable of half-width b: b / sqrt(3).
        close(noise.std(0) / bound.clamp(min=1e-9), (bound > 0) / 3**0.5, 0.03)
