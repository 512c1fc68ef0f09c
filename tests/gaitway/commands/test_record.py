"""``gaitway record`` of a run, in the world it trains in, and the diagnosis of its own bundle."""

from pathlib import Path

import pytest
from gaitway_sim2real.bundle import measured
from gaitway_tasks.recording import Recording

import gaitway
from gaitway.cli import main

SMALL = [
    "evaluation_episodes=0",
    "num_envs=4",
    "agent.num_steps=4",
    "total_steps=32",
    "num_threads=1",
    "agent.optimizer.epochs=1",
]


@pytest.mark.slow
def test_a_run_is_recorded_and_matches_its_bundle(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measured, "SECONDS", 0.4)  # of a walk, which calibrates the policy's commands
    monkeypatch.setattr(measured, "RAMP", 0.2)
    run, out = tmp_path / "run", tmp_path / "rollout.npz"
    assert main(["train", "velocity-flat-anymal-c-blind", "--out", str(run), "--quiet", *SMALL]) == 0
    assert main(["record", str(run), "--out", str(out), "--seconds", "1", "--envs", "3"]) == 0
    recording = Recording.load(out)
    assert (recording.steps, recording.num_envs) == (50, 3) and recording.observation_noise
    capsys.readouterr()
    code = main(["diagnose", str(run), "--recording", str(out)])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "policy: the graph gives the recorded actions" in said


def test_a_bundle_whose_policy_counts_the_steps_of_a_gait_is_recorded(tmp_path, capsys):
    """No quantity of the recording gives its clock: the graph's own history does."""
    bundle, out = Path(gaitway.__file__).parent / "demo" / "bundles" / "anymal-c", tmp_path / "rollout.npz"
    assert main(["record", str(bundle), "--out", str(out), "--seconds", "1", "--envs", "3"]) == 0
    assert main(["diagnose", str(bundle), "--recording", str(out)]) == 0
    assert "policy: the graph gives the recorded actions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--physics", "newton"], "--physics newton is an engine of isaaclab: add --world isaaclab"),
        (["--world", "isaaclab"], "Isaac Lab is not installed here"),
    ],
)
def test_isaac_lab_must_be_meant_and_be_there(tmp_path, capsys, words, message):
    bundle = Path(gaitway.__file__).parent / "demo" / "bundles" / "anymal-c"
    assert main(["record", str(bundle), "--out", str(tmp_path / "rollout.npz"), *words]) == 2
    assert message in capsys.readouterr().err
