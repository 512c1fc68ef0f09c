"""Clock of a gait by hand: phases, swings, and the terms that follow them."""

import math

import pytest
import torch
from gaitway_tasks.mdp import gait, rewards
from gaitway_tasks.mdp import observations as obs
from gaitway_tasks.robots import ANYMAL_C
from tensor_world import TensorWorld, close

TROT = {
    "feet": ".*_FOOT", "period": 0.8, "duty": 0.5, "offsets": (0.0, 0.5, 0.5, 0.0), "command_name": "base_velocity"
}  # fmt: skip
FORWARD = torch.tensor([[0.5, 0.0, 0.0]])


def world_at(step, command=FORWARD):
    world = TensorWorld(ANYMAL_C)
    world.episode_step[:] = step
    world.commands["base_velocity"] = command
    world.robot.body_pos_w[:, :, 2] = ANYMAL_C.foot_height
    return world


def put_foot(world, name, height, force=0.0):
    world.robot.body_pos_w[:, ANYMAL_C.body_names.index(name), 2] = ANYMAL_C.foot_height + height
    world.set_force(name, [0.0, 0.0, force])


def test_the_clock_counts_whole_steps_and_starts_again():
    close(gait.phase(world_at(0), 0.8), [0.0])
    close(gait.phase(world_at(10), 0.8), [0.25])
    close(gait.phase(world_at(10_000 * 40 + 10), 0.8), [0.25])
    close(obs.gait_phase(world_at(10), 0.8), [[1.0, 0.0]], 1e-6)
    close(obs.gait_phase(world_at(20), 0.8), [[0.0, -1.0]], 1e-6)


@pytest.mark.parametrize("period", [0.81, 0.0, 0.02])
def test_a_cycle_must_be_whole_control_steps(period):
    with pytest.raises(ValueError, match=f"gait period {period:g} s: .* whole control steps of 0.02 s"):
        gait.phase(world_at(0), period)


def test_diagonal_feet_swing_together():
    close(gait.swing_progress(world_at(10), 0.8, 0.5, TROT["offsets"]), [[0.5, 1.0, 1.0, 0.5]])
    close(gait.swing_progress(world_at(25), 0.8, 0.5, TROT["offsets"]), [[1.0, 0.25, 0.25, 1.0]])
    close(gait.swing_progress(world_at(4), 0.8, 0.6, TROT["offsets"]), [[0.25, 1.0, 1.0, 0.25]])


def test_soles_follow_a_smooth_rise():
    world = world_at(10)
    params = {**TROT, "height": 0.08, "std": 0.1}
    close(rewards.feet_phase(world, **params), [math.exp(-2 * 0.08**2 / 0.01)], 1e-6)
    put_foot(world, "LF_FOOT", 0.08)
    put_foot(world, "RH_FOOT", 0.05)
    close(rewards.feet_phase(world, **params), [math.exp(-(0.03**2) / 0.01)], 1e-6)
    world.episode_step[:] = 5  # a quarter of the swing: half of the height
    put_foot(world, "LF_FOOT", 0.04)
    put_foot(world, "RH_FOOT", 0.04)
    close(rewards.feet_phase(world, **params), [1.0], 1e-6)


def test_contacts_are_counted_foot_by_foot():
    world = world_at(10)
    close(rewards.feet_gait(world, **TROT), [0.5])  # all feet in the air, where two should be
    put_foot(world, "LH_FOOT", 0.0, force=100.0)
    close(rewards.feet_gait(world, **TROT), [0.75])
    put_foot(world, "LF_FOOT", 0.0, force=100.0)
    close(rewards.feet_gait(world, **TROT), [0.5])


def test_a_robot_that_is_to_stand_steps_by_the_clock_until_it_is_slow():
    standing = torch.zeros(1, 3)
    world = world_at(10, standing)
    params = {**TROT, "height": 0.08, "std": 0.1}
    close(rewards.feet_phase(world, **params), [1.0])
    close(rewards.feet_gait(world, **TROT), [0.0])
    world.robot.root_lin_vel_b = torch.tensor([[0.2, 0.2, 0.0]])
    assert rewards.feet_phase(world, **params) < 0.3
    close(rewards.feet_gait(world, **TROT), [0.5])
    turning = world_at(10, torch.tensor([[0.0, 0.0, 0.2]]))
    close(rewards.feet_gait(turning, **TROT), [0.5])
