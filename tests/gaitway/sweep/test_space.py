"""What a sweep varies: every form of a dimension, and one message for each mistake before anything begins."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from gaitway.cli import main
from gaitway.errors import ConfigError
from gaitway.sweep.plan import make_plan
from gaitway.sweep.space import Choices, Range, read_space, short_names

SETTINGS = {"agent.gamma": 0.99, "agent.num_steps": 32, "agent.lr": 1e-3, "agent.schedule": "adaptive", "flag": True}
SETTINGS |= {"agent.hidden": [64, 64]}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("agent.gamma=0.9..0.999", Range(key="agent.gamma", low=0.9, high=0.999)),
        ("agent.gamma=0..1", Range(key="agent.gamma", low=0.0, high=1.0)),
        ("agent.lr=1e-4..1e-2:log", Range(key="agent.lr", low=1e-4, high=1e-2, log=True)),
        ("agent.num_steps=8..64", Range(key="agent.num_steps", low=8, high=64, whole=True)),
        ("agent.num_steps=8..1e3:log", Range(key="agent.num_steps", low=8, high=1000, log=True, whole=True)),
        ("agent.gamma=-1..-0.5", Range(key="agent.gamma", low=-1.0, high=-0.5)),
        ("agent.schedule=adaptive,fixed", Choices(key="agent.schedule", values=('"adaptive"', '"fixed"'))),
        ("agent.lr=1e-4,0.001", Choices(key="agent.lr", values=("0.0001", "0.001"))),
        ("flag=true,false", Choices(key="flag", values=("true", "false"))),
        ("agent.hidden=[64, 64],[128]", Choices(key="agent.hidden", values=("[64, 64]", "[128]"))),
    ],
)
def test_a_dimension_in_a_line(word, expected):
    assert read_space([word], SETTINGS) == [expected]
    if not isinstance(expected, Choices):  # what a sweep writes down reads back
        assert read_space([f"{expected.key}={expected}"], SETTINGS) == [expected]


def test_a_file_has_lines_lists_and_mappings_nested_or_dotted(tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text(
        "agent.gamma: {low: 0.9, high: 1}\nagent:\n  lr: {low: 1e-4, high: 1e-2, log: true}\n  num_steps: 8..64\n"
        "flag: [true, false]\n"
    )
    lines = ["agent.gamma=0.9..1", "agent.lr=1e-4..1e-2:log", "agent.num_steps=8..64", "flag=true,false"]
    assert read_space([str(file)], SETTINGS) == read_space(lines, SETTINGS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["agent.gamma=0.99..0.9"], r"agent.gamma=0.99..0.9: the range is empty.*smaller number first"),
        (["agent.gamma=0.9..0.9"], "the range is empty"),
        (["agent.lr=0..1:log"], "above 0"),
        (["agent.lr=1..2:ln"], "unknown scale 'ln'.*LOW..HIGH:log"),
        (["agent.lr=low..2"], "'low' is no number"),
        (["agent.lr=1..nan"], "'nan' is no number"),
        (["agent.lr=1e-3"], "one value alone.*before --space"),
        (["agent.lr=1,1.0"], "every choice only once"),
        (["agent.lr=[1,2"], "not valid YAML"),
        (["agent.schedule=1..2"], '"adaptive" is no number'),
        (["flag=0..1"], "true is no number"),
        (["agent.lr=1..2", "agent.lr=1,2"], "agent.lr: it stands twice"),
        (["seed=1..3"], "seed: .*--confirm"),
        (["total_steps=1..3"], "total_steps: .*cannot be compared; give one value before --space"),
        (["=1..3"], "--space =1..3: no setting before '='"),
        (["space.yaml"], "neither a file nor key="),
    ],
)
def test_mistakes_in_a_line(words, message):
    with pytest.raises(ConfigError, match=message):
        read_space(words, SETTINGS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agent.lr: 3", "agent.lr=3: one value alone"),
        ("agent.lr: {low: 1}", "it has no high"),
        ("agent.lr: {low: 1, high: 2, log: 7}", "log=7: write true or false"),
        ("agent.lr: [1]", "one value alone"),
        ("agent: {lr: {low: 1, high: 2, step: 1}}", "--space agent.lr: a range has no 'step'"),
        ("agent.lr: {low: 1, hihg: 2}", "--space agent.lr: a range has no 'hihg'"),
        ("- 1", "must hold a mapping"),
        ("{}", "name at least one setting"),
    ],
)
def test_mistakes_in_a_file(text, message, tmp_path):
    (tmp_path / "space.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_space([str(tmp_path / "space.yaml")], SETTINGS)


def test_keys_are_shortened_as_far_as_they_differ():
    def short(*keys: str) -> list[str]:
        return short_names([Range(key=key, low=0.0, high=1.0) for key in keys])

    assert short("agent.gamma", "agent.optimizer.epochs", "num_envs") == ["gamma", "epochs", "num_envs"]
    assert short("a.pose.weight", "a.rate.weight", "gamma") == ["pose.weight", "rate.weight", "gamma"]
    assert short("weight", "a.weight") == ["weight", "a.weight"] and short("a.b.c") == ["c"]


def test_values_read_back_exactly_and_know_their_place():
    log = Range(key="x", low=1e-4, high=1e-2, log=True)
    assert float(log.text(0.1 + 0.2)) == 0.1 + 0.2 and log.share(1e-3) == pytest.approx(0.5)
    assert log.value_of(1.0) is None and log.value_of("a") is None and log.value_of(1e-3) == 1e-3
    choices = Choices(key="x", values=('"a"', "[1, 2]", "null"))
    assert choices.value_of([1, 2]) == "[1, 2]" and choices.value_of(None) == "null" and choices.value_of("b") is None
    assert [choices.share(value) for value in choices.values] == [0.0, 0.5, 1.0]


ROBOT = "velocity-flat-go2-blind"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cartpole", "--space", "agent.gama=0.9..1"], "unknown key 'agent.gama': did you mean 'agent.gamma'?"),
        (["cartpole", "--space", "num_envs=0.5..2"], "num_envs=0.5: expected a whole number"),
        (["cartpole", "--space", "num_envs=0..2"], "num_envs=0: must be at least 1"),
        (["cartpole", "--space", "agent.gamma=0.9..3"], "gamma"),
        (["cartpole", "agent.gamma=1", "--space", "agent.gamma=0.9..1"], "leave one out"),
        (["cartpole", "seed=3", "--space", "agent.gamma=0.9..1"], "--seed"),
        (["cartpole", "--agent", "sac", "--space", "agent.gamma=0.9..1"], "agent 'sac' cannot act"),
        (["cartpol", "--space", "agent.gamma=0.9..1"], "did you mean 'cartpole'?"),
        (["cartpole", "--metric", "retrun", "--space", "agent.gamma=0.9..1"], "did you mean 'return'?"),
        (["cartpole", "--metric", "falls", "--space", "agent.gamma=0.9..1"], "no robot's task; use evaluation"),
        ([ROBOT, "--world", "isaac", "--space", "agent.gamma=0.9..1"], "did you mean 'isaaclab'?"),
        ([ROBOT, "evaluation_episodes=1", "--metric", "error/lin", "--space", "agent.gamma=0.9..1"], "error/linear'?"),
        (["cartpole", "--metric", "examination", "--space", "agent.gamma=0.9..1"], "set until=good"),
        (
            ["cartpole", "evaluation_episodes=0", "--metric", "evaluation", "--space", "agent.gamma=0.9..1"],
            "evaluation_episodes=0",
        ),
        ([ROBOT, "--space", "task.rewards.action_rate_l2.weight=-1..-0.1"], "changes the rewards.*use falls"),
        (["cartpole", "--space", "agent.gamma=0.9..1", "--trials", "0"], "--trials 0: must be at least 1"),
        (["cartpole", "--space", "agent.gamma=0.9..1", "--seeds", "4"], "--seeds 4: .*add --confirm"),
        (["cartpole"], "--space"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused_before_anything_begins(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *words]) == 2
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1 and said.out == ""
    assert re.search(message, said.err), said.err
    assert not list(tmp_path.iterdir())


def test_a_missing_optuna_is_named_with_its_extra(monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name == "optuna" else find(name, *a))
    assert main(["sweep", "cartpole", "--space", "agent.gamma=0.9..1"]) == 2
    assert "pip install 'gaitway[train,sweep]'" in capsys.readouterr().err


def test_trials_side_by_side_share_the_cores_unless_their_threads_are_set():
    given = {"agent": None, "preset": None, "config_file": None, "metric": None, "minimize": False, "seed": 0}
    for settings, threads in (([], ("num_threads=1",)), (["num_threads=2"], ())):
        plan, _ = make_plan(ROBOT, ["agent.gamma=0.9..1"], settings, **given, world="mujoco", prune="none", threads=1)
        job = plan.job(plan.begun, Path("x"))
        assert "--agent ppo --seed 0 --world mujoco --out" in " ".join(job.command())
        assert plan.threads == threads and job.settings == (*settings, *threads, "agent.gamma=0.98")
