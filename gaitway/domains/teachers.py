"""Teachers of robots: the run of a policy that a student learns from, and what its world must let the teacher see."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_agents.teacher import OBSERVATION, Teacher
from gaitway_files.errors import UserError
from gaitway_tasks.layout import width
from gaitway_tasks.spec import ObservationTerm, Task

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..runs.folder import RunFolder
    from ..train_config import TrainConfig


def with_teacher(config: TrainConfig) -> TrainConfig:
    """``config`` whose task also observes what its teacher reads, without noise; refuses teachers that do not fit."""
    given = config.agent.teacher
    theirs, ours = _run(given).config(), config.robot_task
    taught = theirs.robot_task
    if (groups := getattr(theirs.agent, "actor_groups", ("policy",))) != ("policy",):
        raise ConfigError(f"--teacher {given} acts on the groups {', '.join(groups)}: only 'policy' alone can be read")
    _check_action(given, taught, ours)
    group = taught.observations["policy"]
    task = ours.replace(height_scanners={**taught.height_scanners, **ours.height_scanners})
    for name, term in group.terms.items():
        _check_term(given, name, term, taught, task)
    seen = dataclasses.replace(group, enable_corruption=False)
    task = task.replace(observations={**ours.observations, OBSERVATION: seen})
    return dataclasses.replace(config, task=task)


def teacher_for(config: TrainConfig) -> Teacher:
    """The teacher of a training: the policy that its run chose, or its newest."""
    from ..training.load import load_actor

    return Teacher(load_actor(_run(config.agent.teacher))[1])


def _run(given: str) -> RunFolder:
    from ..runs.folder import RunFolder, is_run
    from ..sources import is_bundle

    path = Path(given)
    if is_run(path):
        return RunFolder.open(path)
    why = "is a bundle, whose graph gives joint targets" if is_bundle(path) else "is no run folder"
    raise ConfigError(f"--teacher {given} {why}: name the run folder of a trained policy of this robot")


def _check_action(given: str, taught: Task, ours: Task) -> None:
    """Refuse a teacher whose actions mean something else."""
    for what, theirs, own in (
        ("joints", taught.robot.joint_names, ours.robot.joint_names),
        ("control period", taught.timing.step_dt, ours.timing.step_dt),
        ("kind of action", type(taught.actions).__name__, type(ours.actions).__name__),
        *_meaning(taught, ours),
    ):
        if theirs != own:
            raise ConfigError(
                f"--teacher {given}, a policy of {taught.robot.name}, does not fit {ours.name}: {what} "
                f"{_brief(theirs, own)}; choose a teacher of {ours.robot.name} with the same action"
            )


def _meaning(taught: Task, ours: Task) -> list[tuple[str, Any, Any]]:
    """What the numbers of an action stand for, of the teacher and of the student's task."""
    theirs, own = taught.actions.as_joint_positions(), ours.actions.as_joint_positions()
    if theirs is None or own is None:
        return [("action", taught.actions, ours.actions)]
    pose = "offset of the action (default pose)"
    return [
        ("scale of the action", theirs.scales(taught.robot), own.scales(ours.robot)),
        (pose, theirs.offsets(taught.robot), own.offsets(ours.robot)),
        ("clip of the action (raw_clip)", theirs.raw_clip, own.raw_clip),
    ]


def _brief(theirs: Any, own: Any) -> str:
    """The first difference."""
    if isinstance(theirs, tuple) and isinstance(own, tuple):
        if len(theirs) != len(own):
            return f"{len(theirs)} in number, not {len(own)}"
        theirs, own = next((a, b) for a, b in zip(theirs, own, strict=True) if a != b)
    return f"{theirs}, not {own}"


def _check_term(given: str, name: str, term: ObservationTerm, taught: Task, task: Task) -> None:
    """Refuse a term that the student's world cannot compute, or that has other numbers there."""
    command = term.params.get("command_name")
    if command is not None:
        theirs, own = type(taught.commands[command]), type(task.commands.get(command))
        if theirs is not own:
            found = "no such command" if command not in task.commands else f"a {own.__name__}"
            raise ConfigError(
                f"--teacher {given} reads the command {command!r}, a {theirs.__name__}, for its observation {name!r}, "
                f"and {task.name} has {found}: train the student on a task with that command"
            )
    sensor = str(term.params.get("sensor"))
    scanner, own_scanner = taught.height_scanners.get(sensor), task.height_scanners.get(sensor)
    if scanner != own_scanner:
        raise ConfigError(
            f"--teacher {given} reads {name!r} with {scanner}, and {sensor!r} of {task.name} is {own_scanner}: "
            "give both the same"
        )
    try:
        theirs_wide, own_wide = width(taught, name, term), width(task, name, term)
    except UserError:
        return  # a term of another package, whose width only the world tells
    if theirs_wide != own_wide:
        raise ConfigError(
            f"--teacher {given} reads {theirs_wide} numbers as its observation {name!r}, and {task.name} has "
            f"{own_wide}: give both the same command, action and height scanner"
        )
