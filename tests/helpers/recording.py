"""A recording of robots that stand still, to change at will."""

from __future__ import annotations

import numpy as np
from gaitway_sim2real.trial.simulate import Trajectory


def recording(steps: int = 4, robots: int = 2, joints: int = 12, feet: int = 2, **changes: object) -> Trajectory:
    def zeros(width: int) -> np.ndarray:
        return np.zeros((steps, robots, width))

    values = {
        "control_dt": 0.02,
        "mass": np.full(robots, 10.0),
        "command": zeros(3),
        "push": zeros(2),
        "alive": np.ones((steps, robots), bool),
        "fall_step": np.full(robots, -1),
        "fall_cause": ("",) * robots,
        "start_pos": np.zeros((robots, 3)),
        "base_pos": zeros(3),
        "base_quat": zeros(4),
        "lin_vel": zeros(3),
        "ang_vel": zeros(3),
        "joint_pos": zeros(joints),
        "joint_vel": zeros(joints),
        "torque": zeros(joints),
        "target": zeros(joints),
        "foot_contact": np.ones((steps, robots, feet), bool),
        "foot_slip": zeros(feet),
        "qpos": None,
    }
    return Trajectory(**{**values, **changes})
