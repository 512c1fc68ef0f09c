"""Records of a robot's episodes, and the examination that ends its training."""

import numpy as np
import pytest
import torch
from gaitway_agents.trainer import evaluate
from gaitway_mujoco import make_env
from quiet import quiet_task

from gaitway.cli import main
from gaitway.runs.rows import read_rows
from gaitway.train_config import resolve
from gaitway.training.tracking import RobotMeasures

BLIND = "velocity-flat-anymal-c-blind"
SMALL = [
    "num_envs=4", "agent.num_steps=8", "total_steps=64", "num_threads=1", "agent.optimizer.epochs=1",
    "evaluation_episodes=6", "task.timing.episode_length_s=0.1",
]  # fmt: skip


def test_a_training_ends_with_an_examination(tmp_path, capsys):
    assert main(["train", BLIND, "--preset", "cpu", "--out", str(tmp_path / "run"), "--quiet", *SMALL]) == 0
    assert "over 6 deterministic episodes, 0 falls, " in capsys.readouterr().out
    (row,) = read_rows(tmp_path / "run/evaluations.jsonl")
    assert row["lengths"] == [5] * 6 and row["falls"] == 0 and row["steps"] == 64 and row["deterministic"]
    assert np.isfinite(row["returns"]).all() and len(set(row["returns"])) == 6
    assert all(0.0 < row["tracking"]["base_velocity"][axis] < 10.0 for axis in ("linear", "yaw"))
    episodes = read_rows(tmp_path / "run/episodes.jsonl")
    assert len(episodes) >= 4 and {episode["length"] for episode in episodes} <= set(range(1, 6))
    assert read_rows(tmp_path / "run/metrics.jsonl")[-1]["episodes/length"] <= 5


@pytest.mark.parametrize(
    ("world", "preset", "episodes"), [("mujoco", "cpu", 64), ("mujoco", None, 64), ("isaaclab", "cpu", 0)]
)
def test_robots_are_examined_where_there_is_a_simulation_left(world, preset, episodes):
    assert resolve(BLIND, preset=preset, world=world).evaluation_episodes == episodes


class Falls:
    """An agent that throws the robot about."""

    def initial_memory(self, num_envs):
        return {}

    def predict(self, observations):
        generator = torch.Generator().manual_seed(0)
        return 20.0 * torch.randn(len(observations["policy"]), 12, generator=generator), {}


def test_only_episodes_that_count_are_measured():
    env = make_env(quiet_task(BLIND), 4, num_threads=1)
    measures = RobotMeasures(env)
    played = evaluate(Falls(), env, 6, 0, measures)
    assert len(played) == 6 and all(episode.length < 200 for episode in played)
    assert measures.falls == 6
    assert measures.steps == sum(episode.length - 1 for episode in played)  # the last step shows the next episode
