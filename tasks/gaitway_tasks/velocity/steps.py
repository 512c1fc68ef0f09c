"""Actions that step on the spot by a task's clock: a policy's first guess."""

from __future__ import annotations

import torch
from gaitway_files.errors import UserError
from torch import Tensor

from ..actions import joint_positions
from ..layout import newest_columns
from ..mdp import gait, observations, rewards
from ..robots.anatomy import lift
from ..spec import Task


def steps_by_the_clock(task: Task) -> tuple[tuple[int, int], Tensor]:
    """Columns of the observation ``policy`` with sine and cosine of the clock, and actions over a cycle, (S, A).

    Each foot is lifted as far as the reward ``feet_phase`` asks for. Raises :class:`UserError` without that reward, or
    if the policy does not observe its clock.
    """
    group = task.observations["policy"]
    name = next((name for name, term in group.terms.items() if term.func is observations.gait_phase), None)
    paid = next((term.params for term in task.rewards.values() if term.func is rewards.feet_phase), None)
    if name is None or paid is None:
        missing = "no reward feet_phase" if paid is None else "no gait_phase among the observations of the policy"
        raise UserError(f"{task.name} has {missing}, so no steps are known for it")
    sine, cosine = newest_columns(task, group)[name]
    cycle = round(paid["period"] / task.timing.step_dt)
    phases = torch.arange(cycle) / cycle
    rise = gait.rise(phases, paid["duty"], tuple(paid["offsets"]), 1.0)
    action = joint_positions(task)
    lifted = torch.tensor(lift(task.robot, paid["height"]), dtype=torch.float32)
    return (sine, cosine), rise @ lifted / torch.tensor(action.scales(task.robot))
