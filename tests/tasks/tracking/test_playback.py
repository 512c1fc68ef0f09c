"""A motion without feedback: what a policy begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_mujoco import make_env
from gaitway_tasks.registry import get_task
from gaitway_tracking.command import MotionCommand
from gaitway_tracking.playback import played
from gaitway_tracking.tasks import few_cores


def quiet(clip: str):
    """The task of a Go2 without noise, that begins at the motion's first frame."""
    task = few_cores(get_task("track-go2-blind"))
    still = {"x": (0.0, 0.0)}
    reset = replace(
        task.events["reset_in_motion"],
        params={
            "command_name": "motion", "pose_range": still, "velocity_range": still, "joint_range": (0.0, 0.0),
        },
    )  # fmt: skip
    policy = replace(task.observations["policy"], enable_corruption=False)
    command = MotionCommand(clip=clip, local=True, rel_standing_envs=0.0)
    return task.replace(
        events={"reset_in_motion": reset},
        commands={"motion": command},
        observations={**task.observations, "policy": policy},
    )


def test_a_squat_goes_down_and_up_without_feedback():
    task = quiet("squat")
    columns, seen, actions = played(task)
    assert columns == tuple(range(24)) and seen.shape == (len(actions), 24) and actions.shape[1] == 12
    env = make_env(task, num_envs=8, seed=0)
    observed, _ = env.reset()
    sampler = env.managers.commands["motion"]
    motion, robot = sampler.reference, env.world.robot
    off = []
    for _ in range(100):
        torch.testing.assert_close(observed["policy"][:, :24], seen[sampler.command[:, 0].long()])
        observed, *_ = env.step(actions[sampler.command[:, 0].long()])
        off.append(robot.root_pos_w[:, 2] - motion.body_pos[sampler.command[:, 0].long(), 0, 2])
    assert torch.stack(off).abs().mean() < 0.015, "of 8 cm"


def test_a_policy_that_does_not_see_the_motion_is_refused():
    task = quiet("squat")
    terms = {name: term for name, term in task.observations["policy"].terms.items() if name != "motion"}
    blind = task.replace(observations={"policy": replace(task.observations["policy"], terms=terms)})
    with pytest.raises(UserError, match="motion_joints"):
        played(blind)
