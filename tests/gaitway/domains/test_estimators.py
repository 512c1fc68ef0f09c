"""Estimators and clocks that cannot be: one message and exit code 2, before anything starts."""

import pytest

from gaitway.cli import main
from gaitway.train_config import resolve

BLIND = "velocity-flat-anymal-c-blind"
CLOCK = "task.observations.policy.terms.gait_phase.params.period"
SMALL = ("num_envs=8", "total_steps=100000")


@pytest.mark.parametrize(
    ("task", "preset", "setting", "words"),
    [
        (
            BLIND,
            "cpu",
            "agent.model.estimator.signals=[height_scan]",
            ("'height_scan'", "critic lacks", "base_lin_vel"),
        ),
        (BLIND, "cpu", "agent.model.estimator.signals=[base_ang_vel]", ("'base_ang_vel'", "actor reads it already")),
        (BLIND, "cpu", "agent.model.estimator.signals=[]", ("agent.model.estimator", "one or more")),
        (BLIND, "cpu", "agent.model.estimator.hidden=[0]", ("agent.model.estimator", "hidden", "at least 1")),
        (BLIND, "cpu", "agent.model.estimator.learning_rate=-1", ("learning_rate -1.0", "positive")),
        (BLIND, "cpu", "agent.model.recurrent=gru", ("estimator with recurrent 'gru'", "use only one")),
        (BLIND, "cpu", f"{CLOCK}=0.54", ("gait period 0.54 s", "even number", "symmetry 'none'")),
        ("velocity-flat-anymal-c", "cpu", "agent.model.estimator={}", ("no observation group 'critic'", "-blind")),
        ("cartpole", None, "agent.model.estimator={}", ("cartpole", "agent.model.estimator=null")),
    ],
)
def test_what_cannot_be_is_refused_at_once(tmp_path, capsys, task, preset, setting, words):
    out = tmp_path / "run"
    chosen = () if preset is None else ("--preset", preset)
    assert main(["train", task, *chosen, "--out", str(out), setting, *SMALL]) == 2
    said = capsys.readouterr()
    assert said.err.count("gaitway:") == 1 and len(said.err.strip().splitlines()) == 1
    assert all(word in said.err for word in words), said.err
    assert not said.out and not out.exists()


def test_the_preset_estimates_what_its_actor_does_not_see():
    """The columns of the newest frame, term after term, and of the velocity in the critic's observation."""
    config = resolve(BLIND, preset="cpu")
    columns = config.domain.columns(config, ["base_lin_vel"])
    groups = config.task.observations
    assert columns.signals == {"base_lin_vel": (0, 1, 2)} and next(iter(groups["critic"].terms)) == "base_lin_vel"
    history = groups["policy"].history_length
    gyro, gravity = columns.newest[:3], columns.newest[3:6]
    assert history > 1 and gyro == tuple(range(3 * history - 3, 3 * history))
    assert gravity == tuple(range(6 * history - 3, 6 * history))
    assert resolve("velocity-flat-anymal-c", preset="cpu").agent.model.estimator is None
