"""The tasks of motions: a robot that plays a clip, with BeyondMimic's terms and numbers, scaled to its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.mdp import events, observations, rewards, terminations
from gaitway_tasks.robots import Robot
from gaitway_tasks.robots.description import Preset
from gaitway_tasks.spec import (
    Event,
    ObservationGroup,
    ObservationTerm,
    Reward,
    Task,
    Termination,
    Timing,
    UniformNoise,
)
from gaitway_tasks.velocity.legged import any_of
from gaitway_tasks.velocity.presets import FEW_CORES, as_built, stiffer

from . import mdp
from .command import MotionCommand

MOTION = {"command_name": "motion"}
G1_HEIGHT = 0.78
"""Height of the base of a Unitree G1 [m], for which BeyondMimic's lengths are."""


def _noise(magnitude: float) -> UniformNoise:
    return UniformNoise(low=-magnitude, high=magnitude)


def track(robot: Robot) -> Task:
    """Motion tracking from everything a simulator knows: place, heading and velocity of the base as well."""
    size = robot.init_height / G1_HEIGHT
    policy = {
        "motion": ObservationTerm(func=mdp.motion_joints, params=MOTION),
        "motion_anchor_pos": ObservationTerm(func=mdp.motion_anchor_pos_b, params=MOTION, noise=_noise(0.25 * size)),
        "motion_anchor_ori": ObservationTerm(func=mdp.motion_anchor_ori_b, params=MOTION, noise=_noise(0.05)),
        "base_lin_vel": ObservationTerm(func=observations.base_lin_vel, noise=_noise(0.5)),
        "base_ang_vel": ObservationTerm(func=observations.base_ang_vel, noise=_noise(0.2)),
        "joint_pos": ObservationTerm(func=observations.joint_pos_rel, noise=_noise(0.01)),
        "joint_vel": ObservationTerm(func=observations.joint_vel_rel, noise=_noise(0.5)),
        "actions": ObservationTerm(func=observations.last_action),
    }
    critic = {name: replace(term, noise=None) for name, term in policy.items()}
    critic |= {
        "body_pos": ObservationTerm(func=mdp.robot_body_pos_b),
        "body_pos_error": ObservationTerm(func=mdp.motion_body_pos_error_b, params=MOTION),
    }
    ends = any_of(robot.foot_names)
    twist = ("x", "y", "z", "roll", "pitch", "yaw")
    return Task(
        name=f"track-{robot.name}",
        robot=robot,
        observations={
            "policy": ObservationGroup(terms=policy, enable_corruption=True),
            "critic": ObservationGroup(terms=critic),
        },
        actions=JointPositionAction(scale=0.25),
        commands={"motion": MotionCommand(clip="trot" if len(robot.foot_names) >= 4 else "squat")},
        rewards={
            "motion_global_anchor_pos": Reward(
                func=mdp.motion_global_anchor_position_error_exp, weight=0.5, params={**MOTION, "std": 0.3 * size}
            ),
            "motion_global_anchor_ori": Reward(
                func=mdp.motion_global_anchor_orientation_error_exp, weight=0.5, params={**MOTION, "std": 0.4}
            ),
            "motion_body_pos": Reward(
                func=mdp.motion_relative_body_position_error_exp, weight=1.0, params={**MOTION, "std": 0.3 * size}
            ),
            "motion_body_ori": Reward(
                func=mdp.motion_relative_body_orientation_error_exp, weight=1.0, params={**MOTION, "std": 0.4}
            ),
            "motion_body_lin_vel": Reward(
                func=mdp.motion_global_body_linear_velocity_error_exp, weight=1.0, params={**MOTION, "std": 1.0}
            ),
            "motion_body_ang_vel": Reward(
                func=mdp.motion_global_body_angular_velocity_error_exp, weight=1.0, params={**MOTION, "std": 3.14}
            ),
            "action_rate_l2": Reward(func=rewards.action_rate_l2, weight=-0.1),
            "joint_limit": Reward(func=rewards.joint_pos_limits, weight=-10.0),
        },
        terminations={
            "time_out": Termination(func=terminations.time_out, time_out=True),
            "anchor_pos": Termination(func=mdp.bad_anchor_pos_z_only, params={**MOTION, "threshold": 0.25 * size}),
            "anchor_ori": Termination(func=mdp.bad_anchor_ori, params={**MOTION, "threshold": 0.8}),
            "ee_body_pos": Termination(
                func=mdp.bad_motion_body_pos_z_only, params={**MOTION, "threshold": 0.25 * size, "bodies": ends}
            ),
        },
        events={
            "physics_material": Event(
                func=events.randomize_rigid_body_material, mode="startup", params={"friction_range": (0.3, 1.6)}
            ),
            "base_com": Event(
                func=events.randomize_rigid_body_com,
                mode="startup",
                params={"com_range": dict.fromkeys("xyz", (-0.05 * size, 0.05 * size))},
            ),
            "joint_offset": Event(
                func=events.randomize_joint_offset, mode="startup", params={"offset_range": (-0.01, 0.01)}
            ),
            "reset_in_motion": Event(
                func=mdp.reset_in_motion,
                mode="reset",
                params={
                    **MOTION,
                    "pose_range": {"x": (-0.05, 0.05), "y": (-0.05, 0.05), "z": (-0.01, 0.01), "roll": (-0.1, 0.1),
                                   "pitch": (-0.1, 0.1), "yaw": (-0.2, 0.2)},
                    "velocity_range": dict(zip(twist, [(-0.5, 0.5)] * 2 + [(-0.2, 0.2)] + [(-0.52, 0.52)] * 2
                                               + [(-0.78, 0.78)], strict=True)),
                    "joint_range": (-0.1, 0.1),
                },
            ),
            "push_robot": Event(
                func=events.push_by_setting_velocity,
                mode="interval",
                interval_range_s=(1.0, 3.0),
                params={"velocity_range": {"x": (-0.5, 0.5), "y": (-0.5, 0.5), "z": (-0.2, 0.2),
                                           "roll": (-0.52, 0.52), "pitch": (-0.52, 0.52), "yaw": (-0.78, 0.78)}},
            ),
        },
        timing=Timing(episode_length_s=10.0),
    )  # fmt: skip


def blind(robot: Robot) -> Task:
    """Motion tracking from what a robot measures: it feels the tilt and turn of its base, not its place or heading.

    The reference goes along with place and heading, and what is left of it is told as gravity and velocity in its own
    base frame.
    """
    task = track(robot)
    group = task.observations["policy"]
    unknown = ("motion_anchor_pos", "motion_anchor_ori", "base_lin_vel")
    terms = {name: term for name, term in group.terms.items() if name not in unknown}
    terms = {
        "motion": terms["motion"],
        "motion_gravity": ObservationTerm(func=mdp.motion_gravity, params=MOTION),
        "motion_base_vel": ObservationTerm(func=mdp.motion_base_vel, params=MOTION),
        "projected_gravity": ObservationTerm(func=observations.projected_gravity, noise=_noise(0.05)),
        **terms,
    }
    told = {name: replace(term, noise=None) for name, term in terms.items()}
    critic = {**told, **task.observations["critic"].terms}
    command = task.commands["motion"]
    assert isinstance(command, MotionCommand)
    return task.replace(
        name=f"{task.name}-blind",
        observations={
            "policy": replace(group, terms=terms),
            "critic": ObservationGroup(terms=critic),
        },
        commands={"motion": replace(command, local=True)},
    )


def few_cores(task: Task) -> Task:
    """Values with which a motion is learnt in minutes on a few cores.

    - physics runs at 10 ms x 2, as for walking; a policy is validated at 5 ms;
    - the rewards of body places, rotations and velocities are narrower: a robot that is 4 cm off gets 93 % of
      BeyondMimic's, and learns no more;
    - a quadruped's places and velocities are those of base and feet: of all bodies, a robot that only stands gets most
      of the reward of a slow gait;
    - pushes come every 3 to 6 s, episodes last 6 s.
    """
    robot = task.robot
    push = replace(task.events["push_robot"], interval_range_s=(3.0, 6.0))
    varied = {
        "ground_impedance": Event(
            func=events.randomize_ground_impedance, mode="startup", params={"impedance_range": (0.9, 0.98)}
        ),
        "action_delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)}),
    }
    drives = {name: stiffer(law) for name, law in as_built(robot).items()}
    narrow = {"motion_body_pos": 0.25, "motion_body_ori": 0.5, "motion_body_lin_vel": 0.5}
    ends = {"bodies": any_of((robot.base_name, *robot.foot_names))} if robot.quadruped else {}
    of = {"motion_body_pos": ends, "motion_body_lin_vel": ends}
    tracked = {
        name: replace(
            term, params={**term.params, **of.get(name, {}), "std": narrow.get(name, 1.0) * term.params["std"]}
        )
        if "std" in term.params else term
        for name, term in task.rewards.items()
    }  # fmt: skip
    return task.replace(
        robot=robot.replace(actuators=drives),
        timing=Timing(physics_dt=0.01, decimation=2, episode_length_s=6.0),
        rewards=tracked,
        actions=JointPositionAction(scale=0.5),
        events={**task.events, **varied, "push_robot": push},
    )


def learner(task: Task) -> Mapping[str, Any]:
    """Settings of a training on few cores, by dotted keys."""
    own = {"agent.symmetry": "none", "agent.model.estimator": None, "agent.model.init_std": 0.5}
    return FEW_CORES | own | {"total_steps": 4_000_000}


CPU = Preset(change=few_cores, settings=learner)
