"""Draws of a scenario of walking, without a contract."""

import numpy as np
from gaitway_sim2real.trial.commands import Told
from gaitway_sim2real.trial.conditions import draw
from gaitway_velocity.suite import SUITE


def drawn(scenario, ranges, joints, control_dt, seed):
    told = Told(ranges=np.array(ranges), still=np.zeros(3), control_dt=control_dt)
    return draw(scenario, told, joints, SUITE.kinds, seed)
