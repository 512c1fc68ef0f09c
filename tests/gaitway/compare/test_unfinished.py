"""Stopped runs are compared at the steps that all share, and what exists only at the end is left out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gaitway.compare.numbers import number


@pytest.mark.parametrize("row", ['{"steps": "many", "wall_s": 1.0}', '{"steps": [1], "wall_s": 1.0}'])
def test_a_run_whose_steps_are_none_is_left_out(make_run, tmp_path, ours, row):
    make_run(tmp_path / "a")
    bad = make_run(tmp_path / "b", seed=1, steps=5000, status="interrupted")
    with open(bad.path / "metrics.jsonl", "a") as file:
        file.write(f"{row}\n")
    code, _, err = ours([tmp_path, "--unfinished", "--reps", "20"])
    assert code == 0 and f"{bad.path} is left out: metrics.jsonl is damaged" in err


@pytest.fixture
def runs(make_run, tmp_path):
    """A finished run, one that was interrupted at 6000 of 10,000 steps, and one that was killed at 4000."""
    make_run(tmp_path / "whole", evaluations=5)
    make_run(tmp_path / "stopped", agent="vpg", steps=6000, evaluations=3, status="interrupted", total_steps=10_000)
    make_run(tmp_path / "killed", agent="vpg", seed=1, steps=4000, evaluations=2, status="running", total_steps=10_000)
    return tmp_path


def rows(path, until):
    return [row for line in path.read_text().splitlines() if (row := json.loads(line))["steps"] <= until]


def test_stopped_runs_are_left_out_unless_asked_for(runs, ours):
    code, out, err = ours([runs, "--reps", "20"])
    assert code == 0 and err.count("is left out") == 2 and "vpg" not in out
    code, _, err = ours([runs / "killed", "--reps", "20"])
    assert code == 2 and "--unfinished compares those that were stopped" in err


def test_all_are_cut_to_the_shortest(runs, ours):
    code, out, err = ours([runs, "--unfinished", "--reps", "20", "--out", runs / "out"])
    assert code == 0 and " is left out: it" not in err and "differ in length" not in err
    assert f"compared at 4,000 steps, the end of the shortest, {runs / 'killed'} (running, or killed)" in err
    assert "the last at 4,000 steps" in err and "final evaluations, verdicts" in err
    text = " ".join(out.split())
    for name in ("whole", "stopped", "killed"):
        returns = [row["return"] for row in rows(runs / name / "episodes.jsonl", 4000)]
        assert number(float(np.mean(returns[-100:]))) in text
    last = rows(runs / "whole" / "evaluations.jsonl", 4000)[-1]
    assert last["steps"] == 4000 and f"hopper ppo {number(float(np.mean(last['returns'])))} deterministic" in text
    assert "hopper ppo 4,000 8.000 500.0" in text  # 500 steps/s
    page = (runs / "out" / "compare.md").read_text()
    assert "Comparison of 3 runs by agent" in page and "--unfinished" in page


def test_other_metrics_are_cut_too(runs, ours):
    out = " ".join(ours([runs, "--unfinished", "--reps", "20", "--metric", "rollout/reward"])[1].split())
    rewards = [row["rollout/reward"] for row in rows(runs / "whole" / "metrics.jsonl", 4000)]
    assert len(rewards) == 8 and number(rewards[-1]) in out
    out = " ".join(ours([runs, "--unfinished", "--reps", "20", "--metric", "evaluation-max"])[1].split())
    best = max(np.mean(row["returns"]) for row in rows(runs / "whole" / "evaluations.jsonl", 4000))
    assert number(float(best)) in out


def test_evaluations_that_not_all_made_are_left_out(make_run, tmp_path, ours):
    make_run(tmp_path / "a", evaluations=3)
    make_run(tmp_path / "b", agent="vpg", steps=5000, evaluations=2, status="interrupted")
    code, out, err = ours([tmp_path, "--unfinished", "--reps", "20"])
    assert code == 0 and "no evaluation was made by all" in err and "which is over" not in out
    code, _, err = ours([tmp_path, "--unfinished", "--reps", "20", "--metric", "evaluation"])
    assert code == 2 and "no evaluation in the first 5,000 steps was made by all runs" in err


def test_a_verdict_names_no_steps_and_an_examination_does(make_run, tmp_path, ours):
    whole = make_run(tmp_path / "a")
    make_run(tmp_path / "b", seed=1, steps=5000, status="interrupted")
    for steps, passed in ((4000, False), (9000, True)):
        whole.append_examination({"steps": steps, "wall_s": 1.0, "passed": passed})
    (whole.path / "verdicts.jsonl").write_text('{"verdict": "PASS"}\n')
    assert "Passed the suite" in ours([tmp_path, "--reps", "20"])[1]
    out = ours([tmp_path, "--unfinished", "--reps", "20"])[1]
    assert "Passed the suite" not in out and "0 of 1" in out


def test_a_run_without_steps_is_left_out_and_cuts_nothing(make_run, tmp_path, ours):
    make_run(tmp_path / "a")
    empty = make_run(tmp_path / "b", seed=1, status="running")
    for name in ("episodes.jsonl", "metrics.jsonl", "evaluations.jsonl"):
        (empty.path / name).unlink()
    empty.update(steps=0)
    code, _, err = ours([tmp_path, "--unfinished", "--reps", "20"])
    assert code == 0 and f"{empty.path} is left out: it has done no steps" in err and "compared at" not in err


def test_failed_and_damaged_runs_stay_out(make_run, tmp_path, ours):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", seed=1, steps=5000, status="failed", error="nan")
    with open(make_run(tmp_path / "c", seed=2, steps=5000, status="interrupted").path / "metrics.jsonl", "r+") as file:
        file.write("{broken")
    code, _, err = ours([tmp_path, "--unfinished", "--reps", "20"])
    assert code == 0 and "its training failed: nan" in err and "metrics.jsonl is damaged: line 1" in err
    assert "compared at" not in err


def test_finished_runs_of_one_length_stay_whole(three_by_two, ours):
    plain = ours([three_by_two, "--reps", "20"])
    assert ours([three_by_two, "--reps", "20", "--unfinished"]) == plain
