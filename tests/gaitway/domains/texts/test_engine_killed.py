"""A training whose engine is killed in the middle of a rollout learns the same as one that is left alone."""

import sys

import pytest
from bit_by_bit import differences
from gaitway_language.engines import own_server
from language_runs import MODEL, RL, train
from tree import ROOT

from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows


@pytest.mark.slow
def test_a_training_whose_engine_is_killed_equals_one_that_is_left_alone(tmp_path, monkeypatch, capsys):
    command = ["arithmetic", "--agent", "grpo", "--model", "tiny", *MODEL, *RL]
    whole = train(*command, out=tmp_path / "whole")
    deaths = tmp_path / "deaths"
    deaths.write_text("2 9")  # in the second rollout, after nine tokens of its answers
    server = (sys.executable, str(ROOT / "tests/helpers/dying_server.py"), str(deaths))
    monkeypatch.setattr(own_server, "SERVER", server)
    capsys.readouterr()
    killed = train(*command, "--server", "own", out=tmp_path / "killed")
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "Attempt" in line]
    assert "the engine's process ended with exit code -9" in warning and "Attempt 1 of 3 to replace it" in warning
    states = [RunFolder.open(run).load_checkpoint()[0]["trainer"] for run in (whole, killed)]
    assert differences(*states) == []
    ours, theirs = (list(read_rows(run / "metrics.jsonl")) for run in (killed, whole))
    assert len(ours) == len(theirs) == 4
    for one, other in zip(ours, theirs, strict=True):
        sampled = [key for key in one if key.startswith("rollout/") and "tokens_per_s" not in key]
        assert sampled and all(one[key] == other[key] for key in sampled)
        assert one["steps"] == other["steps"]
    asked = [line.split() for line in (tmp_path / "deaths.asked").read_text().splitlines()]
    seeds = [seed for _, seed, count in asked if count == "16"]
    assert len(seeds) == 5 and seeds[1] == seeds[2] and len(set(seeds)) == 4  # the second rollout alone, twice
    assert len({pid for pid, *_ in asked}) == 2
