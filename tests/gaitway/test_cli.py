"""The command line: help worth reading, one clear message for each mistake, exit codes that scripts can trust."""

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tree import ROOT

import gaitway
from gaitway import catalogue
from gaitway.cli import COMMANDS, main, parse
from gaitway.commands.export import OWN_FOLDERS
from gaitway.runs.folder import RunFolder
from gaitway.runs.lock import LOCK
from gaitway.runs.rows import read_rows
from gaitway.train_config import resolve

BLIND = "velocity-flat-anymal-c-blind"
SMALL = [
    "evaluation_episodes=0",
    "num_envs=4",
    "agent.num_steps=4",
    "total_steps=32",
    "num_threads=1",
    "agent.optimizer.epochs=1",
    "task.commands.base_velocity.margin=0",
]
"""Without a margin nothing is calibrated when it is exported, which takes seconds."""


def ours(argv, capsys):
    """Exit code and the two streams of a command run in this process."""
    code = main([str(word) for word in argv])
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def run_path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", BLIND, "--preset", "cpu", "--out", str(path), "--quiet", *SMALL]) == 0
    return path


@pytest.fixture(scope="module")
def run_bundle(run_path, tmp_path_factory) -> Path:
    """Read-only: copy it to change something."""
    bundle = tmp_path_factory.mktemp("bundles") / "bundle"
    assert main(["export", str(run_path), "--out", str(bundle)]) == 0
    return bundle


@pytest.mark.parametrize("name", [name.rstrip("_").replace("_", "-") for name in COMMANDS])
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) > 8
    assert name == "doctor" or "example" in text


def test_there_are_no_other_commands():
    assert len(COMMANDS) == 28


def test_version_is_the_one_of_the_project(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    first, extras = capsys.readouterr().out.splitlines()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    assert first.startswith(f"gaitway {gaitway.__version__}, commit {commit[:12]}" if commit else "gaitway 0.")
    assert first.endswith(f", Python {platform.python_version()}")
    assert {"train", "mujoco"} <= set(extras.removeprefix("extras: ").split(", "))


def test_settings_may_stand_anywhere():
    args = parse(["train", BLIND, "a=1", "--seed", "3", "b=-2", "--out", "x", "c=4"])
    assert sorted(args.settings) == ["a=1", "b=-2", "c=4"]
    assert args.seed == 3


def test_unknown_options_are_refused(capsys):
    code, _, err = ours(["train", BLIND, "--sede", "3"], capsys)
    assert code == 2
    assert "--sede" in err and len(err.splitlines()) == 1


MISTAKES = {
    ("train", BLIND, "--presets", "cpu"): "unrecognised arguments: --presets; did you mean --preset?; see",
    ("train", BLIND, "--sede=3", "--quite"): "--sede=3 --quite; did you mean --seed --quiet?; see",
    ("train", BLIND, "--xyzzy"): "unrecognised arguments: --xyzzy; see gaitway train --help",
    ("trian", BLIND): "COMMAND trian: did you mean train?",
    ("train", BLIND, "--physics", "newtn"): "--physics newtn: did you mean newton?",
    ("train", "velocity-flat-anymal"): "did you mean 'velocity-flat-anymal-c'?",
    ("train", BLIND, "--preset", "gpu"): "unknown preset of velocity-flat-anymal-c-blind 'gpu'",
    ("train", BLIND, "--world", "gazebo"): "unknown world 'gazebo'",
    ("train", BLIND, "num_env=3"): "did you mean 'num_envs'?",
    ("train", BLIND, "num_envs=lots"): "expected a whole number",
    ("train", BLIND, "--config", "none.yaml"): "cannot read none.yaml",
    ("play", "nowhere"): "no run folder or bundle at nowhere",
    ("play", "."): "neither a run folder",
    ("validate", "nowhere"): "no run folder or bundle at nowhere",
    ("export", "nowhere", "--out", "b"): "no run folder at nowhere",
    ("run", "nowhere"): "nowhere",
}


@pytest.mark.parametrize(("argv", "message"), MISTAKES.items(), ids=lambda value: " ".join(value)[:40])
def test_mistakes_get_one_line_and_leave_nothing(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = ours(argv, capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("gaitway: ") and len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv("GAITWAY_DEBUG", "1")
    code, _, err = ours(["train", "nothing"], capsys)
    assert code == 2
    assert "Traceback" in err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyError("oops"), 70, "Traceback"),
        (OSError(28, "No space left on device"), 2, "gaitway: no space left to write"),
    ],
)
def test_a_bug_is_not_blamed_on_the_user_and_a_full_disk_is_no_bug(capsys, monkeypatch, error, code, said):
    def broken(args):
        raise error

    monkeypatch.setattr("gaitway.commands.list_.run", broken)
    found, _, err = ours(["list"], capsys)
    assert found == code
    assert said in err and ("bug" in err) == ("Traceback" in err) == (code == 70)


def test_opengl_that_cannot_be_loaded_is_one_line():
    """``import mujoco`` itself fails then, with an error that does not name the variable."""
    asked = [sys.executable, "-m", "gaitway", "demo", "--port", "1"]
    done = subprocess.run(asked, env={**os.environ, "MUJOCO_GL": "osmeza"}, capture_output=True, text=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "MUJOCO_GL=osmeza" in done.stderr and catalogue.OPENGL in done.stderr


def test_a_missing_extra_is_named_with_its_install_line(capsys, monkeypatch):
    gone = catalogue.Entry(summary="", modules=("torch_that_is_not_there",), extras=("train", "mujoco"))
    monkeypatch.setitem(catalogue.WORLDS, "mujoco", gone)
    code, _, err = ours(["train", BLIND], capsys)
    assert code == 2
    assert "torch_that_is_not_there" in err and "pip install 'gaitway[train,mujoco]'" in err


def test_a_package_that_is_too_old_is_named_with_both_versions(capsys, monkeypatch, tmp_path):
    """Newton, in Isaac Lab's Python, brings a MuJoCo that can do less."""
    monkeypatch.setattr(catalogue.importlib.metadata, "version", lambda name: "3.12.0")
    code, _, err = ours(["validate", tmp_path], capsys)
    assert code == 2 and "mujoco 3.17 (3.12.0 is too old)" in err and "pip install 'gaitway[mujoco]'" in err
    monkeypatch.setattr(catalogue.importlib.metadata, "version", lambda name: "4.0.0rc1")
    assert catalogue.MUJOCO.missing() == []


def test_the_oldest_versions_are_those_of_the_extras():
    extras = tomllib.loads((Path(gaitway.__file__).parents[1] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for module, oldest in catalogue.OLDEST.items():
        assert f"{module}>={'.'.join(map(str, oldest))}" in extras[module]


def test_the_run_says_where_it_is(run_path):
    record = RunFolder.open(run_path).record
    assert (record["status"], record["steps"]) == ("finished", 32)
    assert len(read_rows(run_path / "metrics.jsonl")) == 2


def test_a_finished_run_is_left_as_it_is(run_path, capsys):
    def times():
        return {path: path.stat().st_mtime_ns for path in run_path.rglob("*") if path.name != LOCK}

    before = times()
    code, out, _ = ours(["train", BLIND, "--out", run_path, "--resume"], capsys)
    assert code == 0
    assert "is finished: 32 steps" in out
    assert times() == before


@pytest.mark.parametrize(
    ("task", "more", "message"),
    [
        (BLIND, ["--resume", "--seed", "5"], "was started with --seed 0, not 5"),
        (BLIND, ["--resume", "agent.gamma=0.9"], "agent.gamma cannot change"),
        (BLIND, ["--resume", "num_envs=8"], "num_envs cannot change"),
        ("velocity-flat-anymal-c", ["--resume"], f"is a run of {BLIND}"),
        (BLIND, SMALL, "already holds a run: add --resume"),
    ],
)
def test_another_run_is_refused(run_path, capsys, task, more, message):
    code, _, err = ours(["train", task, "--out", run_path, *more], capsys)
    assert code == 2
    assert message in err


def test_a_finished_run_can_be_trained_on(run_path, tmp_path, capsys):
    path = shutil.copytree(run_path, tmp_path / "run")
    code, _, _ = ours(["train", BLIND, "--out", path, "--resume", "--quiet", "total_steps=64"], capsys)
    assert code == 0
    assert RunFolder.open(path).record["steps"] == 64
    assert RunFolder.open(path).config().total_steps == 64


def test_default_folder_is_named_after_task_time_and_seed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ours(["train", BLIND, "--quiet", "--seed", "2", *SMALL], capsys)[0] == 0
    (path,) = (tmp_path / "runs" / BLIND).iterdir()
    assert path.name.endswith("-seed2")
    code, out, _ = ours(["train", BLIND, "--resume"], capsys)
    assert code == 0
    assert path.name in out


def test_a_policy_that_no_robot_can_feed_is_not_exported(tmp_path, capsys):
    path, bundle = tmp_path / "run", tmp_path / "bundle"
    assert main(["train", "velocity-flat-anymal-c", "--out", str(path), "--quiet", *SMALL]) == 0
    code, _, err = ours(["export", path, "--out", bundle], capsys)
    assert code == 2
    assert "base_lin_vel" in err and "-blind" in err and "--estimate base_lin_vel" in err
    assert not bundle.exists()
    assert ours(["export", path, "--out", bundle, "--estimate", "base_lin_vel"], capsys)[0] == 0
    code, out, err = ours(["run", bundle, "--sim", "--seconds", "0.1"], capsys)
    assert "--sim" not in err
    code, out, err = ours(["run", bundle, "--world", "twin", "--seconds", "0.1"], capsys)
    assert "--world twin is now --sim" in err
    assert "stood in for an estimator" in out


def test_quiet_leaves_the_result(tmp_path, capsys):
    words = ["train", BLIND, "--out", tmp_path / "run", "--quiet", *SMALL, "agent.optimizer.minibatches=1"]
    code, out, err = ours([*words, "evaluation_episodes=2"], capsys)
    assert (code, err) == (0, "")
    first, last = out.splitlines()
    assert first.startswith("evaluation: return ") and last.startswith("finished: 32 steps in ")
    assert ours([*words, "--resume", "total_steps=48"], capsys)[1].count("\n") == 1
    out = ours([*[word for word in words if word != "--quiet"], "--resume", "total_steps=64"], capsys)[1]
    assert out.startswith("continuing "), "the next command is not quiet"


def test_what_isaac_labs_settings_mean_on_a_cpu_is_said_first():
    """A task without a preset for a CPU is not told to use one."""

    def notes(task, preset=None):
        config = resolve(task, preset=preset)
        return " ".join(config.domain.notes(config, continued=False))

    big = notes("velocity-flat-g1")
    assert "4,096 robots at once" in big and "num_envs=512 or fewer, or train velocity-flat-g1-23dof" in big
    assert "--preset" not in big
    assert "--preset cpu learns to walk" in notes("velocity-flat-h1")
    assert "4,096" not in notes("velocity-flat-h1", "cpu")


def test_export_writes_into_the_run(run_path, tmp_path, capsys):
    run = Path(shutil.copytree(run_path, tmp_path / "run"))
    assert ours(["export", run], capsys) == (0, f"bundle: {run / 'bundle'}\n", "")
    assert (run / "bundle" / "contract.yaml").is_file()
    assert OWN_FOLDERS.keys() == catalogue.EXPORT_FORMATS.keys()
    shutil.rmtree(run / "bundle")
    (run / "bundle").symlink_to(tmp_path / "elsewhere")
    code, _, err = ours(["export", run], capsys)
    assert code == 2 and "bundle" in err and not (tmp_path / "elsewhere").exists()


def test_export_run_and_play_a_bundle(run_bundle, tmp_path, capsys):
    bundle = Path(shutil.copytree(run_bundle, tmp_path / "bundle"))
    code, out, _ = ours(
        ["run", bundle, "--seconds", "0.5", "--command", "0.5,0,0", "--log", tmp_path / "l.mcap"], capsys
    )
    assert code in (0, 1)  # hardly trained: it may fall, but it runs
    assert "policy periods" in out
    assert (tmp_path / "l.mcap").is_file()

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = ours(["play", bundle, "--port", taken.getsockname()[1]], capsys)
    assert code == 2
    assert "is in use: choose another with --port" in err

    (bundle / "policy.onnx").write_bytes((bundle / "policy.onnx").read_bytes()[:-1])
    for command in (["run", bundle, "--video", tmp_path / "v" / "x.mp4"], ["validate", bundle], ["play", bundle]):
        code, _, err = ours(command, capsys)
        assert code == 2, command
        assert "policy.onnx" in err
    assert not (tmp_path / "v").exists()


def test_play_serves_a_page(run_path, capsys):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code, out, _ = ours(["play", run_path, "--port", port, "--seconds", "0.3"], capsys)
    assert code == 0
    assert f"open http://127.0.0.1:{port}" in out


def test_play_films_a_run(run_path, tmp_path, capsys):
    film = tmp_path / "films" / "walk.mp4"
    code, _, err = ours(["play", run_path, "--video", film, "--seconds", "0.2"], capsys)
    if code == 1 and "libegl1" in err:
        pytest.skip("this machine has no OpenGL")
    assert code == 0
    assert film.stat().st_size > 1000
    assert ours(["play", run_path, "--video", tmp_path / "walk.doc"], capsys)[0] != 0


def test_run_imports_no_torch(run_bundle):
    code = (
        "import sys; from gaitway.cli import main\n"
        f"main(['run', {str(run_bundle)!r}, '--seconds', '0.1'])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_lists(capsys):
    code, out, _ = ours(["list", "--all"], capsys)
    assert code == 0
    for name in (BLIND, "anymal-c", "mujoco", "ppo", "gsm8k", "arithmetic", "grpo", "reward-model"):
        assert name in out
    code, out, _ = ours(["list", "robots"], capsys)
    assert "12" in out and BLIND not in out


def test_a_reader_that_leaves_gets_no_traceback():
    process = subprocess.Popen(
        [sys.executable, "-m", "gaitway", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() in (0, 1)


def test_doctor_agrees_with_this_machine(capsys):
    code, out, _ = ours(["doctor"], capsys)
    assert code == 0
    assert re.search("worlds .*mujoco", out) and "broken" not in out


def test_the_constraints_pin_every_dependency():
    root = ROOT
    pins = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (root / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *extras["train"], *extras["mujoco"], *extras["dev"]]:
        assert requirement.split(">")[0].split("[")[0].strip().lower() in pins
    assert not any("torch" in requirement for requirement in [*project["dependencies"], *extras["robot"]])
