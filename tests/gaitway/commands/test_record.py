"""``gaitway record`` of a run, in the world it trains in, and the diagnosis of its own bundle."""

from gaitway_tasks.recording import Recording

from gaitway.cli import main

SMALL = [
    "evaluation_episodes=0",
    "num_envs=4",
    "agent.num_steps=4",
    "total_steps=32",
    "num_threads=1",
    "agent.optimizer.epochs=1",
]


def test_a_run_is_recorded_and_matches_its_bundle(tmp_path, capsys):
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
