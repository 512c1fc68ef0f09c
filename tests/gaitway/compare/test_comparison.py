"""A comparison says about run folders what NumPy says about their files."""

from __future__ import annotations

import re

import numpy as np
import pytest
from gaitway_files.errors import UserError

from gaitway.compare import gather, normalise
from gaitway.compare.comparison import compare
from gaitway.compare.differences import config_differences, origin
from gaitway.compare.measures import pairings
from gaitway.compare.numbers import number, spread
from gaitway.compare.tables import published, runtime, scores, settings


def comparison(paths, *, metric="return", keys="agent", normalise=None, where=(), published=()):
    headers, damaged = gather.read_headers(gather.find_runs(paths))
    headers = gather.put_into_groups(gather.choose(headers, where), keys, [])
    runs, left_out = gather.read_runs(headers, metric)
    return compare(runs, [*damaged, *left_out], grouped_by=keys, normalise=normalise, reps=200, published=published)


@pytest.fixture(scope="module")
def both(three_by_two):
    return comparison([three_by_two])


def test_minmax_puts_every_curve_between_0_and_1(both):
    for group in both.groups:
        for task, values in zip(both.shared_tasks, both.scores(group), strict=True):
            raw = [run.series.score for run in both.of(group, task)]
            low, high = both.normalisation.references[task]
            assert values == pytest.approx((np.array(raw) - low) / (high - low))
            assert ((values >= 0.0) & (values <= 1.0)).all()
    top = max(np.nanmax(y) for curve in both.curves("hopper", "steps") for _, y in curve.runs)
    assert both.normalisation.references["hopper"][1] == pytest.approx(top)


def test_aggregates_and_improvement_are_over_all_tasks(both):
    assert both.shared_tasks == ["hopper", "walker2d"]
    pooled = np.concatenate(both.scores("ppo"))
    assert float(both.aggregates["ppo"]["IQM"].value) == pytest.approx(np.sort(pooled)[1:5].mean())
    (found,) = pairings(both)
    assert (found.group, found.other) == ("ppo", "vpg")
    assert (found.pairs.better, found.pairs.count) == (18, 18)  # ppo was made the better one, far beyond the noise
    assert found.pairs.chance == pytest.approx(2 / 20**2)


def test_the_right_end_of_a_curve_is_the_number_in_the_table(both):
    for axis in ("steps", "wall_s"):
        for curve in both.curves("walker2d", axis):
            values = [run.series.score for run in both.of(curve.group, "walker2d")]
            assert [y[-1] for _, y in curve.runs] == pytest.approx(values)
            assert curve.estimate.value[-1] == pytest.approx(np.mean(values))  # three runs: nothing is trimmed
            assert (curve.estimate.low <= curve.estimate.value).all()
            assert (curve.estimate.value <= curve.estimate.high).all()


def test_the_bold_curve_goes_as_far_as_all_runs(make_run, tmp_path):
    for seed, steps in enumerate((10_000, 4_000)):
        make_run(tmp_path / str(seed), seed=seed, steps=steps)
    found = comparison([tmp_path])
    (curve,) = found.curves("hopper", "steps")
    assert curve.x[-1] == 4_000.0
    assert sorted(x[-1] for x, _ in curve.runs) == [4_000.0, 10_000.0]
    assert any("differ in length: ppo 4,000 to 10,000 steps" in text for text in found.warnings)


def test_efficiency_ends_at_the_aggregate(both):
    for curve in both.efficiency():
        assert curve.x[-1] == 100.0
        assert curve.estimate.value[-1] == pytest.approx(float(both.aggregates[curve.group]["IQM"].value))


def test_one_task_is_left_on_its_own_scale(three_by_two):
    found = comparison([three_by_two], where=["task=hopper"])
    assert not found.normalisation.scales
    assert "Optimality gap" not in found.aggregates["ppo"]
    assert float(found.aggregates["ppo"]["Mean"].value) == pytest.approx(
        np.mean([run.series.score for run in found.of("ppo", "hopper")])
    )


def test_tasks_that_not_all_groups_ran_stay_out_of_aggregates(make_run, three_by_two, tmp_path):
    for seed in range(2):
        make_run(tmp_path / str(seed), task="ant", seed=seed)
    found = comparison([three_by_two, tmp_path])
    assert found.tasks == ["hopper", "walker2d", "ant"] and found.shared_tasks == ["hopper", "walker2d"]
    assert "aggregates leave out ant, which not every group has run" in found.warnings
    assert ["ant", "ppo"] in [list(row[:2]) for row in scores(found).rows]


def test_groups_without_a_common_task_have_no_aggregates(make_run, tmp_path):
    make_run(tmp_path / "a", task="ant")
    make_run(tmp_path / "b", task="hopper", agent="dqn")
    found = comparison([tmp_path])
    assert (found.aggregates, pairings(found)) == ({}, [])
    assert any("no task was run by every group" in text for text in found.warnings)


def test_warnings_of_repeated_seeds_single_runs_and_mixed_settings(make_run, tmp_path):
    for name, seed, rate in (("a", 0, 1e-3), ("b", 0, 3e-4)):
        make_run(tmp_path / name, seed=seed, config={"agent": {"learning_rate": rate}})
    make_run(tmp_path / "c", agent="dqn")
    text = "\n".join(comparison([tmp_path]).warnings)
    assert "ppo on hopper has seed 0 more than once" in text
    assert "dqn on hopper is a single run" in text
    assert "ppo on hopper mixes runs: learning rate 0.001 or 0.0003; --group agent.learning_rate" in text


def test_only_differing_settings_are_listed(both):
    found = config_differences(both.runs, both.groups)
    assert found == {
        "algorithm": {"ppo": "ppo", "vpg": "vpg"},
        "agent.learning_rate": {"ppo": "0.0003", "vpg": "0.001"},
    }


def test_settings_of_one_agent_alone_stand_apart(make_run, tmp_path):
    make_run(tmp_path / "a", agent="ppo", config={"agent": {"gamma": 0.98, "clip": 0.2}})
    make_run(tmp_path / "b", agent="dqn", config={"agent": {"gamma": 0.99, "tau": 1.0}})
    differ, partial = settings(comparison([tmp_path]))
    assert [list(row) for row in differ.rows] == [["agent.gamma", "0.98", "0.99"], ["algorithm", "ppo", "dqn"]]
    assert [list(row) for row in partial.rows] == [["agent.clip", "0.2", "—"], ["agent.tau", "—", "1"]]
    assert partial.folded


def test_settings_are_compared_on_the_same_task(make_run, tmp_path):
    """Each task has settings of its own; they are no difference between groups."""
    for task, envs in (("ant", 8), ("pong", 64)):
        for agent in ("ppo", "a2c"):
            make_run(tmp_path / task / agent, task=task, agent=agent, config={"num_envs": envs})
    found = comparison([tmp_path])
    assert set(config_differences(found.runs, found.groups)) == {"algorithm"}


def test_versions_and_machines(make_run, tmp_path):
    make_run(tmp_path / "a", versions={"torch": "2.8"})
    make_run(tmp_path / "b", seed=1, versions={"torch": "2.9"}, git={"commit": "abc", "dirty": True})
    found = comparison([tmp_path])
    assert origin(found.runs, found.groups)["versions.torch"] == {"ppo": ["2.8", "2.9"]}
    assert origin(found.runs, found.groups)["git.dirty"]["ppo"][-1] == "true"


def test_runtime_is_that_of_the_record(make_run, tmp_path):
    for seed, wall in enumerate((10.0, 30.0)):
        make_run(tmp_path / str(seed), seed=seed, wall_time_s=wall)
    row = runtime(comparison([tmp_path])).rows[0]
    assert list(row[2:]) == ["environment 50%, learning 50%", "2", "10,000", "20.00 ± 14.14", "666.7 ± 471.4"]


def test_nothing_to_compare_says_why(make_run, tmp_path):
    make_run(tmp_path / "a", status="running")
    with pytest.raises(UserError, match=r"(?s)no finished run to compare.*a is left out: it is unfinished"):
        comparison([tmp_path])


# ---- scales ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "game"),
    [
        ("breakout", "breakout"),
        ("space-invaders", "spaceinvaders"),
        ("gym:ALE/SpaceInvaders-v5", "spaceinvaders"),
        ("SpaceInvadersNoFrameskip-v4", "spaceinvaders"),
        ("ale:ms_pacman", "mspacman"),
    ],
)
def test_names_of_games(task, game):
    assert normalise.game_of(task) == game
    assert game in normalise.RANDOM_AND_HUMAN


def test_human_scores(make_run, tmp_path):
    assert len(normalise.RANDOM_AND_HUMAN) == 57
    make_run(tmp_path / "a", task="breakout", level=30.5, noise=0.0)
    found = comparison([tmp_path], normalise="atari-human")
    score = found.runs[0].series.score
    assert found.scores("ppo")[0] == pytest.approx([(score - 1.7) / 28.8])
    make_run(tmp_path / "b", task="hopper")
    with pytest.raises(UserError, match="hopper is none of the 57 games"):
        comparison([tmp_path], normalise="atari-human")


def test_references_from_a_file(three_by_two, tmp_path):
    file = tmp_path / "references.yaml"
    file.write_text("hopper: [20, 120]\nwalker2d: [0, 1000]\n")
    found = comparison([three_by_two], normalise=str(file))
    raw = np.array([run.series.score for run in found.of("vpg", "hopper")])
    assert found.scores("vpg")[0] == pytest.approx((raw - 20) / 100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hopper: [0, 1]", "no reference for walker2d; add 'walker2d: "),
        ("hopper: [1, 1]\nwalker2d: [0, 1]", "the second must be larger"),
        ("- 3", "it must hold 'task: "),
        ("hopper: 3", "it must hold 'task: "),
    ],
)
def test_bad_references_are_refused(three_by_two, tmp_path, text, message):
    (tmp_path / "references.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        comparison([three_by_two], normalise=str(tmp_path / "references.yaml"))


def test_unknown_scales_are_refused(three_by_two):
    with pytest.raises(UserError, match="use none, minmax, atari-human or a YAML file"):
        comparison([three_by_two], normalise="maxmin")


# ---- numbers as text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2382.86, "2,383"), (500.0, "500.0"), (20.36, "20.36"), (-1.5, "−1.500"), (0.0, "0.0"),
        (0.00123456, "0.001235"), (-0.0000001, "0.000000"), (float("nan"), "—"), (1_234_567.8, "1,234,568"),
    ],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text


def test_spread():
    assert spread([1.0, 2.0, 3.0]) == "2.000 ± 1.000"
    assert spread([-1.01, -1.02, -1.04]) == "−1.023 ± 0.015" and spread([12000.0, 12003.3]) == "12,002 ± 2"
    assert spread([500.0, 500.02]) == "500.0 ± 0.01414", "a small deviation is not rounded away"
    assert spread([7.0]) == "7.000"


def test_published_scores_stand_beside_the_groups_after_as_many_steps(three_by_two):
    found = comparison([three_by_two], published=["hopper=a=b=50:1e9,5e3:0.5,20000:1", "walker2d=someone=-1e9"])
    rows = published(found).rows
    before, half, beyond, last = (row for row in rows if row[4] == "ppo")
    assert before == ["hopper", "a=b", "50", "1,000,000,000", "ppo", before[5], "0 of 3"]
    middle = [run.series.curve(np.array([5e3]), "steps")[0] for run in found.of("ppo", "hopper")]
    assert half[5:] == [spread(middle), "3 of 3"]
    assert beyond[2:] == ["20,000", "1.000", "ppo", "—", "—"]
    ends = [run.series.score for run in found.of("ppo", "walker2d")]
    assert last[1:] == ["someone", "at their ends", "−1,000,000,000", "ppo", spread(ends), "3 of 3"]
    assert [row[4] for row in rows] == ["ppo", "vpg"] * 4


def test_of_published_terminations_fewer_are_better(make_run, tmp_path):
    run = make_run(tmp_path / "a")
    rows = (run.path / "metrics.jsonl").read_text()
    (run.path / "metrics.jsonl").write_text(rows.replace("rollout/reward", "rollout/termination/fall"))
    found = comparison([tmp_path], metric="rollout/termination/fall", published=["more=1", "less=0"])
    assert [row[-1] for row in published(found).rows] == ["1 of 1", "0 of 1"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("someone=3", "runs of 2 tasks are compared, so begin with one, as in hopper=someone=3"),
        ("ant=someone=3", "runs of 2 tasks are compared"),
        ("hopper=3", "runs of 2 tasks are compared"),
        ("=3", "write NAME=SCORE"),
        ("3", "write NAME=SCORE"),
        ("hopper=someone=three", "'three' is no number or STEPS:SCORE"),
        ("hopper=someone=1e6:", "'1e6:' is no number or STEPS:SCORE"),
        ("hopper=someone=1:2,0:3", "'0:3' is not finite, or of no steps"),
        ("hopper=someone=nan", "'nan' is not finite"),
    ],
)
def test_a_published_score_that_cannot_be_meant_is_refused(three_by_two, word, message):
    with pytest.raises(UserError, match=re.escape(message)):
        comparison([three_by_two], published=[word])
