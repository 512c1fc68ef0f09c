"""Accidents of run folders: two writers, damaged and missing files, edits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from gaitway.cli import main
from gaitway.errors import RunError
from gaitway.runs import folder as runs
from gaitway.runs import lock as run_lock
from gaitway.runs.folder import RunFolder, read_checkpoint
from gaitway.runs.lock import RunLock
from gaitway.runs.rows import RunWarning, parse_rows, read_rows
from gaitway.train_config import resolve
from gaitway.training import loop as training
from gaitway.training.load import load_state, trainer_of

pytestmark = pytest.mark.hostile("durability")

TRAIN = ["train", "cartpole", "--agent", "a2c", "--quiet"]
SMALL = ["num_envs=2", "agent.num_steps=5", "checkpoint_interval=3", "evaluation_episodes=0"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Ten iterations of ten steps each; checkpoints after 60, 90 and 100."""
    out = tmp_path_factory.mktemp("made") / "run"
    assert main([*TRAIN, "--out", str(out), *SMALL, "total_steps=100"]) == 0
    return out


@pytest.fixture
def run(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def small():
    """Thirty iterations of the same."""
    return resolve("cartpole", agent="a2c", overrides=[*SMALL, "total_steps=300"])


def resume(run: Path, *settings: str) -> int:
    return main([*TRAIN, "--out", str(run), "--resume", *settings])


def iterations(run: Path) -> list[int]:
    return [row["iteration"] for row in read_rows(run / "metrics.jsonl")]


# ---- two writers ---------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from gaitway.runs.lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_writer_is_refused_by_the_name_of_the_first_and_goes_on_when_it_is_killed(run, capsys):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE) as first:
        try:
            assert first.stdout.readline() == b"held\n"
            before = (run / "metrics.jsonl").read_bytes()
            assert resume(run, "total_steps=200") == 2
            said = capsys.readouterr().err
            assert f"{run} is being trained by process {first.pid} on " in said and " since 20" in said
            assert (run / "metrics.jsonl").read_bytes() == before
            assert load_state(RunFolder.open(run))[1].name == "step_000000000100.pt"  # looking is free
        finally:
            os.kill(first.pid, signal.SIGKILL)
            first.wait()
    assert resume(run, "total_steps=200") == 0
    assert iterations(run) == list(range(1, 21))
    assert (run / ".lock").read_text() == ""


def test_every_way_to_train_takes_the_lock(run):
    folder = RunFolder.open(run)
    with RunLock(run), pytest.raises(RunError, match="is being trained by process"):
        training.train(folder.config(), folder, quiet=True)
    assert folder.record["status"] == "finished"


def test_a_lock_is_the_same_within_itself(tmp_path):
    lock = RunLock(tmp_path)
    with lock:
        with lock:
            pass
        with pytest.raises(RunError, match="is being trained by process"), RunLock(tmp_path):
            pass
    with RunLock(tmp_path):
        pass


def test_where_there_are_no_locks_it_says_so_and_goes_on(tmp_path, monkeypatch):
    def missing(*_):
        raise OSError(run_lock.errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(run_lock.fcntl, "flock", missing)
    with pytest.warns(RunWarning, match="has no locks"), RunLock(tmp_path):
        pass


def test_a_lock_that_is_a_link_is_not_followed(run, tmp_path, capsys):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(precious)
    assert resume(run, "total_steps=200") == 2
    assert precious.read_text() == "kept"


@pytest.mark.parametrize("what", ["lock", "folder"])
def test_a_training_whose_folder_is_somebody_elses_by_now_stops_and_writes_nothing_there(tmp_path, what, capsys):
    """Here the other one begins between two iterations; that it came between two others would be luck."""
    out, was = tmp_path / "run", tmp_path / "was"
    config = RunFolder.create(out, small()).config()
    run, rows = RunFolder.open(out), []

    def take_away(self, row):
        if len(rows) == 4:
            if what == "lock":
                (out / ".lock").unlink()
            else:
                out.rename(was)
                RunFolder.create(out, small())
            rows.append(RunLock(out).__enter__())
        rows.append(row)
        append(self, row)

    append = RunFolder.append_metrics
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RunError, match="was removed or replaced"):
        patch.setattr(RunFolder, "append_metrics", take_away)
        training.train(config, run, quiet=True)
    kept = was if what == "folder" else out
    assert iterations(kept) == [1, 2, 3, 4] and len(list((kept / "checkpoints").iterdir())) == 1
    if what == "folder":
        assert not (out / "metrics.jsonl").exists() and not list((out / "checkpoints").iterdir())
        assert RunFolder.open(out).record["steps"] == 0
    assert "continue with" not in capsys.readouterr().out or what == "lock"


def test_a_lock_that_was_replaced_while_it_was_taken_is_none(tmp_path, monkeypatch):
    def late(file, how):
        (tmp_path / ".lock").unlink()

    monkeypatch.setattr(run_lock.fcntl, "flock", late)
    with pytest.raises(RunError, match="was replaced just now"), RunLock(tmp_path):
        pass


# ---- rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [b'{"iteration": 4, "st', b"\xff\xfe", b"[1]", b"[" * 100_000, b'{"steps": "many"}', b""]
)
def test_a_bad_row_costs_itself_alone(run, bad):
    path = run / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[3] = bad
    path.write_bytes(b"\n".join(lines))
    if bad != b'{"steps": "many"}':
        with pytest.warns(RunWarning, match=r"metrics\.jsonl is damaged: line 4 is not a row"):
            assert iterations(run) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    folder = RunFolder.open(run)
    with pytest.warns(
        RunWarning, match=r"line 4 is not a row; the other rows are kept, what was there is in .*\.damaged"
    ):
        folder.forget_after(100)
    assert iterations(run) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert (run / "metrics.jsonl.damaged").read_bytes() == bad + b"\n"


@pytest.mark.filterwarnings("error")
def test_a_last_row_cut_short_is_no_damage_and_told(run):
    whole = (run / "metrics.jsonl").read_bytes()
    for cut in range(1, len(whole.splitlines(keepends=True)[-1])):
        (run / "metrics.jsonl").write_bytes(whole[:-cut])
        found = parse_rows(run / "metrics.jsonl")
        assert not found.damaged and len(found.rows) == (10 if cut == 1 else 9)
    with pytest.warns(RunWarning, match="ends after 90 steps, and the checkpoint has 100"):
        RunFolder.open(run).forget_after(100)
    assert not (run / "metrics.jsonl.damaged").exists()


def test_killed_before_the_first_checkpoint_every_iteration_stands_once(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(training, "_save", lambda *_: os.kill(os.getpid(), signal.SIGALRM))
        patch.setattr(training, "_mark_failed", lambda *_: None)  # a killed process writes nothing more
        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            assert main([*TRAIN, "--out", str(out), *SMALL, "total_steps=100"]) == 130
        finally:
            signal.signal(signal.SIGALRM, previous)
    assert iterations(out) == [1, 2, 3] and RunFolder.open(out).record["status"] == "running"
    assert resume(out) == 0
    assert iterations(out) == list(range(1, 11))


def test_a_run_whose_checkpoints_are_gone_keeps_its_rows(run, capsys):
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    assert resume(run, "total_steps=200") == 2
    assert "did 100 steps, and its checkpoints are gone: put them back" in capsys.readouterr().err
    assert iterations(run) == list(range(1, 11))


# ---- parts of a folder ---------------------------------------------------------------------------------------------


def test_checkpoints_alone_cannot_be_continued_and_it_says_why(run, capsys):
    (run / "run.json").unlink()
    (run / "metrics.jsonl").unlink()
    assert resume(run) == 2
    assert "has checkpoints/ but no run.json, which says what was trained: put back" in capsys.readouterr().err
    (run / "config.yaml").unlink()
    assert resume(run) == 2
    assert "has checkpoints/ but no run.json and config.yaml, which say what" in capsys.readouterr().err
    with pytest.raises(RunError, match=r"no run\.json and checkpoints/ alone does not say what was trained"):
        RunFolder.open(run)


@pytest.mark.parametrize(
    "left", [["checkpoints/"], ["checkpoints/", ".lock"], ["checkpoints/", ".lock", "config.yaml"]]
)
def test_what_a_start_that_was_killed_left_is_started_anew(tmp_path, left, capsys):
    out = tmp_path / "run"
    out.mkdir()
    for name in left:
        (out / name).mkdir() if name.endswith("/") else (out / name).touch()
    assert main([*TRAIN, "--out", str(out), "--resume", *SMALL, "total_steps=20"]) == 0
    assert iterations(out) == [1, 2]


@pytest.mark.parametrize("there", [["config.yaml"], ["checkpoints/", "thesis.tex"], [".lock", "checkpoints/notes"]])
def test_what_is_not_ours_is_left_alone(tmp_path, there, capsys):
    out = tmp_path / "run"
    for name in there:
        path = out / name
        path.mkdir(parents=True) if name.endswith("/") else (
            path.parent.mkdir(parents=True, exist_ok=True),
            path.touch(),
        )
    before = sorted(out.rglob("*"))
    assert main([*TRAIN, "--out", str(out), *SMALL, "total_steps=20"]) == 2
    assert "not an empty folder" in capsys.readouterr().err
    assert sorted(out.rglob("*")) == before


# ---- checkpoints ---------------------------------------------------------------------------------------------------


def save(path: Path, state: object) -> None:
    torch.save(state, path)


def archive(path: Path, **entries: bytes) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in entries.items():
            file.writestr(name, data)


UNREADABLE = {
    "empty": (lambda path: path.write_bytes(b""), "is damaged: it is empty"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is damaged: it was cut short after"),
    "text": (lambda path: path.write_text("hello"), "is damaged: it does not begin as a checkpoint does"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "checkpoint .* is a folder, not a file"),
    "format": (
        lambda path: save(path, {"gaitway_run": 99}),
        "has run format 99, this version of Gaitway reads format 3",
    ),
    "stranger": (lambda path: save(path, {"model_state_dict": {}}), "no checkpoint of Gaitway: it names no run format"),
    "code": (lambda path: save(path, {"gaitway_run": print}), "holds more than tensors and plain data"),
    "zip": (lambda path: archive(path, notes=b"x"), "is damaged"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_unreadable_checkpoint_says_why(run, kind):
    damage, reason = UNREADABLE[kind]
    path = RunFolder.open(run).checkpoints()[-1]
    damage(path)
    with pytest.raises(RunError, match=reason):
        read_checkpoint(path)


@pytest.mark.parametrize("state", [{}, {"trainer": {}}, {"trainer": {"policy": {"net": torch.ones(2)}}}])
def test_a_checkpoint_without_what_a_run_needs_is_not_loaded(run, state):
    path = RunFolder.open(run).checkpoints()[-1]
    save(path, {"gaitway_run": 3, "steps": 1, **state})
    config = RunFolder.open(run).config()
    env = config.environments.make_env(config, 1, 0)
    with pytest.raises(RunError, match=rf"{path} does not fit {run}/config.yaml: "):
        trainer_of(RunFolder.open(run), env)


def test_a_checkpoint_that_may_not_be_read_says_so_and_is_not_thrown_away(run, monkeypatch, capsys):
    newest = RunFolder.open(run).checkpoints()[-1]

    def refused(path, *_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(zipfile, "ZipFile", refused)
    assert resume(run, "total_steps=200") == 2
    assert f"checkpoint {newest} cannot be read: Permission denied" in capsys.readouterr().err
    assert newest.exists()


def test_a_checkpoint_of_a_newer_version_is_not_thrown_away(run, capsys):
    newest = RunFolder.open(run).checkpoints()[-1]
    save(newest, {"gaitway_run": 4})
    assert resume(run, "total_steps=200") == 2
    assert "has run format 4" in capsys.readouterr().err and newest.exists()


def test_a_checkpoint_that_the_training_replaces_meanwhile_is_not_missed(run, monkeypatch):
    folder = RunFolder.open(run)
    seen = []

    def slow(path):
        seen.append(path.name)
        if len(seen) == 1:
            path.rename(path.with_name("step_000000000110.pt"))
        return read_checkpoint(path)

    monkeypatch.setattr(runs, "read_checkpoint", slow)
    assert folder.load_checkpoint()[1].name == "step_000000000110.pt"
    assert seen == ["step_000000000100.pt", "step_000000000110.pt"]


def test_what_could_not_be_read_once_is_kept(run, monkeypatch, capsys):
    """A disk that fails for a moment must not cost the newest checkpoint."""
    newest, before = RunFolder.open(run).checkpoints()[-1], []

    def once(file, **options):
        if not before:
            before.append(newest.read_bytes())
            raise RuntimeError("PytorchStreamReader failed reading file data/0: file read failed")
        return load(file, **options)

    load = torch.load
    monkeypatch.setattr(torch, "load", once)
    assert resume(run, "total_steps=200") == 0
    assert newest.with_name("step_000000000100.pt.unread").read_bytes() == before[0]
    said = capsys.readouterr().err
    assert "falling back" in said and "could not be read, and is kept as step_000000000100.pt.unread" in said


def test_a_disk_that_cannot_be_read_ends_it_before_anything_is_done_again(run, monkeypatch, capsys):
    def failing(file, **options):
        raise OSError(5, "Input/output error")

    files = sorted((run / "checkpoints").iterdir())
    monkeypatch.setattr(torch, "load", failing)
    assert resume(run, "total_steps=200") == 2
    assert "cannot be read: Input/output error" in capsys.readouterr().err
    assert sorted((run / "checkpoints").iterdir()) == files


def test_where_all_are_damaged_the_reason_is_told(run, capsys):
    for path in RunFolder.open(run).checkpoints():
        path.write_bytes(b"")
    assert resume(run, "total_steps=200") == 2
    said = capsys.readouterr().err
    assert said.count("it is empty; falling back to the checkpoint before it") == 2
    assert "none of the 3 checkpoints in" in said and "train anew; the oldest: " in said


# ---- edits ---------------------------------------------------------------------------------------------------------


def edit(run: Path, old: str, new: str) -> None:
    text = (run / "config.yaml").read_text()
    assert old in text
    (run / "config.yaml").write_text(text.replace(old, new, 1))


def test_an_edited_configuration_is_refused_and_the_difference_named(run, capsys):
    edit(run, "num_steps: 5", "num_steps: 4")
    edit(run, "seed: 0", "seed: 7")
    assert resume(run, "total_steps=200") == 2
    said = capsys.readouterr().err
    assert "config.yaml" in said and "seed was 0 and is 7" in said
    assert "(and 1 more: agent.num_steps)" in said and "Put it back to continue the run" in said
    assert iterations(run) == list(range(1, 11))


def test_what_may_change_on_the_command_line_may_be_edited(run):
    edit(run, "total_steps: 100", "total_steps: 120")
    edit(run, "checkpoint_interval: 3", "checkpoint_interval: 4")
    assert resume(run) == 0
    assert iterations(run) == list(range(1, 13))
    assert RunFolder.open(run).record["config"]["total_steps"] == 120
    assert resume(run, "total_steps=130") == 0


def test_a_setting_that_a_later_version_adds_is_no_edit(run):
    """Neither file says anything of it."""
    edit(run, "checkpoint_interval: 3\n", "")
    record = json.loads((run / "run.json").read_text())
    del record["config"]["checkpoint_interval"], record["config"]["agent"]["num_steps"]
    rewrite(run, config=record["config"])
    edit(run, "  num_steps: 5\n", "")
    assert RunFolder.open(run).edited() == {}
    edit(run, "seed: 0", "seed: 0\ncheckpoint_interval: 4")
    assert RunFolder.open(run).edited() == {"checkpoint_interval": (None, 4)}


def test_a_setting_that_is_gone_is_no_edit(run):
    """Runs of earlier versions have it in both files."""
    edit(run, "seed: 0", "seed: 0\nenv_groups: 1")
    rewrite(run, config=json.loads((run / "run.json").read_text())["config"] | {"env_groups": 1})
    assert RunFolder.open(run).edited() == {}


def rewrite(run: Path, **fields: object) -> None:
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"steps": "many"}, "run.json is damaged or was edited: steps is 'many'"),
        ({"steps": -1}, "run.json is damaged or was edited: steps is -1"),
        ({"status": None}, "run.json is damaged or was edited: status is None"),
        ({"time_s": [1]}, r"run.json is damaged or was edited: time_s is \[1\]"),
        ({"gaitway_run": {}}, "has run format {}"),
        ({"gaitway_run": 2, "versions": "old"}, r"has run format 2, .*\(version unknown\)"),
    ],
)
def test_an_edited_record_is_refused(run, fields, reason):
    rewrite(run, **fields)
    with pytest.raises(RunError, match=reason):
        RunFolder.open(run)


@pytest.mark.parametrize("text", ["", '{"gaitway_run": 3', "[]", "{}", "[" * 100_000, "\x00"])
def test_a_record_cut_short_is_refused(run, text, capsys):
    (run / "run.json").write_text(text)
    assert resume(run) == 2
    assert "run.json is damaged: it is not the record of a run" in capsys.readouterr().err


def test_a_record_of_another_seed_is_refused(run, capsys):
    rewrite(run, seed=5)
    assert resume(run, "total_steps=200") == 2
    assert "seed was 5 and is 0" in capsys.readouterr().err
