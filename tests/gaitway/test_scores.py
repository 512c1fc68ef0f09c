"""The campaign of published scores: its plan, its rows, when it gives up, and that it goes on where it stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scores(monkeypatch, tmp_path):
    """The script, with a plan and rows of its own."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import scores

    monkeypatch.setattr(scores, "PLAN", tmp_path / "scores.yaml")
    monkeypatch.setattr(scores, "ROWS", tmp_path / "scores.jsonl")
    return scores


BAR = {"training": 20, "source": "a table"}
LINE = {"task": "cartpole", "agent": "ppo", "steps": 1000, "seeds": [0], "bars": [BAR]}


def test_the_plan_can_run(scores):
    """Every task, agent and setting exists, and every bar has its source."""
    plan = scores.planned(yaml.safe_load((ROOT / "benchmarks/scores.yaml").read_text())["trainings"])
    scores.check_tasks(plan)
    assert {"pong-sticky-ppo", "breakout-sticky-ppo"} <= {training.name for training in plan}


def test_the_page_has_the_table_and_the_figure_of_all_rows(scores, monkeypatch):
    monkeypatch.setattr(scores, "ROWS", ROOT / "benchmarks/scores.jsonl")
    plan = scores.planned(yaml.safe_load((ROOT / "benchmarks/scores.yaml").read_text())["trainings"])
    page = scores.PAGE.read_text()
    assert scores.with_table(page, scores.table(plan, scores.read_rows())) == page
    names = {training.name for training in plan}
    trained = {row["name"] for row in scores.read_rows()}
    assert trained <= names
    drawn = re.findall(r">([^<>]+)</text>", scores.FIGURE.read_text())
    assert set(drawn) & names == trained


def test_the_figure_has_a_curve_for_each_seed_and_every_bar(scores, tmp_path):
    line = LINE | {"bars": [BAR, {"maximum": 30, "source": "a book"}]}
    curve = {"curve": [[500, 1.0], [1000, 2.0]]}
    rows = [{"name": "cartpole-ppo", "seed": seed} | curve for seed in (2, 0)]
    scores.draw(scores.planned([line]), rows, tmp_path / "one.svg")
    scores.draw(scores.planned([line]), rows[::-1], tmp_path / "two.svg")
    drawn = (tmp_path / "one.svg").read_text()
    assert drawn == (tmp_path / "two.svg").read_text()
    assert all(f">{text}</text>" in drawn for text in ("cartpole-ppo", "a table, training", "a book, maximum"))
    assert "stroke: #1f77b4" in drawn and "stroke: #2ca02c" in drawn, "seeds keep their colours"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bars": [{"training": 20}]}, "and a source"),
        ({"bars": [{"training": 20, "source": " "}]}, "and a source"),
        ({"bars": [{"score": 20, "source": "a table"}]}, "needs one of training, evaluation, maximum"),
        ({"seeds": [0, 0]}, "has it twice"),
        ({"stepz": 3}, "stepz in scores.yaml: known are"),
        ({"settings": [["agent.gamma=0.9"], 3]}, "cartpole-ppo: setting 3 in scores.yaml: write NAME=VALUE"),
    ],
)
def test_a_line_that_cannot_be_meant_is_refused(scores, change, message):
    with pytest.raises(scores.PlanError, match=message):
        scores.planned([LINE | change])


def test_trainings_may_share_settings(scores):
    (training,) = scores.planned([LINE | {"settings": [["a=1", ["b=2"]], "c=3"]}])
    assert training.settings == ("a=1", "b=2", "c=3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "pongg"}, "cartpole-ppo seed 0: .*pong"),
        ({"settings": ["agent.gama=1"]}, "cartpole-ppo seed 0: .*gamma"),
        ({"task": "pong", "steps": 2048, "settings": ["task.game=pac"]}, "cartpole-ppo seed 0: .*'pac': .*no such ROM"),
    ],
)
def test_a_training_that_cannot_run_is_refused_before_any_begins(scores, monkeypatch, change, message):
    scores.PLAN.write_text(yaml.safe_dump({"trainings": [LINE | {"name": "cartpole-ppo"} | change]}))
    monkeypatch.setattr(sys, "argv", ["scores.py"])
    with pytest.raises(SystemExit, match=message):
        scores.main()


def run_folder(folder: Path, returns: list[tuple[int, float]]) -> Path:
    folder.mkdir(parents=True)
    rows = [json.dumps({"steps": steps, "return": value}) for steps, value in returns]
    (folder / "episodes.jsonl").write_text("\n".join(rows) + '\n{"steps": 9')  # the last line is under way
    return folder


@pytest.mark.parametrize(
    ("steps", "slope", "gives_up"),
    [(600, 0.0, False), (800, 0.0, True), (800, 0.01, True), (800, 0.03, False), (1000, 0.0, False)],
    ids=["too early to say", "flat", "too slow", "on its way", "at its end"],
)
def test_a_training_is_stopped_only_where_its_fastest_rise_does_not_reach_the_bar(
    scores, tmp_path, steps, slope, gives_up
):
    (training,) = scores.planned([LINE | {"bars": [{"training": 30, "source": "a table"}]}])
    folder = run_folder(tmp_path / "run", [(step, step * slope) for step in range(1, steps + 1)])
    reason = scores.hopeless(training, folder)
    assert (reason is not None) == gives_up
    assert reason is None or "would end below 30 (a table, training)" in reason


def row(seed: int, training: float, **changes) -> dict:
    row = {"name": "cartpole-ppo", "task": "cartpole", "agent": "ppo", "seed": seed, "steps": 1000, "asked": 1000}
    row |= {"scores": {"training": training, "evaluation": 1.0, "maximum": 2.0}, "cpu_s": 60.0, "stopped": None}
    return row | {"machines": ["a CPU"], "commits": ["abc"]} | changes


def test_the_table_has_every_seed_the_mean_its_interval_and_what_was_missed(scores):
    plan = scores.planned([LINE | {"seeds": [0, 1, 2], "bars": [BAR, {"maximum": 3, "source": "another"}]}])
    table = scores.table(plan, [row(1, 25.0), row(0, 21.0)])
    (line,) = [line for line in table.splitlines() if line.startswith("| cartpole")]
    # Student's t with one degree of freedom: 23 +- 12.706 * 2.828 / sqrt(2)
    assert line == (
        "| cartpole, ppo, 1,000 | 0, 1 | 21.0, 25.0 | 1.0, 1.0 | 2.0, 2.0 | 23.0 [-2.4, 48.4]; 2.0 [2.0, 2.0] "
        "| 20 (a table, training); 3 (another, maximum), **missed** | 1.0 |"
    )
    assert "2 of 3 trainings are done. Machines: a CPU." in table


def test_the_table_says_what_was_stopped_and_what_changed_machines(scores):
    plan = scores.planned([LINE])
    stopped = scores.table(plan, [row(0, 25.0, stopped="it would end below", steps=600)])
    assert "cartpole, ppo, 1,000; stopped: 0 at 60% |" in stopped and "**missed**" in stopped
    for change in ({"machines": ["a CPU", "another"]}, {"commits": ["abc", "def"]}):
        assert "resumed on another commit or machine" in scores.table(plan, [row(0, 25.0, **change)])


def test_a_campaign_goes_on_where_it_stopped(scores, monkeypatch, tmp_path, capfd):
    scores.PLAN.write_text(yaml.safe_dump({"trainings": [LINE | {"seeds": [0, 1], "bars": [BAR | {"training": 5}]}]}))
    monkeypatch.setattr(scores, "POLL_S", 0.2)
    call = ["scores.py", "--out", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", [*call, "--for", "0"])
    scores.main()
    assert "the time is up" in capfd.readouterr().out and not scores.read_rows()
    monkeypatch.setattr(sys, "argv", [*call, "--jobs", "2"])
    scores.main()
    rows = scores.read_rows()
    assert sorted(row["seed"] for row in rows) == [0, 1]
    assert all(row["steps"] >= 1000 and row["stopped"] is None and row["curve"] for row in rows)
    assert {"training", "evaluation", "maximum"} <= rows[0]["scores"].keys()
    scores.main()
    assert "2 of 2 trainings are done" in capfd.readouterr().out and scores.read_rows() == rows
    other = LINE | {"settings": ["agent.gamma=0.5"], "bars": [BAR | {"training": 5}]}
    scores.PLAN.write_text(yaml.safe_dump({"trainings": [other]}))
    scores.ROWS.write_text("")
    scores.main()
    assert "cartpole-ppo seed 0: exit code 2; see" in capfd.readouterr().out and not scores.read_rows()


def test_a_killed_campaign_has_no_row_and_continues_from_the_checkpoint(scores, tmp_path, monkeypatch):
    settings = ["checkpoint_interval=2", "evaluation_interval=0", "evaluation_episodes=2"]
    scores.PLAN.write_text(yaml.safe_dump({"trainings": [LINE | {"steps": 40_000, "settings": settings, "bars": []}]}))
    folder = tmp_path / "runs/cartpole-ppo/seed0"
    start = f"""
import pathlib, scores
scores.PLAN, scores.ROWS = map(pathlib.Path, {[str(scores.PLAN), str(scores.ROWS)]})
scores.main()
"""
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT / "benchmarks"), *sys.path])}
    campaign = subprocess.Popen([sys.executable, "-c", start, "--out", str(tmp_path / "runs")], env=os.environ | paths)
    end = time.monotonic() + 120
    while not list(folder.glob("checkpoints/*.pt")):
        assert campaign.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    (training,) = Path(f"/proc/{campaign.pid}/task/{campaign.pid}/children").read_text().split()
    campaign.kill()
    campaign.wait(60)
    os.kill(int(training), signal.SIGKILL)
    assert not scores.read_rows()
    first = (folder / "metrics.jsonl").read_text().splitlines()[0]
    monkeypatch.setattr(scores, "POLL_S", 0.2)
    monkeypatch.setattr(sys, "argv", ["scores.py", "--out", str(tmp_path / "runs")])
    scores.main()
    (row,) = scores.read_rows()
    assert row["steps"] >= 40_000
    assert len(folder.with_name("seed0.starts.jsonl").read_text().splitlines()) == 2
    assert (folder / "metrics.jsonl").read_text().splitlines()[0] == first, "with its times, so nothing began anew"


@pytest.mark.parametrize("size", [4, 10])
def test_the_harvest_is_what_its_masks_say(scores, size):
    """Actions that the masks allow do what they say, and no way earns more than the best return."""
    import harvest

    env = harvest.Harvest(size)
    seen, _ = env.reset()
    total, over = 0.0, False
    while not over:
        cells, kinds, *ways = np.split(seen["action_mask"], np.cumsum(env.action_space.nvec)[:-1])
        (cell,) = np.flatnonzero(cells)
        assert divmod(int(cell), size) == env.worker
        possible = [env._possible(kind) for kind in (harvest.MOVE, harvest.HARVEST, harvest.BRING)]
        assert kinds.tolist() == [1, *map(any, possible)]
        kind = harvest.BRING if kinds[harvest.BRING] else harvest.HARVEST if kinds[harvest.HARVEST] else harvest.MOVE
        towards = (0, 3) if not env.carries else (2, 1)  # up and left to the resource, down and right to the base
        way = next((way for way in towards if ways[0][way]), 0)
        choice = way if kind == harvest.MOVE else int(np.flatnonzero(ways[kind - 1])[0])
        before = env.worker, env.carries
        seen, reward, _, over, _ = env.step([cell, kind, choice, choice, choice])
        assert (env.worker, env.carries) != before and reward == float(kind != harvest.MOVE)
        total += reward
    assert total == _planned_return(env) == harvest.BEST


def _planned_return(env) -> float:
    """The best return by value iteration over the worker's places, with hands empty and full."""
    places = [place for place in np.ndindex(env.size, env.size) if env.cells[place] == 0]
    values = {(place, carries): 0.0 for place in places for carries in (False, True)}
    for _ in range(200):
        new = {}
        for env.worker, env.carries in values:
            moves = [values[env._beside(way), env.carries] for way in range(4) if env._possible(1)[way]]
            done = [1.0 + values[env.worker, kind == 2] for kind in (2, 3) if any(env._possible(kind))]
            new[env.worker, env.carries] = max(values[env.worker, env.carries], *moves, *done)
        values = new
    return values[(1, 1), False]
