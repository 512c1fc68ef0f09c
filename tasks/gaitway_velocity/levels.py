"""Levels of a walk: docs/validate.md#levels."""

from __future__ import annotations

from gaitway_sim2real.trial.levels import Level

STANDING = ("standing", "standing_pushed", "standing_slope")
WALKING = ("command_grid", "command_steps", "stops", "pushes")
FALLS = frozenset({"falls", "corner_falls", "pushes_survived"})

LEVELS = (
    Level(
        name="stands",
        about="no falls and no drift while it is told to stand, after a push and on a slope of 5 degrees",
        scenarios=STANDING,
        metrics=FALLS | {"drift"},
    ),
    Level(
        name="walks",
        about="no falls and small velocity errors with all commands, changes, stops and pushes",
        scenarios=WALKING,
        metrics=FALLS | {"lin_vel_error", "yaw_vel_error"},
    ),
    Level(name="walks clean", about="every limit holds in all scenarios on the floor as modelled, gait and rest too"),
)
