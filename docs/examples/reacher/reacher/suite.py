"""Reacher's suite: what decides whether its policy may leave simulation."""

import numpy as np
from gaitway_sim2real.trial.metric import Metric, per_robot
from gaitway_sim2real.trial.scenario import Limit, Scenario
from gaitway_sim2real.trial.stressors import Load
from gaitway_sim2real.trial.suite import Suite

LATE = 1.5
"""Time after a change of the point from which the tip must be there [s]."""


def distances(rec):
    """Distance of the tip from its point at each control step [m], (T, N)."""
    tip = rec.bodies["tip"] - rec.bodies["upper_arm"]
    return np.linalg.norm(tip[..., [0, 2]] - rec.command, axis=-1)


def tip_error(rec, contract):
    """Mean distance of each robot's tip once it has had the time to come there [m], (N,)."""
    changed = np.ones(rec.alive.shape, bool)
    changed[1:] = (np.diff(rec.command, axis=0) != 0).any(-1)
    step = np.arange(len(changed))[:, None]
    since = step - np.maximum.accumulate(np.where(changed, step, 0), axis=0)
    return per_robot(distances(rec), rec.alive & (since * rec.control_dt >= LATE))


THERE = (Limit(metric="tip_error", value=0.05), Limit(metric="torque_saturation", value=0.05))
"""A tip that trembles at its point is not there."""

POINTS = Scenario(
    name="points",
    title="Points",
    about="A new point every 4 s.",
    commands="steps",
    seconds=12.0,
    limits=THERE,
)
LATE_DRIVES = Scenario(
    name="late",
    title="Late drives",
    about="Targets reach the drives up to 20 ms late, and drives are up to 10 % off.",
    commands="steps",
    seconds=12.0,
    delay=(0.0, 0.02),
    strength=(0.9, 1.1),
    limits=THERE,
)
LOAD = Scenario(
    name="load",
    title="Load of 0.2 kg",
    about="The tip carries 0.2 kg.",
    commands="random",
    seconds=6.0,
    stressors=(Load("tip", 0.2),),
    limits=THERE,
)

SUITE = Suite(
    version="reach 1.0",
    metrics=(
        Metric(
            name="tip_error",
            title="Tip off point",
            unit="m",
            about=f"Mean distance of the tip from its point, from {LATE:g} s after it changed.",
            measure=tip_error,
        ),
    ),
    bodies=("upper_arm", "tip"),
    scenarios=(POINTS, LATE_DRIVES, LOAD),
    not_tested=("contacts: the tip touches nothing",),
)
