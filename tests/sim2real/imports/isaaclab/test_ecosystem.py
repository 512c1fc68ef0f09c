"""Runs of projects on top of Isaac Lab, written from the fields and numbers of their public sources.

unitree_rl_lab (github.com/unitreerobotics/unitree_rl_lab: ``assets/robots/unitree.py``, ``unitree_actuators.py``, the
velocity task of the G1 with 29 joints and the ``deploy.yaml`` of its policy) and Robot Lab
(github.com/fan-ziqi/robot_lab: ``velocity/mdp/commands.py``, ``assets/unitree.py``).
"""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from gaitway_onboard.bundle.contract import Contract
from gaitway_sim2real.imports.isaaclab.errors import IsaacLabImportError
from gaitway_sim2real.imports.isaaclab.importer import read_run
from gaitway_tasks.actuators import dc_motor_torque
from gaitway_tasks.robots import G1_23DOF, G1_29DOF, GO2, DCMotor, ImplicitPD
from sim2real.imports.isaaclab.run_folder import env_settings, term, write_run

G1_IDS = [0, 6, 12, 1, 7, 13, 2, 8, 14, 3, 9, 15, 22, 4, 10, 16, 23, 5, 11, 17, 24, 18, 25, 19, 26, 20, 27, 21, 28]
"""``joint_ids_map`` of the G1's ``deploy.yaml``: the motor of each joint as PhysX orders them."""
LEVELS = {
    "class_type": "isaaclab.envs.mdp.commands.velocity_command:UniformVelocityCommand", "heading_command": False,
    "ranges": {"lin_vel_x": (-0.1, 0.1), "lin_vel_y": (-0.1, 0.1), "ang_vel_z": (-0.1, 0.1), "heading": None},
    "limit_ranges": {"lin_vel_x": (-0.5, 1.0), "lin_vel_y": (-0.3, 0.3), "ang_vel_z": (-0.2, 0.2), "heading": None},
}  # fmt: skip
"""``UniformLevelVelocityCommandCfg``, which keeps the class of Isaac Lab's own command."""


@pytest.fixture
def env():
    return env_settings()


def drive(*joints, effort, speed, kp, kd):
    return {"class_type": "isaaclab.actuators.actuator_pd:ImplicitActuator", "joint_names_expr": list(joints),
            "effort_limit_sim": effort, "velocity_limit_sim": speed, "stiffness": kp, "damping": kd,
            "armature": 0.01}  # fmt: skip


def g1_29dof(env, path="/models/G1/29dof/usd/g1_29dof_rev_1_0/g1_29dof_rev_1_0.usd"):
    """``UNITREE_G1_29DOF_CFG`` and the observations of its velocity task, five steps of history."""
    robot = env["scene"]["robot"]
    robot["spawn"]["usd_path"] = path
    robot["joint_sdk_names"] = list(G1_29DOF.joint_names)
    robot["init_state"] |= {"pos": (0.0, 0.0, 0.8), "joint_pos": {
        ".*_hip_pitch_joint": -0.1, ".*_knee_joint": 0.3, ".*_ankle_pitch_joint": -0.2, ".*_shoulder_pitch_joint": 0.3,
        "left_shoulder_roll_joint": 0.25, "right_shoulder_roll_joint": -0.25, ".*_elbow_joint": 0.97,
        "left_wrist_roll_joint": 0.15, "right_wrist_roll_joint": -0.15,
    }}  # fmt: skip
    robot["actuators"] = {
        "N7520-14.3": drive(".*_hip_pitch_.*", ".*_hip_yaw_.*", "waist_yaw_joint", effort=88.0, speed=32.0,
                            kp={".*_hip_.*": 100.0, "waist_yaw_joint": 200.0},
                            kd={".*_hip_.*": 2.0, "waist_yaw_joint": 5.0}),
        "N7520-22.5": drive(".*_hip_roll_.*", ".*_knee_.*", effort=139.0, speed=20.0,
                            kp={".*_hip_roll_.*": 100.0, ".*_knee_.*": 150.0},
                            kd={".*_hip_roll_.*": 2.0, ".*_knee_.*": 4.0}),
        "N5020-16": drive(".*_shoulder_.*", ".*_elbow_.*", ".*_wrist_roll.*", ".*_ankle_.*", "waist_roll_joint",
                          "waist_pitch_joint", effort=25.0, speed=37.0, kp=40.0,
                          kd={".*_shoulder_.*": 1.0, ".*_elbow_.*": 1.0, ".*_wrist_roll.*": 1.0, ".*_ankle_.*": 2.0,
                              "waist_.*_joint": 5.0}),
        "W4010-25": drive(".*_wrist_pitch.*", ".*_wrist_yaw.*", effort=5.0, speed=22.0, kp=40.0, kd=1.0),
    }  # fmt: skip
    env["commands"]["base_velocity"] |= LEVELS
    env["observations"]["policy"] |= {
        "history_length": 5, "base_ang_vel": term("base_ang_vel", scale=0.2),
        "joint_vel": term("joint_vel_rel", scale=0.05),
    }  # fmt: skip
    return env


def test_a_run_of_the_g1_with_29_joints_is_a_bundle_for_that_robot(tmp_path, env):
    write_run(tmp_path / "run", g1_29dof(env), width=5 * 96, actions=29)
    run = read_run(tmp_path / "run")
    assert run.joint_order == "physx (sim.physx)"
    assert run.task.robot.joint_names == tuple(G1_29DOF.joint_names[i] for i in G1_IDS)
    contract = Contract.load(run.export(tmp_path / "bundle"))
    assert G1_29DOF.hardware is not None and contract.robot == G1_29DOF.hardware.robot == "g1-29dof"
    assert set(contract.joint_names) == set(G1_29DOF.hardware.joint_names) and contract.estimated == ()
    assert contract.command_ranges == ((-0.5, 1.0), (-0.3, 0.3), (-0.2, 0.2))
    stiffness = dict(zip(contract.joint_names, contract.per_joint("stiffness"), strict=True))
    assert (stiffness["waist_yaw_joint"], stiffness["waist_roll_joint"]) == (200.0, 40.0)
    # The hips that roll have the larger gears in the run, and the smaller of both in the robot's limits.
    assert any(
        "above the real robot's for 2 joints (left_hip_roll_joint: 139 N m, its motor 88)" in n for n in run.notes
    )


@pytest.mark.parametrize(
    ("path", "names", "robot"),
    [
        ("/data/g1_description/urdf/g1_29dof_rev_1_0.urdf", None, "g1-29dof"),
        ("/data/G1/23dof/usd/g1_23dof_rev_1_0/g1_23dof_rev_1_0.usd", None, "g1-23dof"),
        ("/tmp/IsaacLab/unitree_rl_lab/robot.urdf", G1_29DOF.joint_names, "g1-29dof"),
        ("/data/g1.usd", [*G1_23DOF.joint_names, ""], "g1-23dof"),
        ("/data/go2_description/urdf/go2_description.urdf", None, "go2"),
        ("/data/robot.urdf", GO2.joint_names, None),  # the joints of the A1 and of the Go1, too
        ("/data/g1_29dof_with_hand_rev_1_0.usd", None, None),
    ],
)
def test_robots_are_known_by_their_file_or_joints(path, names, robot):
    from gaitway_sim2real.imports.isaaclab.robot import _recognised

    found = _recognised(path, [name for name in names or () if name])
    assert (found and found.name) == robot


def test_the_joint_order_of_deploy_yaml(tmp_path, env):
    """unitree_rl_lab leaves it beside ``env.yaml``; the order of motors is in its robot's settings."""
    robot = env["scene"]["robot"]
    robot["joint_sdk_names"] = list(reversed(GO2.joint_names))
    write_run(tmp_path, env)
    deploy = tmp_path / "params" / "deploy.yaml"
    deploy.write_text(yaml.dump({"joint_ids_map": [3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8], "step_dt": 0.02}))
    run = read_run(tmp_path)
    assert run.joint_order == "deploy.yaml"
    assert [robot["joint_sdk_names"].index(name) for name in run.task.robot.joint_names][:4] == [3, 0, 9, 6]
    deploy.write_text(yaml.dump({"joint_ids_map": [3, 12]}))
    with pytest.raises(IsaacLabImportError, match="joint_ids_map is not one of the 12 joint_sdk_names"):
        read_run(tmp_path)


def test_commands_that_a_curriculum_widens(tmp_path, env):
    """The bundle has the limits, which validation asks for, and not the first level."""
    env["commands"]["base_velocity"] |= LEVELS
    write_run(tmp_path, env)
    run = read_run(tmp_path)
    command = run.task.commands["base_velocity"]
    assert (command.lin_vel_x, command.lin_vel_y, command.ang_vel_z) == ((-0.5, 1.0), (-0.3, 0.3), (-0.2, 0.2))
    assert run.notes == ("command 'base_velocity': its limit_ranges, which the run's curriculum may not have reached",)
    # Robot Lab's curriculum changes the ranges themselves: those of env.yaml are all there is.
    del env["commands"]["base_velocity"]["limit_ranges"]
    levels = "robot_lab.tasks.manager_based.locomotion.velocity.mdp.curriculums:command_levels_lin_vel"
    env["curriculum"] = {"command_levels_lin_vel": {"func": levels, "params": {"range_multiplier": (0.1, 1.0)}},
                         "terrain_levels": {"func": "isaaclab.envs.mdp:terrain_levels_vel"}}  # fmt: skip
    write_run(tmp_path, env)
    [note] = read_run(tmp_path).notes
    assert "the run's curriculum (command_levels_lin_vel) changes" in note


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("robot_lab.tasks.manager_based.locomotion.velocity.mdp.commands:UniformThresholdVelocityCommand",
         "linear velocities up to 0.2 m/s were set to 0 in training"),
        ("my_robot.mdp:SmoothVelocityCommand",
         "my_robot.mdp:SmoothVelocityCommand is not known; read as a UniformVelocityCommand"),
    ],
)  # fmt: skip
def test_commands_of_other_classes_with_the_same_ranges(tmp_path, env, function, said):
    env["commands"]["base_velocity"]["class_type"] = function
    write_run(tmp_path, env)
    run = read_run(tmp_path)
    assert run.task.commands["base_velocity"].lin_vel_y == (-0.5, 0.5)
    [note] = run.notes
    assert said in note


def unitree(**changes):
    """``UnitreeActuatorCfg_Go2HV``."""
    return {"class_type": "unitree_rl_lab.assets.robots.unitree_actuators:UnitreeActuator", "joint_names_expr": [".*"],
            "stiffness": 25.0, "damping": 0.5, "armature": 0.0122, "friction": 0.01, "min_delay": 0, "max_delay": 0,
            "X1": 13.5, "X2": 30.0, "Y1": 20.2, "Y2": 23.4, "Fs": 0.0, "Fd": 0.0, "Va": 0.01, **changes}  # fmt: skip


def unitree_torque(effort, vel, x1, x2, y1, y2):
    """``UnitreeActuator._clip_effort``, without the friction that it subtracts afterwards."""
    peak = np.where(vel * effort > 0, y1, y2)
    falling = np.clip(peak * (1.0 - (np.abs(vel) - x1) / (x2 - x1)), 0.0, None)
    limit = np.where(np.abs(vel) < x1, peak, falling)
    return np.clip(effort, -limit, limit)


def test_unitree_s_actuator_is_the_motor_of_its_torque_speed_curve(tmp_path, env):
    env["scene"]["robot"]["actuators"] = {"GO2HV": unitree()}
    write_run(tmp_path, env)
    run = read_run(tmp_path)
    [law] = run.task.robot.actuators.values()
    assert isinstance(law, DCMotor) and law.armature == 0.0122
    assert any("a DC motor with its torque-speed curve" in note and "at most Y1" in note for note in run.notes)
    assert any("joint friction is that of the model" in note for note in run.notes)

    rng = np.random.default_rng(0)
    pos, vel, target = rng.normal(size=4000), rng.uniform(-30.0, 30.0, 4000), rng.normal(size=4000) * 2.0
    wanted = 25.0 * (target - pos) - 0.5 * vel
    ours, theirs = dc_motor_torque(law, target, pos, vel), unitree_torque(wanted, vel, 13.5, 30.0, 20.2, 23.4)
    drives = wanted * vel > 0
    limited = drives & (np.abs(theirs) < np.abs(wanted))
    assert (limited & (np.abs(vel) < 13.5)).sum() > 100 and (limited & (np.abs(vel) > 13.5)).sum() > 100
    assert ours[drives] == pytest.approx(theirs[drives], abs=1e-9)
    brakes = ~drives & (np.abs(vel) < 13.5)
    assert ours[brakes] == pytest.approx(np.clip(theirs[brakes], -20.2, 20.2), abs=1e-9)


def test_unitree_s_actuator_without_a_curve_and_with_a_wrong_one(tmp_path, env):
    env["scene"]["robot"]["actuators"] = {"all": unitree(X1=1e9, X2=1e9, Y2=None, friction=None, Fd=0.16)}
    write_run(tmp_path, env)
    run = read_run(tmp_path)
    [law] = run.task.robot.actuators.values()
    assert isinstance(law, ImplicitPD) and law.effort_limit == 20.2
    assert not any("DC motor" in note for note in run.notes)
    assert any("joint friction is that of the model" in note for note in run.notes)
    env["scene"]["robot"]["actuators"] = {"all": unitree(X1={".*": 30.0})}
    write_run(tmp_path, env)
    with pytest.raises(IsaacLabImportError, match=r"X1 of FL_hip_joint is 30; it must be below X2, which is 30"):
        read_run(tmp_path)
