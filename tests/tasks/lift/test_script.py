"""The scripted grasp and the states from which a policy begins."""

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.lift import states
from gaitway_tasks.lift.script import AT, STRIDE
from gaitway_tasks.registry import get_task

TASK = get_task("lift-franka", "cpu")


@pytest.fixture(scope="module")
def script():
    return states.script_of(TASK)


def moved(script, targets, angles):
    """By how much the fingertips move towards the targets, (S, 3)."""
    return script.tip(targets) - script.tip(angles)


def test_it_comes_from_above_closes_and_goes_to_the_goal(script):
    angles = torch.tensor([TASK.robot.default_joint_pos] * 4, dtype=torch.float64)
    tip = script.tip(angles)
    goal = tip + torch.tensor([0.0, 0.05, 0.05]).double()
    way = torch.tensor([[0.06, 0.0, -0.2], [0.0, 0.0, -0.06], [0.004, 0.0, 0.0], [0.004, 0.0, 0.0]]).double()
    fingers = torch.tensor([0.04, 0.04, 0.04, 0.022]).double()
    targets, closed = script(angles, fingers, tip + way, goal)
    step = moved(script, targets, angles)
    assert closed.tolist() == [False, False, True, True]
    assert step[0, 0] > 0.01 and step[0, 2] > -STRIDE  # sideways first
    assert step[1, 2] < -0.04 and step[1, :2].abs().max() < 0.005  # down
    assert step[2].norm() < AT  # it closes where it is
    torch.testing.assert_close(step[3], torch.tensor([-0.004, 0.05, 0.05]).double(), atol=0.01, rtol=0.0)
    assert (step.norm(dim=1) < 1.2 * STRIDE).all()


def test_states_and_actions_of_a_first_guess(monkeypatch):
    monkeypatch.setattr(states, "ARMS", 8)
    monkeypatch.setattr(states, "STEPS", 160)
    monkeypatch.setattr(states, "_LAST", {})
    columns, seen, actions = states.grasps(TASK)
    assert seen.shape == (8 * 2 * 80, 44) and actions.shape == (len(seen), 8) and len(columns) == 44
    assert seen.isfinite().all() and actions.isfinite().all() and actions.abs().max() < 6.0
    assert set(actions[:, 7].unique().tolist()) == {-1.0, 1.0}
    places = seen.reshape(80, 2, 8, 44)[:, 0, :, 18:21]
    assert (places[0, :, 2] < 0.06).all() and (places[..., 2].amax(0) > 0.2).float().mean() > 0.5  # most were lifted
    assert states.grasps(TASK)[1] is seen  # kept for the training that was checked with it


def test_tasks_that_it_does_not_fit():
    with pytest.raises(UserError, match="reach-franka needs a gripper and one object"):
        states.grasps(get_task("reach-franka", "cpu"))
