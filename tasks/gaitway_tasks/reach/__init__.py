"""Reaching: an arm brings its hand to poses. Values are Isaac Lab 2.3.2's ``Isaac-Reach-Franka-v0``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from gaitway_files.patterns import matches

from ..actions import JointPositionAction, joint_positions
from ..mdp import curriculums, events, observations, pose, rewards, terminations
from ..robots import Preset, Robot
from ..robots.robot import ActuatorLaw, drive
from ..spec import (
    Curriculum,
    Event,
    ObservationGroup,
    ObservationTerm,
    Reward,
    Task,
    Termination,
    Timing,
    UniformNoise,
)

ARM, HAND = "panda_joint.*", "panda_hand"
COMMAND = {"command_name": "ee_pose"}
AT_HAND = {**COMMAND, "body": HAND}
READY = (0.0, -0.255, 0.0, -2.438, 0.0, 2.183, 0.785, 0.039, 0.039)
"""Pose of the arm at the command's rest [rad]; Isaac Lab's default pose has the hand tilted. The fingers [m] are off
their end stops."""
LATER = 4500
"""Control steps of a training after which smooth motion costs more: a policy learns to arrive first."""


def reach(robot: Robot) -> Task:
    """Task of an arm with a Panda's names of joints and hand."""
    noise = UniformNoise(low=-0.01, high=0.01)
    return Task(
        name=f"reach-{robot.name}",
        robot=robot,
        timing=Timing(physics_dt=1.0 / 60.0, decimation=2, episode_length_s=12.0),
        actions=JointPositionAction(joint_names=(ARM,), scale=0.5),
        observations={
            "policy": ObservationGroup(
                terms={
                    "joint_pos": ObservationTerm(func=observations.joint_pos_rel, noise=noise),
                    "joint_vel": ObservationTerm(func=observations.joint_vel_rel, noise=noise),
                    "pose_command": ObservationTerm(func=pose.pose_command, params=COMMAND),
                    "actions": ObservationTerm(func=observations.last_action),
                },
                enable_corruption=True,
            )
        },
        commands={
            "ee_pose": pose.UniformPoseCommand(
                body=robot.body_ids(HAND)[0],
                pos_x=(0.35, 0.65),
                pos_y=(-0.2, 0.2),
                pos_z=(0.15, 0.5),
                roll=(0.0, 0.0),
                pitch=(math.pi, math.pi),
                yaw=(-3.14, 3.14),
                rest=(0.45, 0.0, 0.4, 0.0, math.pi, -3.14),
            )
        },
        rewards={
            "end_effector_position_tracking": Reward(func=pose.position_command_error, weight=-0.2, params=AT_HAND),
            "end_effector_position_tracking_fine_grained": Reward(
                func=pose.position_command_error_tanh, weight=0.1, params={"std": 0.1, **AT_HAND}
            ),
            "end_effector_orientation_tracking": Reward(
                func=pose.orientation_command_error, weight=-0.1, params=AT_HAND
            ),
            "action_rate": Reward(func=rewards.action_rate_l2, weight=-0.0001),
            "joint_vel": Reward(func=rewards.joint_vel_l2, weight=-0.0001),
        },
        terminations={"time_out": Termination(func=terminations.time_out, time_out=True)},
        events={
            "reset_robot_joints": Event(
                func=events.reset_joints_by_scale, mode="reset", params={"position_range": (0.5, 1.5)}
            )
        },
        curriculum={
            name: Curriculum(
                func=curriculums.modify_reward_weight,
                params={"term_name": name, "weight": weight, "num_steps": LATER},
            )
            for name, weight in (("action_rate", -0.005), ("joint_vel", -0.001))
        },
    )


def cpu(task: Task) -> Task:
    """Values that make ``task`` learnable in minutes on a few CPU cores, and its policy fit for a real arm.

    - The policy also observes by how much the hand is off its pose, from the encoders and the arm's kinematics. Without
      that it has to learn the kinematics, which takes tens of millions of steps.
    - Rewards with narrow kernels pay for the last centimetre and the last tenth of a radian.
    - Commands ramp as in an exported policy, and joints faster than 1.8 rad/s cost: Franka allows 2.2 to 2.6.
    - Yaw covers three quarters of a circle about the middle of the last joint, which turns by 332 degrees. For a whole
      circle the arm has to lay its elbow aside, or to unwind on the way. A hand with two fingers looks the same after
      half a turn.
    - The arm starts where the command rests.
    - Drives have the gains of Franka's own example of a joint impedance controller, with gravity: the task's are soft
      and sag by centimetres when a drive or a load differs from training.
    - The last joint moves by twice as much as the others per unit of action, since it turns by as much.
    - The hand carries up to 0.6 kg, drives are up to 6 % off, and targets arrive up to 20 ms late.
    """
    command = task.commands["ee_pose"]
    assert isinstance(command, pose.UniformPoseCommand)
    command = replace(command, yaw=(-1.5 * math.pi, 0.0), ramp=True)
    weights = {"end_effector_orientation_tracking": -0.2, "action_rate": -0.001, "joint_vel": -0.0005}
    added = {
        "position_fine": Reward(func=pose.position_command_error_tanh, weight=0.3, params={"std": 0.02, **AT_HAND}),
        "joint_speed": Reward(func=pose.joint_speed_excess, weight=-0.1, params={"limit": 1.8, "joints": ARM}),
        "orientation_fine": Reward(
            func=pose.orientation_command_error_tanh, weight=0.3, params={"std": 0.1, **AT_HAND}
        ),
    }
    seen = {
        "position_error": ObservationTerm(func=pose.measured_position_error, params=AT_HAND),
        "position_error_fine": ObservationTerm(
            func=pose.measured_position_error, params=AT_HAND, clip=(-0.05, 0.05), scale=20.0
        ),
        "orientation_error": ObservationTerm(func=pose.measured_orientation_error, params=AT_HAND),
    }
    policy = task.observations["policy"]
    told = replace(policy.terms["pose_command"], scale=(5.0, 5.0, 5.0, 1.0, 1.0, 1.0, 1.0))
    varied = {
        "hand_mass": Event(
            func=events.scale_rigid_body_mass, mode="startup", params={"scale_range": (1.0, 1.8), "body": HAND}
        ),
        "motor_strength": Event(
            func=events.randomize_motor_strength, mode="startup", params={"strength_range": (0.94, 1.06)}
        ),
        "action_delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)}),
    }
    return task.replace(
        robot=task.robot.replace(default_joint_pos=READY, actuators=impedance(task.robot)),
        observations={"policy": replace(policy, terms={**policy.terms, "pose_command": told, **seen})},
        actions=replace(joint_positions(task), scale={"panda_joint[1-6]": 0.5, "panda_joint7": 1.0}),
        commands={"ee_pose": command},
        rewards={**{k: replace(r, weight=weights.get(k, r.weight)) for k, r in task.rewards.items()}, **added},
        events={**task.events, **varied},
        curriculum={},
    )


IMPEDANCE = {
    "panda_joint[1-3]": (600.0, 50.0), "panda_joint4": (600.0, 20.0), "panda_joint5": (250.0, 20.0),
    "panda_joint6": (150.0, 20.0), "panda_joint7": (50.0, 10.0),
}  # fmt: skip
"""Stiffness [N m/rad] and damping [N m s/rad] of ``franka_ros``, ``joint_impedance_example_controller``."""


def impedance(robot: Robot) -> dict[str, ActuatorLaw]:
    """Drives of a Panda with the gains of :data:`IMPEDANCE`; those of the fingers stay."""
    limits = dict(zip(robot.joint_names, (law.effort_limit for law in robot.joint_actuators), strict=True))
    arm = {
        name: drive(kp, kd, next(limits[joint] for joint in limits if matches(name, joint)), name)
        for name, (kp, kd) in IMPEDANCE.items()
    }
    return {**arm, "panda_hand": robot.actuators["panda_hand"]}


FEW_CORES: dict[str, Any] = {
    "num_envs": 512,
    "total_steps": 1_000_000,
    "examination_interval": 250_000,
    "agent.first_guess": True,
    "agent.num_steps": 24,
    "agent.gamma": 0.98,
    "agent.average_steps": 100_000,
    "agent.model.init_std": 0.05,
    "agent.model.actor_hidden": (128, 128),
    "agent.model.normalize_observations": False,
    "agent.optimizer.epochs": 4,
    "agent.optimizer.minibatches": 4,
    "agent.optimizer.desired_kl": 0.01,
    "agent.optimizer.entropy_coefficient": 0.0,
    "agent.optimizer.learning_rate": 3e-5,
    "agent.optimizer.precision": "float32",
    "agent.optimizer.workers": 2,
}
"""For two cores. The policy begins with inverse kinematics (:mod:`.poses`), so that exploration may be small. What it
observes has known units and is not normalised, or the first guess would be lost with the first rollouts. In bfloat16,
rounding would change actions by a fifth of the noise: three of ten samples were then clipped before they taught."""
CPU = Preset(change=cpu, settings=lambda task: FEW_CORES)
