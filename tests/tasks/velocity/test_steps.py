"""Steps by the clock as actions."""

import numpy as np
import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots.anatomy import lift
from gaitway_tasks.velocity.steps import steps_by_the_clock


@pytest.mark.parametrize("name", ["g1-29dof", "h1", "go2"])
def test_the_feet_that_should_swing_are_lifted_at_the_right_phase(name):
    task = get_task(f"velocity-flat-{name}-blind", "cpu")
    paid = task.rewards["feet_phase"].params
    _, actions = steps_by_the_clock(task)
    targets = actions * torch.tensor(task.actions.scales(task.robot))
    cycle = round(paid["period"] / task.timing.step_dt)
    assert actions.shape == (cycle, task.robot.num_joints)
    lifts = lift(task.robot, paid["height"])
    top = (1.0 - paid["duty"]) / 2.0  # the middle of the first foot's swing
    swinging = [offset == 0.0 for offset in paid["offsets"]]
    np.testing.assert_allclose(targets[round(top * cycle)], lifts[swinging].sum(0), atol=0.03)
    if paid["duty"] > 0.5:  # both feet stand between two steps
        assert not targets[round(0.47 * cycle)].any()


def test_the_columns_are_those_of_the_newest_clock():
    task = get_task("velocity-flat-go2-blind", "cpu")
    columns, _ = steps_by_the_clock(task)
    width = sum(
        {"joint_pos": 12, "joint_vel": 12, "actions": 12, "gait_phase": 2}.get(n, 3)
        for n in task.observations["policy"].terms
    )
    assert columns == (8 * width - 2, 8 * width - 1)  # the clock is the last term, eight frames each


def test_a_task_without_a_clock_has_no_steps():
    with pytest.raises(UserError, match="no reward feet_phase"):
        steps_by_the_clock(get_task("velocity-flat-go2-blind"))
