"""Changes of the preset ``cpu`` to a task on rough ground, where Isaac Lab's values take a hundred million steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gaitway_files.errors import UserError

from ..actions import JointPositionAction, joint_positions
from ..mdp import curriculums, rewards, terminations
from ..mdp.commands import UniformVelocityCommand
from ..spec import Curriculum, ObservationTerm, Reward, Task, Termination, UniformNoise
from ..terrain import SubTerrain, Tiles
from .base import COMMAND

EASY: dict[str, dict[str, Any]] = {
    "pyramid_stairs": {"step_height_range": (0.0, 0.33)},
    "inverted_pyramid_stairs": {"step_height_range": (0.0, 0.33)},
    "random_grid": {"grid_height_range": (0.0, 0.27)},
    "random_uniform": {"noise_range": (0.0, 0.1), "noise_step": 0.02},
}
"""Lengths of each kind of sub-terrain, in standing heights of the base."""


def over_rough_ground(task: Task) -> Task:
    """``task``, with the flat task's values for few cores, on ground that grows with the robot's skill.

    - Stairs and grids start at nothing, and so do the robots, which have to learn to walk first.
    - A command lasts 3 to 8 s of an episode of 10 s, and half of the robots keep a heading, or none would get anywhere.
      A robot that got 3 m away without a fall moves up; one that hardly went moves down.
    - Heights are seen with 3 cm of noise, as a depth camera's, in place of Isaac Lab's 10: robots walk sooner.
    - Friction is 0.5 at least, which the steepest slopes ask for; pushes, and commands at the ends of their ranges, are
      rarer: each makes robots fall that would have climbed.
    - A swinging foot rises as much more as the ground within 15 cm of it does; feet that hit the face of a step cost.
    - The base is to lie as the ground around it does: early in training robots keep it level on stairs, where their
      front legs then have no room.
    - Joint targets end at the joints' ranges, and torques beyond 0.7 of the effort limit cost: a robot's controller
      cuts off what is beyond, and stops a robot that needs all of it for long.
    - Vertical speed, which stairs ask for, costs half as much; a base may come lower over the edge of a step.
    """
    ground = task.ground
    if not isinstance(ground, Tiles):
        raise UserError(f"{task.name} walks on {type(ground).__name__}: its preset is for Tiles; leave the preset out")
    height, feet = task.robot.init_height, "|".join(task.robot.foot_names)
    swing, vertical = task.rewards["feet_phase"], task.rewards["lin_vel_z_l2"]
    command = replace(
        UniformVelocityCommand.of(task),
        resampling_time_range=(3.0, 8.0),
        heading_command=True,
        rel_heading_envs=0.5,
        rel_ends=0.1,
    )
    grip = replace(task.events["physics_material"], params={"friction_range": (0.5, 1.4)})
    push = replace(task.events["push_robot"], interval_range_s=(6.0, 12.0))
    low = Termination(func=terminations.root_height_below_minimum, params={"minimum_height": 0.4 * height})
    climb = {**COMMAND, "reach": 0.375, "least": 0.2, "falls": True}
    return replace(
        task,
        actions=_within_range(task),
        ground=replace(
            ground,
            max_init_level=0,
            generator=replace(
                ground.generator,
                sub_terrains={name: _eased(sub, height) for name, sub in ground.generator.sub_terrains.items()},
            ),
        ),
        observations={name: replace(group, terms=_seen(group.terms)) for name, group in task.observations.items()},
        events={**task.events, "physics_material": grip, "push_robot": push},
        timing=replace(task.timing, episode_length_s=10.0),
        commands={"base_velocity": command},
        curriculum={"terrain_levels": Curriculum(func=curriculums.terrain_levels_vel, params=climb)},
        terminations={**task.terminations, "low": low},
        rewards={
            **task.rewards,
            "feet_phase": replace(swing, params={**swing.params, "reach": 0.15}),
            "lin_vel_z_l2": replace(vertical, weight=0.5 * vertical.weight),
            "ground_orientation_l2": Reward(func=rewards.ground_orientation_l2, weight=-5.0),
            "torque_limits": Reward(func=rewards.torque_limits, weight=-5.0, params={"soft_ratio": 0.7}),
            "feet_stumble": Reward(func=rewards.feet_stumble, weight=-0.5, params={"feet": feet}),
        },
    )


def _within_range(task: Task) -> JointPositionAction:
    """The task's action with targets clamped to the joints' ranges."""
    ranges = dict(zip(task.robot.joint_names, task.robot.joint_limits, strict=True))
    return replace(joint_positions(task), clip=ranges)


def _seen(terms: Mapping[str, ObservationTerm]) -> dict[str, ObservationTerm]:
    return {
        name: replace(term, noise=UniformNoise(low=-0.03, high=0.03)) if name == "height_scan" and term.noise else term
        for name, term in terms.items()
    }


def _eased(sub: SubTerrain, height: float) -> SubTerrain:
    """``sub`` with the lengths of :data:`EASY` for a robot of this height [m]."""
    lengths = EASY.get(sub.kind, {})
    given = {name: _metres(value, height) for name, value in lengths.items()}
    return replace(sub, params={**sub.params, **given})


def _metres(value: Any, height: float) -> Any:
    """Text in whole centimetres."""
    if isinstance(value, tuple):
        return tuple(_metres(each, height) for each in value)
    return round(value * height, 2)
