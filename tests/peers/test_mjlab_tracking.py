"""Terms of motion tracking beside mjlab's, of the same robots and references. Skipped without mjlab's files.

mjlab brings MuJoCo Warp, so it is not installed for the tests. ``pip install --no-deps --target DIR mjlab`` and
``PYTHONPATH=DIR`` bring the files, of which three are read here; what they import of the rest of mjlab, and do not use
in these functions, is stood in for.
"""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_tasks.registry import get_task
from gaitway_tracking import mdp

spec = importlib.util.find_spec("mjlab")
if spec is None or not spec.submodule_search_locations:
    pytest.skip("mjlab is not there", allow_module_level=True)
PACKAGE = Path(next(iter(spec.submodule_search_locations)))
NAMED = {"command_name": "motion"}


@dataclass
class Settings:
    """Base class of mjlab's settings, of which nothing is used."""


@pytest.fixture(scope="module")
def mjlab():
    """Modules rewards, terminations, observations and commands of mjlab's tracking task."""
    with pytest.MonkeyPatch.context() as patch:
        for name, attributes in {
            "mjlab": {}, "mjlab.utils": {}, "mjlab.utils.lab_api": {}, "mjlab.tasks": {}, "mjlab.tasks.tracking": {},
            "mjlab.tasks.tracking.mdp": {}, "mjlab.viewer": {}, "mjlab.sensor": {"ContactSensor": object},
            "mjlab.managers": {"CommandTerm": object, "CommandTermCfg": Settings},
            "mjlab.viewer.debug_visualizer": {"DebugVisualizer": object},
        }.items():  # fmt: skip
            module = ModuleType(name)
            module.__path__ = []
            vars(module).update(attributes)
            patch.setitem(sys.modules, name, module)
        found = {}
        for name in ("utils/lab_api/math", *(f"tasks/tracking/mdp/{part}" for part in
                                             ("commands", "rewards", "terminations", "observations"))):  # fmt: skip
            full = f"mjlab.{name.replace('/', '.')}"
            made = importlib.util.spec_from_file_location(full, PACKAGE / f"{name}.py")
            module = importlib.util.module_from_spec(made)
            patch.setitem(sys.modules, full, module)
            made.loader.exec_module(module)
            found[full.rpartition(".")[2]] = module
        yield SimpleNamespace(**found)


@pytest.fixture(scope="module")
def env():
    made = make_env(get_task("track-anymal-c"), 16, num_threads=1)
    made.reset(seed=0)
    for _ in range(5):
        made.step(0.5 * torch.randn(16, 12, generator=torch.Generator().manual_seed(0)))
    return made


@pytest.fixture(scope="module")
def theirs(env, mjlab):
    """mjlab's environment and command, with the state of ours."""
    robot, told = env.world.robot, mdp.targets(env.world, "motion")
    command = SimpleNamespace(
        cfg=SimpleNamespace(body_names=env.world.spec.body_names),
        anchor_pos_w=told.pos_w[:, 0], anchor_quat_w=told.quat_wxyz[:, 0], body_pos_w=told.pos_w,
        body_quat_w=told.quat_wxyz, body_lin_vel_w=told.lin_vel_w, body_ang_vel_w=told.ang_vel_w,
        robot_anchor_pos_w=robot.root_pos_w, robot_anchor_quat_w=robot.root_quat_wxyz,
        robot_body_pos_w=robot.body_pos_w, robot_body_quat_w=robot.body_quat_wxyz,
        robot_body_lin_vel_w=robot.body_lin_vel_w, robot_body_ang_vel_w=robot.body_ang_vel_w,
    )  # fmt: skip
    mjlab.commands.MotionCommand.update_relative_body_poses(command)
    gravity = torch.tensor([0.0, 0.0, -1.0]).expand(16, 3)
    return SimpleNamespace(
        num_envs=16, command_manager=SimpleNamespace(get_term=lambda name: command),
        scene={"robot": SimpleNamespace(data=SimpleNamespace(gravity_vec_w=gravity))},
    )  # fmt: skip


REWARDS = [
    name for name in dir(mdp) if name.startswith("motion_") and name.endswith("_error_exp") and "joint" not in name
]


@pytest.mark.parametrize("name", REWARDS)
def test_rewards(name, env, theirs, mjlab):
    ours = getattr(mdp, name)(env.world, **NAMED, std=0.4)
    torch.testing.assert_close(ours, getattr(mjlab.rewards, name)(theirs, "motion", 0.4), atol=1e-5, rtol=1e-5)
    assert len(REWARDS) == 6 and ours.std() > 1e-4


def test_targets_that_move_with_the_robot(env, theirs):
    command, told = theirs.command_manager.get_term("motion"), mdp.targets(env.world, "motion")
    torch.testing.assert_close(told.relative_pos_w, command.body_pos_relative_w, atol=1e-5, rtol=0)
    same = (told.relative_quat_wxyz * command.body_quat_relative_w).sum(-1).abs()
    torch.testing.assert_close(same, torch.ones_like(same), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["motion_anchor_pos_b", "motion_anchor_ori_b", "robot_body_pos_b"])
def test_observations(name, env, theirs, mjlab):
    ours = getattr(mdp, name)(env.world, **({} if name.startswith("robot") else NAMED))
    torch.testing.assert_close(ours, getattr(mjlab.observations, name)(theirs, "motion"), atol=1e-5, rtol=1e-5)


def test_terminations(env, theirs, mjlab):
    robot = SimpleNamespace(name="robot")
    for threshold in (0.0005, 0.002, 0.01, 0.03):
        ours = mdp.bad_anchor_pos_z_only(env.world, **NAMED, threshold=threshold)
        assert (ours == mjlab.terminations.bad_anchor_pos_z_only(theirs, "motion", threshold)).all()
        ours = mdp.bad_anchor_ori(env.world, **NAMED, threshold=threshold)
        assert (ours == mjlab.terminations.bad_anchor_ori(theirs, robot, "motion", threshold)).all()
        feet = tuple(env.world.spec.foot_names)
        ours = mdp.bad_motion_body_pos_z_only(env.world, **NAMED, threshold=threshold, bodies="|".join(feet))
        assert (ours == mjlab.terminations.bad_motion_body_pos_z_only(theirs, "motion", threshold, feet)).all()
