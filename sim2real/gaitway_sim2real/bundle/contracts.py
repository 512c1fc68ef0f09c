"""The contract of a task's policy: all that a bundle says beside the graph, and whether it can be said at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import cast

from gaitway_files.errors import UserError
from gaitway_files.versions import versions as installed
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import ESTIMATE, NUMBERS, VELOCITY, Action, RigidObject, Signal, TermLayout
from gaitway_tasks.actions import joint_positions
from gaitway_tasks.commands import check_exported, is_velocity, steering
from gaitway_tasks.mdp.objects import reset_object_state_uniform
from gaitway_tasks.signals import signals_of
from gaitway_tasks.spec import Task
from gaitway_tasks.vocabulary import INPUTS, SIGNALS
from gaitway_tasks.world import World

from .robot_fields import robot_fields
from .signal_policy import SignalPolicy, height_scan_of

NO_CLIP = 1e6  # [rad]

CONVENTIONS = {
    "quaternion": "w, x, y, z; rotates base frame into world frame",
    "gyro": "angular velocity of the base, base frame",
    "command": "vx, vy, yaw rate; base frame",
    "base_lin_vel": "linear velocity of the base, base frame; an estimate",
    "height_scan": "height of the base above points of a yaw-aligned grid under it, x fastest; an estimate",
    "base_frame": "x forward, y left, z up",
    "joints": "in the order of joint_names; a runtime maps its own order by name",
    "state": "all zero means just reset; otherwise the last next_state",
    "history": "term-major, oldest first; inside the graph",
}
UNITS = {name: signal.unit for name, signal in INPUTS.items()} | {
    "state": "1",
    "joint_pos_target": "rad",
    "action": "1",
    "next_state": "1",
}


ESTIMATES = {signal.input: name for name, signal in SIGNALS.items() if signal.input and not signal.measured}
"""Inputs of a bundle that no sensor gives, and the signals of terms that they stand for."""


class ExportError(UserError):
    """A policy that cannot leave simulation, with what to change."""


def exportable(task: Task) -> Task:
    """The task as a bundle has it, with targets clipped to the joints' ranges where Gaitway drives the real robot.

    Raises :class:`ExportError` for an actor that a robot's sensors cannot feed.
    """
    _check_task(task)
    return _within_range(task)


def _check_task(task: Task) -> None:
    if unmeasurable := task.unmeasurable_signals():
        listed = "; ".join(f"term {term!r} reads {', '.join(names)}" for term, names in unmeasurable.items())
        raise ExportError(
            f"the actor of {task.name} reads signals that no robot measures: {listed}. Train the variant without them "
            f"({task.name.removesuffix('-blind')}-blind), or name what the robot will estimate "
            f"({', '.join(f'--estimate {name}' for name in ESTIMATES)})"
        )
    read = {signal for term in task.observations["policy"].terms.values() for signal in signals_of(term.func)}
    if unknown := sorted((read & set(task.estimators)) - set(ESTIMATES.values())):
        raise ExportError(
            f"the actor of {task.name} reads {', '.join(unknown)} from an estimator, which a bundle has no input for: "
            f"it has inputs for {', '.join(ESTIMATES.values())}"
        )
    try:
        told, _ = steering(task), joint_positions(task)
        check_exported(*told)
    except UserError as error:
        raise ExportError(str(error)) from None


def _within_range(task: Task) -> Task:
    """Clip targets to the joints' ranges, so that validation sees what the robot does.

    As a clip of training it made a worse walker (Go2, one seed).
    """
    robot, action = task.robot, joint_positions(task)
    if robot.hardware is None or action.clip is not None:
        return task
    ranges = dict(zip(robot.joint_names, robot.joint_limits, strict=True))
    return task.replace(actions=dataclasses.replace(action, clip=ranges))


def contract_of(
    task: Task, policy: SignalPolicy, files: dict[str, str], checkpoint_sha256: str, software: Mapping[str, str]
) -> Contract:
    """The contract of an :func:`exportable` task's policy; ``files`` has the hash of each file beside it."""
    robot, group = task.robot, task.observations["policy"]
    (told, command), action = steering(task), joint_positions(task)
    clips = action.clips(robot)

    velocity = is_velocity(command)
    units = UNITS if velocity else UNITS | {"command": ", ".join(command.units)}

    def signals(widths: Mapping[str, int]) -> tuple[Signal, ...]:
        return tuple(
            Signal(name=name, shape=("N", width), unit=units.get(name.removeprefix(ESTIMATE), "as trained"))
            for name, width in widths.items()
        )

    return Contract(
        task=task.name,
        **robot_fields(robot),
        action=Action(
            kind="joint_position",
            scale=action.scales(robot),
            offset=action.offsets(robot),
            clip=None if clips is None else tuple((max(low, -NO_CLIP), min(high, NO_CLIP)) for low, high in clips),
            raw_clip=action.raw_clip,
        ),
        control_dt=task.timing.step_dt,
        physics_dt=task.timing.physics_dt,
        commands={"base_velocity" if velocity else told: command.ranges()},
        operator=VELOCITY if velocity else NUMBERS,
        conventions=CONVENTIONS
        | ({} if velocity else {"command": ", ".join(command.ranges())})
        | ({"object_pos": "middle of the object, base frame; an estimate"} if "object_pos" in policy.estimated else {}),
        inputs=signals(policy.input_widths),
        outputs=signals(policy.output_widths),
        state_dim=policy.state_dim,
        observation=tuple(
            TermLayout(
                term=name,
                dim=policy.manager.dims[name],
                history=group.history_length,
                scale=term.scale,
                clip=term.clip,
                signals=tuple(sorted(signals_of(term.func))),
            )
            for name, term in group.terms.items()
        ),
        software=software,
        checkpoint_sha256=checkpoint_sha256,
        files=files,
        command_acceleration=command.acceleration,
        command_rest=None if velocity else command.rest,
        command_settle=command.settles(cast(World, policy.world)) or None,
        suite=None if velocity else command.suite or None,
        command_calibration=None if policy.calibration is None else policy.calibration.described(),
        height_scan=height_scan_of(task) if "height_scan" in policy.estimated else None,
        motion=command.motion(cast(World, policy.world)),
        objects=objects_of(task) or None,
    )


def objects_of(task: Task) -> dict[str, RigidObject]:
    """Objects of ``task`` as a contract has them, with the ranges of its resets."""
    drawn = {
        event.params["asset"]: event.params["pose_range"]
        for event in task.events.values()
        if event.func is reset_object_state_uniform
    }
    return {
        name: RigidObject(
            size=each.size,
            mass=each.mass,
            friction=each.friction,
            pos=each.pos,
            spread=tuple(drawn.get(name, {}).get(axis, (0.0, 0.0)) for axis in "xyz"),
        )
        for name, each in task.objects.items()
    }


def versions() -> dict[str, str]:
    """Versions of the packages that a bundle is made with."""
    return installed("gaitway", "torch", "onnx", "onnxruntime", "mujoco", "numpy")
