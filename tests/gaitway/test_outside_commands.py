"""Commands and actions of another package, of which nothing of ours knows: trained with, resumed, and not exported."""

import json
from dataclasses import replace
from pathlib import Path

import bowing
import pytest
import torch
from gaitway_files.trust import trust
from gaitway_mujoco import make_env
from gaitway_sim2real.bundle.contracts import ExportError, exportable
from gaitway_tasks.actions import Action, JointPositionAction
from gaitway_tasks.commands import Command
from gaitway_tasks.ground import Ground
from gaitway_tasks.mdp.commands import UniformVelocityCommand
from gaitway_tasks.registry import get_task
from gaitway_tasks.spec import ObservationTerm, Reward, Task
from gaitway_tasks.symmetry import mirror_group
from gaitway_tracking.command import MotionCommand
from quiet import quiet_task

from gaitway.cli import main
from gaitway.config.tree import from_tree, to_tree
from gaitway.errors import ConfigError
from gaitway.train_config import load, resolve

FLAT = "velocity-flat-go2-blind"
SMALL = ["num_envs=2", "agent.num_steps=4", "agent.optimizer.minibatches=1", "num_threads=1"]


def bow() -> Task:
    """Stand at a height that changes, by the legs' last two joints."""
    task = get_task(FLAT)
    group = task.observations["policy"]
    kept = {name: term for name, term in group.terms.items() if name != "velocity_commands"}
    told = ObservationTerm(func=bowing.told_pose, params={"command_name": "pose"})
    return task.replace(
        name="bow-go2",
        observations={"policy": replace(group, terms={**kept, "pose": told})},
        actions=bowing.SomeJoints(joints=".*_(thigh|calf)_joint"),
        rewards={"height": Reward(func=bowing.at_height, weight=1.0, params={"command_name": "pose"})},
        commands={"pose": bowing.Pose()},
    )


def test_it_is_trained_resumed_and_evaluated_by_its_own_measures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["train", f"{__name__}:bow", "--out", "run", *SMALL, "evaluation_episodes=1"]
    words += ["task.timing.episode_length_s=0.2", "checkpoint_interval=1", "task.commands.pose.height=[0.2, 0.4]"]
    assert main([*words, "total_steps=16"]) == 0
    assert (
        "policies of bow-go2 cannot be exported: command 'pose' has no acceleration and no rest"
        in capsys.readouterr().out
    )
    task = load(Path("run/config.yaml")).robot_task
    assert task.commands == {"pose": bowing.Pose(height=(0.2, 0.4))}
    assert task.actions == bowing.SomeJoints(joints=".*_(thigh|calf)_joint")
    assert main([*words, "total_steps=32", "--resume"]) == 0, capsys.readouterr().err
    rows = [json.loads(line) for line in Path("run/evaluations.jsonl").read_text().splitlines()]
    assert list(rows[-1]["tracking"]) == ["pose"] and 0.0 < rows[-1]["tracking"]["pose"]["height"] < 1.0
    assert main(["export", "run", "--out", "bundle"]) == 2
    assert "let its as_joint_positions()" in capsys.readouterr().err


def test_a_command_is_added_and_another_removed_by_settings():
    settings = ["task.commands.pose={kind: 'bowing:Pose', pitch: [0.0, 0.1]}", "task.actions.kind=bowing:SomeJoints"]
    task = resolve(FLAT, overrides=settings).robot_task
    assert list(task.commands) == ["base_velocity", "pose"] and task.commands["pose"] == bowing.Pose(pitch=(0.0, 0.1))
    assert task.actions == bowing.SomeJoints()
    assert not resolve(FLAT, overrides=["task.commands.base_velocity=null"]).robot_task.commands
    with pytest.raises(ConfigError, match=r"task\.commands\.pose\.pitch=\[0\.1, 0\.0\]"):
        resolve(FLAT, overrides=["task.commands.pose={kind: 'bowing:Pose', pitch: [0.1, 0.0]}"])


def test_commands_stay_within_ranges_change_in_time_and_are_kept():
    env, other = (make_env(bow(), 64, seed=seed, num_threads=1) for seed in (1, 2))
    env.reset(), other.reset()
    first = env.world.command("pose").clone()
    limits = torch.tensor([[0.3, 0.5], [-0.2, 0.2]])
    assert first.shape == (64, 2) and ((limits[:, 0] <= first) & (first <= limits[:, 1])).all()
    assert (first.std(0) > 0.2 * (limits[:, 1] - limits[:, 0])).all()
    for _ in range(6):
        env.step(torch.zeros(64, 8))
    assert (env.world.command("pose") != first).all()
    other.load_state_dict(env.state_dict())
    torch.testing.assert_close(other.world.command("pose"), env.world.command("pose"), rtol=0.0, atol=0.0)


def test_joints_outside_the_action_are_held():
    env = make_env(bow(), 3, num_threads=1)
    env.reset()
    assert env.action_space.shape == (3, 8) and env.world.action.shape == (3, 8)
    env.step(torch.ones(3, 8))
    moved = env.world.joint_pos_target - env.world.default_joint_pos
    hips = list(env.world.spec.joint_ids(".*_hip_joint"))
    assert (moved[:, hips] == 0.0).all() and (moved != 0.0).sum() == 3 * 8


def test_one_sentence_says_what_a_bundle_and_mirrors_need():
    bowing_by_all = bow().replace(actions=JointPositionAction())
    with pytest.raises(
        ExportError, match=r"'pose' has no acceleration and no rest and no units.*height, pitch: set Pose\.acceleration"
    ):
        exportable(bowing_by_all)
    with pytest.raises(ExportError, match=r"bow-go2 are none: an operator gives one"):
        exportable(bowing_by_all.replace(commands={}))
    task = quiet_task("velocity-flat-anymal-c-blind", actions=bowing.SomeJoints())
    for needs in (exportable, mirror_group):
        with pytest.raises(ValueError, match=r"SomeJoints.*as_joint_positions"):
            needs(task)
    with pytest.raises(ValueError, match=r"'pose', a Pose.*symmetry 'none'"):
        mirror_group(bow().replace(actions=JointPositionAction()))


def test_a_velocity_of_another_kind_is_exported():
    class Slow(bowing.Pose):
        def ranges(self):
            return dict.fromkeys(("lin_vel_x", "lin_vel_y", "ang_vel_z"), (-0.1, 0.1))

    task = quiet_task("velocity-flat-anymal-c-blind", commands={"base_velocity": Slow()})
    assert exportable(task).commands == task.commands


@pytest.mark.parametrize("base, ours", [(Action, JointPositionAction()), (Command, UniformVelocityCommand())])
def test_kinds_are_written_and_read(base, ours):
    assert "kind" not in to_tree(ours, base) and from_tree(base, to_tree(ours, base)) == ours
    assert from_tree(base, {"kind": type(ours).__name__}) == ours
    theirs = bowing.Pose() if base is Command else bowing.SomeJoints()
    trust("bowing")
    tree = to_tree(theirs, base)
    assert tree["kind"] == f"bowing:{type(theirs).__name__}" and from_tree(base, tree) == theirs
    with pytest.raises(ConfigError, match=f"'Moon': use one of {type(ours).__name__}"):
        from_tree(base, {"kind": "Moon"})


def test_a_kind_that_came_later_is_named_and_the_first_is_not():
    """Runs of a version that knew one kind of command name none."""
    motion = MotionCommand(clip="bow")
    assert (
        to_tree(motion, Command)["kind"] == "MotionCommand" and from_tree(Command, to_tree(motion, Command)) == motion
    )
    assert from_tree(Command, {"lin_vel_x": [-0.5, 0.5]}) == UniformVelocityCommand(lin_vel_x=(-0.5, 0.5))
    with pytest.raises(ConfigError, match="kind=None: use one of Plane"):
        from_tree(Ground, {})
