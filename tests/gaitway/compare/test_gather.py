"""Choice of the runs to compare: the finished, whole and chosen ones; every other is named with its reason."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from gaitway_files.errors import UserError

from gaitway.compare import gather
from gaitway.compare.series import read_evaluations, read_rows, read_series
from gaitway.errors import RunError


def load(paths, metric="return", keys="agent", where=(), labels=()):
    headers, damaged = gather.read_headers(gather.find_runs(paths))
    runs, left_out = gather.read_runs(gather.put_into_groups(gather.choose(headers, where), keys, labels), metric)
    return runs, [*damaged, *left_out]


def returns(folder):
    return [json.loads(line)["return"] for line in (folder / "episodes.jsonl").read_text().splitlines()]


def test_finds_runs_below_folders_each_once(three_by_two):
    found = gather.find_runs([three_by_two / "hopper-ppo", three_by_two, three_by_two / "hopper-ppo" / "seed1"])
    assert len(found) == 12
    assert found[0] == three_by_two / "hopper-ppo" / "seed0"


def test_nothing_to_find_is_said(tmp_path):
    with pytest.raises(UserError, match="no file or folder"):
        gather.find_runs([tmp_path / "none"])
    with pytest.raises(UserError, match="no run folder at or below"):
        gather.find_runs([tmp_path])


def test_the_score_is_the_mean_of_the_last_hundred_episodes(three_by_two):
    runs, left_out = load([three_by_two])
    assert left_out == []
    for run in runs:
        assert run.series.score == pytest.approx(np.mean(returns(run.header.path)[-100:]), rel=1e-12)
        assert run.series.protocol == "mean of the last 100 training episodes"


def test_a_curve_knows_only_the_past(three_by_two):
    run = load([three_by_two / "hopper-ppo" / "seed0"])[0][0]
    values = returns(run.header.path)
    x = np.array([0.0, 20.0, 39.0, 40.0, 5000.0, 10_000.0])  # an episode ends every 20 steps
    expected = [np.nan, values[0], values[0], np.mean(values[:2]), np.mean(values[150:250]), np.mean(values[400:])]
    assert run.series.curve(x, "steps") == pytest.approx(expected, nan_ok=True)
    assert run.series.curve(x / 500.0, "wall_s") == pytest.approx(expected, nan_ok=True)
    assert run.series.curve(np.array([10_000.0]), "steps")[0] == run.series.score


def test_short_runs_average_what_they_have(make_run, tmp_path):
    make_run(tmp_path / "run", steps=200)
    run = load([tmp_path])[0][0]
    assert run.series.score == pytest.approx(np.mean(returns(tmp_path / "run")))


def test_metrics(make_run, tmp_path):
    make_run(tmp_path / "run")
    evaluations = read_evaluations(tmp_path / "run")
    assert [e.steps for e in evaluations] == [3333, 6666, 10_000]

    def score(metric):
        return read_series(tmp_path / "run", metric, evaluations).score

    assert score("length") == 20.0
    assert score("learn/kl") == pytest.approx(0.01)
    assert score("evaluation") == pytest.approx(evaluations[-1].mean)
    rewards = [json.loads(line)["rollout/reward"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert score("rollout/reward") == pytest.approx(np.mean(rewards[-2:]))
    with pytest.raises(RunError, match=r"metrics\.jsonl has no learn/nothing"):
        score("learn/nothing")


def test_the_largest_evaluation_is_not_the_last(make_run, tmp_path):
    run = make_run(tmp_path / "run", evaluations=0)
    rows = [
        {"steps": s, "wall_s": s / 10, "deterministic": s < 3, "returns": [v, v + 2]}
        for s, v in ((1, 5), (2, 9), (3, 4))
    ]
    (run.path / "evaluations.jsonl").write_text("\n".join(map(json.dumps, rows)))
    evaluations = read_evaluations(run.path)
    best = read_series(run.path, "evaluation-max", evaluations)
    assert (best.score, read_series(run.path, "evaluation", evaluations).score) == (10.0, 5.0)
    assert best.protocol == "largest evaluation of a run, deterministic and stochastic, 2 episodes"
    assert list(best.curve(np.array([1.0, 2.0, 3.0]), "steps")) == [6.0, 10.0, 10.0]


def test_rewards_never_stand_beside_returns(make_run, tmp_path):
    """Runs without episodes, as robots' once were, are compared by their rewards if asked for."""
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", seed=1, episodes=False)
    runs, left_out = load([tmp_path])
    assert [run.header.path.name for run in runs] == ["a"]
    assert "--metric rollout/reward compares" in str(left_out[0])
    runs, left_out = load([tmp_path], metric="rollout/reward")
    assert left_out == [] and {run.series.name for run in runs} == {"rollout/reward"}


@pytest.mark.parametrize(
    ("status", "extra", "reason"),
    [
        ("running", {}, "unfinished (running, or killed) at 10,000 of 10,000 steps"),
        ("interrupted", {}, "it was interrupted at"),
        ("failed", {"error": "TrainingFailed: nan"}, "its training failed: TrainingFailed: nan"),
    ],
)
def test_unfinished_runs_are_named(make_run, tmp_path, status, extra, reason):
    make_run(tmp_path / "good")
    make_run(tmp_path / "bad", seed=1, status=status, **extra)
    runs, left_out = load([tmp_path])
    assert [run.header.path.name for run in runs] == ["good"]
    assert str(left_out[0]).startswith(f"{tmp_path / 'bad'} is left out: ") and reason in str(left_out[0])
    assert left_out[0].failed == (status == "failed")


def damage_record(run):
    (run / "run.json").write_text('{"gaitway_run": 1')


def damage_other_format(run):
    (run / "run.json").write_text('{"gaitway_run": 99}')


def damage_missing_key(run):
    record = json.loads((run / "run.json").read_text())
    del record["algorithm"]
    (run / "run.json").write_text(json.dumps(record))


def damage_config(run):
    (run / "config.yaml").write_text("a: [")


def damage_no_config(run):
    (run / "config.yaml").unlink()


def damage_row(run):
    lines = (run / "episodes.jsonl").read_text().splitlines()
    lines[3] = lines[3][:10]
    (run / "episodes.jsonl").write_text("\n".join(lines))


def damage_type(run):
    with open(run / "episodes.jsonl", "a") as file:
        file.write('{"steps": 1, "wall_s": 1.0, "return": "high", "length": 3}\n')


def damage_nan(run):
    with open(run / "episodes.jsonl", "a") as file:
        file.write('{"steps": 1, "wall_s": 1.0, "return": NaN, "length": 3}\n')


def damage_empty(run):
    (run / "episodes.jsonl").write_text("")


def damage_tracking(run):
    row = {"steps": 3, "wall_s": 1.0, "deterministic": True, "returns": [1.0], "falls": 0, "tracking": 3}
    (run / "evaluations.jsonl").write_text(json.dumps(row) + "\n")


def damage_examination(run):
    (run / "examinations.jsonl").write_text('{"steps": "many", "passed": true}\n')


def damage_verdict(run):
    (run / "verdicts.jsonl").write_text("{}\n")


def damage_evaluation(run):
    (run / "evaluations.jsonl").write_text('{"steps": 3, "returns": [1.0]}\n')


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damage_record, "run.json is damaged"),
        (damage_other_format, "left out: it has run format 99"),
        (damage_missing_key, "run.json is damaged or was edited: algorithm is None"),
        (damage_config, "config.yaml cannot be read"),
        (damage_no_config, "it has no config.yaml"),
        (damage_row, "episodes.jsonl is damaged: line 4 is not a row"),
        (damage_type, "episodes.jsonl is damaged: ValueError: could not convert string to float: 'high'"),
        (damage_nan, "return is not finite in 1 of 501 rows"),
        (damage_empty, "no training episode was finished"),
        (damage_tracking, "evaluations.jsonl is damaged: AttributeError"),
        (damage_examination, "examinations.jsonl or verdicts.jsonl is damaged: ValueError"),
        (damage_verdict, "examinations.jsonl or verdicts.jsonl is damaged: KeyError: 'verdict'"),
        (damage_evaluation, "evaluations.jsonl is damaged: KeyError: 'wall_s'"),
    ],
)
def test_damaged_runs_are_named(make_run, tmp_path, damage, reason):
    make_run(tmp_path / "good")
    make_run(tmp_path / "bad", seed=1)
    damage(tmp_path / "bad")
    runs, left_out = load([tmp_path])
    assert [run.header.path.name for run in runs] == ["good"]
    assert len(left_out) == 1 and reason in str(left_out[0])


def test_a_last_row_cut_short_is_no_damage(make_run, tmp_path):
    make_run(tmp_path / "run")
    before = load([tmp_path])[0][0].series.score
    with open(tmp_path / "run" / "episodes.jsonl", "a") as file:
        file.write('{"steps": 10020, "wall')
    assert load([tmp_path])[0][0].series.score == before
    assert len(read_rows(tmp_path / "run" / "episodes.jsonl")) == 500


def test_groups(three_by_two):
    def names(**options):
        return sorted({run.group for run in load([three_by_two], **options)[0]})

    assert names() == ["ppo", "vpg"]
    assert names(keys="agent,seed") == [f"{agent}, seed {seed}" for agent in ("ppo", "vpg") for seed in range(3)]
    assert names(keys="agent.learning_rate") == ["learning rate 0.0003", "learning rate 0.001"]
    assert names(labels=["ppo=PPO"]) == ["PPO", "vpg"]
    assert names(keys="agent.learning_rate", labels=["learning rate 0.001=fast"])[0] == "fast"
    assert names(keys="preset") == ["none"]


def test_conditions(three_by_two):
    def count(*where):
        return len(load([three_by_two], where=where)[0])

    assert count("task=hopper") == 6
    assert count("task=hopper", "agent=ppo", "seed=1") == 1
    assert count("agent.learning_rate=3e-4") == 6
    assert count("agent.learning_rate=0.0003") == 6
    assert count("agent.hidden=[64, 64]") == 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": ["task"]}, "--where task: write key=value"),
        ({"where": ["task=cheetah"]}, "--where task=cheetah: no run has it; task is hopper, walker2d"),
        ({"where": ["agent.learning_rat=1"]}, "did you mean agent.learning_rate?"),
        ({"keys": "agnet"}, "--group agnet: no run has such a setting: did you mean agent?"),
        ({"labels": ["ppo"]}, "--label ppo: write old=new, where old is one of ppo, vpg"),
        ({"labels": ["dqn=DQN"]}, "--label dqn=DQN: write old=new"),
    ],
)
def test_bad_choices_are_refused(three_by_two, options, message):
    with pytest.raises(UserError, match=re.escape(message)):
        load([three_by_two], **options)
