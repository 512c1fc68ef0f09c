"""Settings of MuJoCo's simulation. Reading them does not need MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gaitway_files.ranges import Checked, one_of


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
