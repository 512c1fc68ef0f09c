"""A run of a Gaitway task by Isaac Lab's own scripts: joints are in the task's order, the simulator's is another."""

import torch
from gaitway_sim2real.imports.isaaclab.importer import read_run
from gaitway_tasks.robots import GO2, DCMotor
from gaitway_tasks.robots.orders import physx_order
from sim2real.imports.isaaclab.run_folder import env_settings, scanner, term, write_run
from tensordict import TensorDict

TERMS = "gaitway_isaaclab.terms:gaitway_tasks.mdp.observations"


def gaitway_settings():
    env = env_settings()
    policy = env["observations"]["policy"]
    for name, function in policy.items():
        if isinstance(function, dict):
            policy[name] = term(f"{TERMS}.{function['func'].partition(':')[2]}", params=function["params"])
    env["actions"]["joint_pos"] |= {
        "class_type": "gaitway_isaaclab.actions:OrderedJointPositionAction",
        "joint_names": list(GO2.joint_names),
        "preserve_order": True,
    }
    return env


def test_columns_are_in_the_order_of_the_actions(tmp_path):
    model = write_run(tmp_path, gaitway_settings())
    run = read_run(tmp_path)
    simulator = list(run.task.robot.joint_names)
    assert simulator == list(physx_order(GO2)) != list(GO2.joint_names)
    moved = [simulator.index(joint) for joint in GO2.joint_names]
    for start in (9, 21, 33):  # positions, velocities, last actions
        assert list(run.observation.columns[start : start + 12]) == [start + joint for joint in moved]
    observation = torch.randn(7, 45)
    action = model(TensorDict({"policy": observation[:, list(run.observation.columns)]}, batch_size=[7]))
    # The bundle's joints are in the simulator's order, the policy's numbers in the task's.
    assert torch.allclose(run.actor(observation)[:, moved], action, atol=1e-6)


def test_height_scans(tmp_path):
    env = gaitway_settings()
    env["scene"]["height_scanner"] = scanner()
    env["observations"]["policy"]["height_scan"] = term(
        f"{TERMS}.height_scan", params={"sensor": "height_scanner"}, clip=(-1.0, 1.0)
    )
    write_run(tmp_path, env, width=60)
    run = read_run(tmp_path)
    assert run.task.observations["policy"].terms["height_scan"].params == {"sensor": "height_scanner", "offset": 0.5}
    assert run.task.height_scanners["height_scanner"].resolution == 0.2


def test_what_only_gaitway_s_tasks_have(tmp_path):
    env = gaitway_settings()
    env["actions"]["joint_pos"] |= {
        "class_type": "gaitway_isaaclab.actions:ClampedJointPositionAction", "raw_clip": 2.0
    }  # fmt: skip
    command = env["commands"]["base_velocity"]
    command |= {"class_type": "gaitway_isaaclab.commands:VelocityCommand", "rel_zero_axis": 0.3}
    command["heading_command"], command["ranges"]["heading"] = False, None
    legs = env["scene"]["robot"]["actuators"]["base_legs"]
    legs |= {"class_type": "gaitway_isaaclab.actuators:DelayedDCMotor", "min_delay": 0, "max_delay": 4}
    write_run(tmp_path, env)
    task = read_run(tmp_path).task
    assert task.actions.raw_clip == 2.0
    command = task.commands["base_velocity"]
    assert command.rel_zero_axis == 0.3 and not command.heading_command
    assert all(isinstance(law, DCMotor) for law in task.robot.joint_actuators)
