"""Settings of MuJoCo's simulation. Reading them does not need MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gaitway_files.ranges import Checked, NonNegativeInt, one_of


@dataclass(frozen=True, kw_only=True)
class PhysicsOptions(Checked):
    """Solver settings. Defaults are the fastest ones whose feet do not creep.

    Newton converges in two or three iterations from a cold start, so warm starting costs more than it saves.
    MuJoCo's friction is soft: with its defaults the light feet of a standing robot slide apart within a second. A
    high ``impratio`` and ``solimp`` stop that; the pyramidal cone then costs nothing extra, the elliptic one 3x.
    The actuators' delay lines hold the delays of the task's events; ``max_action_delay`` [s] makes them longer
    for delays that are set by hand.
    """

    solver: Annotated[str, one_of("newton", "cg", "pgs")] = "newton"
    """Constraint solver of MuJoCo."""
    iterations: int = 10
    """Most iterations of the solver in a step; Newton needs two or three."""
    warmstart: bool = False
    """True starts the solver at the last step's solution."""
    cone: Annotated[str, one_of("pyramidal", "elliptic")] = "pyramidal"
    """Friction cone; "elliptic" is more exact and slower."""
    impratio: float = 10.0
    """Stiffness of friction relative to the normal force; MuJoCo's default is 1."""
    solimp: tuple[float, float, float] = (0.95, 0.99, 0.001)
    """Impedance of contacts: MuJoCo's ``solimp``, first three numbers."""
    max_action_delay: float = 0.0
    """Longest delay of actions that is set by hand [s]."""


@dataclass(frozen=True, kw_only=True)
class WarpOptions(PhysicsOptions):
    """Settings of MuJoCo Warp: those of MuJoCo, and sizes of buffers that a GPU needs to know before."""

    solver: Annotated[str, one_of("newton", "cg")] = "newton"
    """Constraint solver of MuJoCo; "pgs" is for CPUs."""
    njmax: NonNegativeInt = 0
    """Most rows of constraints of one robot; 0 measures robots in random poses."""
    nconmax: NonNegativeInt = 0
    """Contacts of a robot, on average over all robots; 0 measures robots in random poses."""
    deterministic: bool = False
    """True computes the same bits in every run on the same GPU, somewhat slower. On a CPU every run does."""
