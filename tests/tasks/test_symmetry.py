"""Properties that hold in every state: heading does not matter on flat ground, nor does which side is which."""

import dataclasses

import hypothesis.strategies as st
import mujoco
import numpy as np
import pytest
import torch
from gaitway_tasks.math import quat_from_yaw, quat_mul
from gaitway_tasks.mdp import observations, rewards, terminations
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ANYMAL_C, Mirror
from gaitway_tasks.spec import ObservationTerm
from gaitway_tasks.symmetry import SIGNS, mirror_group
from gaitway_tasks.velocity import blind, velocity_flat
from gaitway_tasks.velocity.gaits import GAITS, by_the_clock
from hypothesis import given, settings
from tensor_world import TensorWorld, close, rotation_matrix

N = 16
TASK = velocity_flat(ANYMAL_C)
COMMAND = {"command_name": "base_velocity"}
EXTRA = {
    "track_lin_vel_xy_yaw_frame_exp": lambda w: rewards.track_lin_vel_xy_yaw_frame_exp(w, 0.5, **COMMAND),
    "track_ang_vel_z_world_exp": lambda w: rewards.track_ang_vel_z_world_exp(w, 0.5, **COMMAND),
    "joint_vel_l2": rewards.joint_vel_l2,
    "action_l2": rewards.action_l2,
    "base_height_l2": lambda w: rewards.base_height_l2(w, 0.6),
    "joint_deviation_l1": rewards.joint_deviation_l1,
    "stand_still": lambda w: rewards.stand_still_joint_deviation_l1(w, **COMMAND),
    "feet_air_time_variance": lambda w: rewards.feet_air_time_variance(w, feet=".*_FOOT", **COMMAND),
    "feet_slide": lambda w: rewards.feet_slide(w, ".*_FOOT"),
    "is_alive": rewards.is_alive,
    "bad_orientation": lambda w: terminations.bad_orientation(w, 1.0),
    "low": lambda w: terminations.root_height_below_minimum(w, 0.3),
    "joint_pos_out_of_limit": terminations.joint_pos_out_of_limit,
}
SCALARS = EXTRA | {
    name: (lambda w, term=term: term.func(w, **term.params))
    for name, term in (TASK.rewards | TASK.terminations).items()
}
seeds = st.integers(0, 10_000)


def root_in_world(world):
    """Base velocities in the world frame, from the base-frame ones: (N, 3) each."""
    rotation = rotation_matrix(world.robot.root_quat_wxyz)
    return [
        (rotation @ v.double()[..., None])[..., 0] for v in (world.robot.root_lin_vel_b, world.robot.root_ang_vel_b)
    ]


def turned(world, yaw):
    """The same situation, seen by somebody who looks at it from another direction."""
    other = TensorWorld(ANYMAL_C, N)
    other.robot.__dict__.update({k: v.clone() for k, v in vars(world.robot).items()})
    for name in ("action", "previous_action", "episode_step", "terminated", "commands"):
        setattr(other, name, getattr(world, name))
    turn = quat_from_yaw(torch.full((N,), yaw))
    rotation = rotation_matrix(turn)
    lin, ang = ((rotation @ v[..., None])[..., 0] for v in root_in_world(world))
    pos = (rotation @ world.robot.root_pos_w.double()[..., None])[..., 0]
    other.set_root(quat_mul(turn, world.robot.root_quat_wxyz), lin, ang, pos)
    for name in ("contact_force_w", "body_pos_w", "body_lin_vel_w"):
        value = getattr(world.robot, name).double()
        setattr(other.robot, name, (rotation[:, None] @ value[..., None])[..., 0].float())
    return other


def mirrored(world, mirror: Mirror):
    """The situation behind a mirror that stands upright in the base's own plane."""
    spec, other = ANYMAL_C, TensorWorld(ANYMAL_C, N)
    axis = "xyz".index(mirror.axis)
    swap = mirror.pairs | {b: a for a, b in mirror.pairs.items()}

    def twin(name):
        prefix, _, rest = name.partition("_")
        return f"{swap.get(prefix, prefix)}_{rest}" if rest else name

    joints = [spec.joint_names.index(twin(name)) for name in spec.joint_names]
    bodies = [spec.body_names.index(twin(name)) for name in spec.body_names]
    feet = [spec.foot_names.index(twin(name)) for name in spec.foot_names]
    sign = torch.tensor([-1.0 if name.endswith(mirror.flip) else 1.0 for name in spec.joint_names])
    polar = torch.ones(3)
    polar[axis] = -1.0
    axial = -polar
    source, target = world.robot, other.robot
    for name in ("joint_pos", "joint_vel", "joint_acc", "applied_torque"):
        setattr(target, name, getattr(source, name)[:, joints] * sign)
    for name in ("current_air_time", "last_air_time", "current_contact_time", "last_contact_time"):
        setattr(target, name, getattr(source, name)[:, feet])
    for name in ("contact_force_w", "body_pos_w", "body_lin_vel_w"):
        setattr(target, name, getattr(source, name)[:, bodies] * polar)
    lin, ang = root_in_world(world)
    # Mirroring a rotation keeps its angle and turns its axis, which is an axial vector.
    quat = torch.cat((source.root_quat_wxyz[:, :1], source.root_quat_wxyz[:, 1:] * axial), 1)
    other.set_root(quat, lin * polar, ang * axial, source.root_pos_w * polar)
    other.action, other.previous_action = world.action[:, joints] * sign, world.previous_action[:, joints] * sign
    other.episode_step, other.terminated = world.episode_step, world.terminated
    flip = torch.tensor([polar[0], polar[1], axial[2]])
    other.commands["base_velocity"] = world.commands["base_velocity"] * flip
    return other, {"joint": (joints, sign), "polar": polar, "axial": axial, "command": flip}


@settings(max_examples=25)
@given(seeds, st.floats(-3.1, 3.1))
def test_nothing_depends_on_the_heading(seed, yaw):
    world = TensorWorld(ANYMAL_C, N).randomize(seed)
    other = turned(world, yaw)
    assert abs(yaw) < 1e-3 or not torch.allclose(world.robot.contact_force_w, other.robot.contact_force_w)
    for term in SCALARS.values():
        close(term(other).float(), term(world).float(), 2e-4)
    for term in TASK.observations["policy"].terms.values():
        close(term.func(other, **term.params), term.func(world, **term.params), 2e-5)


@settings(max_examples=25)
@given(seeds, st.sampled_from(sorted(ANYMAL_C.mirrors)))
def test_rewards_and_terminations_are_the_same_behind_the_mirror(seed, name):
    world = TensorWorld(ANYMAL_C, N).randomize(seed)
    other, _ = mirrored(world, ANYMAL_C.mirrors[name])
    assert not torch.allclose(world.robot.joint_pos, other.robot.joint_pos)
    for term in SCALARS.values():
        close(term(other).float(), term(world).float(), 2e-4)


@settings(max_examples=25)
@given(seeds, st.sampled_from(sorted(ANYMAL_C.mirrors)))
def test_observations_mirror_as_their_kind_of_quantity_does(seed, name):
    world = TensorWorld(ANYMAL_C, N).randomize(seed)
    other, maps = mirrored(world, ANYMAL_C.mirrors[name])
    joints, sign = maps["joint"]
    kinds = {
        "base_lin_vel": maps["polar"],
        "base_ang_vel": maps["axial"],
        "projected_gravity": maps["polar"],
        "velocity_commands": maps["command"],
    }
    for term_name, term in TASK.observations["policy"].terms.items():
        value, image = term.func(world, **term.params), term.func(other, **term.params)
        expected = value * kinds[term_name] if term_name in kinds else value[:, joints] * sign
        close(image, expected, 2e-5)


@settings(max_examples=25)
@given(seeds, st.sampled_from(sorted(ANYMAL_C.mirrors)))
def test_behind_the_mirror_a_trot_is_half_a_cycle_later(seed, name):
    task = by_the_clock(TASK, GAITS[4])
    world = TensorWorld(ANYMAL_C, N).randomize(seed)
    other, _ = mirrored(world, ANYMAL_C.mirrors[name])
    schedule = task.rewards["feet_gait"].params
    half = round(schedule["period"] / world.step_dt) // 2
    clock = task.observations["policy"].terms["gait_phase"]
    later = world.episode_step + half
    here = clock.func(world, **clock.params)
    other.episode_step = later
    close(clock.func(other, **clock.params), -here, 1e-5)
    for reward in ("feet_phase", "feet_gait"):
        term = task.rewards[reward]
        close(term.func(other, **term.params), term.func(world, **term.params), 1e-5)
    group = mirror_group(task)
    width = task.observations["policy"].history_length
    perm, sign = (part[-2 * width :] for part in (group.observations["policy"][k][1] for k in (0, 1)))
    assert (sign == -1.0).all() and perm.tolist() == list(range(int(perm[0]), int(perm[0]) + 2 * width))


CLOCK = {"period": 0.48, "late": 0.5, **COMMAND}


def with_clock(history: int = 3, **params):
    """ANYmal C's blind task with a clock of these parameters in front of everything else."""
    task = blind(velocity_flat(ANYMAL_C), history)
    clock = ObservationTerm(func=observations.gait_phase, params=params)
    groups = {
        name: dataclasses.replace(group, terms={"gait_phase": clock, **group.terms})
        for name, group in task.observations.items()
    }
    return task.replace(observations=groups)


def test_a_clock_that_is_never_zero_chooses_before_the_command_does():
    selectors = mirror_group(with_clock(**CLOCK)).selectors
    twist = 3 * (2 + 3 + 3) + 2 * 3  # behind clock, gyro and gravity, three frames each, and two older commands
    assert selectors == (2 * 2, twist, twist + 1, twist + 2)  # the newest sine, then the newest command


def test_runs_with_a_clock_of_old_choose_by_the_command_alone():
    """Their clocks go through zero, and some count an odd number of steps, as Go2's did."""
    for period in (0.48, 0.46):
        selectors = mirror_group(with_clock(period=period)).selectors
        assert selectors == mirror_group(with_clock(**CLOCK)).selectors[1:]


def test_half_of_a_deciding_clock_must_be_whole_steps():
    with pytest.raises(ValueError, match=r"gait period 0\.46 s: .*even number of control steps of 0\.02 s"):
        mirror_group(with_clock(**CLOCK | {"period": 0.46}))


@pytest.mark.parametrize("robot", ["anymal-c", "go2", "g1-29dof"])
def test_selectors_of_a_gait_tell_its_images_apart(robot):
    """Every mirror flips the clock, and of the command what its axis says."""
    task = get_task(f"velocity-flat-{robot}-blind", "cpu")
    group = mirror_group(task)
    perm, sign = group.observations["policy"]
    columns = torch.tensor(group.selectors)
    assert (perm[:, columns] == columns).all()
    clock, *twist = sign[:, columns].T
    mirrors = list(task.robot.mirrors.values())
    for bit, mirror in enumerate(mirrors):
        element = 1 << bit
        assert clock[element] == -1.0
        assert [part[element] for part in twist] == list(SIGNS["planar_twist"][mirror.axis])
    assert len(sign[:, columns].unique(dim=0)) == 2 ** len(mirrors)


def test_a_wrong_mirror_would_be_noticed():
    world = TensorWorld(ANYMAL_C, N).randomize(0)
    wrong = dataclasses.replace(ANYMAL_C.mirrors["left-right"], flip=("HFE",))
    other, _ = mirrored(world, wrong)
    deviation = rewards.joint_deviation_l1
    assert not torch.allclose(deviation(other), deviation(world), atol=1e-3)


@pytest.mark.parametrize("name", sorted(ANYMAL_C.mirrors))
def test_mirrors_are_reflections_of_the_robot_itself(name):
    """Mirrored joint angles put mirrored feet at mirrored places; limits and default pose map onto themselves."""
    mirror = ANYMAL_C.mirrors[name]
    world = TensorWorld(ANYMAL_C, N).randomize(3)
    other, maps = mirrored(world, mirror)
    joints, sign = maps["joint"]
    default, limits = world.default_joint_pos, torch.tensor(ANYMAL_C.joint_limits)
    close(default[joints] * sign, default)
    close((limits[joints] * sign[:, None]).sort(1).values, limits)

    model = mujoco.MjModel.from_xml_path(str(ANYMAL_C.mjcf))
    data = mujoco.MjData(model)
    addresses = [model.joint(joint).qposadr[0] for joint in ANYMAL_C.joint_names]

    def positions(joint_pos):
        data.qpos[:7] = (0, 0, 0, 1, 0, 0, 0)
        data.qpos[addresses] = joint_pos.numpy()
        mujoco.mj_kinematics(model, data)
        return {body: data.body(body).xpos.copy() for body in ANYMAL_C.body_names}

    swap = mirror.pairs | {b: a for a, b in mirror.pairs.items()}
    for env in range(N):
        here, there = positions(world.robot.joint_pos[env]), positions(other.robot.joint_pos[env])
        for body, place in here.items():
            prefix, _, rest = body.partition("_")
            twin = f"{swap[prefix]}_{rest}" if rest else body
            np.testing.assert_allclose(there[twin], place * maps["polar"].numpy(), atol=1e-6)
