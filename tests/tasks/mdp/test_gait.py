"""Clock of a gait by hand: phases, swings, and the terms that follow them."""

import math

import pytest
import torch
from gaitway_tasks.ground import Slope
from gaitway_tasks.mdp import gait, rewards
from gaitway_tasks.mdp import observations as obs
from gaitway_tasks.robots import ANYMAL_C
from step_ground import Step
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


WALKS = {"period": 0.8, "late": 0.5, "command_name": "base_velocity"}


def test_a_clock_between_two_steps_is_never_at_zero():
    steps = torch.arange(40)
    world = TensorWorld(ANYMAL_C, 40)
    world.episode_step, world.commands["base_velocity"] = steps, FORWARD.repeat(40, 1)
    sine, cosine = obs.gait_phase(world, **WALKS).T
    angle = 2 * math.pi * (steps + 0.5) / 40
    close(sine, angle.sin(), 1e-6)
    close(cosine, angle.cos(), 1e-6)
    assert sine.abs().min() > 0.07
    assert ((sine > 0) == (steps < 20)).all()  # the steps next to the change of sign as well
    close(sine.roll(20), -sine, 1e-6)


@pytest.mark.parametrize(("speed", "walks"), [(0.0, False), (0.1, False), (0.1001, True)])
@pytest.mark.parametrize("axis", range(3))
def test_a_robot_told_to_stand_has_no_clock(speed, walks, axis):
    command = torch.zeros(1, 3)
    command[0, axis] = -speed
    clock = obs.gait_phase(world_at(3, command), **WALKS)
    assert clock.any().item() is walks and (walks or not clock.abs().any())
    assert obs.gait_phase(world_at(3, command), 0.8).all()  # one that knows no commands goes on


def test_the_clock_goes_on_counting_at_rest():
    """After a rest of 7 steps the phase is that of a robot that never rested."""
    world = world_at(3)
    world.commands["base_velocity"] = torch.zeros(1, 3)
    world.episode_step += 7
    assert not obs.gait_phase(world, **WALKS).any()
    world.commands["base_velocity"] = FORWARD
    close(obs.gait_phase(world, **WALKS), obs.gait_phase(world_at(10), **WALKS))


def test_joints_that_move_at_rest_cost_by_their_speed():
    world = world_at(0, torch.tensor([[0.0, 0.06, -0.08]]))  # exactly the threshold: 0.1
    world.robot.joint_vel[0, :3] = torch.tensor([1.5, -2.0, 0.25])
    close(rewards.stand_still_joint_vel_l1(world, "base_velocity", 0.1001), [3.75])
    close(rewards.stand_still_joint_vel_l1(world, "base_velocity", 0.0999), [0.0])
    close(rewards.stand_still_joint_vel_l1(world_at(0), "base_velocity"), [0.0])


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
    world.episode_step[:] = 5  # a quarter of the swing
    put_foot(world, "LF_FOOT", 0.08 * 0.5**0.7)
    put_foot(world, "RH_FOOT", 0.08 * 0.5**0.7)
    close(rewards.feet_phase(world, **params), [1.0], 1e-6)


def test_where_the_ground_ahead_is_higher_a_foot_rises_by_as_much_more():
    world = world_at(10)
    world.ground = Step(start=0.1, end=9.0, rise=0.12)
    params = {**TROT, "height": 0.08, "std": 0.1}
    for foot in ("LF_FOOT", "RH_FOOT"):
        put_foot(world, foot, 0.2)
    for reach in (0.15, 0.05):  # of the face, which is 10 cm away
        error = 0.0 if reach > 0.1 else 0.12
        close(rewards.feet_phase(world, **params, reach=reach), [math.exp(-2 * error**2 / 0.01)], 1e-6)


def test_a_base_is_to_lie_as_the_ground_does():
    world, angle = world_at(10), 0.2
    world.ground = Slope(angle=angle)
    close(rewards.ground_orientation_l2(world), [math.sin(angle) ** 2], 1e-6)
    world.robot.root_quat_wxyz = torch.tensor([[math.cos(angle / 2), 0.0, -math.sin(angle / 2), 0.0]])
    close(rewards.ground_orientation_l2(world), [0.0], 1e-6)


def test_feet_that_are_pushed_sideways_stumble():
    world = world_at(10)
    force = torch.zeros_like(world.robot.contact_force_w)
    ids = [world.spec.body_names.index(f"{leg}_FOOT") for leg in ("LF", "LH", "RF", "RH")]
    force[0, ids] = torch.tensor([[41.0, 0.0, 10.0], [0.0, -39.0, 10.0], [0.0, -9.0, -2.0], [0.0, 0.0, 0.0]])
    world.robot.contact_force_w = force
    close(rewards.feet_stumble(world, ".*_FOOT"), [2.0])
    close(rewards.feet_stumble(world, "LF_FOOT", ratio=5.0), [0.0])


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


def test_a_robot_that_settles_has_its_clock_and_steps():
    """Told to stand, it is to stand only once the time to settle is over."""
    world = world_at(10, torch.zeros(1, 3))
    told = ("base_velocity", 0.1)
    for left, steps in ((0.2, True), (0.0, False)):
        world.settling = lambda name, left=left: torch.tensor([left])
        assert bool(gait.is_commanded(world, *told)) == steps
        assert bool(gait.is_stepping(world, *told, 0.25)) == steps
        assert bool(gait.should_stand(world, *told, 0.25)) != steps
        assert bool(obs.gait_phase(world, **WALKS).any()) == steps
