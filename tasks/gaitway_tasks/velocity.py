"""Velocity tracking for legged robots.

Values are Isaac Lab 2.3.2's ``Isaac-Velocity-Flat-Anymal-C-v0`` and ``Isaac-Velocity-Rough-Anymal-C-v0``.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .mdp import curriculums, events, observations, rewards, terminations
from .robots import Robot
from .spec import (
    Curriculum,
    Event,
    HeightScanner,
    JointPositionAction,
    ObservationGroup,
    ObservationTerm,
    Reward,
    SubTerrain,
    Task,
    Termination,
    Terrain,
    TerrainGenerator,
    Timing,
    UniformNoise,
    UniformVelocityCommand,
)

COMMAND = {"command_name": "base_velocity"}
FULL_CIRCLE = (-math.pi, math.pi)


def _noise(magnitude: float) -> UniformNoise:
    return UniformNoise(low=-magnitude, high=magnitude)


def velocity_flat(robot: Robot) -> Task:
    """Track (vx, vy, yaw rate) on flat ground. The actor reads base velocity, as in Isaac Lab's task."""
    policy = {
        "base_lin_vel": ObservationTerm(func=observations.base_lin_vel, noise=_noise(0.1)),
        "base_ang_vel": ObservationTerm(func=observations.base_ang_vel, noise=_noise(0.2)),
        "projected_gravity": ObservationTerm(func=observations.projected_gravity, noise=_noise(0.05)),
        "velocity_commands": ObservationTerm(func=observations.generated_commands, params=COMMAND),
        "joint_pos": ObservationTerm(func=observations.joint_pos_rel, noise=_noise(0.01)),
        "joint_vel": ObservationTerm(func=observations.joint_vel_rel, noise=_noise(1.5)),
        "actions": ObservationTerm(func=observations.last_action),
    }
    return Task(
        name=f"velocity-flat-{robot.name}",
        robot=robot,
        observations={"policy": ObservationGroup(terms=policy, enable_corruption=True)},
        actions=JointPositionAction(scale=0.5),
        rewards={
            "track_lin_vel_xy_exp": Reward(
                func=rewards.track_lin_vel_xy_exp, weight=1.0, params={"std": 0.5, **COMMAND}
            ),
            "track_ang_vel_z_exp": Reward(func=rewards.track_ang_vel_z_exp, weight=0.5, params={"std": 0.5, **COMMAND}),
            "lin_vel_z_l2": Reward(func=rewards.lin_vel_z_l2, weight=-2.0),
            "ang_vel_xy_l2": Reward(func=rewards.ang_vel_xy_l2, weight=-0.05),
            "dof_torques_l2": Reward(func=rewards.joint_torques_l2, weight=-2.5e-5),
            "dof_acc_l2": Reward(func=rewards.joint_acc_l2, weight=-2.5e-7),
            "action_rate_l2": Reward(func=rewards.action_rate_l2, weight=-0.01),
            "feet_air_time": Reward(
                func=rewards.feet_air_time, weight=0.5, params={"feet": ".*_FOOT", "threshold": 0.5, **COMMAND}
            ),
            "undesired_contacts": Reward(
                func=rewards.undesired_contacts, weight=-1.0, params={"bodies": ".*_THIGH", "threshold": 1.0}
            ),
            "flat_orientation_l2": Reward(func=rewards.flat_orientation_l2, weight=-5.0),
            "dof_pos_limits": Reward(func=rewards.joint_pos_limits, weight=0.0),
        },
        terminations={
            "time_out": Termination(func=terminations.time_out, time_out=True),
            "base_contact": Termination(
                func=terminations.illegal_contact, params={"bodies": robot.base_name, "threshold": 1.0}
            ),
        },
        commands={"base_velocity": UniformVelocityCommand()},
        events={
            "physics_material": Event(
                func=events.randomize_rigid_body_material,
                mode="startup",
                params={"friction_range": (0.8, 0.8), "dynamic_friction_range": (0.6, 0.6)},
            ),
            "add_base_mass": Event(
                func=events.randomize_rigid_body_mass,
                mode="startup",
                params={"mass_distribution_params": (-5.0, 5.0)},
            ),
            "base_com": Event(
                func=events.randomize_rigid_body_com,
                mode="startup",
                params={"com_range": {"x": (-0.05, 0.05), "y": (-0.05, 0.05), "z": (-0.01, 0.01)}},
            ),
            "reset_base": Event(
                func=events.reset_root_state_uniform,
                mode="reset",
                params={
                    "pose_range": {"x": (-0.5, 0.5), "y": (-0.5, 0.5), "yaw": FULL_CIRCLE},
                    "velocity_range": dict.fromkeys(("x", "y", "z", "roll", "pitch", "yaw"), (-0.5, 0.5)),
                },
            ),
            "reset_robot_joints": Event(
                func=events.reset_joints_by_scale, mode="reset", params={"position_range": (0.5, 1.5)}
            ),
            "push_robot": Event(
                func=events.push_by_setting_velocity,
                mode="interval",
                interval_range_s=(10.0, 15.0),
                params={"velocity_range": {"x": (-0.5, 0.5), "y": (-0.5, 0.5)}},
            ),
        },
    )


STAIRS = {
    "step_height_range": (0.05, 0.23),
    "step_width": 0.3,
    "platform_width": 3.0,
    "border_width": 1.0,
    "holes": False,
}
SLOPE = {"slope_range": (0.0, 0.4), "platform_width": 2.0, "border_width": 0.25}
ROUGH_TERRAIN = Terrain(
    kind="generator",
    generator=TerrainGenerator(
        sub_terrains={
            "pyramid_stairs": SubTerrain(kind="pyramid_stairs", proportion=0.2, params=STAIRS),
            "pyramid_stairs_inv": SubTerrain(kind="inverted_pyramid_stairs", proportion=0.2, params=STAIRS),
            "boxes": SubTerrain(
                kind="random_grid",
                proportion=0.2,
                params={"grid_width": 0.45, "grid_height_range": (0.05, 0.2), "platform_width": 2.0},
            ),
            "random_rough": SubTerrain(
                kind="random_uniform",
                proportion=0.2,
                params={"noise_range": (0.02, 0.10), "noise_step": 0.02, "border_width": 0.25},
            ),
            "hf_pyramid_slope": SubTerrain(kind="pyramid_slope", proportion=0.1, params=SLOPE),
            "hf_pyramid_slope_inv": SubTerrain(kind="inverted_pyramid_slope", proportion=0.1, params=SLOPE),
        }
    ),
)
"""Isaac Lab's ``ROUGH_TERRAINS_CFG``."""


def velocity_rough(robot: Robot) -> Task:
    """Track (vx, vy, yaw rate) over stairs, boxes and slopes that grow with the robot's skill.

    The actor reads base velocity and a height scan, as in Isaac Lab's task.
    """
    flat = velocity_flat(robot)
    group = flat.observations["policy"]
    scan = ObservationTerm(
        func=observations.height_scan, params={"sensor": "height_scanner"}, noise=_noise(0.1), clip=(-1.0, 1.0)
    )
    weights = {"dof_torques_l2": -1.0e-5, "feet_air_time": 0.125, "flat_orientation_l2": 0.0}
    return replace(
        flat,
        name=f"velocity-rough-{robot.name}",
        observations={"policy": replace(group, terms={**group.terms, "height_scan": scan})},
        rewards={name: replace(term, weight=weights.get(name, term.weight)) for name, term in flat.rewards.items()},
        curriculum={"terrain_levels": Curriculum(func=curriculums.terrain_levels_vel, params=COMMAND)},
        height_scanners={"height_scanner": HeightScanner()},
        terrain=ROUGH_TERRAIN,
    )


def blind(task: Task, history_length: int = 8) -> Task:
    """The actor loses the base velocity, which no robot measures, and gains a history; the critic keeps both."""
    group = task.observations["policy"]
    critic = ObservationGroup(terms=group.terms, history_length=1, enable_corruption=False)
    measurable = {name: term for name, term in group.terms.items() if name != "base_lin_vel"}
    return replace(
        task,
        name=f"{task.name}-blind",
        observations={
            "policy": replace(group, terms=measurable, history_length=history_length),
            "critic": critic,
        },
    )


def cpu(task: Task) -> Task:
    """Values that make ``task`` learnable in minutes on a few CPU cores; what it means to walk stays the same.

    Isaac Lab's values are meant for some thirty million steps. Here a policy sees a fifth of that or less, so:

    - physics runs at 10 ms x 2 instead of 5 ms x 4, at half the cost; a policy is validated at 5 ms;
    - tracking pays three times as much against the penalties and a fall costs as much as a second of perfect
      walking, or standing still is a local optimum that takes most of the budget to leave; accelerations, which
      include every impact, cost less than half;
    - a second, narrow tracking reward tells 0.3 m/s from standing still, which the wide one hardly does;
    - legs are stiffer (kp 80, kd 4; legged_gym uses 80 and 2): at 40 and 5 the exploration noise of a joint target
      is damped out before it moves the robot;
    - commands change every 3 s, yaw rates are commanded directly, and each linear axis is exactly zero in 30 % of
      the commands, where the mirrored halves of the command space meet;
    - episodes last 8 s, or a policy that no longer falls hardly ever practises to start from where a reset leaves it;
    - friction and hardness of the ground differ between environments, and actions arrive up to 20 ms late: a policy
      that has only met one simulated floor drags its feet and trips on the next.
    """
    stiffer = {name: replace(law, stiffness=80.0, damping=4.0) for name, law in task.robot.actuators.items()}
    command = replace(
        task.commands["base_velocity"],
        resampling_time_range=(3.0, 3.0),
        heading_command=False,
        rel_heading_envs=0.0,
        rel_zero_axis=0.3,
    )
    timing = Timing(physics_dt=0.01, decimation=2, episode_length_s=8.0)
    weights = {"track_lin_vel_xy_exp": 3.0, "track_ang_vel_z_exp": 1.5, "dof_acc_l2": -1.0e-7}
    added = {
        "track_lin_vel_xy_fine": Reward(func=rewards.track_lin_vel_xy_exp, weight=1.5, params={"std": 0.2, **COMMAND}),
        "track_ang_vel_z_fine": Reward(func=rewards.track_ang_vel_z_exp, weight=0.75, params={"std": 0.2, **COMMAND}),
        "termination": Reward(func=rewards.is_terminated, weight=-3.0 / timing.step_dt),
    }
    varied = {
        "physics_material": Event(
            func=events.randomize_rigid_body_material, mode="startup", params={"friction_range": (0.4, 1.6)}
        ),
        "ground_impedance": Event(
            func=events.randomize_ground_impedance, mode="startup", params={"impedance_range": (0.93, 0.98)}
        ),
        "action_delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.02)}),
    }
    return replace(
        task,
        robot=task.robot.replace(actuators=stiffer),
        timing=timing,
        commands={"base_velocity": command},
        rewards={
            **{k: replace(r, weight=weights.get(k, r.weight)) for k, r in task.rewards.items()},
            **added,
        },
        events={**task.events, **varied},
    )


def sprint(task: Task) -> Task:
    """:func:`cpu` without noise, pushes and randomisation: the shortest way to a robot that walks in simulation.

    Without pushes to prepare for, a dearer fall is what teaches it to stay up.
    """
    task = cpu(task)
    fall = replace(task.rewards["termination"], weight=-5.0 / task.timing.step_dt)
    command = replace(task.commands["base_velocity"], rel_zero_axis=0.4)
    return replace(
        task,
        rewards={**task.rewards, "termination": fall},
        commands={"base_velocity": command},
        observations={name: replace(g, enable_corruption=False) for name, g in task.observations.items()},
        events={name: task.events[name] for name in ("reset_base", "reset_robot_joints")},
    )
