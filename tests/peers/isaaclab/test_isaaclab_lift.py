"""The task of lifting against Isaac Lab's ``Isaac-Lift-Cube-Franka-v0``: terms on the same states, and all values."""

from types import SimpleNamespace

import pytest
import torch
from gaitway_tasks.mdp import curriculums, objects, observations, pose, rewards
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import FRANKA
from isaac_side import isaac_env, layout
from isaaclab.envs import mdp as isaac_mdp
from isaaclab.managers import SceneEntityCfg
from isaaclab_assets.robots.franka import FRANKA_PANDA_HIGH_PD_CFG
from isaaclab_tasks.manager_based.manipulation.lift import mdp as isaac_lift
from isaaclab_tasks.manager_based.manipulation.lift.config.franka.joint_pos_env_cfg import FrankaCubeLiftEnvCfg
from tensor_world import TensorWorld, close

N, CMD, HAND = 256, "object_pose", "panda_hand"
TASK, CFG = get_task("lift-franka"), FrankaCubeLiftEnvCfg()
NAMES = layout(FRANKA)


@pytest.fixture(scope="module")
def world():
    world = TensorWorld(FRANKA, N).randomize(0)
    random = torch.Generator().manual_seed(1)
    quat = torch.randn(N, len(FRANKA.body_names), 4, generator=random)
    world.robot.body_quat_wxyz = torch.nn.functional.normalize(quat, dim=-1)
    world.objects["object"] = SimpleNamespace(root_pos_w=0.2 * torch.randn(N, 3, generator=random))
    world.commands[CMD] = torch.rand(N, 6, generator=random) - 0.5
    return world


@pytest.fixture(scope="module")
def env(world):
    """Isaac Lab's environment with the same states: its object, and the frame between the fingertips."""
    from isaaclab.utils.math import combine_frame_transforms

    env = isaac_env(world)
    hand = FRANKA.body_ids(HAND)[0]
    offset = torch.tensor(CFG.scene.ee_frame.target_frames[0].offset.pos).expand(N, 3)
    tip, _ = combine_frame_transforms(world.robot.body_pos_w[:, hand], world.robot.body_quat_wxyz[:, hand], offset)
    cube = SimpleNamespace(root_pos_w=world.objects["object"].root_pos_w)
    scene = {"robot": env.scene["robot"], "object": SimpleNamespace(data=cube),
             "ee_frame": SimpleNamespace(data=SimpleNamespace(target_pos_w=tip[:, None]))}  # fmt: skip
    command = pose.pose_command(world, CMD)
    manager = SimpleNamespace(get_command=lambda name: command)
    return SimpleNamespace(scene=scene, command_manager=manager, num_envs=N, device="cpu")


TERMS = {
    "object_ee_distance": (
        lambda w: objects.object_ee_distance(w, 0.1, HAND),
        lambda e: isaac_lift.object_ee_distance(e, 0.1),
    ),
    "object_is_lifted": (
        lambda w: objects.object_is_lifted(w, 0.04),
        lambda e: isaac_lift.object_is_lifted(e, 0.04),
    ),
    "object_goal_distance": (
        lambda w: objects.object_goal_distance(w, 0.3, 0.04, CMD),
        lambda e: isaac_lift.object_goal_distance(e, 0.3, 0.04, CMD),
    ),
    "object_position_in_robot_root_frame": (
        objects.object_position_in_robot_root_frame,
        isaac_lift.object_position_in_robot_root_frame,
    ),
    "root_height_below_minimum": (
        lambda w: objects.object_height_below_minimum(w, -0.05).float(),
        lambda e: isaac_mdp.root_height_below_minimum(e, -0.05, SceneEntityCfg("object")).float(),
    ),
}


@pytest.mark.parametrize("name", TERMS)
def test_term(world, env, name):
    ours, theirs = TERMS[name]
    expected = theirs(env)
    assert expected.std() > 0.001, "the states do not exercise this term"
    close(ours(world), expected, 1e-5)


def test_rewards_and_curricula():
    known = {
        isaac_lift.object_ee_distance: objects.object_ee_distance,
        isaac_lift.object_is_lifted: objects.object_is_lifted,
        isaac_lift.object_goal_distance: objects.object_goal_distance,
        isaac_mdp.action_rate_l2: rewards.action_rate_l2,
        isaac_mdp.joint_vel_l2: rewards.joint_vel_l2,
    }
    theirs = {name: term for name, term in vars(CFG.rewards).items() if term is not None}
    assert list(theirs) == list(TASK.rewards)
    for name, term in theirs.items():
        ours = TASK.rewards[name]
        assert (ours.func, ours.weight) == (known[term.func], term.weight), name
        for key in ("std", "minimal_height", "command_name"):
            assert ours.params.get(key) == term.params.get(key), (name, key)
    for name, term in vars(CFG.curriculum).items():
        assert TASK.curriculum[name].func is curriculums.modify_reward_weight
        assert dict(TASK.curriculum[name].params) == dict(term.params)


def test_observations_command_actions_and_times():
    theirs = {name: term for name, term in vars(CFG.observations.policy).items() if hasattr(term, "func")}
    functions = {
        "joint_pos": observations.joint_pos_rel,
        "joint_vel": observations.joint_vel_rel,
        "object_position": objects.object_position_in_robot_root_frame,
        "target_object_position": pose.pose_command,
        "actions": observations.last_action,
    }
    assert list(theirs) == list(TASK.observations["policy"].terms) == list(functions)
    for name, term in TASK.observations["policy"].terms.items():
        assert term.func is functions[name] and theirs[name].noise is term.noise is None
    command, ranges = TASK.commands[CMD], CFG.commands.object_pose.ranges
    for name in ("pos_x", "pos_y", "pos_z", "roll", "pitch", "yaw"):
        assert getattr(command, name) == getattr(ranges, name), name
    assert command.resampling_time_range == CFG.commands.object_pose.resampling_time_range
    arm, hand, ours = CFG.actions.arm_action, CFG.actions.gripper_action, TASK.actions
    assert (tuple(arm.joint_names), arm.scale, arm.use_default_offset) == (ours.joint_names, ours.scale, True)
    assert tuple(hand.joint_names) == ours.gripper.joint_names
    assert set(hand.open_command_expr.values()) == {ours.gripper.open_command}
    assert set(hand.close_command_expr.values()) == {ours.gripper.close_command}
    timing = TASK.timing
    assert (CFG.sim.dt, CFG.decimation, CFG.episode_length_s) == (
        timing.physics_dt, timing.decimation, timing.episode_length_s
    )  # fmt: skip


def test_object_and_its_resets():
    cube, place = TASK.objects["object"], CFG.scene.object.init_state
    assert cube.pos == tuple(place.pos)
    assert cube.size == tuple(0.06 * factor for factor in CFG.scene.object.spawn.scale)
    params = CFG.events.reset_object_position.params
    ours = TASK.events["reset_object_position"].params
    assert ours["pose_range"] == params["pose_range"] and ours["velocity_range"] == params["velocity_range"]
    assert (
        TASK.terminations["object_dropping"].params["minimum_height"]
        == (CFG.terminations.object_dropping.params["minimum_height"])
    )


def test_stiff_drives():
    robot = get_task("lift-franka", "cpu").robot
    assert FRANKA_PANDA_HIGH_PD_CFG.spawn.rigid_props.disable_gravity and robot.gravity_compensation
    for name in ("panda_shoulder", "panda_forearm"):
        theirs, ours = FRANKA_PANDA_HIGH_PD_CFG.actuators[name], robot.actuators[name]
        assert (theirs.stiffness, theirs.damping) == (ours.stiffness, ours.damping)
