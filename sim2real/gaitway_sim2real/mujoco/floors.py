"""The floors of the validation suite and of the viewer, a row each, as contact models.

The soles of a robot are part of a floor: how far its feet sink is measured on ANYmal C, standing in its default pose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .physics import NOMINAL_PHYSICS, Physics


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Floor under a robot, with its solver settings."""

    title: str
    about: str = ""
    physics: Physics
    factor: str = ""
    """The one of the suite's factors in which it differs from the nominal floor, if that is all."""
    level: str = ""
    """Level of the factor on this floor, as text."""
    number: float | None = None
    """Level as a number: how far feet sink [mm], or the physics step [ms]."""
    required: bool = True
    """True if it counts in the verdict: the loaded feet of a standing robot must not creep apart on it."""


def _soft(sinks: float, solref: float, solimp: tuple[float, float], about: str, **changes: Any) -> Floor:
    physics = Physics(solref=(solref, 1.0), solimp=(*solimp, 0.001))
    about = about.format(f"{sinks:g} mm")
    return Floor(physics=physics, about=about, factor="softness", number=sinks, **changes)


NOMINAL = "nominal"
FLOORS = {
    NOMINAL: Floor(title="Nominal floor", physics=NOMINAL_PHYSICS, number=2.2),
    "floor_hard": _soft(
        0.8, 0.01, (0.95, 0.99), title="Hard floor", level="hard",
        about="Hard soles on stone: the feet of a standing ANYmal sink in by {} instead of 2.2 mm.",
    ),
    "floor_soft": _soft(
        6.6, 0.02, (0.9, 0.97), title="Soft floor", level="soft",
        about="Rubber soles on a thick carpet: the feet of a standing ANYmal sink in by {}.",
    ),
    "floor_mat": _soft(
        11.0, 0.02, (0.9, 0.95), title="Gym mat", level="mat", required=False,
        about="The feet of a standing ANYmal sink in by {}, with MuJoCo's default softness.",
    ),
    "cone_pyramidal": Floor(
        title="Pyramidal friction", factor="cone", level="pyramidal",
        about="Friction is larger along two axes than between them, as in many training simulators; feet do not creep.",
        physics=Physics(cone="pyramidal", impratio=100.0),
    ),
    "step_2.5ms": Floor(
        title="Physics step 2.5 ms", factor="step", level="2.5 ms", number=2.5,
        about="The same floor in steps half as long.", physics=Physics(timestep=0.0025),
    ),
    "integrator_euler": Floor(
        title="Euler's integrator", factor="integrator", level="Euler, 2.5 ms",
        about="Velocities are integrated by Euler's method, in steps of 2.5 ms.",
        physics=Physics(timestep=0.0025, integrator="euler"),
    ),
    "stock_mujoco": Floor(
        title="MuJoCo's defaults", required=False,
        about="MuJoCo as installed: pyramidal cones, impratio 1, default softness, Euler steps of 2 ms. No floor is "
        "like that: the feet of a robot that stands still slide apart.",
        physics=Physics(
            timestep=0.002, integrator="euler", cone="pyramidal", impratio=1.0, solref=(0.02, 1.0),
            solimp=(0.9, 0.95, 0.001),
        ),
    ),
}  # fmt: skip
"""Floors under robots with mixed commands, by the scenario's name."""

FIRM = Physics(timestep=0.0025, cone="elliptic", impratio=100.0)
"""Floor as soft as modelled, on which a loaded sole does not creep: a gait that needs the creep shows it here."""
_SOFT = FLOORS["floor_soft"]
GAIT_FLOORS = {
    "": Floor(title="a hard floor", about="a hard floor", physics=FIRM),
    "_carpet": Floor(
        title="carpet",
        about=f"a carpet, in which the feet of a standing ANYmal sink by {_SOFT.number:g} mm",
        physics=replace(FIRM, solref=_SOFT.physics.solref, solimp=_SOFT.physics.solimp),
    ),
}
"""Floors of gait measurements, by the end of the scenario's name: the nominal and the soft floor without creep."""
