"""Every sensor and state is that of the robot in its environment: each of many robots is where no other one is."""

import gaitway_isaaclab
import pytest
import torch
from gaitway_isaaclab.world import world_of
from gaitway_tasks.math import projected_gravity, quat_apply_inverse, quat_from_yaw, yaw_of
from gaitway_tasks.registry import get_task

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
