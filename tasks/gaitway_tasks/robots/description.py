"""Description of a robot beside its physical data: its tasks, and how Isaac Lab loads and trains it. Data only.

Functions are named as ``module:function``, so that listing robots and tasks imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from .robot import Robot


@dataclass(frozen=True, kw_only=True)
class Learner:
    """PPO settings of Isaac Lab 2.3.2's velocity tasks. An iteration is 24 steps of every environment."""

    max_iterations: int = 300
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
    """Whether the flat task uses elliptic friction cones."""


@dataclass(frozen=True, kw_only=True)
class RobotDescription:
    """A robot, its velocity tasks and the default settings for training it."""

    robot: Robot
    title: str
    """Full name, such as "Unitree Go2"."""
    flat: str | None = None
    """``module:function`` from a :class:`Robot` to its velocity task on a plane; None for a robot without one."""
    rough: str | None = None
    """The same for rough ground."""
    blind: bool = False
    """Whether there is a flat task without base velocity."""
    presets: tuple[str, ...] = ()
    """Presets of the flat tasks, of :mod:`gaitway_tasks.velocity.presets`."""
    note: str = ""
    """Remark shown in the list of tasks."""
    isaaclab: IsaacLabRobot = IsaacLabRobot()
    flat_learner: Learner = FLAT
    rough_learner: Learner = ROUGH
    order: int = 1
    """Robots are listed in this order, and by name."""
