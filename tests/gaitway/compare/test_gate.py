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
    assert line.startswith(f"{word}: ppo on hopper: probability of improvement over the baseline ")
    assert "4 runs against 4; " in line and line.endswith("below 0.05")
    assert "ppo (baseline)" in out


def test_identical_runs_improve_with_probability_one_half(versions, ours):
    for bound, code in (("0.5", 0), ("0.51", 1)):
        gate = ["--baseline", versions / "old", "--min-prob-improvement", bound, "--reps", "50"]
        found, out, _ = ours([versions / "old", *gate])
        assert found == code and "probability of improvement over the baseline 0.500 [" in out


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
    assert "FAIL" in text and "ppo on ant: probability of improvement over the baseline 1.000" in text


def test_a_baseline_among_the_new_runs_is_refused(versions, ours):
    code, _, err = ours([versions, "--baseline", versions / "old", "--min-prob-improvement", "0.05"])
    assert code == 2 and "lies among the new runs" in err
