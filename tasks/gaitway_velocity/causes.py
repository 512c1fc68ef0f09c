"""Settings of a training that make a walk fail; docs/learning_to_walk.md says why the recipe has each."""

from __future__ import annotations

from dataclasses import replace

from gaitway_sim2real.trial.causes import LESS, MORE, NARROWER, OTHER, Cause

from .themes import FALLS, FOLLOWS, LIFTS, SLIDES, SMALL, STANDS

REWARD, EVENT, COMMAND = r"task\.rewards\.", r"task\.events\.", r"task\.commands\.\w+\."
TURNS = ("yaw_vel_error", "yaw_vel_bias", "heading_drift", "yaw_dead_zone", "yaw_response_jump")
LINES = ("lin_vel_error", "lin_vel_bias", "sideways_drift", "dead_zone", "response_jump", "slope_error", "waypoints")


def _row(key: str, when: str, says: str, *symptoms: str) -> Cause:
    return Cause(key, when, frozenset(symptoms), says)


CAUSES: tuple[Cause, ...] = (
    # What the feet are paid for.
    _row(REWARD + r"feet_phase\.params\.height", LESS, "feet are paid for swings of this height [m]",
         "clearance", "dragging_feet"),
    _row(REWARD + r"feet_phase\.params\.period", LESS, "the clock's cycle [s] sets how often and how long feet swing",
         "step_rate", "swing_time", "clearance"),
    _row(REWARD + r"(feet_phase|feet_gait|feet_air_time|feet_clearance)\.weight", LESS,
         "it pays for feet that lift and land with the clock", LIFTS, SLIDES),
    _row(REWARD + r"feet_slide\.weight", LESS, "it is the price of feet that slide on the ground", SLIDES),
    # Standing.
    _row(REWARD + r"stand_still(_rate)?\.weight", LESS, "it is the price of moving while told to stand", STANDS),
    _row(COMMAND + "rel_standing_envs", LESS, "robots that are never told to stand do not learn it", STANDS),
    # Following.
    _row(REWARD + r"track_ang_vel\w*\.weight", LESS, "it pays for the commanded yaw rate", *TURNS),
    _row(REWARD + r"track_lin_vel\w*\.weight", LESS, "it pays for the commanded velocity", *LINES, FOLLOWS),
    _row(REWARD + r"track_\w+\.params\.std", MORE, "a wide reward hardly tells small errors apart", FOLLOWS, SMALL),
    _row(COMMAND + "margin", LESS, "without room beyond the ranges, the export cannot correct what a policy is off",
         "lin_vel_bias", "yaw_vel_bias", "lin_vel_error", SMALL),
    _row(COMMAND + "rel_ends", LESS, "few robots are told to go at the ends of the ranges", "corner_falls", "falls"),
    _row(COMMAND + "rel_zero_axis", LESS, "few robots are told to go along one axis only",
         "sideways_drift", "heading_drift", "yaw_vel_bias", SMALL),
    _row(COMMAND + r"acceleration", OTHER, "commands that change faster than legs can follow make robots fall",
         FALLS, STANDS),
    _row(r"agent\.model\.estimator.*", OTHER, "a robot that does not know its velocity follows commands badly",
         FOLLOWS, SMALL),
    _row(r"agent\.symmetry", OTHER, "without its mirror image a walk may limp or drift",
         "left_right", "heading_drift", "sideways_drift", FOLLOWS, LIFTS),
    # Draws.
    _row(EVENT + r"physics_material.*", NARROWER, "robots never walked on ground so slippery, or so rough",
         "factor:friction", SLIDES),
    _row(EVENT + r"ground_impedance.*", NARROWER, "robots never walked on floors so soft",
         "factor:softness", "factor:cone", "factor:step", "gait_turning_carpet"),
    _row(EVENT + r"add_base_mass.*", NARROWER, "robots never carried such loads", "factor:payload"),
    _row(EVENT + r"action_delay.*", NARROWER, "motors were never late in training", "factor:delay"),
    _row(EVENT + r"(motor_strength|actuator_gains|randomize_actuator)\S*", NARROWER, "motors always had their strength",
         "factor:strength"),
    _row(EVENT + r"push_robot.*", NARROWER, "robots were never pushed so hard",
         "pushes_survived", "standing_pushed", FALLS),
    # Costs and ends of episodes.
    _row(REWARD + r"termination\.weight", LESS, "it is the price of a fall", FALLS),
    _row(r"task\.terminations\.(tilted|low|base_contact).*", OTHER, "what is a fall in the suite went on in training",
         FALLS, LIFTS),
    _row(REWARD + r"(action_rate_l2|dof_torques_l2|dof_acc_l2|ang_vel_xy_l2|lin_vel_z_l2|flat_orientation_l2)\.weight",
         MORE, "this cost keeps the robot from moving as it should", LIFTS, FOLLOWS, SMALL, FALLS),
    _row(REWARD + r"action_rate_l2\.weight", LESS, "without this cost, targets tremble", STANDS, FOLLOWS),
    replace(_row("total_steps", LESS, "it trained for less time", LIFTS, SLIDES, FOLLOWS, STANDS, FALLS, SMALL),
            weight=0.4),
)  # fmt: skip
"""Rows of which the first wins where two explain as many failures."""
