"""Base specification of the velocity tasks of all robots.

Values are Isaac Lab 2.3.2's ``Isaac-Velocity-Flat-Anymal-C-v0`` and ``Isaac-Velocity-Rough-Anymal-C-v0``, which are
also those of ANYmal B and D.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from ..actions import JointPositionAction
from ..mdp import curriculums, events, observations, rewards, terminations
from ..mdp.commands import UniformVelocityCommand
from ..robots import Robot
from ..spec import (
    Curriculum,
    Event,
    HeightScanner,
    ObservationGroup,
    ObservationTerm,
    Reward,
    Task,
    Termination,
    UniformNoise,
)
from ..terrain import SubTerrain, TerrainGenerator, Tiles

COMMAND = {"command_name": "base_velocity"}
FULL_CIRCLE = (-math.pi, math.pi)
T = TypeVar("T")


def _noise(magnitude: float) -> UniformNoise:
    return UniformNoise(low=-magnitude, high=magnitude)


def flat(robot: Robot) -> Task:
    """Velocity task on a plane."""
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
                func=events.randomize_rigid_body_mass, mode="startup", params={"mass_distribution_params": (-5.0, 5.0)}
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
ROUGH_TERRAIN = Tiles(
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
    )
)
"""Isaac Lab's ``ROUGH_TERRAINS_CFG``."""


def rough(robot: Robot) -> Task:
    """Velocity task over stairs, boxes and slopes that get harder with progress, with a height scan for the actor."""
    task = on_rough_ground(flat(robot))
    return reweighted(task, dof_torques_l2=-1.0e-5, feet_air_time=0.125, flat_orientation_l2=0.0)


def on_rough_ground(task: Task, scanner_body: str | None = None) -> Task:
    """``task``, made for a plane, with Isaac Lab's rough terrain, its curriculum and a height scan.

    ``scanner_body`` is the body that carries the height scanner; None is the base.
    """
    group = task.observations["policy"]
    scan = ObservationTerm(
        func=observations.height_scan, params={"sensor": "height_scanner"}, noise=_noise(0.1), clip=(-1.0, 1.0)
    )
    return replace(
        task,
        name=f"velocity-rough-{task.robot.name}",
        observations={"policy": replace(group, terms={**group.terms, "height_scan": scan})},
        curriculum={"terrain_levels": Curriculum(func=curriculums.terrain_levels_vel, params=COMMAND)},
        height_scanners={"height_scanner": HeightScanner(body=scanner_body)},
        ground=ROUGH_TERRAIN,
    )


def reweighted(task: Task, **weights: float) -> Task:
    """``task`` with other weights for some of its rewards."""
    return replace(
        task, rewards={**task.rewards, **{name: replace(task.rewards[name], weight=w) for name, w in weights.items()}}
    )


def starting_still(events: Mapping[str, Event]) -> dict[str, Event]:
    """``events`` whose resets leave the robot at rest in its default pose, at any place on the ground."""
    base, joints = events["reset_base"], events["reset_robot_joints"]
    at_rest = {"velocity_range": dict.fromkeys(base.params["velocity_range"], (0.0, 0.0))}
    return {
        **events,
        "reset_base": replace(base, params={**base.params, **at_rest}),
        "reset_robot_joints": replace(joints, params={"position_range": (1.0, 1.0)}),
    }


def without(terms: Mapping[str, T], *names: str) -> dict[str, T]:
    """``terms`` without those called ``names``, all of which must exist."""
    left = dict(terms)
    for name in names:
        del left[name]
    return left
