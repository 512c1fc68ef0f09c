"""A training whose environment fails keeps what it has learnt."""

import sys

import pytest
from gaitway_files.errors import NotDone
from gaitway_tasks.managers import TermError

from gaitway.runs.folder import RunFolder, read_checkpoint
from gaitway.train_config import resolve
from gaitway.training import loop as training

TERM = """
import torch

steps = 0


def late(world):
    global steps
    steps += 1
    return torch.full((world.num_envs,), float("nan") if steps > 30 else 0.0)
"""


def test_a_term_that_breaks_leaves_the_last_whole_iteration(tmp_path, monkeypatch):
    (tmp_path / "breaks_late.py").write_text(TERM)
    monkeypatch.syspath_prepend(tmp_path)
    small = ["num_envs=16", "agent.num_steps=8", "num_threads=1", "evaluation_episodes=0", "total_steps=768"]
    mine = "task.rewards.mine={func: 'breaks_late:late', weight: 1.0}"
    config = resolve("velocity-flat-go2-blind", seed=3, overrides=[*small, mine])
    run = RunFolder.create(tmp_path / "run", config)
    with pytest.raises(TermError, match=r"reward 'mine' \(breaks_late:late\) is nan in environment 0"):
        training.train(config, run, quiet=True)
    (path,) = run.checkpoints()
    assert read_checkpoint(path)["steps"] == run.record["steps"] == 3 * 8 * 16
    assert run.record["status"] == "failed"


FALLS = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Falls(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        Falls.steps += 1
        self.age += 1
        if Falls.steps > 5 * 32 + 8:
            raise ConnectionError("simulator connection lost")
        return np.zeros(3, np.float32), 1.0, self.age == 20, False, {}


gymnasium.register("FallsLate-v0", entry_point=Falls)
"""


def failed(tmp_path, monkeypatch, agent, settings):
    """A run in an environment that fails after 168 steps."""
    (tmp_path / "falls_late.py").write_text(FALLS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "falls_late", raising=False)
    config = resolve(
        "gym:falls_late:FallsLate-v0", agent=agent, overrides=["num_envs=2", "checkpoint_interval=1000", *settings]
    )
    run = RunFolder.create(tmp_path / "run", config)
    with pytest.raises(NotDone, match=r"environment FallsLate-v0 raised ConnectionError: simulator connection lost"):
        training.train(config, run, quiet=True)
    return run


@pytest.mark.parametrize(
    ("agent", "settings", "kept"),
    [
        ("ppo", ["agent.num_steps=16"], 5 * 32),
        ("ppo", ["agent.num_steps=16", "agent.decoupled=true"], 5 * 32),
        ("dqn", ["agent.iteration_steps=32"], 5 * 32 + 8),  # its state is whole between all steps
    ],
    ids=["ppo", "decoupled", "dqn"],
)
def test_somebodys_environment_that_fails_late_leaves_what_was_learnt(agent, settings, kept, tmp_path, monkeypatch):
    run = failed(tmp_path, monkeypatch, agent, ["total_steps=3200", "evaluation_episodes=0", *settings])
    (path,) = run.checkpoints()
    assert read_checkpoint(path)["steps"] == run.record["steps"] == kept
    assert run.record["status"] == "failed" and "ConnectionError" in run.record["error"]


def test_an_evaluation_that_fails_costs_no_training(tmp_path, monkeypatch, capsys):
    run = failed(tmp_path, monkeypatch, "ppo", ["agent.num_steps=16", "total_steps=160", "evaluation_episodes=2"])
    (path,) = run.checkpoints()
    assert read_checkpoint(path)["steps"] == run.record["steps"] == 160
    assert run.record["status"] == "failed"
    assert "evaluation failed after 160 of 160 steps" in capsys.readouterr().out
