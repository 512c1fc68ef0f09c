"""A robot that plays a motion, from training to its bundle: the graph keeps the clock, and the bundle the motion."""

import numpy as np
import pytest
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import MOTION_FILE, BundleError, Contract
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.interface import Signals
from gaitway_tasks.robots import ROBOTS
from gaitway_tracking.clock import frames
from gaitway_tracking.generator import generate
from gaitway_tracking.reference import motion_of

from gaitway.cli import main

pytestmark = pytest.mark.slow
SMALL = ["num_envs=8", "agent.num_steps=8", "total_steps=128", "agent.optimizer.minibatches=1", "num_threads=1",
         "evaluation_episodes=2", "agent.optimizer.workers=1", "agent.average_steps=null"]  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracking")
    clip = folder / "clip.npz"
    generate("bow", ROBOTS["go2"], 60.0).save(clip)
    run = str(folder / "run")
    words = ["track-go2-blind", "--preset", "cpu", f"task.commands.motion.clip={clip}", *SMALL]
    assert main(["train", *words, "--out", run]) == 0
    assert main(["export", run, "--out", str(folder / "bundle")]) == 0
    clip.unlink()  # a bundle needs nothing beside it
    return folder / "bundle"


def test_the_graph_counts_as_the_suite_does(bundle):
    """Its state is the frame: to the loop's end, on to the motion's, and at rest."""
    policy, contract = OnboardPolicy(bundle), Contract.load(bundle)
    motion = np.load(bundle / MOTION_FILE)
    still = Signals(np.array(contract.default_joint_pos), np.zeros(12), np.array([1.0, 0, 0, 0]), np.zeros(3), 0.0)
    play = np.zeros(3 * len(motion["joint_pos"]))
    play[5 : len(motion["joint_pos"]) + 30] = 1.0
    found = []
    for told in play:
        policy.step(still, (told,))
        found.append(policy.state[-1])
    expected = frames(play[:, None], len(motion["joint_pos"]), tuple(motion["loop"]))[:, 0]
    np.testing.assert_array_equal(found, expected)
    assert expected[-1] == 0 and expected.max() == len(motion["joint_pos"]) - 2


def test_the_motion_travels_and_is_verified(bundle, tmp_path):
    contract = Contract.load(bundle)
    assert contract.motion == (bundle / MOTION_FILE).read_bytes() and MOTION_FILE in contract.files
    np.testing.assert_allclose(
        np.load(bundle / MOTION_FILE)["joint_pos"], generate("bow", ROBOTS["go2"], 60.0).resampled(50.0).joint_pos
    )
    import shutil

    shutil.copytree(bundle, tmp_path / "edited")
    with (tmp_path / "edited" / MOTION_FILE).open("ab") as file:
        file.write(b"0")
    with pytest.raises(BundleError, match=r"motion.npz is truncated or edited"):
        Contract.load(tmp_path / "edited")


def test_it_runs_and_is_validated(bundle, capsys, tmp_path, monkeypatch):
    assert main(["run", str(bundle), "--sim", "--seconds", "1", "--command", "1"]) == 0
    assert "play" in capsys.readouterr().out
    from gaitway_tracking import suite

    few = [scenario for scenario in suite.SCENARIOS if scenario.name in ("still", "nominal")]
    from dataclasses import replace

    short = tuple(replace(scenario, envs=2, seconds=6.0) for scenario in few)
    monkeypatch.setattr(suite, "SUITE", replace(suite.SUITE, scenarios=short, examination=()))
    assert main(["validate", str(bundle), "--no-video", "--report", str(tmp_path / "report")]) in (0, 1)
    text = (tmp_path / "report/report.html").read_text()
    assert "Body position error" in text and "Completed" in text


def test_motions_from_the_command_line(tmp_path, capsys):
    assert main(["motion", "check", "trot", "--robot", "go2"]) == 0
    assert "torque over its limit" in capsys.readouterr().out
    out = tmp_path / "new/bow.npz"
    assert main(["motion", "convert", "bow", "--robot", "go2", "--out", str(out)]) == 0
    assert len(motion_of(str(out), ROBOTS["go2"], 50.0)) == 141
    for words, says in (
        (["check", "trot", "--robot", "dog"], "unknown robot 'dog'"),
        (["check", "gone.npz", "--robot", "go2"], "gone.npz: no such file"),
        (["show", "trot", "--robot", "go2"], "motion show writes a file: give --out NAME.mp4"),
        (["check", "trot", "--robot", "go2", "--out", "x.npz"], "motion check writes no file"),
        (["check", "trot", "--robot", "go2", "--slower", "2"], "--slower 2 belongs to motion retarget"),
        (["check", "trot", "--robot", "g1-29dof"], "gaits are made for four and six"),
    ):
        assert main(["motion", *words]) == 2
        assert says in capsys.readouterr().err


def test_a_training_with_a_clip_that_is_not_there_does_not_begin(tmp_path, capsys):
    words = ["track-go2-blind", "--preset", "cpu", "task.commands.motion.clip=jump", *SMALL]
    assert main(["train", *words, "--out", str(tmp_path / "run")]) == 2
    assert "motion 'jump' is neither a file" in capsys.readouterr().err
    with pytest.raises(UserError, match="lacks the joints"):
        motion_of(str(_of_another(tmp_path)), ROBOTS["go2"], 50.0)


def _of_another(folder):
    generate("squat", ROBOTS["h1"], 50.0).save(folder / "h1.npz")
    return folder / "h1.npz"
