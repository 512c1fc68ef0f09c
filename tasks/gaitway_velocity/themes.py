"""What metrics of walking are about, in words that several share."""

from __future__ import annotations

LIFTS, SLIDES, FOLLOWS, STANDS, FALLS, SMALL = (
    "lifting the feet", "feet that slide", "following commands", "standing and stopping", "falling", "small commands",
)  # fmt: skip
THEMES: dict[str, str] = {
    **dict.fromkeys(("swing_time", "step_rate", "clearance", "dragging_feet", "stumbles", "left_right"), LIFTS),
    "slip": SLIDES,
    **dict.fromkeys(
        ("lin_vel_error", "yaw_vel_error", "lin_vel_bias", "yaw_vel_bias", "heading_drift", "sideways_drift"), FOLLOWS
    ),
    **dict.fromkeys(
        ("drift", "steps_at_rest", "rest_speed", "rest_yaw_rate", "rest_joint_speed", "rest_torque_change", "stop_time",
         "stop_way", "hand_drift"), STANDS,
    ),
    **dict.fromkeys(("falls", "corner_falls", "pushes_survived", "crossed"), FALLS),
    **dict.fromkeys(
        ("dead_zone", "yaw_dead_zone", "response_jump", "yaw_response_jump", "slope_error", "waypoints"), SMALL
    ),
}  # fmt: skip
"""What each metric with limits is about."""
