"""Headlines say what the runs carry: robots by what they do, no returns of other rewards, no ranking by chance."""

from __future__ import annotations

import json
import re

import pytest
from html_page import Page

BASE = {"func": "mdp:track", "weight": 1.0, "params": {"std": 0.5}}
STRAIGHT = {"func": "my:straight", "weight": -4.0, "params": {}}
GROUP = ["--group", "task.rewards.straight", "--reps", "20"]


def rewards(**terms):
    return {"task": {"rewards": {"track": BASE} | terms}}


@pytest.fixture
def walk(make_run, tmp_path):
    """Makes a robot's run with one evaluation of ten episodes."""

    def make(name, seed, falls, error, level=50.0, **config):
        settings = {"evaluations": 0, "config": rewards(**config)}
        run = make_run(tmp_path / name / str(seed), task="velocity", seed=seed, level=level, **settings)
        row = {"steps": 10_000, "wall_s": 20.0, "deterministic": True, "seed": 1, "returns": [level] * 10}
        run.append_evaluation(row | {"falls": falls, "tracking": {"base_velocity": {"linear": error, "yaw": 0.5}}})
        return run

    return make


def test_a_term_that_some_runs_have(walk, tmp_path, ours):
    """Four seeds each: the term walks better in all pairs, and has the smaller returns."""
    for seed in range(4):
        walk("a", seed, 5, 0.4 + 0.01 * seed, level=500.0)
        walk("b", seed, seed, 0.2 + 0.01 * seed, straight=STRAIGHT)
    code, out, err = ours([tmp_path, *GROUP])
    assert code == 0
    assert out.splitlines()[-4:] == [
        "Falls — without straight: 20 of 40 episodes, with straight: 6 of 40 episodes; with straight is better in 16 "
        "of 16 pairs of seeds (chance alone: 2.9 %).",
        "Off command — without straight: 0.4150 m/s, with straight: 0.2150 m/s; with straight is better in 16 of 16 "
        "pairs of seeds (chance alone: 2.9 %).",
        "Turning off command — without straight: 0.5000 rad/s, with straight: 0.5000 rad/s; no difference in any of 16 "
        "pairs of seeds.",
        "The training return is not compared on velocity, because rewards differ: straight is not in all.",
    ]
    assert "IQM" not in out and "task.rewards.straight   without            with" in out
    assert "straight is not in all" in err
    assert ours([tmp_path, "--group", "task.rewards.straight.weight", "--reps", "20"])[1] == out


def test_the_page_begins_with_what_robots_do(walk, tmp_path, ours):
    for seed in range(3):
        walk("a", seed, 5, 0.4)
        walk("b", seed, 1, 0.2, straight=STRAIGHT)
    assert ours([tmp_path, *GROUP, "--out", tmp_path / "out"])[0] == 0
    text = Page((tmp_path / "out" / "compare.html").read_text()).text
    order = ["Falls — without straight", "Of the last evaluation of each run", "By environment steps", "Each number: "]
    assert sorted(order, key=text.index) == order
    assert "Groups are not comparable on velocity." in text
    assert not list((tmp_path / "out").glob("aggregates*")) and not list((tmp_path / "out").glob("profile*"))
    assert "falls,episodes,off_command,turning" in (tmp_path / "out" / "compare.csv").read_text().splitlines()[0]


def test_groups_that_mix_terms_are_told_apart(walk, tmp_path, ours):
    walk("a", 0, 5, 0.4)
    walk("b", 0, 1, 0.2, straight=STRAIGHT)
    code, out, err = ours([tmp_path, "--reps", "20"])
    assert code == 0
    assert "ppo on velocity mixes runs: straight is not in all; --group task.rewards.straight separates them" in err
    assert "IQM" not in out


@pytest.mark.parametrize("spelling", ["1", "1.0", "1e0", "+1.00", "1.0000000001"])
def test_spellings_of_a_number_are_no_other_reward(walk, tmp_path, ours, spelling):
    for seed in range(2):
        walk("a", seed, 0, 0.4)
        path = walk("b", seed, 0, 0.4).path / "config.yaml"
        text = path.read_text()
        assert "weight: 1.0" in text
        path.write_text(text.replace("weight: 1.0", f"weight: {spelling}"))
    code, out, err = ours([tmp_path, "--reps", "20"])
    assert code == 0 and "rewards" not in err and "IQM of the training return" in out


@pytest.mark.parametrize("metric", ["return", "tracking/base_velocity/linear"])
def test_other_conditions_are_not_compared_at_all(walk, tmp_path, ours, metric):
    """Robots that are pushed fall more often, whoever walks better."""
    for seed in range(4):
        for name, push, falls in (("a", 0.5, 0), ("b", 1.0, 9)):
            run = walk(name, seed, falls, 0.1)
            run.append_metrics({"iteration": 21, "steps": 10_000, "wall_s": 20.0, "tracking/base_velocity/linear": 0.1})
            with open(run.path / "config.yaml", "a") as file:
                file.write(f"  events:\n    push: {{params: {{speed: {push}}}}}\n")
    key = "task.events.push.params.speed"
    _, out, err = ours([tmp_path, "--group", key, "--reps", "20", "--metric", metric])
    falls, last = out.splitlines()[-2:]
    assert falls == "Falls and errors are not compared on velocity, because conditions differ: push speed 0.5 or 1."
    assert last.endswith("is not compared on velocity, because conditions differ: push speed 0.5 or 1.")
    assert "gaitway validate NEW --baseline OLD" in err and "Pairs of seeds" not in out


def test_arguments_of_an_environment_count_as_rewards(make_run, tmp_path, ours):
    for seed, cost in enumerate((0.1, 0.2)):
        make_run(tmp_path / str(seed), seed=seed, config={"task": {"kwargs": {"ctrl_cost_weight": cost}}})
    out = ours([tmp_path, "--group", "seed", "--reps", "20"])[1]
    assert "not compared on hopper, because rewards differ: ctrl cost weight 0.1 or 0.2." in out.splitlines()[-1]


def test_a_term_that_all_have_is_no_group(walk, tmp_path, ours):
    walk("a", 0, 0, 0.1)
    code, _, err = ours([tmp_path, "--group", "task.rewards.track"])
    assert code == 2 and "--group task.rewards.track: " in err and "such as task.rewards.track.func" in err


def test_a_single_reward_is_compared_if_it_is_the_same(walk, tmp_path, ours):
    for seed in range(2):
        for name, term in (("a", {}), ("b", {"straight": STRAIGHT})):
            run = walk(name, seed, 0, 0.1, **term)
            run.append_metrics({"iteration": 21, "steps": 10_000, "wall_s": 20.0, "rollout/track": 1.0})
            run.append_metrics({"iteration": 22, "steps": 10_000, "wall_s": 20.0, "rollout/straight": 1.0})
    assert "IQM of the rollout/track — " in ours([tmp_path, *GROUP, "--metric", "rollout/track"])[1]
    assert "is not compared" in ours([tmp_path, *GROUP, "--metric", "rollout/straight"])[1]


def test_verdicts_and_examinations_stand_first(walk, tmp_path, ours):
    rows = {"a": ("FAIL", False), "b": ("PASS", True)}
    for seed in range(2):
        for name, agent in (("a", {}), ("b", {"straight": STRAIGHT})):
            run = walk(name, seed, 0, 0.2, **agent)
            run.append_examination({"steps": 5000, "wall_s": 1.0, "passed": False})
            run.append_examination({"steps": 9000, "wall_s": 1.0, "passed": rows[name][1]})
            if seed == 0:
                (run.path / "verdicts.jsonl").write_text(json.dumps({"verdict": rows[name][0]}) + "\n")
    out = ours([tmp_path, *GROUP])[1]
    assert (
        "Passed the suite — without straight: 0 of 1 judged run, with straight: 1 of 1 judged run." in out.splitlines()
    )
    text = " ".join(out.split())
    assert "without straight 2 0 of 2 0 of 1" in text and "with straight 2 2 of 2 1 of 1" in text
    assert out.index("Examinations and verdicts") < out.index("Walking")


def test_ten_seeds_carry_an_interval_and_nine_do_not(make_run, tmp_path, ours):
    for seed in range(10):
        make_run(tmp_path / "a" / str(seed), seed=seed)
        make_run(tmp_path / "b" / str(seed), agent="vpg", seed=seed, level=60.0)
    out, err = ours([tmp_path, "--reps", "50", "--out", tmp_path / "out"])[1:]
    assert "probability" in out and "1.000 [1.000, 1.000]" in out and "too few" not in err
    assert (tmp_path / "out" / "improvement.png").exists()
    assert "ppo is better in 100 of 100 pairs of seeds (chance alone: less than 0.1 %)." in out
    out, err = ours([*(tmp_path / name / str(seed) for name in "ab" for seed in range(9)), "--reps", "50"])[1:]
    assert not re.search(r"\[[0-9]", out) and "too few runs for 95 % intervals" in err


@pytest.mark.parametrize(("seeds", "end"), [
    (1, "one run each gives no ranking."),
    (3, "no ranking: ppo is better in 9 of 9 pairs of seeds, and chance alone does as much in 10 % of cases."),
    (4, "ppo is better in 16 of 16 pairs of seeds (chance alone: 2.9 %)."),
])  # fmt: skip
def test_few_seeds_rank_nothing(make_run, tmp_path, ours, seeds, end):
    for seed in range(seeds):
        make_run(tmp_path / "a" / str(seed), seed=seed)
        make_run(tmp_path / "b" / str(seed), agent="vpg", seed=seed, level=60.0)
    assert ours([tmp_path, "--reps", "50"])[1].splitlines()[-1].endswith(end)


def test_runs_of_different_tasks_have_no_headline(make_run, tmp_path, ours):
    make_run(tmp_path / "a", task="ant")
    make_run(tmp_path / "b", task="hopper", agent="dqn")
    out = ours([tmp_path, "--reps", "50"])[1]
    assert out.splitlines()[-1] == "No task was run by every group, so there is no overall result."
