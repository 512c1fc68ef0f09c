"""Distillation by the command: what a student's world lets its teacher see, refusals, resuming, export."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bit_by_bit import differences
from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.layout import width
from gaitway_tasks.spec import HeightScanner
from stopping import KillAfter, final_state
from tree import ROOT

from gaitway.cli import main
from gaitway.domains.teachers import with_teacher
from gaitway.errors import ConfigError
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.train_config import TrainConfig, resolve
from gaitway.training import loop as training

SEEING, BLIND, GO2 = "velocity-rough-anymal-c", "velocity-rough-anymal-c-blind", "velocity-flat-go2-blind"
FLAT = "velocity-flat-anymal-c-blind"
SIZES = ["num_envs=4", "num_threads=1", "evaluation_episodes=2", "task.timing.episode_length_s=1"]
TAUGHT = [*SIZES, "agent.num_steps=10", "agent.gradient_length=5", "agent.model.actor_hidden=[8]", "total_steps=120"]


def run_of(config: TrainConfig, path: Path, *, trained: bool = True) -> Path:
    run = RunFolder.create(path, config)
    if trained:
        state = config.domain.trainer(config, num_envs=2).state_dict()
        run.save_checkpoint({"steps": 0, "iteration": 0, "trainer": state}, keep=1)
    return path


def small(name: str, **options) -> TrainConfig:
    return resolve(name, preset="cpu", overrides=["num_envs=4", "num_threads=1"], **options)


def student(teacher: Path, name: str = BLIND, *more: str) -> TrainConfig:
    settings = [*TAUGHT, *more]
    return resolve(name, agent="distill", preset="cpu", overrides=settings, options={"teacher": str(teacher)})


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> Path:
    """A perceptive policy's run, without a checkpoint."""
    return run_of(small(SEEING), tmp_path_factory.mktemp("seeing") / "run", trained=False)


def test_the_world_of_a_blind_student_has_what_its_teacher_sees(teacher):
    config = with_teacher(student(teacher))
    groups, theirs = config.task.observations, RunFolder.open(teacher).config().task.observations["policy"]
    assert "height_scan" in groups["teacher"].terms and "height_scan" not in groups["policy"].terms
    assert groups["teacher"] == replace(theirs, enable_corruption=False)
    assert config.task.height_scanners.keys() == {"height_scanner"}
    assert with_teacher(config) == config, "a file of its settings can be trained again"


def test_a_teacher_that_saw_rough_ground_can_teach_on_flat_ground(teacher):
    config = with_teacher(student(teacher, FLAT))
    assert config.task.height_scanners.keys() == {"height_scanner"} and config.task.ground.flat


def other_command(task):
    class Pose(type(task.commands["base_velocity"])):
        pass

    return task.replace(commands={"base_velocity": Pose()})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda task: task.replace(actions=JointPositionAction(scale=0.1)), r"scale of the action 0\.5, not 0\.1"),
        (
            lambda task: task.replace(robot=replace(task.robot, default_joint_pos=(0.1,) * 12)),
            r"offset of the action \(default pose\) .* not 0\.1",
        ),
        (lambda task: task.replace(timing=replace(task.timing, decimation=1)), r"control period 0\.02, not 0\.0"),
        (
            lambda task: task.replace(height_scanners={"height_scanner": HeightScanner(resolution=0.2)}),
            "'height_scan' with HeightScanner.*resolution=0.1",
        ),
        (lambda task: task.replace(commands={}), r"reads the command 'base_velocity', a Uniform.* has no such command"),
        (other_command, "a UniformVelocityCommand, .* has a Pose"),
    ],
    ids=["scale", "pose", "period", "scanner", "no command", "another command"],
)  # fmt: skip
def test_a_teacher_of_another_task_is_refused(teacher, change, message):
    config = student(teacher)
    with pytest.raises(ConfigError, match=f"--teacher {teacher}.*{message}"):
        with_teacher(replace_task(config, change(config.task)))


def replace_task(config: TrainConfig, task) -> TrainConfig:
    changed = object.__new__(TrainConfig)  # its checks are not of interest
    changed.__dict__.update(config.__dict__, task=task)
    return changed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([FLAT, "--agent", "distill"], "'distill' with --teacher '': 'distill' learns from one, a run folder of"),
        ([FLAT, "--teacher", "{seeing}"], "agent 'ppo' with --teacher '{seeing}': 'distill' learns from one"),
        ([FLAT, "--agent", "distill", "--teacher", "nowhere"], "nowhere is no run folder: name the run folder of"),
        ([FLAT, "--agent", "distill", "--teacher", "{bundle}"], "is a bundle, whose graph gives joint targets"),
        ([FLAT, "--agent", "distill", "--teacher", "{empty}"], "{empty} has no checkpoint yet: train it first"),
        ([FLAT, "--agent", "distill", "--teacher", "{game}"], "cartpole is no robot's task"),
        ([FLAT, "--agent", "distill", "--teacher", "{critic}"], "was trained with dqn, which is not exported"),
        ([GO2, "--agent", "distill", "--teacher", "{seeing}"],
         "anymal-c, does not fit velocity-flat-go2-blind: joints LF_HAA, not FL_hip_joint"),
        ([FLAT, "--agent", "distill", "--teacher", "{seeing}", "agent.model.estimator={{signals: [base_lin_vel]}}"],
         "model.estimator with distillation"),
        ([FLAT, "--agent", "distill", "--teacher", "{seeing}", "processes=2"], "learns in one process"),
        ([FLAT, "--agent", "distill", "--teacher", "{seeing}", "total_steps=8"], "less than one rollout"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_is_written(words, message, teacher, tmp_path, capsys):
    places = {
        "seeing": teacher,
        "bundle": next((ROOT / "gaitway/demo/bundles").glob("*/contract.yaml")).parent,
        "empty": run_of(small(FLAT), tmp_path / "empty", trained=False),
        "critic": run_of(small(FLAT, agent="dqn"), tmp_path / "critic", trained=False),
        "game": run_of(resolve("cartpole"), tmp_path / "game", trained=False),
    }
    filled = [word.format(**places) for word in words]
    assert main(["train", *filled, *SIZES, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert message.format(**places) in said, said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("agent", "settings"), [("rsl_rl", ()), ("ppo", ("agent.model.recurrent=gru",))])
def test_teachers_of_other_kinds(agent, settings, tmp_path):
    """rsl_rl's own, without noise; and one that remembers: a second look at the same is another label."""
    if agent == "rsl_rl":
        pytest.importorskip("rsl_rl")
    preset = None if agent == "rsl_rl" else "cpu"
    more = [] if agent == "rsl_rl" else ["agent.model.estimator=null", "agent.symmetry=none"]
    given = ["num_envs=4", "num_threads=1", *settings, *more]
    run = run_of(resolve(FLAT, agent=agent, preset=preset, overrides=given), tmp_path / "run")
    config = with_teacher(student(run, FLAT))
    taught = config.domain.teacher(config)
    group = config.task.observations["teacher"]
    size = group.history_length * sum(width(config.task, name, term) for name, term in group.terms.items())
    seen = torch.randn(1, 4, size).repeat(2, 1, 1)
    labels = taught.labels(seen, torch.ones(2, 4, 1, dtype=torch.bool))
    assert labels.shape == (2, 4, 12) and labels.abs().max() > 0.0
    assert torch.equal(labels[0], labels[1]) is not bool(taught.memory_size)


def test_a_teacher_that_reads_other_groups_is_refused(tmp_path):
    config = resolve(FLAT, agent="rsl_rl", overrides=["num_envs=4", "agent.actor_groups=[critic]"])
    run = run_of(config, tmp_path / "run", trained=False)
    with pytest.raises(ConfigError, match="acts on the groups critic"):
        with_teacher(student(run, FLAT))


@pytest.mark.slow
def test_a_blind_student_of_a_seeing_teacher(tmp_path, monkeypatch, capsys):
    """From the command line to an evaluation and a bundle, interrupted on the way, bit for bit."""
    teacher = run_of(small(SEEING), tmp_path / "seeing")
    settings = [*TAUGHT, "agent.model.recurrent=gru", "agent.model.memory_size=8"]
    order = ["train", BLIND, "--agent", "distill", "--teacher", str(teacher), *settings]
    assert main([*order, "--out", str(tmp_path / "whole")]) == 0
    said = capsys.readouterr().out
    assert "behaviour loss" in said and "over 2 deterministic episodes" in said
    whole = RunFolder.open(tmp_path / "whole")
    rows = read_rows(whole.path / "metrics.jsonl")
    assert len(rows) == 3 and all(row["learn/behavior_loss"] > 0.0 for row in rows)
    config = whole.config()
    parts = RunFolder.create(tmp_path / "parts", config)
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(1, signal.SIGTERM))
        assert training.train(config, parts, quiet=True) == 143
    assert main([*order[:6], "--out", str(parts.path), "--resume"]) == 0
    assert differences(final_state(whole), final_state(RunFolder.open(parts.path))) == []
    assert main(["export", str(parts.path), "--out", str(tmp_path / "bundle")]) == 0
    assert (tmp_path / "bundle/policy.onnx").exists()
    other = run_of(small(SEEING), tmp_path / "other", trained=False)
    assert main([*order[:5], str(other), "--out", str(parts.path), "--resume"]) == 2
    assert "was started with --teacher" in capsys.readouterr().err
