"""A gripper that one number of an action opens and closes."""

from dataclasses import replace

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.actions import BinaryJointPositionAction, JointPositionAction
from gaitway_tasks.robots import FRANKA

GRIPPER = BinaryJointPositionAction(joint_names=("panda_finger.*",), open_command=0.04, close_command=0.0)
ACTION = JointPositionAction(joint_names=("panda_joint.*",), scale=0.5, gripper=GRIPPER)


def test_its_number_is_the_last_and_only_its_sign_counts():
    assert ACTION.num(FRANKA) == 8
    targets = ACTION.targets(FRANKA, torch.device("cpu"))
    number = torch.tensor([-3.0, -1e-6, 0.0, 1e-6, 3.0])
    action = torch.cat((torch.ones(5, 7), number[:, None]), 1)
    found = targets(action)
    torch.testing.assert_close(found[:, :7], (torch.tensor(FRANKA.default_joint_pos[:7]) + 0.5).expand(5, 7))
    expected = torch.tensor([0.0, 0.0, 0.04, 0.04, 0.04])
    torch.testing.assert_close(found[:, 7:], expected[:, None].expand(5, 2))


def test_one_that_opens_downwards():
    action = replace(ACTION, gripper=replace(GRIPPER, open_command=0.0, close_command=0.04))
    found = action.targets(FRANKA, torch.device("cpu"))(torch.tensor([[0.0] * 7 + [-1.0], [0.0] * 7 + [1.0]]))
    torch.testing.assert_close(found[:, 7:], torch.tensor([[0.04, 0.04], [0.0, 0.0]]))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UserError, match=r"both 0\.04"):
        replace(GRIPPER, close_command=0.04)
    with pytest.raises(UserError, match="'panda_finger_joint1' is one of the gripper and acts by itself"):
        JointPositionAction(gripper=GRIPPER).num(FRANKA)
