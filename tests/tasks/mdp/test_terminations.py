"""Termination terms on both sides of their thresholds."""

import math

import torch
from gaitway_tasks.mdp import terminations
from gaitway_tasks.robots import ANYMAL_C
from tensor_world import TensorWorld, close


def test_time_out_at_the_last_step():
    world = TensorWorld(ANYMAL_C, 3)
    world.episode_step = torch.tensor([999, 1000, 1001])
    close(terminations.time_out(world), [False, True, True])


def test_illegal_contact_of_any_of_the_bodies():
    world = TensorWorld(ANYMAL_C, 4)
    world.set_force("base", [0.0, 0.0, 1.0], env=0)
    world.set_force("base", [0.8, 0.0, 0.8], env=1)
    world.set_force("LF_HIP", [0.0, 0.0, 2.0], env=2)
    world.set_force("LF_FOOT", [0.0, 0.0, 400.0], env=3)
    close(terminations.illegal_contact(world, "base", 1.0), [False, True, False, False])
    close(terminations.illegal_contact(world, "base|.*_HIP", 1.0), [False, True, True, False])


def test_bad_orientation_about_any_axis():
    world = TensorWorld(ANYMAL_C, 4)
    tilts = torch.tensor([0.99, 1.01, 1.01, math.pi])
    world.robot.projected_gravity_b = torch.stack((tilts.sin() * 0.6, tilts.sin() * 0.8, -tilts.cos()), 1)
    close(terminations.bad_orientation(world, 1.0), [False, True, True, True])
    # A unit vector that rounding made longer than one must not become NaN and so "upright".
    world.robot.projected_gravity_b = torch.tensor([[0.0, 0.0, 1.0 + 1e-6]]).repeat(4, 1)
    assert terminations.bad_orientation(world, 1.0).all()


def test_low_base_and_joint_limits():
    world = TensorWorld(ANYMAL_C, 3)
    world.robot.root_pos_w[:, 2] = torch.tensor([0.6, 0.3, 0.2])
    close(terminations.root_height_below_minimum(world, 0.3), [False, False, True])
    world.robot.joint_pos[1, 0] = 0.4598  # the soft limit of LF_HAA is 0.45975
    world.robot.joint_pos[2, 0] = -0.6898  # and -0.68975
    close(terminations.joint_pos_out_of_limit(world), [False, True, True])
