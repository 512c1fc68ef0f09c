"""Sensors, states, actions and events are those of the robot in its environment: each of many is as no other one is.

Comparisons with Isaac Lab's own task do not see an order of environments that both have wrong.
"""

from dataclasses import replace

import gaitway_isaaclab
import mujoco
import pytest
import torch
from gaitway_isaaclab.world import world_of
from gaitway_tasks.ground import Plane
from gaitway_tasks.layout import newest_columns
from gaitway_tasks.math import projected_gravity, quat_apply_inverse, quat_from_yaw, wrap_to_pi, yaw_of
from gaitway_tasks.mdp import events
from gaitway_tasks.registry import get_task
from gaitway_tasks.spec import Event

ROBOTS = 24
"""From eleven on, names in the order of text are in another order than their numbers."""


@pytest.mark.quick
@pytest.mark.slow
def test_each_row_is_of_the_robot_of_its_number(lab, make, physics):
    task = get_task("velocity-rough-anymal-c")
    env = make(lab.kitless(gaitway_isaaclab.env_cfg(task, ROBOTS, "cpu", 0, physics, asset="mjcf"), ROBOTS))
    env.reset()
    world, scene = world_of(env), env.scene
    number = torch.arange(float(ROBOTS))
    everyone = torch.arange(ROBOTS)
    robot, articulation = world.robot, scene["robot"]
    # One environment of each origin, turned and folded by its number, and so high that nothing touches the ground.
    pos = scene.env_origins + torch.stack([0.02 * number, -0.01 * number, 3.0 + 0.1 * number], 1)
    quat = quat_from_yaw(0.1 * number - 1.0)
    joints = world.default_joint_pos + 0.01 * number[:, None] * torch.ones(12)
    speed = 0.02 * number[:, None] * torch.ones(12)
    linear, angular = 0.1 * number[:, None] * torch.tensor([1.0, -1.0, 0.0]), 0.05 * number[:, None] * torch.ones(3)
    put(articulation, robot, pos, quat, joints, speed, linear, angular)
    scene.write_data_to_sim()
    scene.update(dt=env.physics_dt)

    close(robot.root_pos_w, pos)
    close(yaw_of(robot.root_quat_wxyz), yaw_of(quat))
    close(robot.projected_gravity_b, projected_gravity(quat))
    close(robot.root_lin_vel_b, quat_apply_inverse(quat, linear))
    close(robot.root_ang_vel_b, quat_apply_inverse(quat, angular))
    close(robot.joint_pos, joints)
    close(robot.joint_vel, speed)
    base = task.robot.body_names.index(task.robot.base_name)
    close(robot.body_pos_w[:, base], pos)
    assert ((robot.body_pos_w - pos[:, None]).norm(dim=-1) < 1.5).all()

    for sensor in (scene.sensors[name] for name in task.height_scanners):
        sensor.update(env.step_dt, force_recompute=True)
        hits, seen = sensor.data.ray_hits_w.torch, sensor.data.pos_w.torch
        close(seen[:, :2], pos[:, :2])
        assert ((hits[..., :2] - pos[:, None, :2]).norm(dim=-1) < 1.0).all()
        scan = world.height_scan("height_scanner")
        assert scan.shape == (ROBOTS, 187) and (scan - (pos[:, 2] - scene.env_origins[:, 2])[:, None]).abs().max() < 1.0

    # Every third robot is put down; only its feet are pushed.
    down = everyone % 3 == 0
    pos[down, 2] = scene.env_origins[down, 2] + 0.56
    put(
        articulation,
        robot,
        pos,
        quat,
        world.default_joint_pos.expand(ROBOTS, -1),
        0.0 * speed,
        0.0 * linear,
        0.0 * angular,
    )
    env.action_manager.process_action(torch.zeros(ROBOTS, 12))
    for _ in range(20):
        env.action_manager.apply_action()
        scene.write_data_to_sim()
        env.sim.step(render=False)
        scene.update(dt=env.physics_dt)
    forces = robot.contact_force_w.norm(dim=-1)
    feet = forces[:, [task.robot.body_names.index(name) for name in task.robot.foot_names]].sum(1)
    assert torch.equal(feet > 50.0, down), feet
    assert torch.equal(robot.current_contact_time.sum(1) > 0.0, down)
    assert torch.equal(robot.current_air_time.amin(1) > 0.05, ~down)
    assert (robot.applied_torque[down].abs().amax(1) > 10.0).all() and (robot.applied_torque[~down].abs() < 10.0).all()

    move_to_other_levels(env, world)


def move_to_other_levels(env, world):
    """Curricula: who has walked far goes up a row of tiles, who has not goes down, and starts there."""
    terrain, everyone = env.scene.terrain, torch.arange(ROBOTS)
    terrain.terrain_levels[:] = 2
    stay = torch.zeros(ROBOTS, dtype=torch.bool)
    world.ground.move(everyone, stay, stay)
    far, idle = torch.tensor([2, 10, 17]), torch.tensor([1, 11])
    pos = env.scene.env_origins + torch.tensor([0.0, 0.0, 0.6])
    pos[far, 0] += 0.5 * world.ground.tile_size + 1.0
    env.scene["robot"].write_root_pose_to_sim(torch.cat([pos, torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(ROBOTS, 4)], 1))
    env.scene.update(dt=env.physics_dt)
    env.command_manager.get_term("base_velocity").vel_command_b[:] = torch.tensor([1.0, 0.0, 0.0])
    env.curriculum_manager.compute(env_ids=torch.cat([far, idle]))
    expected = torch.full((ROBOTS,), 2)
    expected[far], expected[idle] = 3, 1
    assert torch.equal(terrain.terrain_levels.long(), expected)
    close(env.scene.env_origins, terrain.terrain_origins[expected, terrain.terrain_types.long()])
    close(world.ground.origin(everyone), env.scene.env_origins)


@pytest.mark.quick
@pytest.mark.slow
def test_what_is_done_to_a_robot_is_done_to_the_robot_of_its_number(lab, make, physics):
    """Targets, delays, torques, gains, commands, masses, centres of mass, friction, pushes, falls and resets."""
    task = get_task("velocity-flat-anymal-c-blind")
    gains = Event(
        func=events.randomize_actuator_gains,
        mode="startup",
        params={"stiffness_range": (1.0, 1.0), "damping_range": (1.0, 1.0)},
    )
    delay = Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.01)})
    calm = {name: replace(group, enable_corruption=False) for name, group in task.observations.items()}
    ground = Plane(friction=0.1 if physics == "newton" else 1.0)  # it takes the larger of two, PhysX their product
    task = task.replace(events={**task.events, "gains": gains, "delay": delay}, observations=calm, ground=ground)
    env = make(lab.kitless(gaitway_isaaclab.env_cfg(task, ROBOTS, "cpu", 0, physics, asset="mjcf"), ROBOTS))
    env.reset()
    world = world_of(env)
    drive_in_the_air(env, world, task, physics)
    command(env, world, task)
    stand_and_be_pushed(env, world, task)
    fall_and_run_out_of_time(env, world, task)


def drive_in_the_air(env, world, task, physics):
    """Each joint of each robot has a target of its own, each third robot late by a step more, one with other gains."""
    robot, number, soft = world.robot, torch.arange(float(ROBOTS)), torch.tensor([10])
    stand(env, world, height=3.0)
    happen(env, "gains", soft, stiffness_distribution_params=(0.5, 0.5), damping_distribution_params=(2.0, 2.0))
    drives = task.robot.joint_actuators
    kp, kd = (torch.tensor([getattr(d, name) for d in drives]).expand(ROBOTS, -1).clone() for name in GAINS)
    kp[soft], kd[soft] = 0.5 * kp[soft], 2.0 * kd[soft]
    term = env.action_manager.get_term("joint_pos")
    term.reset()
    late = term._delay_line.steps_late
    late[:] = torch.arange(ROBOTS) % 3
    action = 0.02 * (number[:, None] - 12.0) * torch.linspace(0.5, 1.0, 12)
    wanted = world.default_joint_pos + task.actions.scale * action
    env.action_manager.process_action(action)
    close(world.action, action)
    articulation = env.scene["robot"]
    for step in range(80):
        target = torch.where((step >= late)[:, None], wanted, world.default_joint_pos)
        env.action_manager.apply_action()
        before = kp * (target - robot.joint_pos) - kd * robot.joint_vel
        env.scene.write_data_to_sim()
        env.sim.step(render=False)
        env.scene.update(dt=env.physics_dt)
        if step < 4:
            close(in_order(articulation.data.joint_pos_target.torch, robot), target)
            after = kp * (target - robot.joint_pos) - kd * robot.joint_vel  # Newton's is of the middle of the step
            least, most = torch.minimum(before, after), torch.maximum(before, after)
            outside = torch.maximum(least - robot.applied_torque, robot.applied_torque - most)
            assert outside.max() < (0.3 if physics == "newton" else 1e-3)
    assert (robot.joint_pos - wanted).abs().max() < 0.05  # targets are up to 0.12 rad apart
    seen = env.observation_manager.compute_group("policy", update_history=True)
    newest = newest_columns(task, task.observations["policy"])
    close(seen[:, list(newest["joint_pos"])], robot.joint_pos - world.default_joint_pos)
    close(seen[:, list(newest["actions"])], action)
    seen = env.observation_manager.compute_group("critic", update_history=True)
    newest = newest_columns(task, task.observations["critic"])
    close(seen[:, list(newest["base_lin_vel"])], robot.root_lin_vel_b)
    env.step(-action)
    close(in_order(articulation.data.joint_pos_target.torch, robot), 2.0 * world.default_joint_pos - wanted)  # in time
    happen(env, "gains", soft, stiffness_distribution_params=(1.0, 1.0), damping_distribution_params=(1.0, 1.0))


def command(env, world, task):
    """Headings of each robot's own; one stands, one is told something new."""
    term, number = env.command_manager.get_term("base_velocity"), torch.arange(float(ROBOTS))
    stand(env, world, yaw=0.2 * number - 2.0)
    told = torch.stack([0.04 * number - 0.5, 0.3 - 0.02 * number, 0.0 * number], 1)
    standing, anew = 17, 10
    term.vel_command_b[:], term.time_left[:] = told, 5.0
    term.is_heading_env[:], term.is_standing_env[:] = True, False
    term.is_standing_env[standing], term.time_left[anew] = True, 0.0
    term.heading_target[:] = 0.1 * number
    term._ahead = {}
    term._steps_left = 0
    env.command_manager.compute(env.step_dt)
    rate = term.cfg.heading_control_stiffness * wrap_to_pi(0.1 * number - yaw_of(world.robot.root_quat_wxyz))
    told[:, 2] = rate.clamp(*task.commands["base_velocity"].ang_vel_z)
    told[standing] = 0.0
    others = torch.arange(ROBOTS) != anew
    close(world.command("base_velocity")[others], told[others])
    assert not torch.equal(world.command("base_velocity")[anew], told[anew]) and term.time_left[anew] > 5.0


def stand_and_be_pushed(env, world, task):
    """One is heavier, one has its weight in front; two are pushed, one of them on ice."""
    robot, everyone = world.robot, torch.arange(ROBOTS)
    icy, heavy, leaning, held = (torch.tensor([i]) for i in (2, 10, 17, 5))
    rub(env, everyone, 1.0)
    for robots, mass in ((everyone, 0.0), (heavy, 20.0)):
        happen(env, "add_base_mass", robots, mass_distribution_params=(mass, mass))
    for robots, shift in ((everyone, 0.0), (leaning, 0.15)):
        happen(env, "base_com", robots, com_range={"x": (shift, shift), "y": (0.0, 0.0), "z": (0.0, 0.0)})
    stand(env, world, height=0.56)
    env.action_manager.process_action(torch.zeros(ROBOTS, 12))
    go(env, 300)
    feet = [task.robot.body_names.index(name) for name in task.robot.foot_names]
    up = robot.contact_force_w[:, feet, 2]
    own = mujoco.MjModel.from_xml_path(str(task.robot.mjcf)).body_mass.sum()
    weight = 9.81 * (float(own) + 20.0 * (everyone == heavy))
    torch.testing.assert_close(up.sum(1), weight, rtol=0.05, atol=0.0)
    nose_down = robot.projected_gravity_b[:, 0]
    assert nose_down[leaning] > 0.15 and nose_down[everyone != leaning].abs().max() < 0.05, nose_down

    rub(env, icy, 0.1)
    before = robot.body_pos_w[:, feet].clone()
    speed = robot.root_lin_vel_b.clone()
    for robots in (icy, held):
        happen(env, "push_robot", robots, velocity_range={"x": (0.7, 0.7), "y": (0.0, 0.0)})
    env.scene.update(dt=0.0)
    pushed = (everyone == icy) | (everyone == held)
    gained = (robot.root_lin_vel_b - speed)[:, 0]
    torch.testing.assert_close(gained, 0.7 * pushed.float(), rtol=0.0, atol=0.02)
    go(env, 40)
    slid = (robot.body_pos_w[:, feet] - before).norm(dim=-1).amax(1)
    assert slid.argmax() == icy and slid[icy] > 0.08 and slid[everyone != icy].max() < 0.04, slid


def rub(env, robots, friction):
    term = env.event_manager.get_term_cfg("physics_material").func._impl
    if hasattr(term, "material_buckets"):  # PhysX draws from materials that it made at the start
        term.material_buckets[:, :2] = friction
    term._static_friction_range = (friction, friction)  # Newton draws from what it was told at the start
    both = {"static_friction_range": (friction, friction), "dynamic_friction_range": (friction, friction)}
    happen(env, "physics_material", robots, **both)


def fall_and_run_out_of_time(env, world, task):
    """One lies on its back, another one's time is up: these end, and start anew where their environments are."""
    articulation, fallen, late = env.scene["robot"], 10, 17
    stand(env, world, height=0.6)
    env.episode_length_buf[:] = 5
    env.episode_length_buf[late] = env.max_episode_length - 3
    pose = torch.cat([articulation.data.root_pos_w.torch, torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(ROBOTS, 4)], 1)
    pose[fallen, 2:] = torch.tensor([0.2, 1.0, 0.0, 0.0, 0.0])
    articulation.write_root_pose_to_sim(pose)
    ends = torch.zeros(2, ROBOTS, dtype=torch.bool)
    for _ in range(12):
        _, _, terminated, timed_out, _ = env.step(torch.zeros(ROBOTS, 12))
        ends |= torch.stack([terminated, timed_out])
        assert ((world.robot.root_pos_w - env.scene.env_origins)[:, :2].abs() < 0.7).all()
    assert [row.nonzero().flatten().tolist() for row in ends] == [[fallen], [late]]
    assert (env.episode_length_buf[[fallen, late]] < 12).all() and (env.episode_length_buf == 17).sum() == ROBOTS - 2
    assert (world.robot.projected_gravity_b[:, 2] < -0.9).all()


GAINS = "stiffness", "damping"


def happen(env, name, robots, **params):
    """Event ``name`` to these ``robots``, with some parameters changed."""
    cfg = env.event_manager.get_term_cfg(name)
    cfg.func(env, robots, **{**cfg.params, **params})


def go(env, steps):
    for _ in range(steps):
        env.action_manager.apply_action()
        env.scene.write_data_to_sim()
        env.sim.step(render=False)
        env.scene.update(dt=env.physics_dt)


def stand(env, world, *, height=0.6, yaw=None):
    """Every robot in its default pose, at rest, above its origin."""
    rest = torch.zeros(ROBOTS, 3)
    pos = env.scene.env_origins + torch.tensor([0.0, 0.0, height])
    quat = quat_from_yaw(torch.zeros(ROBOTS) if yaw is None else yaw)
    joints = world.default_joint_pos.expand(ROBOTS, -1)
    put(env.scene["robot"], world.robot, pos, quat, joints, 0.0 * joints, rest, rest)
    env.scene.write_data_to_sim()
    env.scene.update(dt=env.physics_dt)


def in_order(values, robot):
    return values if robot._joints is None else values[:, robot._joints]


def put(articulation, robot, pos, quat, joints, speed, linear, angular):
    """Place the robots; joints are in the robot's own order."""
    order = slice(None) if robot._joints is None else robot._joints
    theirs, rates = torch.empty_like(joints), torch.empty_like(joints)
    theirs[:, order], rates[:, order] = joints, speed
    articulation.write_root_pose_to_sim(torch.cat([pos, quat[:, [1, 2, 3, 0]]], 1))
    articulation.write_root_velocity_to_sim(torch.cat([linear, angular], 1))
    articulation.write_joint_state_to_sim(theirs, rates)


def close(value, expected):
    torch.testing.assert_close(value, expected, rtol=0.0, atol=2e-5)
