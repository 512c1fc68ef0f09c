"""Description of a robot beside its physical data: its tasks, and how Isaac Lab loads and trains it. Data only.

Functions are named as ``module:function``, so that listing robots and tasks imports no torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gaitway_files.errors import UserError

from .robot import Robot

if TYPE_CHECKING:
    from ..spec import Task


@dataclass(frozen=True, kw_only=True)
class Learner:
    """PPO settings of Isaac Lab 2.3.2's velocity tasks. An iteration is 24 steps of every environment."""

    max_iterations: int = 300
    max_iterations_3: int | None = None
    """Value of Isaac Lab 3.0, where it has changed it."""
    hidden_dims: tuple[int, ...] = (128, 128, 128)
    """Hidden units of the actor and of the critic."""
    entropy_coef: float = 0.005


FLAT, ROUGH = Learner(), Learner(max_iterations=1500, hidden_dims=(512, 256, 128))


@dataclass(frozen=True, kw_only=True)
class IsaacLabRobot:
    """The robot in Isaac Lab. Contact limits are ``njmax`` and ``nconmax`` of Isaac Lab 3.0's tasks with Newton."""

    asset: str | None = None
    """Its ``ArticulationCfg`` as ``module:name``; None where there is none, and a USD is made from the MJCF."""
    flat_contacts: tuple[int, int] = (1000, 300)
    rough_contacts: tuple[int, int] = (1000, 300)
    elliptic: bool = False
    """True if the flat task uses elliptic friction cones."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A recipe: how it changes a task, and how the changed task is then learnt."""

    change: Callable[[Task], Task]
    settings: Callable[[Task], Mapping[str, Any]] | None = None
    """Settings of its training by their dotted keys, ``agent.gamma`` for example, over PPO's defaults; None for Isaac
    Lab's numbers."""
    newer: bool = False
    """True for the iterations of Isaac Lab 3.0."""


VELOCITY_PRESETS = {name: f"gaitway_tasks.velocity:{name.upper()}" for name in ("cpu", "sprint", "isaaclab3")}
"""The presets of velocity tasks."""


@dataclass(frozen=True, kw_only=True)
class RobotTask:
    """A row of a robot's tasks."""

    make: str
    """``module:function`` from a :class:`Robot` to its task."""
    summary: str
    """Text for the list of tasks; ``{title}`` is the robot's."""
    presets: Mapping[str, str] = field(default_factory=dict)
    """Its presets by name, each a :class:`Preset` named ``module:OBJECT``."""
    isaaclab: bool = True
    """True if Isaac Lab's worlds can have it: those have velocity commands, and robots with a free base."""

    def __call__(self, robot: Robot) -> Task:
        module, _, function = self.make.partition(":")
        task: Task = getattr(importlib.import_module(module), function)(robot)
        return task


FLAT_TASK, BLIND_TASK = "velocity-flat-{robot}", "velocity-flat-{robot}-blind"
ROUGH_TASK, BLIND_ROUGH_TASK = "velocity-rough-{robot}", "velocity-rough-{robot}-blind"


def velocity_tasks(
    flat: str, rough: str | None = None, *, blind: bool = False, presets: tuple[str, ...] = (), note: str = ""
) -> dict[str, RobotTask]:
    """Rows of the velocity tasks that ``flat`` and ``rough`` make, ``module:function``.

    With ``blind`` there are others without base velocity and height scan; ``presets`` are those of the flat tasks, of
    which rough ones have all but "sprint"; ``note`` is a remark in the list.
    """
    told = "{title} tracks velocity commands on flat ground; reads its base velocity"
    known = {name: VELOCITY_PRESETS[name] for name in presets}
    found = {FLAT_TASK: RobotTask(make=flat, summary=told + note, presets=known)}
    if blind:
        told = "the same from what a robot measures: no base velocity, a short history"
        found[BLIND_TASK] = RobotTask(make="gaitway_tasks.velocity:blind_flat", summary=told, presets=known)
    if rough is not None:
        told, own = (
            "{title} over stairs, boxes and slopes, with a height scan",
            {name: path for name, path in known.items() if name != "sprint"},
        )
        found[ROUGH_TASK] = RobotTask(make=rough, summary=told, presets=own)
        if blind:
            told = "the same from what a robot measures: no base velocity, no height scan, a short history"
            found[BLIND_ROUGH_TASK] = RobotTask(make="gaitway_tasks.velocity:blind_rough", summary=told, presets=own)
    return found


def tracking_tasks() -> dict[str, RobotTask]:
    """Rows of the tasks in which a robot plays a motion."""
    presets = {"cpu": "gaitway_tracking.tasks:CPU"}
    return {
        "track-{robot}": RobotTask(
            make="gaitway_tracking.tasks:track",
            summary="{title} plays a motion; reads its place",
            presets=presets,
            isaaclab=False,
        ),
        "track-{robot}-blind": RobotTask(
            make="gaitway_tracking.tasks:blind",
            summary="the same from what a robot measures",
            presets=presets,
            isaaclab=False,
        ),
    }


@dataclass(frozen=True, kw_only=True)
class RobotDescription:
    """A robot, its tasks and the default settings for training it."""

    robot: Robot
    title: str
    """Full name, such as "Unitree Go2"."""
    tasks: Mapping[str, RobotTask] = field(default_factory=dict)
    """Tasks by name, in which ``{robot}`` stands for the robot's: :func:`velocity_tasks`, and rows of other families.
    """
    isaaclab: IsaacLabRobot = IsaacLabRobot()
    flat_learner: Learner = FLAT
    rough_learner: Learner = ROUGH
    order: int = 1
    """Robots are listed in this order, and by name."""

    def __post_init__(self) -> None:
        for name, row in self.tasks.items():
            if "{robot}" not in name or ":" not in row.make:
                raise UserError(
                    f"task {name!r} of {self.title}, made by {row.make!r}: write its name with {{robot}}, as in "
                    "'stand-{robot}', and make as module:function"
                )
