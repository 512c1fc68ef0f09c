"""The regression gate: its verdicts, and the exit codes that scripts rely on."""

from __future__ import annotations

import pytest
from html_page import Page


@pytest.mark.parametrize(("new", "code", "word"), [("same", 0, "PASS"), ("broken", 1, "FAIL"), ("better", 0, "PASS")])
def test_the_gate(versions, ours, new, code, word):
    gate = ["--baseline", versions / "old", "--min-prob-improvement", "0.05", "--reps", "200"]
    found, out, _ = ours([versions / new, *gate])
    assert found == code
    line = out.splitlines()[-1]
    assert line.startswith(f"{word}: ppo on hopper: better in ") and "of 16 pairs of seeds with the baseline (" in line
    assert "4 runs against 4; " in line and "below 0.05; 1.4 % of unchanged versions would be below" in line
    assert "[" not in line, "four runs carry no interval"
    assert "ppo (baseline)" in out


def test_identical_runs_improve_with_probability_one_half(versions, ours):
    for bound, code in (("0.5", 0), ("0.51", 1)):
        gate = ["--baseline", versions / "old", "--min-prob-improvement", bound, "--reps", "50"]
        found, out, _ = ours([versions / "old", *gate])
        assert found == code and "better in 6, equal in 4 of 16 pairs of seeds with the baseline (0.500), " in out


def test_a_failed_training_counts_as_the_worst_run(make_run, versions, tmp_path, ours):
    """One good run of four that were asked for is no pass."""
    make_run(tmp_path / "0", seed=0, level=200.0)
    for seed in (1, 2, 3):
        make_run(tmp_path / str(seed), seed=seed, status="failed", error="TrainingFailed: nan")
    gate = ["--baseline", versions / "old", "--min-prob-improvement", "0.3", "--reps", "50"]
    code, out, _ = ours([tmp_path, *gate])
    assert code == 1
    assert "0.250" in out.splitlines()[-1] and "4 runs (3 failed) against 4" in out.splitlines()[-1]


def test_if_every_new_training_failed_the_gate_fails(make_run, versions, tmp_path, ours):
    make_run(tmp_path / "0", status="failed")
    code, out, _ = ours([tmp_path, "--baseline", versions / "old", "--min-prob-improvement", "0.05"])
    assert code == 1 and out.splitlines()[-1].startswith("FAIL")


def test_one_broken_task_fails_the_gate_whatever_the_others_do(make_run, tmp_path, ours):
    for name, levels in (("old", {"ant": 100.0, "hopper": 100.0}), ("new", {"ant": 300.0, "hopper": 10.0})):
        for task, level in levels.items():
            for seed in range(3):
                make_run(tmp_path / name / task / str(seed), task=task, seed=seed, level=level)
    gate = ["--baseline", tmp_path / "old", "--min-prob-improvement", "0.05", "--reps", "50"]
    code, out, _ = ours([tmp_path / "new", *gate, "--html", tmp_path / "gate.html"])
    assert code == 1
    assert "FAIL: ppo on hopper" in out.splitlines()[-1] and "(the worst of 2; 1 below)" in out.splitlines()[-1]
    text = Page((tmp_path / "gate.html").read_text("utf-8")).text
    assert "FAIL" in text and "ppo on ant: better in 9 of 9 pairs of seeds with the baseline (1.000)" in text


def test_a_baseline_among_the_new_runs_is_refused(versions, ours):
    code, _, err = ours([versions, "--baseline", versions / "old", "--min-prob-improvement", "0.05"])
    assert code == 2 and "lies among the new runs" in err


@pytest.mark.parametrize(("bound", "percent"), [("0.05", "5.0 %"), ("0.2", "10 %")])
def test_the_gate_says_how_often_it_is_wrong(make_run, tmp_path, ours, bound, percent):
    """Of the 20 orders of three and three runs one has no won pair, and two have at most one of nine."""
    for name in ("old", "new"):
        for seed in range(3):
            make_run(tmp_path / name / str(seed), seed=seed)
    line = ours([tmp_path / "new", "--baseline", tmp_path / "old", "--min-prob-improvement", bound])[1].splitlines()[-1]
    assert line.startswith("PASS") and line.endswith(f"; {percent} of unchanged versions would be below")


def test_returns_of_other_rewards_are_not_judged(make_run, tmp_path, ours):
    for name, weight in (("old", 1.0), ("new", 2.0)):
        for seed in range(3):
            make_run(
                tmp_path / name / str(seed), seed=seed, config={"task": {"rewards": {"track": {"weight": weight}}}}
            )
    gate = ["--baseline", tmp_path / "old", "--min-prob-improvement", "0.05"]
    code, _, err = ours([tmp_path / "new", *gate])
    assert code == 2 and "track weight 2 or 1" in err and "tracking/COMMAND/MEASURE and length" in err
    assert ours([tmp_path / "new", *gate, "--metric", "length"])[0] == 0


def test_a_gate_judges_no_stopped_runs(versions, ours):
    gate = ["--baseline", versions / "old", "--min-prob-improvement", "0.05", "--unfinished"]
    code, _, err = ours([versions / "same", *gate])
    assert code == 2 and "leave out --unfinished" in err
