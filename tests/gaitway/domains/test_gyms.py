"""Games and classic control through the command: every agent on a task it can handle, refusals, resuming."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gaitway_agents import registry, trainer
from gaitway_ale import AtariTask
from gaitway_gymnasium import GymTask

from gaitway.cli import main
from gaitway.domains.table import find_task
from gaitway.runs import folder as runs
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.train_config import dump, load, resolve
from gaitway.training.load import trainer_of

SMALL = ["evaluation_episodes=3", "checkpoint_interval=1000"]
ON_POLICY = ["num_envs=2", "agent.num_steps=16", "total_steps=64"]
TRAININGS = {
    "ppo": ["cartpole", *ON_POLICY],
    "a2c": ["pendulum", *ON_POLICY],
    "vpg": ["cartpole", *ON_POLICY],
    "reinforce": ["cartpole", *ON_POLICY],
    "trpo": ["pendulum", *ON_POLICY, "agent.optimizer.critic.epochs=2"],
    "impala": ["cartpole", *ON_POLICY],
    "ppo-dreamer": ["cartpole", *ON_POLICY],
    "rsl_rl": ["pendulum", "num_envs=2", "agent.num_steps_per_env=16", "total_steps=64"],
    "dqn": ["cartpole", "total_steps=300", "agent.learning_starts=100"],
    "sac": ["pendulum", "total_steps=120", "agent.learning_starts=100"],
    "fast-sac": ["pendulum", "num_envs=4", "total_steps=200", "agent.learning_starts=100", "agent.batch_size=16"],
    "q-learning": ["frozen-lake", "total_steps=800"],
    "sarsa": ["cliff-walking", "total_steps=800", "task.max_episode_steps=50"],
    "expected-sarsa": ["taxi", "total_steps=800"],
    "value-iteration": ["frozen-lake"],
    "policy-iteration": ["frozen-lake-8x8"],
}


def test_every_agent_is_tried():
    assert TRAININGS.keys() == {name for name, row in registry.ENVIRONMENTS.items() if not row.taught}


@pytest.mark.parametrize("agent", TRAININGS)
def test_every_agent_trains_is_examined_and_loads(agent, tmp_path, capsys):
    out = tmp_path / "run"
    task, *settings = TRAININGS[agent]
    evaluation = ["task.max_episode_steps=50"] if task == "frozen-lake-8x8" else []
    assert main(["train", task, "--agent", agent, "--out", str(out), "--quiet", *SMALL, *settings, *evaluation]) == 0
    assert "over 3 deterministic episodes" in capsys.readouterr().out
    run = RunFolder.open(out)
    assert (run.record["algorithm"], run.record["task"], run.record["status"]) == (agent, task, "finished")
    assert run.config() == load(out / "config.yaml")
    assert (out / ".lock").read_text() == "" and run.edited() == {}
    (examination,) = read_rows(out / "evaluations.jsonl")
    assert len(examination["returns"]) == len(examination["lengths"]) == 3
    assert examination["seed"] != run.record["seed"]
    config = run.config()
    trainer = trainer_of(run, config.environments.make_env(config, 1, 0))
    observation, _ = trainer.env.reset(seed=0)
    action, _ = trainer.predict(observation | trainer.initial_memory(1))
    assert trainer.env.action_space.contains(action.numpy()) or action.dtype.is_floating_point


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cartpole", "--agent", "sac"], "agent 'sac' cannot act in Discrete(2): use one of ppo, "),
        (["pendulum", "--agent", "dqn"], "agent 'dqn' cannot act in Box(-2.0, 2.0, (1,), float32): use one of ppo, "),
        (["breakout", "--agent", "q-learning"], "agent 'q-learning' keeps a table and cannot index it by Box(0, 255"),
        (["breakout", "--agent", "rsl_rl"], "agent 'rsl_rl' cannot act in Discrete(4)"),
        (["pendulum", "--agent", "distill"], "agent 'distill' learns from a robot's teacher, not in an environment"),
        (["cartpole", "--agent", "value-iteration"], "agent 'value-iteration' keeps a table"),
        (["cartpole", "--agent", "pppo"], "unknown agent 'pppo': did you mean 'ppo'?"),
        (["cartpol"], "unknown task 'cartpol': did you mean 'cartpole'?"),
        (["gym:LunarLandr-v3"], "did you mean 'LunarLander-v3'?"),
        (["cartpole", "--preset", "cpu"], "unknown preset of cartpole 'cpu'"),
        (["cartpole", "--world", "ale"], "world='ale': cartpole is a task of gymnasium"),
        (["cartpole", "agent.symmetry=canonical"], "needs a robot with mirrors"),
        (["cartpole", "evaluation_interval=100", "evaluation_episodes=0"], "evaluation_interval needs"),
        (["cartpole", "--seeds", "0"], "--seeds 0: must be at least 1"),
    ],
)
def test_what_cannot_work_is_refused_before_it_starts(arguments, message, tmp_path, capsys):
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_random_network_distillation_is_a_setting(tmp_path):
    """Without trust in anybody's code, and it goes on with the run."""
    out = tmp_path / "run"
    order = ["train", "cartpole", "--agent", "a2c", "--quiet", "--out", str(out)]
    rnd = "agent.additions.rnd={kind: RNDConfig, weight: 0.5, weight_schedule: step, final_step: 48}"
    assert main([*order, *ON_POLICY, *SMALL, rnd]) == 0
    assert RunFolder.open(out).config().agent.additions["rnd"].weight == 0.5
    assert main([*order, "--resume", "total_steps=96"]) == 0
    rows = read_rows(out / "metrics.jsonl")
    assert [row["learn/rnd_weight"] for row in rows] == [0.5, 0.0, 0.0]
    assert rows[0]["learn/rnd_reward"] > 0.0 == rows[2]["learn/rnd_reward"] < rows[2]["learn/rnd_loss"]


def test_names_of_tasks():
    assert find_task("hopper") == GymTask(name="hopper", env_id="Hopper-v5")
    assert find_task("gym:Acrobot-v1") == GymTask(name="gym:Acrobot-v1", env_id="Acrobot-v1")
    for name in ("space-invaders", "space_invaders", "SpaceInvaders"):
        assert find_task(name) == AtariTask(name="space-invaders", game="space_invaders")


@pytest.mark.parametrize("task", ["cartpole", "breakout", "frozen-lake", "gym:Acrobot-v1"])
@pytest.mark.parametrize("agent", ["ppo", "dqn", "trpo"])
def test_configurations_read_back(task, agent, tmp_path):
    config = resolve(task, agent=agent)
    (tmp_path / "config.yaml").write_text(dump(config))
    assert load(tmp_path / "config.yaml") == config


def test_seeds_run_one_after_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", "--agent", "a2c", "--seeds", "2", "--quiet", "total_steps=80", *SMALL]) == 0
    folders = sorted((tmp_path / "runs" / "cartpole-a2c").iterdir(), key=lambda path: path.name[-1])
    assert [RunFolder.open(path).record["seed"] for path in folders] == [0, 1]
    assert main(["train", "cartpole", "--seeds", "2", "--quiet", "--out", "x", "total_steps=256", *SMALL]) == 0
    assert [runs.is_run(tmp_path / "x" / f"seed{seed}") for seed in (0, 1)] == [True, True]


def test_a_resumed_run_has_every_row_once(tmp_path, monkeypatch):
    """Gymnasium's environments begin anew, but nothing that was learnt or written is lost or doubled."""
    whole = ["train", "cartpole", "--quiet", "agent.optimizer.epochs=1", "checkpoint_interval=2", *SMALL[:1]]
    out = tmp_path / "run"
    assert main([*whole, "--out", str(out), "total_steps=1024"]) == 0
    assert main([*whole, "--out", str(out), "total_steps=2048", "--resume"]) == 0
    assert [row["steps"] for row in read_rows(out / "metrics.jsonl")] == list(range(256, 2049, 256))
    ends = [row["steps"] for row in read_rows(out / "episodes.jsonl")]
    assert ends == sorted(ends) and ends[-1] <= 2048
    assert [row["steps"] for row in read_rows(out / "evaluations.jsonl")] == [1024, 2048]
    again = tmp_path / "again"
    assert main([*whole, "--out", str(again), "total_steps=1024"]) == 0
    assert main([*whole, "--out", str(again), "total_steps=2048", "--resume"]) == 0
    values = [
        [{k: v for k, v in row.items() if not k.startswith("time/") and k != "wall_s"} for row in read_rows(folder)]
        for folder in (out / "metrics.jsonl", again / "metrics.jsonl")
    ]
    assert values[0] == values[1], "resuming twice gives the same"


def test_evaluations_on_the_way(tmp_path):
    settings = ["total_steps=1024", "evaluation_interval=512", "evaluation_episodes=10", "agent.optimizer.epochs=1"]
    assert main(["train", "cartpole", "--quiet", "--out", str(tmp_path / "run"), *settings]) == 0
    rows = read_rows(tmp_path / "run" / "evaluations.jsonl")
    assert [(row["steps"], len(row["returns"])) for row in rows] == [(512, 1), (1024, 1), (1024, 10)]


@pytest.mark.parametrize("task", ["cartpole", "breakout", "breakout-ram"])
def test_a_game_can_be_filmed(task, tmp_path, capsys):
    import imageio_ffmpeg

    out, film = tmp_path / "run", tmp_path / "film.mp4"
    settings = ["num_envs=2", "agent.num_steps=4", "agent.optimizer.epochs=1", "total_steps=8", "evaluation_episodes=0"]
    assert main(["train", task, "--quiet", "--out", str(out), *settings]) == 0
    assert main(["play", str(out)]) == 2
    assert "can only be filmed: add --video" in capsys.readouterr().err
    assert main(["play", str(out), "--video", str(film), "--seconds", "1"]) == 0
    pictures = imageio_ffmpeg.read_frames(str(film))
    assert next(pictures)["duration"] == pytest.approx(1.0, abs=0.1)
    frames = [np.frombuffer(picture, np.uint8) for picture in pictures]
    assert frames[0].std() > 5.0 and any((frame != frames[0]).any() for frame in frames)


def test_a_game_is_no_robot(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "cartpole", "--quiet", "--out", str(out), "total_steps=256", *SMALL]) == 0
    assert main(["export", str(out), "--out", str(tmp_path / "bundle")]) == 2
    assert "cartpole is no robot's task" in capsys.readouterr().err
    assert json.loads((out / "run.json").read_text())["status"] == "finished"


def test_an_evaluation_of_episodes_that_never_end_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(trainer, "LONGEST", 40)
    out, steps = tmp_path / "run", [*ON_POLICY, "evaluation_episodes=20"]
    assert main(["train", "gym:CliffWalking-v1", "--out", str(out), "--quiet", *steps]) == 0
    said = capsys.readouterr().out
    assert "evaluation: episode 1 has not ended after 40 steps, 16 of 16 were cut there: " in said
    assert "set task.max_episode_steps" in said
    (row,) = read_rows(out / "evaluations.jsonl")
    assert row["lengths"] == [40] * 16 and row["cut"] == list(range(16))
    assert all(-4000 <= ret <= -40 for ret in row["returns"])


@pytest.mark.parametrize(
    ("task", "limit"),
    [
        ("cliff-walking", 1000), ("gym:CliffWalking-v1", None), ("hopper", 1000), ("taxi", 200), ("breakout", 27_000),
        ("velocity-flat-go2-blind", 1000),
    ],
)  # fmt: skip
def test_time_limits_of_tasks(task, limit):
    config = resolve(task)
    assert config.environments.time_limit(config.task) == limit
