"""Limits of walking that several scenarios share."""

from __future__ import annotations

from gaitway_sim2real.trial.scenario import Limit

from .needs import FOOT_PAIRS, OTHER_FEET, TWO_FEET, VELOCITY

FALLS_1 = Limit(metric="falls", value=0.01)
FALLS_5 = Limit(metric="falls", value=0.05)
CORNERS = Limit(metric="corner_falls", value=0.0, needs=(VELOCITY,))
LINEAR = Limit(metric="lin_vel_error", value=0.15, needs=(OTHER_FEET,))
# A walk on two feet w apart sways by w/T (1 - 1/cosh(T/2 sqrt(g/L))) on average, as a pendulum does that changes its
# foot every T: 0.11 to 0.17 m/s for an H1, whose feet stand 0.4 m apart. What it must follow is the mean: BIAS.
LINEAR_ON_TWO = Limit(metric="lin_vel_error", value=0.20, needs=(TWO_FEET,))
YAW = Limit(metric="yaw_vel_error", value=0.15)
BIAS = (Limit(metric="lin_vel_bias", value=0.05), Limit(metric="yaw_vel_bias", value=0.05))
REST = (
    Limit(metric="rest_speed", value=0.02),
    Limit(metric="rest_yaw_rate", value=0.02),
    Limit(metric="rest_joint_speed", value=0.05),
    Limit(metric="rest_torque_change", value=0.1),
)
STEPS_1 = Limit(metric="steps_at_rest", value=0.01)
STEPS_5 = Limit(metric="steps_at_rest", value=0.05)

WALKS = (VELOCITY,)
GAIT_LIMITS = (
    # A leg that swings freely takes 2.6 sqrt(L/g). People, L 0.93 m: 0.4 s, which is 1.3; the limit is 0.25 s.
    Limit(metric="swing_time", value=0.80, at_least=True, unit="time", needs=WALKS),
    # People: 0.9 to 1 a second, 0.3 sqrt(g/L); the limit is 2.0 a second.
    Limit(metric="step_rate", value=0.62, unit="rate", needs=WALKS),
    # The highest threshold of a door is 13 mm. People's toes clear 11 to 19 mm where they are lowest, 0.012 to 0.02 L.
    Limit(metric="clearance", value=0.06, at_least=True, unit="length", needs=(VELOCITY, OTHER_FEET)),
    Limit(metric="clearance", value=0.02, at_least=True, unit="length", needs=(VELOCITY, TWO_FEET)),
    Limit(metric="slip", value=0.05, unit="speed", needs=WALKS),
    Limit(metric="dragging_feet", value=0.02, needs=WALKS),
    Limit(metric="stumbles", value=0.1, needs=WALKS),
    Limit(metric="lin_vel_error", value=0.2),
    Limit(metric="yaw_vel_error", value=0.2),
)
"""Sources of the figures: docs/gait_metrics.md."""
LIMP = Limit(metric="left_right", value=0.4, needs=(VELOCITY, FOOT_PAIRS))
