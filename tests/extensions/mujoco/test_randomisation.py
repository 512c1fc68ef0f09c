"""Every knob that events turn does to the simulated robot what its name says."""

from dataclasses import replace

import mujoco
import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_tasks.actuators import dc_motor_torque
from gaitway_tasks.mdp.terminations import time_out
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import Termination, Timing
from quiet import quiet_task

GRAVITY = 9.81
FEET = [ANYMAL_C.body_names.index(name) for name in ANYMAL_C.foot_names]
JOINTS = ANYMAL_C.num_joints


def standing(n, settle=60):
    """Robots at rest on legs so stiff that they hardly give way; their feet do not creep."""
    env = make_env(quiet_task(), n, num_threads=1, cone="elliptic", impratio=100.0)
    env.reset()
    ids = torch.arange(n)
    env.world.set_gain_scale(ids, torch.full((n, JOINTS), 8.0), torch.full((n, JOINTS), 4.0))
    hold(env, settle)
    return env, ids


def hold(env, steps):
    for _ in range(steps):
        _, _, terminated, _, _ = env.step(torch.zeros(env.num_envs, JOINTS))
        assert not terminated.any()


def foot_forces(env):
    return env.world.robot.contact_force_w[:, FEET]


def placed(env, row):
    """MuJoCo's data of one environment with its own randomised model, kinematics up to date."""
    model = env.world.batch.get_model(row)
    data = mujoco.MjData(model)
    data.qpos[:] = env.world._fields["qpos"][row].numpy()
    mujoco.mj_fwdPosition(model, data)
    return data


def test_friction_bounds_the_force_of_each_foot_and_sliding_reaches_it():
    friction = torch.tensor([0.2, 0.4, 0.7])
    env = make_env(quiet_task(), 3, num_threads=1)
    env.reset()
    ids = torch.arange(3)
    env.world.set_gain_scale(ids, torch.full((3, JOINTS), 5.0), torch.full((3, JOINTS), 3.0))
    env.world.set_friction(ids, friction)
    hold(env, 60)
    env.world.add_root_velocity(ids, torch.tensor([[1.5, 0.0, 0.0]]).expand(3, 3), torch.zeros(3, 3))
    ratios = []
    for _ in range(12):
        hold(env, 1)
        force = foot_forces(env)
        down = force[..., 2] > 5.0
        ratio = torch.where(down, force[..., :2].norm(dim=-1) / force[..., 2], 0.0)
        assert (ratio <= friction[:, None] * 1.001).all()
        assert (force[..., 0] <= 0.01).all()  # against the motion
        ratios.append(ratio.amax(1))
    torch.testing.assert_close(torch.stack(ratios).amax(0), friction, rtol=1e-3, atol=0)
    speed = env.world.robot.root_lin_vel_b[:, 0]
    assert speed[0] > speed[1] > speed[2] > 0.0


def test_feet_sink_less_into_harder_ground():
    env, ids = standing(3, settle=10)
    env.world.set_ground_impedance(ids, torch.tensor([0.5, 0.9, 0.98]))
    env.world.finish_events()
    hold(env, 60)
    depth = [max(-contact.dist for contact in placed(env, row).contact) for row in range(3)]
    assert depth[0] > 2 * depth[1] > 4 * depth[2] > 0.0
    torch.testing.assert_close(foot_forces(env)[1, :, 2].sum(), foot_forces(env)[2, :, 2].sum(), rtol=2e-3, atol=0)


def test_added_mass_is_carried_by_the_feet():
    env, ids = standing(3, settle=10)
    added = torch.tensor([-5.0, 0.0, 5.0])
    env.world.set_added_mass(ids, added)
    env.world.finish_events()
    hold(env, 60)
    weight = (env.world.model.body_subtreemass[0] + added) * GRAVITY
    torch.testing.assert_close(foot_forces(env)[..., 2].sum(1), weight.float(), rtol=2e-3, atol=0)
    base = env.world.model.body("base").id
    for row, kilograms in enumerate(added.tolist()):
        model = env.world.batch.get_model(row)
        ratio = model.body_mass[base] / env.world.model.body_mass[base]
        assert model.body_mass[base] == pytest.approx(env.world.model.body_mass[base] + kilograms)
        assert model.body_inertia[base] == pytest.approx(ratio * env.world.model.body_inertia[base])
        assert model.body_subtreemass[0] == pytest.approx(env.world.model.body_subtreemass[0] + kilograms)


def test_scaled_mass_is_that_of_the_named_body():
    env, ids = standing(2)
    env.world.set_mass_scale(ids, torch.tensor([0.8, 1.25]), "LF_THIGH")
    env.world.finish_events()
    own, row = env.world.model, env.world.model.body("LF_THIGH").id
    for index, factor in enumerate((0.8, 1.25)):
        model = env.world.batch.get_model(index)
        assert model.body_mass[row] == pytest.approx(factor * own.body_mass[row])
        assert model.body_inertia[row] == pytest.approx(factor * own.body_inertia[row])
        grown = (factor - 1.0) * own.body_mass[row]
        assert model.body_subtreemass[0] == pytest.approx(own.body_subtreemass[0] + grown)


def test_com_offset_moves_the_load_between_the_feet():
    env, ids = standing(3, settle=10)
    offset = torch.tensor([[0.0, 0.0, 0.0], [0.05, 0.0, 0.0], [0.0, -0.05, 0.01]])
    env.world.set_com_offset(ids, offset)
    env.world.finish_events()
    hold(env, 60)
    share = ANYMAL_C_BASE_MASS / env.world.model.body_subtreemass[0]
    for row in range(3):
        data = placed(env, row)
        feet = torch.tensor(data.xpos[[data.body(name).id for name in ANYMAL_C.foot_names]])
        load = foot_forces(env)[row, :, 2].double()
        pressure = (feet[:, :2] * load[:, None]).sum(0) / load.sum()
        torch.testing.assert_close(pressure, torch.tensor(data.subtree_com[1, :2]), rtol=0, atol=1e-3)
        # The knob moved that point by the base's share of the offset, from where the untouched row has it.
        moved = torch.tensor(data.subtree_com[1] - data.xpos[1]) - torch.tensor(
            placed(env, 0).subtree_com[1] - placed(env, 0).xpos[1]
        )
        torch.testing.assert_close(moved, offset[row].double() * share, rtol=0, atol=3e-3)


ANYMAL_C_BASE_MASS = 19.203

ONE_STEP = quiet_task(timing=Timing(physics_dt=0.005, decimation=1), terminations={})


def one_step_torques(turn_knobs):
    """Torques of one physics step from random states, and what the law is a function of: target, pos, vel."""
    env = make_env(ONE_STEP, 16, num_threads=1)
    env.reset()
    world, ids = env.world, torch.arange(16)
    turn_knobs(world, ids)
    generator = torch.Generator().manual_seed(0)
    pos = world.default_joint_pos + torch.randn(16, JOINTS, generator=generator)
    vel = 4.0 * torch.randn(16, JOINTS, generator=generator)
    action = 2.0 * torch.randn(16, JOINTS, generator=generator)
    high = torch.tensor([[0.0, 0.0, 3.0]]).expand(16, 3)
    world.write_root_state(ids, high, torch.tensor([[1.0, 0, 0, 0]]).expand(16, 4), 0 * high, 0 * high)
    world.write_joint_state(ids, pos, vel)
    world.finish_events()
    measured = world.robot.joint_pos.clone()
    env.step(action)
    return world.robot.applied_torque, world.default_joint_pos + 0.5 * action, pos, vel, measured


def close(actual, expected):
    torch.testing.assert_close(actual, expected.float(), rtol=1e-4, atol=1e-4)


def test_torques_are_the_law_when_nothing_is_randomised():
    torque, target, pos, vel, measured = one_step_torques(lambda world, ids: None)
    close(torque, dc_motor_torque(ANYMAL_C.joint_actuators[0], target, pos, vel))
    close(measured, pos)
    assert (torque.abs() > 79.9).any() and (torque.abs() < 40).any()  # clipped ones among them, and others


def test_gain_scale():
    kp = 0.5 + torch.rand(16, JOINTS, generator=torch.Generator().manual_seed(1))
    kd = 0.5 + torch.rand(16, JOINTS, generator=torch.Generator().manual_seed(2))
    torque, target, pos, vel, _ = one_step_torques(lambda world, ids: world.set_gain_scale(ids, kp, kd))
    law = ANYMAL_C.joint_actuators[0]
    close(
        torque, dc_motor_torque(replace(law, stiffness=law.stiffness * kp, damping=law.damping * kd), target, pos, vel)
    )


def test_motor_strength_scales_the_delivered_torque_at_any_speed():
    strength = 0.5 + torch.rand(16, JOINTS, generator=torch.Generator().manual_seed(3))
    torque, target, pos, vel, _ = one_step_torques(lambda world, ids: world.set_motor_strength(ids, strength))
    close(torque, strength * dc_motor_torque(ANYMAL_C.joint_actuators[0], target, pos, vel))


def test_gain_scale_and_motor_strength_combine_in_either_order():
    factor = torch.full((16, JOINTS), 1.3)

    def one(world, ids):
        world.set_gain_scale(ids, factor, 1.0 / factor)
        world.set_motor_strength(ids, factor)

    def other(world, ids):
        world.set_motor_strength(ids, factor)
        world.set_gain_scale(ids, factor, 1.0 / factor)

    torque, target, pos, vel, _ = one_step_torques(one)
    law = replace(ANYMAL_C.joint_actuators[0], stiffness=40.0 * 1.3, damping=5.0 / 1.3)
    close(torque, 1.3 * dc_motor_torque(law, target, pos, vel))
    torch.testing.assert_close(torque, one_step_torques(other)[0], rtol=0, atol=0)


def test_joint_offset_misleads_encoder_and_motor_alike():
    offset = 0.1 * torch.randn(16, JOINTS, generator=torch.Generator().manual_seed(4))
    torque, target, pos, vel, measured = one_step_torques(lambda world, ids: world.set_joint_offset(ids, offset))
    close(measured, pos + offset)
    close(torque, dc_motor_torque(ANYMAL_C.joint_actuators[0], target, pos + offset, vel))


def test_action_delay_shifts_the_response_by_whole_physics_steps_also_after_a_reset():
    """Delayed by d steps = undelayed with the actions of d steps ago, the default pose before the first of them."""
    steps_late = torch.tensor([0, 1, 3, 8])
    length = 20
    ends = {"time_out": Termination(func=time_out, time_out=True)}
    timing = Timing(physics_dt=0.005, decimation=1, episode_length_s=length * 0.005)
    task = quiet_task(timing=timing, terminations=ends)
    late = make_env(task, 4, num_threads=1, max_action_delay=0.04)
    prompt = make_env(task, 4, num_threads=1)
    late.reset(), prompt.reset()
    late.world.set_action_delay(torch.arange(4), steps_late * 0.005)
    script = torch.randn(3 * length, 4, JOINTS, generator=torch.Generator().manual_seed(0))
    moved = 0.0
    for step in range(3 * length):
        since_reset = step % length
        earlier = torch.stack(
            [script[step - d, row] if since_reset >= d else torch.zeros(JOINTS) for row, d in enumerate(steps_late)]
        )
        late.step(script[step])
        prompt.step(earlier)
        for name in ("joint_pos", "joint_vel", "applied_torque", "root_pos_w"):
            a, b = getattr(late.world.robot, name), getattr(prompt.world.robot, name)
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        moved = max(moved, float(prompt.world.robot.joint_vel.abs().max()))
    assert moved > 1.0


def test_delay_lines_know_the_joint_offset_of_the_new_episode():
    env = make_env(replace(ONE_STEP), 2, num_threads=1, max_action_delay=0.05)
    env.reset()
    ids = torch.arange(2)
    env.world.set_action_delay(ids, torch.tensor([0.05, 0.05]))
    env.world.reset_physics(ids)
    env.world.write_joint_state(ids, env.world.default_joint_pos.expand(2, -1), torch.zeros(2, JOINTS))
    env.world.set_joint_offset(ids, torch.tensor([[0.1], [0.0]]).expand(2, JOINTS))
    env.world.finish_events()
    env.step(torch.zeros(2, JOINTS))
    # The encoders of the first row read 0.1 rad too much, and the targets it remembers are in encoder angles.
    torque = dc_motor_torque(ANYMAL_C.joint_actuators[0], torch.tensor(0.0), torch.tensor(0.1), torch.tensor(0.0))
    torch.testing.assert_close(env.world.robot.applied_torque[0], torque.expand(JOINTS), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(env.world.robot.applied_torque[1], torch.zeros(JOINTS), rtol=0, atol=1e-4)


def test_knobs_turn_only_the_environments_they_are_told_to():
    env = make_env(ONE_STEP, 5, num_threads=1)
    twin = make_env(ONE_STEP, 5, num_threads=1)
    env.reset(), twin.reset()
    some = torch.tensor([1, 3])
    world = env.world
    world.set_friction(some, torch.tensor([0.1, 0.1]))
    world.set_added_mass(some, torch.tensor([3.0, 3.0]))
    world.set_com_offset(some, torch.full((2, 3), 0.03))
    world.set_motor_strength(some, torch.full((2, JOINTS), 0.7))
    world.set_joint_offset(some, torch.full((2, JOINTS), 0.05))
    world.finish_events()
    for action in torch.randn(60, 5, JOINTS, generator=torch.Generator().manual_seed(0)):
        env.step(action), twin.step(action)
    same = (world.robot.joint_pos == twin.world.robot.joint_pos).all(1)
    assert same.tolist() == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("knob", "values", "message"),
    [
        ("set_added_mass", torch.tensor([1.0, -19.3]), r"-19\.3 kg.*19\.2 kg, without mass"),
        ("set_mass_scale", torch.tensor([0.0, 1.0]), r"mass scale 0: it must be positive"),
        ("set_friction", torch.tensor([-0.1, 1.0]), r"friction -0\.1.*cannot be negative"),
        (
            "set_action_delay",
            torch.tensor([0.0, 0.03]),
            r"0\.03 s exceeds the delay line: set max_action_delay >= 0\.03",
        ),
        ("set_action_delay", torch.tensor([-0.01, 0.01]), r"-0\.01 s.*cannot be negative"),
        ("set_motor_strength", torch.zeros(2, JOINTS), r"motor strength 0: it must be positive"),
    ],
)
def test_impossible_values_are_refused(knob, values, message):
    env = make_env(ONE_STEP, 2, num_threads=1, max_action_delay=0.02)
    with pytest.raises(ValueError, match=message):
        getattr(env.world, knob)(torch.arange(2), values)


def test_values_of_the_wrong_shape_are_refused():
    world = make_env(ONE_STEP, 3, num_threads=1).world
    ids = torch.arange(3)
    for call in (
        lambda: world.set_friction(ids, torch.ones(2)),
        lambda: world.set_motor_strength(ids, torch.ones(3, JOINTS - 1)),
        lambda: world.set_com_offset(ids, torch.ones(3, 2)),
        lambda: world.write_joint_state(ids, torch.zeros(3, JOINTS + 1), torch.zeros(3, JOINTS + 1)),
    ):
        with pytest.raises((ValueError, RuntimeError), match=r"shape|size"):
            call()
