"""Callbacks of ``gaitway.train``: what they hear, how they stop a training, and what their mistakes look like."""

import os
import signal
import warnings

import pytest
from scripted_examinations import SMALL, outcomes

import gaitway
from gaitway.runs.folder import RunFolder
from gaitway.start import Order, begin

TRAIN = {"num_envs": 4, "total_steps": 192, "agent.num_steps": 8, "evaluation_episodes": 0, "num_threads": 1}
TRAIN |= {"agent.optimizer.epochs": 1, "agent.optimizer.minibatches": 1, "checkpoint_interval": 2, "quiet": True}
"""Six iterations of 32 steps, and three checkpoints."""


class Ear(gaitway.Callback):
    """Hears all; ``act`` may do something in a hook."""

    def __init__(self, act=lambda ear, hook, *given: None):
        self.heard, self.act = [], act

    def note(self, hook, *given):
        self.heard.append((hook, *given))
        self.act(self, hook, *given)

    def on_training_start(self):
        self.note("start")

    def on_iteration(self, steps, metrics):
        assert metrics["steps"] == steps and "learn/value_loss" in metrics
        self.note("iteration", steps)

    def on_evaluation(self, steps, row):
        self.note("evaluation", steps, len(row["returns"]))

    def on_examination(self, steps, row):
        self.note("examination", steps, row["passed"])

    def on_checkpoint(self, steps, path):
        assert path.exists()
        self.note("checkpoint", steps)

    def on_training_end(self, status):
        self.note("end", status, self.run.status)


def train(path, *callbacks, **more):
    return gaitway.train("cartpole", out=path, callbacks=list(callbacks), **TRAIN | more)


def test_they_hear_everything_in_its_order(tmp_path):
    first, second = Ear(), Ear()
    train(tmp_path / "run", first, second, evaluation_episodes=10, evaluation_interval=128)
    assert first.heard == second.heard == [
        ("start",),
        ("iteration", 32),
        ("iteration", 64),
        ("checkpoint", 64),
        ("iteration", 96),
        ("evaluation", 128, 1),
        ("iteration", 128),
        ("checkpoint", 128),
        ("iteration", 160),
        ("iteration", 192),
        ("checkpoint", 192),
        ("evaluation", 192, 10),
        ("end", "finished", "finished"),
    ]  # fmt: skip


def test_they_hear_examinations(tmp_path, monkeypatch):
    outcomes(monkeypatch, {2}, suite={2})
    ear = Ear()
    order = {"settings": [*SMALL, "until=good"], "quiet": True, "callbacks": [ear]}
    begin(Order(task="velocity-flat-anymal-c-blind", out=tmp_path / "run", **order))
    assert [each for each in ear.heard if each[0] == "examination"] == [
        ("examination", 128, False), ("examination", 256, True)
    ]  # fmt: skip


@pytest.mark.parametrize("hook", ["start", "iteration", "checkpoint", "evaluation"])
def test_one_may_stop_the_training(tmp_path, capsys, hook):
    """The run is finished, evaluated, and goes on if more is asked for."""

    def act(ear, heard, *given):
        if heard == hook:
            ear.stop("it is enough")

    ear, deaf = Ear(act), gaitway.Callback()
    run = train(tmp_path / "run", deaf, ear, evaluation_episodes=10, evaluation_interval=64)
    assert (run.status, run.record["reason"]) == ("finished", "callback Ear: it is enough")
    assert run.steps == {"start": 0, "iteration": 32}.get(hook, 64) and run.checkpoint is not None
    assert "stopped by callback Ear: it is enough, after" in capsys.readouterr().out
    assert len(run.rows("evaluations")[-1]["returns"]) == 10 and ear.heard[-1] == ("end", "finished", "finished")
    again = train(tmp_path / "run", Ear(), resume=True, evaluation_episodes=10)
    assert (again.steps, again.record["reason"]) == (192, "total_steps")


def test_a_mistake_in_one_names_it_and_loses_nothing(tmp_path):
    def act(ear, heard, *given):
        if heard == "iteration" and given[0] == 96:
            raise KeyError("no such thing")

    ear = Ear(act)
    with pytest.raises(gaitway.UserError, match="callback Ear, on_iteration: KeyError: 'no such thing'") as caught:
        train(tmp_path / "run", ear)
    assert isinstance(caught.value.__cause__, KeyError), "its traceback is there"
    run = gaitway.load_run(tmp_path / "run")
    assert (run.status, run.steps) == ("failed", 96) and ear.heard[-1] == ("end", "failed", "failed")
    assert train(tmp_path / "run", resume=True).steps == 192


def test_a_failed_training_is_told_even_if_the_end_fails_too(tmp_path):
    def act(ear, heard, *given):
        if heard != "start":
            raise ValueError(heard)

    with warnings.catch_warnings(record=True) as said, pytest.raises(gaitway.UserError, match="on_iteration"):
        warnings.simplefilter("always")
        train(tmp_path / "run", Ear(act))
    assert any("Ear, on_training_end: ValueError: end" in str(each.message) for each in said)


def test_the_end_of_an_interrupted_training_is_told(tmp_path):
    def act(ear, heard, *given):
        if heard == "iteration":
            os.kill(os.getpid(), signal.SIGTERM)

    ear = Ear(act)
    run = train(tmp_path / "run", ear)
    assert run.status == "interrupted" and ear.heard[-1] == ("end", "interrupted", "interrupted")


class Typo(gaitway.Callback):
    def on_iterations(self, steps, metrics):
        pass


class Short(gaitway.Callback):
    def on_training_end(self):
        pass


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (Ear(), r"callbacks=.*give a list"),
        ([Ear], r"is no gaitway.Callback: give Ear\(\)"),
        ([lambda steps: None], "is no gaitway.Callback: give an object of a class derived from it"),
        ([Typo()], "callback Typo: on_iterations is no hook, and is never called: did you mean on_iteration?"),
        ([Short()], r"callback Short, on_training_end: .*define it as on_training_end\(self, status\)"),
    ],
)
def test_what_is_no_callback_is_refused_before_anything_is_written(tmp_path, callbacks, message):
    with pytest.raises(gaitway.UserError, match=message):
        gaitway.train("cartpole", out=tmp_path / "run", callbacks=callbacks, **TRAIN)
    assert not (tmp_path / "run").exists()


def test_of_several_processes_only_the_first_calls_them(tmp_path, capsys):
    pids = []

    def act(ear, heard, *given):
        pids.append(os.getpid())
        if heard == "iteration" and given[0] >= 128:
            ear.stop()

    settings = {"processes": 2, "num_envs": 8, "total_steps": 6400, "quiet": False}
    ear = Ear(act)
    run = gaitway.train(
        "velocity-flat-anymal-c-blind", out=tmp_path / "run", callbacks=[ear], **TRAIN | settings
    )  # fmt: skip
    assert set(pids) == {os.getpid()} and (run.status, run.steps) == ("finished", 128)
    assert [each[1] for each in ear.heard if each[0] == "iteration"] == [64, 128], "steps of both"
    assert "in the first of the 2 processes only" in capsys.readouterr().out
    assert RunFolder.open(run.path).record["processes"] == 2
