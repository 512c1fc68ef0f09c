"""FastSAC on a robot through the command: settings, bounds, training, resuming and export."""

from __future__ import annotations

import dataclasses
import signal

import pytest
import torch
from bit_by_bit import differences
from gaitway_agents.off_policy.config import SACConfig
from gaitway_tasks.registry import get_task
from stopping import KillAfter, final_state

from gaitway.errors import ConfigError
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.sources import export_run
from gaitway.train_config import TrainConfig, dump, load, resolve
from gaitway.training import loop as training
from gaitway.training.load import load_actor, trainer_of

BLIND = "velocity-flat-anymal-c-blind"
SMALL = [
    "num_envs=8", "num_threads=1", "total_steps=640", "evaluation_episodes=0", "agent.train_frequency=16",
    "agent.learning_starts=64", "agent.batch_size=32", "agent.buffer_size=2000", "agent.iteration_steps=128",
    "agent.checkpoint_replay=true",
]  # fmt: skip


def config_of(*more: str, task: str = BLIND, preset: str | None = "cpu") -> TrainConfig:
    return resolve(task, agent="fast-sac", preset=preset, seed=3, overrides=[*SMALL, *more])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> RunFolder:
    run = RunFolder.create(tmp_path_factory.mktemp("whole") / "run", config_of())
    assert training.train(config_of(), run, quiet=True) == 0
    return run


@pytest.mark.parametrize("preset", ["cpu", None])
def test_a_robot_gets_settings_of_its_own(preset, tmp_path):
    config = resolve(BLIND, agent="fast-sac", preset=preset)
    assert isinstance(config.agent, SACConfig)
    assert (config.agent.symmetry, config.agent.action_limit) == ("canonical", 1.5)
    assert config.num_envs == (256 if preset else 4096)
    (tmp_path / "config.yaml").write_text(dump(config))
    assert load(tmp_path / "config.yaml") == config


def test_a_robot_without_mirrors_learns_without():
    task = get_task(BLIND, "cpu")
    task = task.replace(robot=dataclasses.replace(task.robot, mirrors={}))
    assert resolve(task, agent="fast-sac").agent.symmetry == "none"
    with pytest.raises(ConfigError, match=r"agent\.symmetry='canonical' needs a robot with mirrors"):
        resolve(task, agent="fast-sac", overrides=["agent.symmetry=canonical"])


def test_bounds_follow_the_joints_ranges():
    """The hips of ANYmal C turn by 0.72 rad to either side, 1.44 actions of 0.5 rad; other joints turn freely."""
    config = config_of()
    reach = config.environments.reach(config)
    assert reach[0].item() == pytest.approx(1.44) and reach[1] > 10.0
    trainer = config.environments.trainer(config, num_envs=1)
    hips = [i for i, name in enumerate(config.task.robot.joint_names) if name.endswith("HAA")]
    assert trainer.half_width[hips].tolist() == pytest.approx([1.44] * 4)
    assert sorted(set(trainer.half_width.tolist()))[1:] == [1.5]


def test_interrupted_and_resumed_is_bit_identical(uninterrupted, tmp_path, monkeypatch):
    run = RunFolder.create(tmp_path / "run", config_of())
    with monkeypatch.context() as patch:
        patch.setattr(training, "make_progress", lambda *_, **__: KillAfter(2, signal.SIGTERM))
        assert training.train(config_of(), run, quiet=True) == 143
    again = RunFolder.open(run.path)
    assert training.train(again.config(), again, quiet=True) == 0
    assert final_state(again)["updates"] > 40
    assert differences(final_state(uninterrupted), final_state(again)) == []


def test_the_actor_of_a_run_acts_as_its_trainer(uninterrupted):
    config, actor, _ = load_actor(uninterrupted)
    trainer = trainer_of(uninterrupted, config.environments.make_env(config, 8, 5))
    observation, _ = trainer.env.reset(seed=5)
    action, _ = trainer.predict(observation)
    assert action.std() > 0.0
    torch.testing.assert_close(actor(observation["policy"]), action)


@pytest.mark.slow
def test_a_run_is_exported_and_its_graph_is_the_policy(uninterrupted, tmp_path):
    """The export itself refuses a graph whose targets are not the actor's, over some steps."""
    export_run(uninterrupted.path, tmp_path / "bundle", {}, None)
    assert (tmp_path / "bundle" / "policy.onnx").exists()


@pytest.mark.slow
def test_a_robot_learns_to_stay_up(tmp_path):
    """In 120,000 steps, half a minute: rewards rise, and episodes are twice as long as those of random actions."""
    settings = ["num_threads=1", "total_steps=120000", "evaluation_episodes=0"]
    config = resolve(BLIND, agent="fast-sac", preset="cpu", overrides=settings)
    run = RunFolder.create(tmp_path / "run", config)
    assert training.train(config, run, quiet=True) == 0
    rows = read_rows(run.path / "metrics.jsonl")
    early, late = (sum(row["rollout/reward"] for row in part) / len(part) for part in (rows[2:6], rows[-4:]))
    lengths = [row["episodes/length"] for row in rows if "episodes/length" in row]
    assert late > early + 0.05
    assert lengths[-1] > 2.0 * lengths[2]
