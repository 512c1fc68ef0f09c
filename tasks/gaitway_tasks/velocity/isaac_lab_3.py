"""The preset ``isaaclab3``: the values that Isaac Lab 3.0 gives its own velocity tasks, where 2.3.2's are others."""

from __future__ import annotations

from dataclasses import replace

from ..mdp import events, rewards
from ..robots import Robot
from ..robots.description import Preset
from ..robots.robot import ActuatorLaw, DCMotor
from ..spec import Event, Params, Reward, Task
from ..terrain import Tiles
from . import base, humanoid
from .base import COMMAND

HALF_CIRCLE = 3.14
LIGHTEST, HEAVIEST = 1 / 1.25, 1.25
STANDING_HEIGHT = {"go2": 0.4}
"""Height [m] that the base is to keep, or robots crouch: they rest on colliders of their legs."""
STAIRS: dict[str, Params] = {"go2": {"step_height_range": (0.025, 0.12)}}
INIT_HEIGHT = {"anymal-d": 0.65}
LIMITS = {
    "go1": {".*_hip_joint|.*_thigh_joint": (23.7, 30.1), ".*_calf_joint": (35.55, 20.06)},
    "go2": {".*_hip_joint|.*_thigh_joint": (23.7, 30.1), ".*_calf_joint": (45.43, 15.7)},
}
"""Largest torque [N m] and speed [rad/s] of each drive; the calves' are geared."""


def isaaclab3(task: Task) -> Task:
    """``task`` with Isaac Lab 3.0's values.

    - The mass of the base, a humanoid's torso, is scaled by 0.8 to 1.25, log-uniform.
    - A1, Go1 and Go2 start in motion, off their default pose and with their weight off centre, and are pushed; H1 and
      G1 start in motion and are pushed.
    - Go1 and Go2 have the limits of their drives, the calves' geared; ANYmal D starts 5 cm higher.
    - Go2 is to keep its height, pays half for action rates, and climbs stairs half as high.
    - H1 on flat ground pays for uneven steps.
    """
    robot = task.robot
    if robot.name in STANDING_HEIGHT:
        sensor = {} if task.ground.flat else {"sensor": next(iter(task.height_scanners))}
        height = {"target_height": STANDING_HEIGHT[robot.name], **sensor}
        task = _with_reward(task, "base_height_l2", Reward(func=rewards.base_height_l2, weight=-30.0, params=height))
        task = base.reweighted(task, action_rate_l2=-0.005)
    if robot.name == "h1" and task.ground.flat:
        steps = {"feet": ".*ankle_link", **COMMAND}
        even = Reward(func=rewards.feet_air_time_variance, weight=-2.0, params=steps)
        task = _with_reward(task, "air_time_variance", even)
    if isinstance(task.ground, Tiles) and robot.name in STAIRS:
        task = replace(task, ground=_with_stairs(task.ground, STAIRS[robot.name]))
    return replace(task, robot=_as_measured(robot), events=_events(robot))


def _events(robot: Robot) -> dict[str, Event]:
    """The events that 3.0 gives all robots, in its order; only a humanoid keeps its pose and its centre of mass."""
    events_of_all = base.flat(robot).events
    start = events_of_all["reset_base"]
    turned = {**start.params["pose_range"], "yaw": (-HALF_CIRCLE, HALF_CIRCLE)}
    body = None if robot.quadruped else humanoid.TORSO
    mass = {"scale_range": (LIGHTEST, HEAVIEST), "body": body}
    found = {
        **events_of_all,
        "add_base_mass": Event(func=events.scale_rigid_body_mass, mode="startup", params=mass),
        "reset_base": replace(start, params={**start.params, "pose_range": turned}),
    }
    if robot.quadruped:
        return found
    still = base.starting_still(found)["reset_robot_joints"]
    return {**base.without(found, "base_com"), "reset_robot_joints": still}


def _as_measured(robot: Robot) -> Robot:
    drives: dict[str, ActuatorLaw] = dict(robot.actuators)
    if robot.name in LIMITS:
        (name, law), *others = drives.items()
        assert isinstance(law, DCMotor) and not others
        drives = {
            f"{name}_{number}" if number else name: replace(
                law, joints=(joints,), effort_limit=torque, saturation_effort=torque, velocity_limit=speed
            )
            for number, (joints, (torque, speed)) in enumerate(LIMITS[robot.name].items())
        }
    return robot.replace(actuators=drives, init_height=INIT_HEIGHT.get(robot.name, robot.init_height))


def _with_reward(task: Task, name: str, term: Reward) -> Task:
    return replace(task, rewards={**task.rewards, name: term})


def _with_stairs(ground: Tiles, params: Params) -> Tiles:
    tiles = {
        name: replace(sub, params={**sub.params, **params}) if "pyramid_stairs" in sub.kind else sub
        for name, sub in ground.generator.sub_terrains.items()
    }
    return replace(ground, generator=replace(ground.generator, sub_terrains=tiles))


ISAACLAB3 = Preset(change=isaaclab3, newer=True)
