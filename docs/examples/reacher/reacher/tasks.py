"""Reacher's task: to bring its tip to a point that it is told."""

from dataclasses import dataclass

import torch
from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.commands import Command
from gaitway_tasks.mdp import events, observations, rewards, terminations
from gaitway_tasks.robots import Preset, Robot
from gaitway_tasks.signals import reads
from gaitway_tasks.spec import Event, ObservationGroup, ObservationTerm, Reward, Task, Termination, Timing

from . import REACHER


@dataclass(frozen=True, kw_only=True)
class Point(Command):
    """Place of the tip from the shoulder, forwards and up [m]."""

    resampling_time_range: tuple[float, float] = (2.0, 3.0)
    x: tuple[float, float] = (0.25, 0.5)
    z: tuple[float, float] = (-0.4, 0.3)
    units = ("m", "m")
    acceleration = (0.5, 0.5)
    rest = (0.35, -0.2)
    suite = "reacher.suite:SUITE"

    def ranges(self):
        return {"x": self.x, "z": self.z}

    def errors(self, told, robot):
        return {"tip": distance(robot, told)}


def distance(robot, told):
    """Distance of the tip, the last body, from the point ``told`` (N, 2) [m], (N,)."""
    tip = robot.body_pos_w[:, -1] - robot.root_pos_w
    return (tip[:, [0, 2]] - told).norm(dim=1)


@reads("body_pos_w")
def tip_at_point(world, command_name: str, std: float):
    """exp(-d^2 / std^2) of the tip's distance d from where it should be [m], (N,)."""
    return torch.exp(-((distance(world.robot, world.command(command_name)) / std) ** 2))


def reach(robot: Robot) -> Task:
    """Task of an arm whose base is its shoulder and whose last body is its tip."""
    point = {"command_name": "point"}
    return Task(
        name=f"reach-{robot.name}",
        robot=robot,
        timing=Timing(physics_dt=0.005, decimation=4, episode_length_s=10.0),
        actions=JointPositionAction(scale=0.5),
        observations={
            "policy": ObservationGroup(
                terms={
                    "joint_pos": ObservationTerm(func=observations.joint_pos_rel),
                    "joint_vel": ObservationTerm(func=observations.joint_vel_rel, scale=0.1),
                    "point": ObservationTerm(func=observations.generated_commands, params=point),
                    "actions": ObservationTerm(func=observations.last_action),
                }
            )
        },
        commands={"point": Point()},
        rewards={
            "near": Reward(func=tip_at_point, weight=1.0, params={**point, "std": 0.3}),
            "at": Reward(func=tip_at_point, weight=1.0, params={**point, "std": 0.05}),
            "action_rate_l2": Reward(func=rewards.action_rate_l2, weight=-0.05),
        },
        terminations={"time_out": Termination(func=terminations.time_out, time_out=True)},
        events={
            "reset_robot_joints": Event(
                func=events.reset_joints_by_scale, mode="reset", params={"position_range": (0.5, 1.5)}
            )
        },
    )


REACH = reach(REACHER)
CPU = Preset(change=lambda task: task, settings=lambda task: {"num_envs": 64, "total_steps": 3_000_000})
"""For a laptop."""
