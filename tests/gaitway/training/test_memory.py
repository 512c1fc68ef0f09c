"""What a training needs is foretold: less than it takes, but not much less."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from memory_taken import watched
from tree import IMPORTABLE

from gaitway.cli import main
from gaitway.train_config import resolve
from gaitway.training import memory

PEAK = """
import sys, torch
from gaitway.train_config import resolve
from gaitway.training import memory
from memory_taken import peak
torch.set_num_threads(1)
settings = [f"num_envs={sys.argv[1]}", "processes=1", "agent.optimizer.epochs=1"]
config = resolve("velocity-flat-go2-blind", preset="cpu", overrides=settings)
trainer = config.domain.trainer(config)
trainer.iterate()
print(peak(), sum(memory.estimate(config, memory.bytes_of(trainer.env.single_observation_space)).values()))
"""


@pytest.mark.slow
def test_robots_take_what_is_foretold():
    environment = os.environ | {"PYTHONPATH": IMPORTABLE}
    printed = [
        subprocess.check_output([sys.executable, "-c", PEAK, str(n)], text=True, env=environment) for n in (512, 2048)
    ]
    found = [[int(word) for word in text.split()[-2:]] for text in printed]
    taken, foretold = (after - before for before, after in zip(*found, strict=True))
    assert 0.5 * taken < foretold < taken


def test_too_many_robots_are_refused_before_they_are_built(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "_free", lambda: 16 * 2**30)
    few = resolve("velocity-flat-go2-blind", preset="cpu", overrides=["num_envs=20000"])
    memory.check(few, 400)
    with watched() as taken:
        assert main(["train", "velocity-flat-go2-blind", "num_envs=200000", "--out", str(tmp_path / "run")]) == 2
    assert "num_envs x agent.num_steps needs at least" in capsys.readouterr().err
    assert taken() < 500_000_000  # one robot and one learner
    assert not (tmp_path / "run").exists()
