"""Tasks from which chance has been taken, so that a test can say exactly what must happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gaitway_tasks.registry import get_task
from gaitway_tasks.spec import Task


def quiet_task(name: str = "velocity-flat-anymal-c", *, history_length: int | None = None, **changes: Any) -> Task:
    """No noise, randomisation, pushes, changing commands or falls; every reset is the default pose at rest."""
    task = get_task(name)
    groups = {key: replace(group, enable_corruption=False) for key, group in task.observations.items()}
    if history_length is not None:
        groups["policy"] = replace(groups["policy"], history_length=history_length)
    still = replace(
        task.commands["base_velocity"],
        heading_command=False,
        rel_standing_envs=0.0,
        rel_zero_axis=0.0,
        resampling_time_range=(1e9, 1e9),
    )
    exact = {
        "reset_base": replace(task.events["reset_base"], params={"pose_range": {}, "velocity_range": {}}),
        "reset_robot_joints": replace(task.events["reset_robot_joints"], params={"position_range": (1.0, 1.0)}),
    }
    return task.replace(**{"observations": groups, "commands": {"base_velocity": still}, "events": exact, **changes})
