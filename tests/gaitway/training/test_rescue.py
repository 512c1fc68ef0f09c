"""A training whose environment fails keeps what it has learnt."""

import pytest
from gaitway_tasks.managers import TermError

from gaitway.config.train_config import resolve
from gaitway.runs.folder import RunFolder, read_checkpoint
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
