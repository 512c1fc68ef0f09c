"""The task of reaching against Isaac Lab's ``Isaac-Reach-Franka-v0``: terms on the same states, and all values."""

import math

import pytest
import torch
from gaitway_tasks.mdp import curriculums, observations, pose, rewards
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import FRANKA
from isaac_side import isaac_env, layout
from isaaclab.envs import mdp as isaac_mdp
from isaaclab.managers import SceneEntityCfg
from isaaclab.utils.math import quat_error_magnitude, quat_from_euler_xyz
from isaaclab_assets.robots.franka import FRANKA_PANDA_CFG
from isaaclab_tasks.manager_based.manipulation.reach import mdp as isaac_reach
from isaaclab_tasks.manager_based.manipulation.reach.config.franka.joint_pos_env_cfg import FrankaReachEnvCfg
from tensor_world import TensorWorld, close

N, CMD, HAND = 256, "ee_pose", "panda_hand"
TASK, CFG = get_task("reach-franka"), FrankaReachEnvCfg()
NAMES = layout(FRANKA)


@pytest.fixture(scope="module")
def world():
    world = TensorWorld(FRANKA, N).randomize(0)
    random = torch.Generator().manual_seed(1)
    quat = torch.randn(N, len(FRANKA.body_names), 4, generator=random)
    world.robot.body_quat_wxyz = torch.nn.functional.normalize(quat, dim=-1)
    told = torch.rand(N, 6, generator=random) * 2.0 - 1.0
    world.commands[CMD] = told * torch.tensor([1.0, 1.0, 1.0, math.pi, math.pi, math.pi])
    return world


@pytest.fixture(scope="module")
def env(world):
    env = isaac_env(world)
    data, seen = env.scene["robot"].data, world.robot
    data.body_pos_w, data.body_quat_w = (values[:, NAMES.body_ids] for values in (seen.body_pos_w, seen.body_quat_wxyz))
    command = pose.pose_command(world, CMD)
    env.command_manager.get_command = lambda name: command
    return env


def hand(env):
    cfg = SceneEntityCfg("robot", body_names=[HAND])
    cfg.resolve(env.scene)
    return cfg


REWARDS = {
    "position_command_error": (
        lambda w: pose.position_command_error(w, CMD, HAND),
        lambda e: isaac_reach.position_command_error(e, CMD, hand(e)),
    ),
    "position_command_error_tanh": (
        lambda w: pose.position_command_error_tanh(w, 0.1, CMD, HAND),
        lambda e: isaac_reach.position_command_error_tanh(e, 0.1, CMD, hand(e)),
    ),
    "orientation_command_error": (
        lambda w: pose.orientation_command_error(w, CMD, HAND),
        lambda e: isaac_reach.orientation_command_error(e, CMD, hand(e)),
    ),
}


@pytest.mark.parametrize("name", REWARDS)
def test_reward(world, env, name):
    ours, theirs = REWARDS[name]
    expected = theirs(env)
    assert expected.std() > 0.001, "the states do not exercise this term"
    close(ours(world), expected, 1e-5)


def test_small_angles(world):
    """Where the arcus cosine of single precision has lost all."""
    a = world.robot.body_quat_wxyz[:, 0]
    b = torch.nn.functional.normalize(a + 1e-4 * world.robot.body_quat_wxyz[:, 1], dim=-1)
    from gaitway_tasks.math import quat_error_magnitude as ours

    close(ours(a, b), quat_error_magnitude(a, b), 1e-6)


def test_the_pose_that_a_policy_sees_is_isaac_lab_s(world):
    told, seen = world.commands[CMD], pose.pose_command(world, CMD)
    assert torch.equal(seen[:, :3], told[:, :3])
    close(seen[:, 3:], quat_from_euler_xyz(*told[:, 3:].unbind(1)), 1e-6)


def test_values_of_the_task():
    theirs, ours = CFG.commands.ee_pose, TASK.commands[CMD]
    ranges = theirs.ranges
    expected = (ranges.pos_x, ranges.pos_y, ranges.pos_z, ranges.roll, ranges.pitch, ranges.yaw)
    assert tuple(ours.ranges().values()) == expected and ours.resampling_time_range == theirs.resampling_time_range
    assert FRANKA.body_names[ours.body] == theirs.body_name and not ours.ramp and not theirs.make_quat_unique
    assert (TASK.timing.physics_dt, TASK.timing.decimation) == (CFG.sim.dt, CFG.decimation)
    assert TASK.timing.episode_length_s == CFG.episode_length_s
    theirs = {name: term for name, term in vars(CFG.rewards).items() if term is not None}
    assert {name: (r.weight, r.func.__name__) for name, r in TASK.rewards.items()} == {
        name: (r.weight, r.func.__name__) for name, r in theirs.items()
    }
    for name in TASK.rewards:
        ours, told = TASK.rewards[name].params, theirs[name].params
        assert {key: ours.get(key) for key in ("std", "command_name")} == {
            key: told.get(key) for key in ("std", "command_name")
        }
    assert {name: dict(term.params) for name, term in TASK.curriculum.items()} == {
        name: term.params for name, term in vars(CFG.curriculum).items()
    }
    event, reset = CFG.events.reset_robot_joints, TASK.events["reset_robot_joints"]
    assert reset.params["position_range"] == event.params["position_range"]
    assert event.params["velocity_range"] == (0.0, 0.0)
    policy = {name: term for name, term in vars(CFG.observations.policy).items() if hasattr(term, "func")}
    assert list(policy) == list(TASK.observations["policy"].terms)
    for name, term in TASK.observations["policy"].terms.items():
        noise = policy[name].noise
        assert (noise is None) == (term.noise is None)
        assert noise is None or (noise.n_min, noise.n_max) == (term.noise.low, term.noise.high)


def test_values_of_the_action():
    theirs, ours = CFG.actions.arm_action, TASK.actions
    assert (list(ours.joint_names), ours.scale, ours.offset is None) == (
        theirs.joint_names, theirs.scale, theirs.use_default_offset,
    )  # fmt: skip
    acting = [FRANKA.joint_names[joint] for joint in ours.acting(FRANKA)]
    from isaaclab.utils.string import resolve_matching_names

    assert acting == resolve_matching_names(theirs.joint_names, list(FRANKA.joint_names))[1]


def test_values_of_the_robot():
    from isaaclab.utils.string import resolve_matching_names, resolve_matching_names_values

    joints, state = list(FRANKA.joint_names), FRANKA_PANDA_CFG.init_state.joint_pos
    assert tuple(resolve_matching_names_values(state, joints)[2]) == FRANKA.default_joint_pos
    assert set(FRANKA.actuators) == set(FRANKA_PANDA_CFG.actuators)
    for name, group in FRANKA_PANDA_CFG.actuators.items():
        law = FRANKA.actuators[name]
        assert (law.stiffness, law.damping, law.effort_limit) == (
            group.stiffness, group.damping, group.effort_limit_sim
        )  # fmt: skip
        mine = [joint for joint, found in zip(joints, FRANKA.joint_actuators, strict=True) if found is law]
        assert mine == resolve_matching_names(group.joint_names_expr, joints)[1]
    assert FRANKA_PANDA_CFG.soft_joint_pos_limit_factor == FRANKA.soft_joint_pos_limit_factor
    assert FRANKA_PANDA_CFG.spawn.rigid_props.disable_gravity is False


def test_other_terms_are_those_of_walking():
    assert TASK.rewards["action_rate"].func is rewards.action_rate_l2
    assert TASK.observations["policy"].terms["joint_pos"].func is observations.joint_pos_rel
    assert TASK.curriculum["joint_vel"].func is curriculums.modify_reward_weight
    assert CFG.curriculum.joint_vel.func is isaac_mdp.modify_reward_weight
