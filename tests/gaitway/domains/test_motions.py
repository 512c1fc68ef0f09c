"""Adversarial motion priors by the command: the observation that is added, refusals, resuming."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bit_by_bit import differences
from gaitway_agents.amp import AMPConfig
from gaitway_tasks.robots import ROBOTS
from gaitway_tracking.generator import generate
from stopping import final_state

from gaitway.cli import main
from gaitway.domains.motions import demonstrations, with_motions
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.train_config import resolve

GO2 = "velocity-flat-go2-blind"
AMP = "agent.additions.amp={kind: AMPConfig, motions: [trot, backwards], hidden_dims: [16], batch_size: 32}"
SIZES = ["num_envs=4", "num_threads=1", "evaluation_episodes=0", "agent.num_steps=8", "agent.optimizer.workers=1",
         "agent.model.actor_hidden=[16]", "agent.model.critic_hidden=[16]", "agent.average_steps=null",
         "agent.anneal_steps=1000"]  # fmt: skip


def order(out, *more):
    return ["train", GO2, "--preset", "cpu", "--quiet", "--out", str(out), *SIZES, *more]


def test_the_task_observes_what_is_compared():
    config = with_motions(resolve(GO2, preset="cpu", overrides=[*SIZES, AMP]))
    group = config.task.observations["amp"]
    assert group.history_length == 2 and not group.enable_corruption
    assert with_motions(config) is config, "once is enough"
    (rows,) = demonstrations(config).values()
    env = config.domain.make_env(config, 2, 0)
    assert rows.shape[1] == env.single_observation_space["amp"].shape[0]
    env.close()


@pytest.mark.slow
def test_it_learns_and_goes_on_bit_by_bit(tmp_path):
    """Two rollouts and two more are the same as four, replay and mirrors included."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(order(whole, AMP, "total_steps=128")) == 0
    assert main(order(parts, AMP, "total_steps=64")) == 0
    assert main([*order(parts)[:7], "--resume", "total_steps=128"]) == 0
    states = [final_state(RunFolder.open(run)) for run in (whole, parts)]
    assert differences(*states) == []
    assert states[0]["additions"]["amp"]["replay"].shape[0] > 0
    rows = read_rows(whole / "metrics.jsonl")
    assert all(np.isfinite(row["learn/amp_loss"]) and row["learn/amp_reward"] > 0.0 for row in rows)
    assert RunFolder.open(whole).config().agent.additions["amp"] == AMPConfig(
        motions=("trot", "backwards"), hidden_dims=(16,), batch_size=32
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{kind: AMPConfig}", "agent.additions.amp has no motions: name some"),
        ("{kind: AMPConfig, motions: [gallop]}", "agent.additions.amp: motion 'gallop' is neither a file"),
        ("{kind: AMPConfig, motions: [OTHER]}", "was made for a1, and the robot is go2"),
        ("{kind: AMPConfig, motions: [BROKEN]}", "joint_pos of frame 3 is not finite"),
        ("{kind: AMPConfig, motions: [trot], observation: critic}", "a transition is an observation with history"),
    ],
)
def test_what_cannot_be_imitated_is_refused(settings, message, tmp_path, capsys):
    other, broken = tmp_path / "other.npz", tmp_path / "broken.npz"
    made = generate("trot", ROBOTS["a1"], 50.0)
    made.save(other)
    bad = {**replace(made, robot="go2").arrays()}
    bad["joint_pos"] = np.where(np.arange(len(made))[:, None] == 3, np.nan, bad["joint_pos"])
    np.savez(broken, **bad)
    given = settings.replace("OTHER", str(other)).replace("BROKEN", str(broken))
    assert main(order(tmp_path / "run", f"agent.additions.amp={given}", "total_steps=64")) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_only_robots_have_motions(tmp_path, capsys):
    words = ["train", "pendulum", "--quiet", "--out", str(tmp_path / "run"), "num_envs=4", "total_steps=9000", AMP]
    assert main(words) == 2
    assert "motions are of robots, and pendulum is none" in capsys.readouterr().err
