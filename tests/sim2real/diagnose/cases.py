"""Known wrongs, each put into the simulator that records. What ``diagnose`` must name is in :data:`CASES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from gaitway_tasks.math import quat_apply, quat_apply_inverse
from gaitway_tasks.mdp import events
from gaitway_tasks.robots.orders import physx_order
from gaitway_tasks.signals import reads
from gaitway_tasks.spec import Event, Task
from gaitway_tasks.world import World
from torch import Tensor

from .walkers import HISTORY


@dataclass(frozen=True, kw_only=True)
class Case:
    """Arguments of ``record`` that make the recording differ from the bundle, made from the right task."""

    cause: str
    says: str = ""
    """Words that must be in the finding."""
    task: Callable[[Task], Task] = lambda task: task
    record: Callable[[Task], dict[str, Any]] = field(default=lambda task: {})


def with_terms(task: Task, **changes: Any) -> Task:
    """``task`` with observation terms changed: a function, or a dictionary of fields."""
    group = task.observations["policy"]
    terms = {
        name: replace(term, **({"func": c} if callable(c) else c)) if (c := changes.get(name)) else term
        for name, term in group.terms.items()
    }
    return replace(task, observations={"policy": replace(group, terms=terms)})


def with_drives(task: Task, **factors: float) -> Task:
    """``task`` whose drives have some of their numbers multiplied; ``armature`` is set instead."""

    def changed(law: Any) -> Any:
        return replace(law, **{n: f if n == "armature" else getattr(law, n) * f for n, f in factors.items()})

    robot = task.robot
    return replace(task, robot=robot.replace(actuators={n: changed(law) for n, law in robot.actuators.items()}))


def wrong_order(task: Task) -> tuple[list[int], list[int]]:
    """PhysX's order of the joints, as indices, and its inverse."""
    order = [task.robot.joint_names.index(name) for name in physx_order(task.robot)]
    return order, [order.index(i) for i in range(len(order))]


def joint_order(task: Task) -> Task:
    order, _ = wrong_order(task)

    @reads("joint_pos")
    def pos(world: World) -> Tensor:
        return (world.robot.joint_pos - world.default_joint_pos)[:, order]

    @reads("joint_vel")
    def vel(world: World) -> Tensor:
        return world.robot.joint_vel[:, order]

    @reads("action")
    def last(world: World) -> Tensor:
        return world.action[:, order]

    return with_terms(task, joint_pos=pos, joint_vel=vel, actions=last)


def sign(task: Task) -> Task:
    flip = torch.ones(task.robot.num_joints)
    flip[[0, 6]] = -1.0

    @reads("joint_pos")
    def pos(world: World) -> Tensor:
        return (world.robot.joint_pos - world.default_joint_pos) * flip

    @reads("joint_vel")
    def vel(world: World) -> Tensor:
        return world.robot.joint_vel * flip

    return with_terms(task, joint_pos=pos, joint_vel=vel)


@reads("joint_pos")
def joint_pos(world: World) -> Tensor:
    return world.robot.joint_pos


@reads("root_lin_vel_b")
def rotated_twice(world: World) -> Tensor:
    return quat_apply_inverse(world.robot.root_quat_wxyz, world.robot.root_lin_vel_b)


@reads("gyro")
def world_rates(world: World) -> Tensor:
    return quat_apply(world.robot.root_quat_wxyz, world.robot.root_ang_vel_b)


@reads("imu_quat_wxyz")
def misread_gravity(world: World) -> Tensor:
    """The simulator's x, y, z, w taken for w, x, y, z."""
    quat = world.robot.root_quat_wxyz.roll(-1, dims=1)
    return quat_apply_inverse(quat, torch.tensor([0.0, 0.0, -1.0]).expand(len(quat), 3))


def relaid(task: Task, term_major: bool, oldest_first: bool) -> dict[str, Any]:
    """The environment stacks its frames another way than our manager does."""
    group = task.observations["policy"]
    joints = task.robot.num_joints
    dims = [3, 3, 3, 3, joints, joints, joints]
    assert len(dims) == len(group.terms)
    starts = [sum(dims[:i]) * HISTORY for i in range(len(dims))]

    def at(age: int, i: int) -> list[int]:
        return list(range(starts[i] + (HISTORY - 1 - age) * dims[i], starts[i] + (HISTORY - age) * dims[i]))

    ages = range(HISTORY - 1, -1, -1) if oldest_first else range(HISTORY)
    pairs = [(a, i) for i in range(len(dims)) for a in ages] if term_major else [(a, i) for a in ages for i in range(7)]
    columns = [c for age, i in pairs for c in at(age, i)]
    return {"see": lambda seen, recorder: seen[:, columns]}


def late(task: Task) -> Task:
    event = Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.015, 0.015)})
    return replace(task, events={**task.events, "action_delay": event})


def same_for_all(actions: Tensor) -> Tensor:
    return actions.clamp(-0.25, 0.25)


CASES = {
    "joint order": Case(
        cause="joint_order",
        says="PhysX",
        task=joint_order,
        record=lambda task: {"act": lambda a: a[:, wrong_order(task)[1]]},
    ),
    "sign": Case(cause="sign", task=sign),
    "scale": Case(cause="scale", says="0.05", task=lambda task: with_terms(task, joint_vel={"scale": 0.05})),
    "offset": Case(cause="offset", says="default pose", task=lambda task: with_terms(task, joint_pos=joint_pos)),
    "velocity rotated twice": Case(
        cause="frame", says="twice", task=lambda task: with_terms(task, base_lin_vel=rotated_twice)
    ),
    "quaternion order": Case(
        cause="quaternion_order",
        says="x, y, z, w",
        task=lambda task: with_terms(task, projected_gravity=misread_gravity),
    ),
    "history layout": Case(
        cause="history_layout", says="frame-major, oldest", record=lambda task: relaid(task, False, True)
    ),
    "armature": Case(cause="armature", task=lambda task: with_drives(task, armature=0.06)),
    "delay": Case(cause="delay", says="15 ms", task=late),
    "action clipping": Case(cause="action_clip", says="0.25", record=lambda task: {"act": same_for_all}),
    "torque limit": Case(cause="torque_limit", task=lambda task: with_drives(task, effort_limit=0.3)),
    "observation clip": Case(
        cause="observation_clip", task=lambda task: with_terms(task, joint_vel={"clip": (-1.0, 1.0)})
    ),
    "history, newest first": Case(
        cause="history_layout", says="term-major, newest", record=lambda task: relaid(task, True, False)
    ),
    "world frame": Case(cause="frame", says="world", task=lambda task: with_terms(task, base_ang_vel=world_rates)),
    "action scale": Case(
        cause="scale", says="0.5", task=lambda task: replace(task, actions=replace(task.actions, scale=0.25))
    ),
}
