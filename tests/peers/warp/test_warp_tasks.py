"""Every task of every robot in MuJoCo Warp beside MuJoCo: the same draws give the same observations and rewards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_mujoco import make_env as mujoco_env
from gaitway_tasks.registry import get_task, presets, task_names
from warp_worlds import make_env

N, STEPS = 8, 10
JOINTS = 5e-5
"""Largest difference of joint angles after a control step [rad]."""
EVEN = [name for name in task_names() if not get_task(name).height_scanners and get_task(name).ground.flat]
OVERHEAD = ("velocity-rough-g1", "velocity-rough-h1")
"""Tasks whose height scanner hangs from the torso."""


def both(name: str, preset: str | None = None) -> tuple[Any, Any]:
    """Environments of a task in MuJoCo Warp and in MuJoCo, which draw the same numbers.

    A humanoid on eight corners of its feet takes more than the ten iterations of the default, in either of them.
    """
    task, options = get_task(name, preset), {"seed": 3, "iterations": 50}
    return make_env(task, N, **options), mujoco_env(task, N, num_threads=1, **options)


def apart(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Largest difference of each environment's observations, (N,)."""
    return torch.stack([(ours[group] - theirs[group]).abs().amax(1) for group in ours]).amax(0)


def script(env: Any) -> torch.Tensor:
    """Random actions (STEPS, N, A)."""
    return 0.5 * torch.randn(STEPS, *env.action_space.shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", EVEN)
def test_a_task_on_even_ground_is_that_of_mujoco(name):
    """Every control step from MuJoCo's state, with the randomisation of its preset: also falls, resets and pushes."""
    ours, theirs = both(name, "cpu" if "cpu" in presets(name) else None)
    assert apart(ours.reset()[0], theirs.reset()[0]).max() < 1e-5
    others = 0
    for action in script(ours):
        for field, values in theirs.world._fields.items():
            ours.world._fields[field].copy_(values.view(ours.world._fields[field].shape))
        observation, reward, terminated, truncated, _ = ours.step(action)
        expected, expected_reward, *ended, _ = theirs.step(action)
        assert torch.equal(terminated, ended[0]) and torch.equal(truncated, ended[1])
        assert not ours.world.diverged.any()
        way = (ours.world.robot.joint_pos - theirs.world.robot.joint_pos).abs().amax(1)
        assert way.max() < 0.1
        seen = apart(observation, expected) < 100 * JOINTS  # joint speeds
        others += int((~seen | (way > JOINTS) | ((reward - expected_reward).abs() > 1e-4)).sum())
    assert others <= 4, "hardly a robot has other contacts: corners of a box that is sunk deeper than it is thick"


def test_a_task_on_tiles_is_that_of_mujoco():
    """Robots see the same ground and land on it; those that land on an edge have other contacts there."""
    ours, theirs = both("velocity-rough-anymal-c")
    assert apart(ours.reset()[0], theirs.reset()[0]).max() < 1e-5
    for action in script(ours):
        observation, reward, *_ = ours.step(action)
        theirs.step(action)
        assert reward.isfinite().all() and all(rows.isfinite().all() for rows in observation.values())
    way = (ours.world.robot.root_pos_w - theirs.world.robot.root_pos_w).norm(dim=1)
    assert way.median() < 0.01 and way.max() < 0.1, way


@pytest.mark.parametrize("name", OVERHEAD)
def test_what_mujoco_cannot_scan_is_refused_here_too(name):
    with pytest.raises(UserError, match=r"hangs from the body 'torso_link'.*--world isaaclab"):
        make_env(get_task(name), 1)
