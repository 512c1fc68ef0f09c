"""What a training needs is foretold: less than it takes, but not much less."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from gaitway.cli import main
from gaitway.config.train_config import resolve
from gaitway.training import memory

PEAK = """
import resource, sys, torch
from gaitway.config.train_config import resolve
from gaitway.training import memory
torch.set_num_threads(1)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
settings = [f"num_envs={sys.argv[1]}", "processes=1", "agent.optimizer.epochs=1"]
config = resolve("velocity-flat-go2-blind", preset="cpu", overrides=settings)
trainer = config.domain.trainer(config)
trainer.iterate()
print(peak(), sum(memory.estimate(config, memory.bytes_of(trainer.env.single_observation_space)).values()))
"""


@pytest.mark.slow
def test_robots_take_what_is_foretold():
    found = [
        [int(word) for word in subprocess.check_output([sys.executable, "-c", PEAK, str(n)], text=True).split()[-2:]]
        for n in (512, 2048)
    ]
    taken, foretold = (after - before for before, after in zip(*found, strict=True))
    assert 0.5 * taken < foretold < taken


def test_too_many_robots_are_refused_before_they_are_built(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(memory, "_free", lambda: 16 * 2**30)
    few = resolve("velocity-flat-go2-blind", preset="cpu", overrides=["num_envs=20000"])
    memory.check(few, 400)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert main(["train", "velocity-flat-go2-blind", "num_envs=200000", "--out", str(tmp_path / "run")]) == 2
    assert "num_envs x agent.num_steps needs at least" in capsys.readouterr().err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB: one robot and one learner
    assert not (tmp_path / "run").exists()
