"""Gain that a report attributes to a reward: only what the first run could not do already."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from gaitway.domains.texts.evaluate import Answer, Evaluation, Problem
from gaitway.domains.texts.report import LanguageReport, ReportedRun, _curves


def answer(right):
    return Answer(text="x", tokens=1, finished=True, reward=float(right), parts={"correctness": float(right)})


def evaluation(greedy, sampled=(), prefill=""):
    """``greedy`` of ten problems answered right; ``sampled`` is how many are right by each of the samples."""
    problems = tuple(
        Problem(prompt=f"p{i}", expected="x", level="", greedy=answer(i < greedy),
                samples=tuple(answer(i < right) for right in sampled))
        for i in range(10)
    )  # fmt: skip
    return Evaluation(task="t", model="m", steps=1, temperature=1.0, seed=0, problems=problems, seconds=1.0,
                      prefill=prefill)  # fmt: skip


def findings(*runs):
    return LanguageReport(
        tuple(ReportedRun(Path(name), {"task": "t"}, [], [], evaluations) for name, evaluations in runs)
    ).findings()


def test_what_a_vote_or_a_beginning_finds_was_only_elicited():
    sft = {"t": evaluation(1, sampled=(3, 3)), "t-begun": evaluation(6, prefill="<think>")}
    (text,) = findings(("sft", sft), ("grpo", {"t": evaluation(9)}), ("more", {"t": evaluation(2)}))
    for part in ("90.0 %", "10.0 %", "more", "20.0 %", "70.0 points", "60.0 %", "<think>", "50.0 points of the gain",
                 "30.0 points are added", "pass@2"):  # fmt: skip
        assert part in text


def test_what_it_cost_in_plain_text_is_told():
    before, after = (replace(evaluation(3), surprise=(math.log(x),) * 4) for x in (20.0, 25.0))
    (text,) = findings(("sft", {"t": before}), ("grpo", {"t": after}))
    assert text.endswith("The perplexity of a plain text went from 20.0 to 25.0.")


def test_a_control_that_costs_more_is_told_apart():
    """Rounds build on one another, so the second has cost what the first did, too."""
    costs = {"sft": 1.0, "grpo": 2.0, "expert-1": 2.2, "expert-2": 2.2}
    began = {"grpo": "runs/sft", "expert-1": "runs/sft", "expert-2": "runs/expert-1"}
    right = {"sft": 1, "grpo": 8, "expert-1": 7, "expert-2": 9}
    runs = [
        ReportedRun(
            Path("runs") / name, {"task": "t", "cpu_time_s": 60 * costs[name]}, [], [], {"t": evaluation(right[name])},
            began.get(name, "tiny"),
        )
        for name in costs
    ]  # fmt: skip
    (text,) = LanguageReport(tuple(runs)).findings()
    assert "expert-1 in 70.0 %;" in text and "expert-2 in 90.0 % with 2.2 times the CPU time" in text
    assert "10.0 points ahead of the best of those that cost no more, 10.0 points behind the best of those" in text


@pytest.mark.parametrize("begun", [9, 10])
def test_nothing_is_added_to_what_a_beginning_finds(begun):
    sft = {"t": evaluation(1), "t-begun": evaluation(begun, prefill="<think>")}
    (text,) = findings(("sft", sft), ("grpo", {"t": evaluation(9)}))
    assert "80.0 points of the gain" in text and " 0.0 points are added" in text


def test_curves_of_an_environment_are_shares_of_its_optimum():
    share = {"greedy share of the optimum": {"value": 0.5, "low": 0.25, "high": 0.75}}
    exams = [{"steps": steps, "measures": share} for steps in (10, 20)]
    run = ReportedRun(Path("walk"), {"task": "t"}, [], exams, {})
    page = "".join(part.html() for part in _curves(LanguageReport((run,))))
    assert "share of the optimum [%]" in page and "accuracy [%]" not in page


def played(optimum, returns):
    """An evaluation of dialogues that earned ``returns``, each sampled twice with what the next one earned."""

    def one(value):
        return Answer(text="x", tokens=1, finished=True, reward=value, parts={"environment": value})

    problems = tuple(
        Problem(prompt=f"p{i}", expected="", level="", greedy=one(value),
                samples=(one(returns[i - 1]), one(returns[i - 1])))
        for i, value in enumerate(returns)
    )  # fmt: skip
    return Evaluation(task="lake", model="m", steps=1, temperature=1.0, seed=0, problems=problems, seconds=1.0,
                      optimum=optimum)  # fmt: skip


def test_returns_are_drawn_beside_the_exact_optimum():
    rows = [{"steps": steps, "rollout/reward/environment": 0.01 * steps} for steps in range(1, 9)]

    def page(optimum):
        run = ReportedRun(Path("act"), {"task": "lake"}, rows, [], {"lake": played(optimum, [1.0, 0.0])})
        return "".join(part.html() for part in _curves(LanguageReport((run,))))

    assert page(0.5).count("limit dashed") == 1 and "exact tables" in page(0.5)
    assert "dashed" not in page(None) and "exact tables" not in page(None)
    # An optimum far above what was earned stretches the axis: it is in the picture.
    assert page(50.0) != page(0.5)


def test_runs_that_act_are_told_by_their_share_of_the_optimum():
    (line,) = LanguageReport(
        (ReportedRun(Path("act"), {"task": "lake"}, [], [], {"lake": played(2.0, [1.0, 1.0, 1.0, 1.0])}),)
    ).headlines()
    assert line == "lake: act 50.0 % [50.0, 50.0], sampled 50.0 % [50.0, 50.0] of the optimum"
    (line,) = LanguageReport(
        (ReportedRun(Path("act"), {"task": "lake"}, [], [], {"lake": played(-2.0, [-3.0])}),)
    ).headlines()
    assert "optimum" not in line and "-3" in line


def test_one_run_alone_shows_nothing():
    assert findings(("sft", {"t": evaluation(1)})) == []
