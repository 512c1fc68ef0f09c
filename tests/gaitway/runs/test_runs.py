"""Run folders: made whole or not at all, and refused when they are not what they should be."""

import errno
import json
import os
import signal
from pathlib import Path

import pytest
import torch
from gaitway_files import writing

from gaitway.domains.robots import Robots
from gaitway.errors import ConfigError, RunError
from gaitway.runs import files
from gaitway.runs import folder as runs
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import RunWarning, read_rows
from gaitway.train_config import TrainConfig, merge, resolve
from gaitway.training import loop as training
from gaitway.training.interrupt import stop_requests
from gaitway.training.load import load_actor
from gaitway.training.progress import Lines, Progress


@pytest.fixture(scope="module")
def config() -> TrainConfig:
    small = [
        "evaluation_episodes=0",
        "num_envs=4",
        "agent.num_steps=4",
        "total_steps=64",
        "num_threads=1",
        "agent.optimizer.epochs=1",
    ]
    return resolve("velocity-flat-anymal-c-blind", overrides=[*small, "checkpoint_interval=1", "keep_checkpoints=2"])


def test_a_run_folder_holds_configuration_and_record(config, tmp_path):
    run = RunFolder.create(tmp_path / "a" / "run", config)
    assert runs.is_run(run.path)
    assert RunFolder.open(run.path).config() == config
    record = json.loads((run.path / "run.json").read_text())
    assert record["gaitway_run"] == runs.RUN_FORMAT
    assert (record["status"], record["steps"], record["seed"]) == ("running", 0, 0)
    assert record["machine"]["cores"] >= 1


def test_old_checkpoints_go(config, tmp_path):
    run = RunFolder.create(tmp_path / "run", config)
    assert training.train(config, run, quiet=True) == 0
    assert [path.name for path in run.checkpoints()] == ["step_000000000048.pt", "step_000000000064.pt"]
    assert (run.path / ".lock").read_text() == "" and RunFolder.open(run.path).edited() == {}
    actor = load_actor(run)[1]
    history = config.task.observations["policy"].history_length
    assert actor(torch.zeros(3, history * 45)).shape == (3, 12)


def test_a_folder_in_use_is_left_alone(config, tmp_path):
    RunFolder.create(tmp_path / "run", config)
    with pytest.raises(RunError, match="already holds a run: add --resume"):
        RunFolder.create(tmp_path / "run", config)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(RunError, match="not an empty folder"):
        RunFolder.create(tmp_path / "other", config)
    (tmp_path / "link").symlink_to("gone")
    with pytest.raises(RunError, match="link is a link to gone, which is not there"):
        RunFolder.create(tmp_path / "link" / "run", config)
    with pytest.raises(RunError, match="a file is in the way"):
        RunFolder.create(tmp_path / "other" / "thesis.tex" / "run", config)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.tex"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission_is_said_plainly(config, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(RunError, match="no permission to write"):
        RunFolder.create(tmp_path / "locked" / "run", config)


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "no space left"), (errno.EACCES, "no permission"), (errno.EROFS, "no permission")],
)
def test_failed_writes_leave_the_old_file_and_no_litter(tmp_path, monkeypatch, number, message):
    path = tmp_path / "file"
    files.write_text_atomically(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(RunError, match=message):
        files.write_text_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_on_a_full_disk_is_a_run_error(config, tmp_path, monkeypatch):
    """/dev/full refuses every byte, as a full disk does."""
    run = RunFolder.create(tmp_path / "run", config)
    old = run.save_checkpoint({"steps": 1, "x": torch.zeros(3)}, keep=1)
    monkeypatch.setattr(writing, "open", lambda path, mode: open("/dev/full", "wb"), raising=False)  # noqa: SIM115
    with pytest.raises(RunError, match=r"no space left to write .*step_000000000002\.pt"):
        run.save_checkpoint({"steps": 2, "x": torch.zeros(100_000)}, keep=1)
    assert run.checkpoints() == [old]
    assert runs.read_checkpoint(old)["steps"] == 1


def test_a_nearly_full_disk_is_refused_before_training(config, tmp_path, monkeypatch):
    usage = type(runs.shutil.disk_usage(tmp_path))(10**9, 10**9 - 10**6, 10**6)
    monkeypatch.setattr(runs.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(RunError, match="MiB free"):
        RunFolder.create(tmp_path / "run", config)


def test_other_folders_and_formats_are_refused(config, tmp_path):
    with pytest.raises(RunError, match="no run folder at"):
        RunFolder.open(tmp_path / "none")
    with pytest.raises(RunError, match=r"it has no run\.json"):
        RunFolder.open(tmp_path)
    run = RunFolder.create(tmp_path / "run", config)
    run.update(gaitway_run=99)
    with pytest.raises(RunError, match="run format 99, this version of Gaitway reads format 3"):
        RunFolder.open(run.path)
    (run.path / "run.json").write_text('{"gaitway_run"')
    with pytest.raises(RunError, match="damaged"):
        RunFolder.open(run.path)


def test_a_checkpoint_of_another_network_is_refused(config, tmp_path):
    run = RunFolder.create(tmp_path / "run", config)
    training.train(config, run, quiet=True)
    text = (run.path / "config.yaml").read_text()
    (run.path / "config.yaml").write_text(text.replace("actor_hidden: [", "actor_hidden: [7, "))
    with pytest.raises(RunError, match=r"does not fit .*config\.yaml"):
        training.train(RunFolder.open(run.path).config(), run, quiet=True)


def test_a_run_without_checkpoint_says_so(config, tmp_path):
    with pytest.raises(RunError, match="has no checkpoint yet"):
        load_actor(RunFolder.create(tmp_path / "run", config))


def test_rows_cut_short_are_left_out(config, tmp_path):
    run = RunFolder.create(tmp_path / "run", config)
    for steps in (10, 20, 30):
        run.append_metrics({"steps": steps, "reward": 0.1})
        run.append_episodes([{"steps": steps - 5, "return": 1.0}, {"steps": steps, "return": 2.0}])
    run.append_evaluation({"steps": 30, "returns": [1.0]})
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"steps": 40, "rew')
    run.forget_after(20)
    assert read_rows(run.path / "metrics.jsonl") == [{"steps": 10, "reward": 0.1}, {"steps": 20, "reward": 0.1}]
    assert [row["steps"] for row in read_rows(run.path / "episodes.jsonl")] == [5, 10, 15, 20]
    assert read_rows(run.path / "evaluations.jsonl") == []


def test_newest_run_of_a_task(config, tmp_path):
    assert runs.newest_run("t", "ppo", tmp_path) is None
    for name in ("2026-01-02_00-00-00-seed0", "2026-01-01_00-00-00-seed9"):
        RunFolder.create(tmp_path / "t" / name, config)
    (tmp_path / "t" / "2027-not-a-run").mkdir()
    newest = runs.newest_run("t", "ppo", tmp_path)
    assert newest is not None and newest.name == "2026-01-02_00-00-00-seed0"
    RunFolder.create(tmp_path / "t-dqn" / "2026-01-03_00-00-00-seed0", config)
    assert runs.newest_run("t", "ppo", tmp_path) == newest
    other = runs.newest_run("t", "dqn", tmp_path)
    assert other is not None and other.name == "2026-01-03_00-00-00-seed0"


def test_nan_is_named_and_the_state_kept(config, tmp_path, monkeypatch):
    run = RunFolder.create(tmp_path / "run", config)

    def poisoned(domain: Robots, config: TrainConfig, num_envs: int | None = None):
        trainer = build(domain, config, num_envs)
        trainer.policy.critic[2].bias.data[3] = float("nan")
        return trainer

    build = Robots.trainer
    monkeypatch.setattr(Robots, "trainer", poisoned)
    with pytest.raises(training.TrainingFailed, match=r"(?s)after 0 steps: .*nan_dump\.pt") as error:
        training.train(config, run, quiet=True)
    assert "not finite" in str(error.value) or "non-finite" in str(error.value)
    dump = torch.load(run.path / "nan_dump.pt", weights_only=True)
    assert dump["trainer"]["policy"]["critic.2.bias"].isnan().sum() == 1
    record = RunFolder.open(run.path).record
    assert record["status"] == "failed"
    assert "TrainingFailed" in record["error"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("task.rewards.undesired_contacts.params.bodies=.*_WING", "has no body matching '.*_WING'"),
        ("task.rewards.track_lin_vel_xy_exp.params.command_name=pose", "pose"),
        ("task.events.push_robot.params.velocity_range={x: [a, b]}", "push_robot|str"),
        ("task.events.add_base_mass.params.mass_distribution_params=[-100, -90]", "without mass"),
    ],
)
def test_a_task_that_cannot_run_is_refused_before_it_starts(config, setting, message):
    bad = merge(config, None, [setting])
    with pytest.raises(ConfigError, match=message) as error:
        bad.domain.preflight(bad)
    assert str(error.value).startswith("velocity-flat-anymal-c-blind cannot run: ")


def test_a_good_task_passes_the_preflight(config):
    config.domain.preflight(config)


def test_a_second_signal_acts_as_usual():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has background jobs ignore it
    with pytest.raises(KeyboardInterrupt), stop_requests() as stop:
        os.kill(os.getpid(), 2)
        assert stop.exit_code == 130
        os.kill(os.getpid(), 2)
    signal.signal(signal.SIGINT, before)


def test_plain_lines_say_what_matters(config, capsys):
    lines = Lines(config, 0)
    metrics = {
        "time/total": 2.0, "time/environment": 1.2, "time/policy": 0.3, "time/learning": 0.5,
        "tracking/base_velocity/linear": 0.25, "tracking/base_velocity/yaw": 0.125, "rollout/reward": 0.5,
        "rollout/termination/base_contact": 1.0, "rollout/termination/time_out": 3.0,
    }  # fmt: skip
    lines.show(16, metrics)
    lines.show(32, metrics)  # too soon for another line
    lines.show(64, metrics, last=True)  # always
    first, last = capsys.readouterr().out.splitlines()
    assert "16 / 64 steps" in first and "8 steps/s" in first
    assert "environment 60%" in first and "learning 25%" in first
    assert "tracking error 0.250 m/s, 0.125 rad/s" in first
    assert "falls 25.0%" in first
    assert "64 / 64 steps" in last


def test_quiet_is_quiet(capsys):
    Progress().show(1, {})
    assert capsys.readouterr().out == ""


def test_paths_in_the_record_are_relative_or_absent(config, tmp_path):
    run = RunFolder.create(tmp_path / "run", config)
    assert str(Path.home()) not in (run.path / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("kept", "told"), [(None, "is gone or empty"), (0, "is gone or empty"), (2, "ends after 32 steps")]
)
def test_metrics_that_a_power_loss_took_are_told(config, tmp_path, kept, told):
    run = RunFolder.create(tmp_path / "run", config)
    assert training.train(config, run, quiet=True) == 0
    metrics = run.path / "metrics.jsonl"
    rows = metrics.read_text().splitlines(keepends=True)
    metrics.unlink() if kept is None else metrics.write_text("".join(rows[:kept]))
    with pytest.warns(RunWarning, match=f"{told}, and the checkpoint has 64"):
        assert training.train(merge(config, None, ["total_steps=80"]), RunFolder.open(run.path), quiet=True) == 0
    assert [row["steps"] for row in read_rows(metrics)] == [*[16, 32][: kept or 0], 80]
