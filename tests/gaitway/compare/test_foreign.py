"""Logs of other programs: the numbers are those that the programs wrote."""

import json
from pathlib import Path

import numpy as np
import pytest

from gaitway.cli import main
from gaitway.compare.foreign import UNTOLD, find_logs, read_log
from gaitway.compare.gather import find_runs, put_into_groups, read_headers, read_runs
from gaitway.errors import RunError


def monitor(path: Path, rows, start=1000.0, env_id="CartPole-v1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"#{json.dumps({'t_start': start, 'env_id': env_id})}\nr,l,t\n"
    path.write_text(head + "".join(f"{r},{length},{t}\n" for r, length, t in rows))
    return path


def events(folder: Path, values, tag: str) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))
    for step, value in values:
        writer.add_scalar(tag, value, step, walltime=500.0 + step)
    writer.close()


def test_a_training_of_stable_baselines(tmp_path):
    """By its own program: the returns of its monitor, and the tag that it made of them."""
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.monitor import Monitor, load_results

    (tmp_path / "sb3/PPO_7").mkdir(parents=True)
    env = Monitor(gymnasium.make("CartPole-v1"), str(tmp_path / "sb3/PPO_7/"))
    PPO("MlpPolicy", env, n_steps=64, device="cpu", tensorboard_log=str(tmp_path / "tb")).learn(192)
    env.close()
    told = load_results(str(tmp_path / "sb3/PPO_7"))
    log = read_log(tmp_path / "sb3/PPO_7")
    assert (log.record["task"], log.record["algorithm"], log.record["seed"]) == ("cartpole", "PPO", 7)
    series = log.series("return")
    assert series.values.tolist() == told["r"].tolist() and series.steps.tolist() == told["l"].cumsum().tolist()
    assert series.score == pytest.approx(told["r"].tail(100).mean())
    assert log.series("length").score == pytest.approx(told["l"].tail(100).mean())

    (folder,) = find_logs(tmp_path / "tb")
    logged = read_log(folder).series("return")
    assert logged.name == "rollout/ep_rew_mean" and logged.steps.tolist() == [64, 128, 192]
    assert logged.values[-1] == pytest.approx(told["r"].mean(), rel=1e-6)


def test_episodes_of_several_environments_are_in_order_of_time(tmp_path):
    monitor(tmp_path / "run/0.monitor.csv", [(1, 10, 1.0), (3, 30, 3.0)])
    monitor(tmp_path / "run/1.monitor.csv", [(2, 20, 1.0)], start=1001.0)
    series = read_log(tmp_path / "run").series("return")
    assert (series.values.tolist(), series.steps.tolist()) == ([1, 2, 3], [10, 30, 60])
    assert series.wall_s.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("tag", "asked"),
    [("charts/episodic_return", "return"), ("Train/mean_reward", "return"), ("losses/value", "losses/value")],
)
def test_numbers_of_tensorboard(tag, asked, tmp_path):
    events(tmp_path / "walk_2", [(20, 2.0), (10, 1.0), (30, 3.0)], tag)
    log = read_log(tmp_path / "walk_2")
    series = log.series(asked)
    assert (series.steps.tolist(), series.values.tolist()) == ([10, 20, 30], [1.0, 2.0, 3.0])
    assert (log.record["task"], log.record["algorithm"], log.record["seed"]) == (UNTOLD, "walk", 2)


@pytest.mark.parametrize(
    ("folder", "wanted"),
    [
        ("ppo/CartPole-v1_3", ("ppo", 3)), ("td3", ("td3", 0)), ("PPO_12", ("PPO", 12)), ("sac/seed4", ("sac", 4)),
        ("sac-seed=5", ("sac", 5)), ("dqn/6", ("dqn", 6)), ("a2c/2024-05-01_10-11-12", ("a2c", 0)),
        ("rpo/CartPole-v1", ("rpo", 0)),
    ],
)  # fmt: skip
def test_agent_and_seed_by_the_folder(folder, wanted, tmp_path):
    monitor(tmp_path / folder / "monitor.csv", [(1, 1, 1)])
    record = read_log(tmp_path / folder).record
    assert (record["algorithm"], record["seed"]) == wanted


def test_with_runs_of_gaitway(make_run, tmp_path, capsys):
    for seed in range(3):
        make_run(tmp_path / f"ours/{seed}", task="cartpole", seed=seed)
        monitor(tmp_path / f"theirs/dqn/seed{seed}/monitor.csv", [(5.0 + seed, 10, t) for t in range(1, 9)])
    events(tmp_path / "ours/0/tensorboard", [(1, 1.0)], "rollout/ep_rew_mean")
    headers, left_out = read_headers(find_runs([tmp_path]))
    runs, unusable = read_runs(put_into_groups(headers, "agent", []), "return")
    assert len(runs) == 6 and not left_out and not unusable
    assert [run.series.score for run in runs if run.group == "dqn"] == [5.0, 6.0, 7.0]
    assert main(["compare", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "dqn" in capsys.readouterr().out and (tmp_path / "out/compare.csv").read_text().count("dqn") >= 3


@pytest.mark.hostile("bundles")
def test_damaged_logs(tmp_path, capsys):
    monitor(tmp_path / "cut/monitor.csv", [(1, 1, 1), (2, 2, "")])
    assert read_log(tmp_path / "cut").series("return").values.tolist() == [1.0]
    monitor(tmp_path / "bad/monitor.csv", [("x", 1, 1), (2, 2, 2)])
    (tmp_path / "html").mkdir()
    (tmp_path / "html/monitor.csv").write_text("<html>\n<body>\n")
    (tmp_path / "events").mkdir()
    (tmp_path / "events/events.out.tfevents.1").write_bytes(np.arange(99, dtype=np.uint8).tobytes())
    monitor(tmp_path / "forged/monitor.csv", [(1, 1, 1)], env_id="a\x1b[2J\nsigned by nvidia")
    for name in ("bad", "html", "events"):
        with pytest.raises(RunError):
            read_log(tmp_path / name)
    assert read_log(tmp_path / "forged").record["task"].isprintable()
    with pytest.raises(RunError, match="it has no return"):
        events(tmp_path / "other", [(1, 1.0)], "loss")
        read_log(tmp_path / "other").series("return")
    assert main(["compare", str(tmp_path / "bad"), str(tmp_path / "html")]) == 2
    assert "Traceback" not in capsys.readouterr().err
