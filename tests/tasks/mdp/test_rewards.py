"""Reward terms against values worked out by hand."""

import math

import pytest
import torch
from gaitway_tasks.mdp import rewards
from gaitway_tasks.robots import ANYMAL_C
from tensor_world import TensorWorld, close

CMD = "base_velocity"
FOOT = {name: i for i, name in enumerate(ANYMAL_C.foot_names)}
JOINT = {name: i for i, name in enumerate(ANYMAL_C.joint_names)}


@pytest.fixture
def world():
    return TensorWorld(ANYMAL_C)


def command(world, *values):
    world.commands[CMD] = torch.tensor([values])


def test_tracking_is_perfect_at_the_command_and_one_over_e_one_sigma_away(world):
    command(world, 0.5, -0.5, 0.3)
    world.robot.root_lin_vel_b = torch.tensor([[0.5, -0.5, 9.0]])
    world.robot.root_ang_vel_b = torch.tensor([[9.0, 9.0, 0.3]])
    close(rewards.track_lin_vel_xy_exp(world, 0.5, CMD), [1.0])
    close(rewards.track_ang_vel_z_exp(world, 0.5, CMD), [1.0])
    world.robot.root_lin_vel_b = torch.tensor([[0.8, -0.1, 0.0]])  # error (0.3, 0.4): norm 0.5 = sigma
    world.robot.root_ang_vel_b = torch.tensor([[0.0, 0.0, 0.8]])
    close(rewards.track_lin_vel_xy_exp(world, 0.5, CMD), [math.exp(-1)])
    close(rewards.track_ang_vel_z_exp(world, 0.5, CMD), [math.exp(-1)])


def test_a_term_with_a_start_is_paid_in_full_once_commands_have_grown(world):
    command(world, 0.0, 0.0, 0.0)
    world.robot.root_ang_vel_b = torch.tensor([[0.3, -0.4, 0.0]])
    world.robot.joint_pos = world.default_joint_pos + 0.5 * torch.eye(1, 12)
    terms = (
        (rewards.track_ang_vel_z_exp, (0.5, CMD), 1.0),
        (rewards.ang_vel_xy_l2, (), 0.25),
        (rewards.joint_deviation_l1, (), 0.5),
    )
    for style, share in ((None, 1.0), (0.0, 0.2), (0.5, 0.6), (1.0, 1.0)):
        world.style = None if style is None else torch.tensor(style)
        for term, args, whole in terms:
            close(term(world, *args, start=0.2), [share * whole])
            close(term(world, *args), [whole])


def test_tracking_in_the_yaw_frame_ignores_pitch(world):
    command(world, 1.0, 0.0, 0.5)
    # Heading along world y, pitched nose-up by 60 degrees: yaw 90 after pitch -60 about the body's y axis.
    yaw, pitch = math.pi / 4, -math.pi / 6
    quat = [
        math.cos(yaw) * math.cos(pitch), -math.sin(yaw) * math.sin(pitch),
        math.cos(yaw) * math.sin(pitch), math.sin(yaw) * math.cos(pitch),
    ]  # fmt: skip
    world.set_root(torch.tensor([quat]), torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[0.0, 0.0, 0.5]]))
    close(rewards.track_lin_vel_xy_yaw_frame_exp(world, 0.5, CMD), [1.0])
    close(rewards.track_ang_vel_z_world_exp(world, 0.5, CMD), [1.0])
    # In the base frame the same motion is 0.5 m/s forward, turning at 0.25 rad/s about the body's z axis.
    close(rewards.track_lin_vel_xy_exp(world, 0.5, CMD), [math.exp(-1.0)])
    close(rewards.track_ang_vel_z_exp(world, 0.5, CMD), [math.exp(-0.25)])


def test_base_penalties(world):
    world.robot.root_lin_vel_b = torch.tensor([[5.0, 5.0, -0.2]])
    world.robot.root_ang_vel_b = torch.tensor([[0.3, -0.4, 9.0]])
    world.robot.projected_gravity_b = torch.tensor([[0.6, 0.0, -0.8]])
    world.robot.root_pos_w = torch.tensor([[3.0, 3.0, 0.5]])
    close(rewards.lin_vel_z_l2(world), [0.04])
    close(rewards.ang_vel_xy_l2(world), [0.25])
    close(rewards.flat_orientation_l2(world), [0.36])
    close(rewards.base_height_l2(world, 0.6), [0.01])
    world.scans["scan"] = torch.tensor([[0.5, 0.3, math.inf]])  # one ray found no ground
    close(rewards.base_height_l2(world, 0.6, "scan"), [0.04])


def test_joint_and_action_penalties(world):
    world.robot.applied_torque[0, :3] = torch.tensor([1.0, -2.0, 3.0])
    world.robot.joint_acc[0, 5] = 100.0
    world.robot.joint_vel[0, :2] = torch.tensor([3.0, -4.0])
    world.action[0, :2] = torch.tensor([1.0, 0.5])
    world.previous_action[0, :2] = torch.tensor([0.0, -0.5])
    close(rewards.joint_torques_l2(world), [14.0])
    close(rewards.joint_torques_l2(world, "LF_(HAA|KFE)"), [10.0])
    close(rewards.joint_acc_l2(world), [10000.0])
    close(rewards.joint_acc_l2(world, ".*_KFE"), [10000.0])  # LH_KFE is the sixth joint
    close(rewards.joint_acc_l2(world, ".*_HFE|LF_KFE"), [0.0])
    close(rewards.joint_vel_l2(world), [25.0])
    close(rewards.action_rate_l2(world), [2.0])
    close(rewards.action_l2(world), [1.25])


def test_torques_near_the_effort_limit_cost_what_is_beyond_the_soft_one(world):
    world.robot.applied_torque[0, :4] = torch.tensor([80.0, -64.0, 55.9, -1.0])  # of 80 N m
    close(rewards.torque_limits(world, soft_ratio=0.7), [0.3 + 0.1], 1e-6)
    close(rewards.torque_limits(world, soft_ratio=1.0), [0.0])


def test_joint_limits_are_the_soft_ones(world):
    close(rewards.joint_pos_limits(world), [0.0])
    # LF_HAA: range (-0.72, 0.49), middle -0.115, soft half-range 0.605 * 0.95 = 0.57475, so (-0.68975, 0.45975).
    world.robot.joint_pos[0, JOINT["LF_HAA"]] = 0.47
    world.robot.joint_pos[0, JOINT["RF_HAA"]] = -0.48
    close(rewards.joint_pos_limits(world), [(0.47 - 0.45975) + (0.48 - 0.45975)], 1e-6)
    close(rewards.joint_pos_limits(world, "RF_.*"), [0.48 - 0.45975], 1e-6)
    with pytest.raises(ValueError, match="'anymal-c' has no joint matching 'RF'; it has LF_HAA"):
        rewards.joint_pos_limits(world, "RF")


def test_joint_deviation(world):
    world.robot.joint_pos[0, JOINT["RH_HFE"]] += 0.25
    world.robot.joint_pos[0, JOINT["RH_KFE"]] -= 0.5
    close(rewards.joint_deviation_l1(world), [0.75])
    close(rewards.joint_deviation_l1(world, ".*_KFE"), [0.5])
    close(rewards.stand_still_joint_deviation_l1(world, CMD), [0.75])
    command(world, 0.0, 0.07, 0.0)
    close(rewards.stand_still_joint_deviation_l1(world, CMD), [0.0])


def test_feet_air_time_counts_touchdowns_of_this_step_only(world):
    command(world, 0.2, 0.0, 0.0)
    robot = world.robot
    robot.last_air_time[0] = torch.tensor([0.7, 0.2, 0.9, 0.9])
    robot.current_contact_time[0] = torch.tensor([0.02, 0.005, 0.025, 0.0])  # the third landed in the step before
    close(rewards.first_contacts(world), [[True, True, False, False]])
    reward = rewards.feet_air_time(world, CMD, ".*_FOOT", 0.5)
    close(reward, [(0.7 - 0.5) + (0.2 - 0.5)], 1e-6)
    close(rewards.feet_air_time(world, CMD, "LF_FOOT", 0.5), [0.2], 1e-6)


def test_feet_air_time_is_off_for_small_commands_whatever_the_yaw_rate(world):
    world.robot.last_air_time[0, 0] = 0.9
    world.robot.current_contact_time[0, 0] = 0.01
    command(world, 0.06, -0.08, 1.0)  # norm 0.1, not above it
    close(rewards.feet_air_time(world, CMD, ".*_FOOT", 0.5), [0.0])
    command(world, 0.06, -0.09, 0.0)
    close(rewards.feet_air_time(world, CMD, ".*_FOOT", 0.5), [0.4], 1e-6)


def test_single_stance_of_a_biped(world):
    command(world, 0.5, 0.0, 0.0)
    feet = "(LF|RF)_FOOT"
    world.robot.current_contact_time[0, FOOT["LF_FOOT"]] = 0.3
    world.robot.current_air_time[0, FOOT["RF_FOOT"]] = 0.2
    close(rewards.feet_air_time_positive_biped(world, CMD, 0.4, feet), [0.2])
    close(rewards.feet_air_time_positive_biped(world, CMD, 0.15, feet), [0.15])
    world.robot.current_contact_time[0, FOOT["RF_FOOT"]] = 0.1  # double stance
    world.robot.current_air_time[0, FOOT["RF_FOOT"]] = 0.0
    close(rewards.feet_air_time_positive_biped(world, CMD, 0.4, feet), [0.0])


def test_uneven_steps_cost_their_variance(world):
    command(world, 0.5, 0.0, 0.0)
    feet, (left, right) = "(LF|RF)_FOOT", (FOOT["LF_FOOT"], FOOT["RF_FOOT"])
    world.robot.last_air_time[0, left], world.robot.last_air_time[0, right] = 0.2, 0.4  # variance 0.02
    world.robot.last_contact_time[0, left], world.robot.last_contact_time[0, right] = 0.4, 3.0  # of 0.4 and 0.5
    close(rewards.feet_air_time_variance(world, CMD, feet), [0.025])
    command(world, 0.05, 0.0, 2.0)
    close(rewards.feet_air_time_variance(world, CMD, feet), [0.0])


def test_feet_slide(world):
    bodies = ANYMAL_C.body_names
    world.set_force("LF_FOOT", [0.0, 0.0, 200.0])
    world.set_force("RF_FOOT", [0.0, 0.0, 0.5])
    world.robot.body_lin_vel_w[0, bodies.index("LF_FOOT")] = torch.tensor([0.3, 0.4, 7.0])
    world.robot.body_lin_vel_w[0, bodies.index("RF_FOOT")] = torch.tensor([5.0, 5.0, 0.0])
    close(rewards.feet_slide(world, ".*_FOOT"), [0.5])


def test_undesired_contacts_counts_bodies(world):
    for body, force in (
        ("LF_THIGH", [0.0, 1.1, 0.0]), ("RH_THIGH", [0.8, 0.8, 0.0]), ("RF_THIGH", [0.9, 0.0, 0.0]),
        ("LF_FOOT", [0.0, 0.0, 300.0]),
    ):  # fmt: skip
        world.set_force(body, force)
    close(rewards.undesired_contacts(world, ".*_THIGH", 1.0), [2.0])


def test_alive_and_terminated():
    world = TensorWorld(ANYMAL_C, 2)
    world.terminated = torch.tensor([False, True])
    close(rewards.is_alive(world), [1.0, 0.0])
    close(rewards.is_terminated(world), [0.0, 1.0])


def test_a_body_pattern_that_matches_nothing_is_an_error(world):
    with pytest.raises(ValueError, match=r"no body matching '\.\*_HAND'"):
        rewards.undesired_contacts(world, ".*_HAND", 1.0)


def test_progress_is_the_share_of_the_speed_asked_that_goes_along_the_command(world):
    for told, speed, wanted in (
        ((0.8, 0.0, 0.3), (0.4, 9.0, 0.0), 0.5),
        ((0.0, -0.5, 0.0), (0.0, -0.7, 0.0), 1.0),  # no more for going faster
        ((0.6, 0.8, 0.0), (-0.3, -0.4, 0.0), -0.5),
        ((0.0, 0.0, 1.0), (0.0, 0.15, 9.0), 0.5),  # told to turn on the spot: half of .3 m/s
        ((0.0, 0.0, 0.0), (2.0, 0.0, 0.0), 0.0),
    ):
        command(world, *told)
        world.robot.root_lin_vel_b = torch.tensor([speed])
        close(rewards.lin_vel_xy_progress(world, CMD), [wanted])


def test_the_mean_yaw_rate_forgives_a_swing_but_no_bias(world):
    params = {"std": 0.2, "command_name": CMD, "time": 0.5}
    command(world, 0.5, 0.0, 0.4)
    swinging, biased = (rewards.track_mean_ang_vel_z_exp(None, world) for _ in range(2))
    for step in range(200):
        swing = math.sin(2.0 * math.pi * step / 20)  # a stride of .4 s
        world.robot.root_ang_vel_b = torch.tensor([[0.0, 0.0, 0.4 + swing]])
        told = swinging(world, **params)
        world.robot.root_ang_vel_b = torch.tensor([[0.0, 0.0, 0.1]])
        lost = biased(world, **params)
    assert told > 0.6  # paid for the momentary rate, it would be 1e-11 at the height of the swing
    close(lost, [math.exp(-((0.3 / 0.2) ** 2))], 1e-3)
    biased.reset(torch.tensor([0]))
    world.robot.root_ang_vel_b = torch.tensor([[0.0, 0.0, 0.4]])
    close(biased(world, **params), [1.0])  # a new episode begins at what it is told


def test_a_robot_that_is_fast_may_step_before_it_stands(world):
    command(world, 0.0, 0.0, 0.0)
    world.robot.joint_vel = torch.full_like(world.robot.joint_vel, 0.5)
    world.action, world.previous_action = world.action + 0.2, world.action
    for speed, share in ((0.1, 1.0), (0.4, 0.0)):
        world.robot.root_lin_vel_b = torch.tensor([[0.0, speed, 0.0]])
        close(rewards.stand_still_joint_vel_l1(world, CMD, still=0.25), [share * 6.0])
        close(rewards.stand_still_action_rate_l2(world, CMD, still=0.25), [share * 12 * 0.04])
        close(rewards.stand_still_joint_vel_l1(world, CMD), [6.0])
