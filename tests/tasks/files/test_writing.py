"""Files and folders are whole or absent, whatever lies in the folder that they are written to."""

import ast
import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from gaitway_files import writing
from gaitway_files.writing import open_to_append, whole_file, whole_folder, write_file, write_text
from tree import ROOT

pytestmark = pytest.mark.hostile("untrusted files")

TOPS = ("tasks", "agents", "extensions", "sim2real")
OURS = [ROOT / "gaitway", *(path for top in TOPS for path in (ROOT / top).glob("gaitway_*"))]
ELSEWHERE = {
    "tasks/gaitway_files/writing.py": "the writers themselves",
    "tasks/gaitway_tasks/language/sandbox.py": "a temporary folder",
    "agents/gaitway_agents/language/shared_weights.py": "a temporary folder",
    "sim2real/gaitway_sim2real/rehearse/processes.py": "a temporary folder",
    "sim2real/gaitway_sim2real/mujoco/standalone.py": "a temporary folder, or a file that is not in place yet",
    "sim2real/gaitway_onboard/bundle/reading.py": "a temporary folder",
    "sim2real/gaitway_onboard/flight/reading.py": "a temporary folder, and a new file only",
    "sim2real/gaitway_onboard/flight/file.py": "new files only, written for as long as a robot moves",
    "gaitway/hub/folder.py": "inside the new folder of a bundle",
    "sim2real/gaitway_sim2real/bundle/export.py": "inside the new folder of a bundle",
    "sim2real/gaitway_sim2real/bundle/model_files.py": "inside the new folder of a bundle",
    "sim2real/gaitway_sim2real/imports/bundle.py": "inside the new folder of a bundle",
    "sim2real/gaitway_sim2real/imports/leapp/bundle.py": "inside the new folder of a bundle",
    "sim2real/gaitway_sim2real/imports/leapp/guess.py": "inside the new folder of a bundle",
}
"""Every other file of ours that writes by itself, and why it may."""

WRITERS = {
    "file": lambda path: write_file(path, lambda file: file.write(b"new")),
    "text": lambda path: write_text(path, "new"),
}


def hidden(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def save_by_name(path):
    with whole_file(path) as partial:
        assert partial.suffix == path.suffix
        partial.write_text("new")


def fill(path, text="new"):
    with whole_folder(path) as partial:
        (partial / "a").write_text(text)
        (partial / "b").mkdir()
        (partial / "b" / "c").write_text(text)


WRITERS["name"] = save_by_name


@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_prepared_under_the_temporary_name_is_not_followed(tmp_path, monkeypatch, writer):
    victim, target = tmp_path / "victim", tmp_path / "made" / "report.html"
    victim.write_text("precious")
    target.parent.mkdir()
    names = iter(["0" * 16, "1" * 16])
    monkeypatch.setattr(writing.secrets, "token_hex", lambda _: next(names))
    for name in (".report.html.partial", f".report.html.{'0' * 16}.partial"):
        (target.parent / name).symlink_to(victim)
    WRITERS[writer](target)
    assert (target.read_text(), victim.read_text()) == ("new", "precious")
    assert next(names, None) is None, "the name that was taken was not tried"


@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_at_the_target_is_replaced_and_its_file_kept(tmp_path, writer):
    victim, target = tmp_path / "victim", tmp_path / "verdict.json"
    victim.write_text("precious")
    target.symlink_to(victim)
    WRITERS[writer](target)
    assert not target.is_symlink()
    assert (target.read_text(), victim.read_text()) == ("new", "precious")


def test_a_new_file_has_the_usual_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        mode = stat.S_IMODE(write_text(tmp_path / "a", "").stat().st_mode)
    finally:
        os.umask(old)
    assert mode == 0o640
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk_leaves_the_old_file(tmp_path):
    target = write_text(tmp_path / "run.json", "old")

    def write(file):
        file.write(b"half of the n")
        file.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        write_file(target, write)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_name_as_long_as_the_disk_allows(tmp_path):
    assert write_text(tmp_path / ("ü" * 127), "new").read_text() == "new"


@pytest.mark.parametrize("writer", WRITERS)
def test_a_pipe_is_not_replaced(tmp_path, writer):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="not a plain file"):
            WRITERS[writer](tmp_path / name)
    with pytest.raises(IsADirectoryError):
        WRITERS[writer](tmp_path)


CODE = """
import sys, time
from gaitway_files.writing import write_file, whole_folder
def write(file):
    print("writing", flush=True)
    time.sleep(60)
if sys.argv[1] == "file":
    write_file(sys.argv[2], write)
with whole_folder(sys.argv[2]):
    write(None)
"""


@pytest.mark.parametrize(("kind", "again"), [("file", lambda path: write_text(path, "new")), ("folder", fill)])
def test_what_a_killed_process_left_is_removed_by_the_next_writer_and_a_living_ones_is_not(tmp_path, kind, again):
    target = tmp_path / "out"
    words = [sys.executable, "-c", CODE, kind, str(target)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "writing\n"
        again(target)
        assert len(hidden(tmp_path)) == 1, "the folder of a process that lives was removed"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert len(hidden(tmp_path)) == 1
    write_text(tmp_path / "other", "")
    assert len(hidden(tmp_path)) == 1, "it belongs to another target"
    again(target)
    assert hidden(tmp_path) == []


def test_two_writers_of_one_target_leave_one_whole_result(tmp_path):
    failed = []

    def repeat(name):
        try:
            for _ in range(20):
                write_text(tmp_path / "file", name * 10_000)
                fill(tmp_path / "folder", name)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=repeat, args=(name,)) for name in "xyz"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failed == []
    assert (tmp_path / "file").read_text() in {name * 10_000 for name in "xyz"}
    parts = [(tmp_path / "folder" / name).read_text() for name in ("a", "b/c")]
    assert parts[0] == parts[1]
    assert hidden(tmp_path) == []


def test_a_folder_takes_the_place_of_the_old_one_whole(tmp_path):
    fill(tmp_path / "out", "old")
    (tmp_path / "out" / "more").write_text("")
    fill(tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["a", "b"]
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_takes_the_place_of_a_link_and_keeps_what_it_led_to(tmp_path):
    fill(tmp_path / "victim", "precious")
    (tmp_path / "out").symlink_to("victim")
    fill(tmp_path / "out")
    assert not (tmp_path / "out").is_symlink()
    assert [(tmp_path / name / "a").read_text() for name in ("out", "victim")] == ["new", "precious"]


def test_a_folder_that_fails_leaves_the_old_one(tmp_path):
    fill(tmp_path / "out", "old")
    with pytest.raises(RuntimeError), whole_folder(tmp_path / "out") as partial:
        (partial / "a").write_text("half")
        raise RuntimeError
    assert (tmp_path / "out" / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_whose_last_step_fails_leaves_the_old_one(tmp_path, monkeypatch):
    fill(tmp_path / "out", "old")
    replace = os.replace

    def fail_once_free(source, target):
        if Path(source).name == "new" and not Path(target).exists():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_once_free)
    with pytest.raises(OSError, match="Input/output"):
        fill(tmp_path / "out")
    assert (tmp_path / "out" / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["out"]


def test_rows_are_not_appended_through_a_link_or_to_a_pipe(tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "link").symlink_to("victim")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match="not a plain file"):
            open_to_append(tmp_path / name)
    for row in (b"a\n", b"b\n"):
        with open_to_append(tmp_path / "rows") as file:
            file.write(row)
    assert (tmp_path / "rows").read_text() == "a\nb\n"
    assert (tmp_path / "victim").read_text() == "precious"


def writes_of(path):
    """Lines of calls that write to a name by themselves."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        words = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        mode = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        opens = called == "open" or called.endswith(".open")
        if called.endswith((".write_text", ".write_bytes", "shutil.copyfile", "os.replace", "os.rename")) or (
            opens and any(set(word) & set("wax") and set(word) <= set("wax+bt") for word in mode)
        ):
            yield node.lineno


def test_everything_else_of_ours_writes_through_these():
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for folder in OURS
        for path in folder.rglob("*.py")
        if str(path.relative_to(ROOT)) not in ELSEWHERE
        for line in writes_of(path)
    }
    assert found == set()
    assert [name for name in ELSEWHERE if not (ROOT / name).is_file()] == []


def test_a_folder_may_be_reached_by_a_link(tmp_path):
    """As a folder of runs that leads to a larger disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to("disk")
    write_text(tmp_path / "runs" / "file", "a")
    with whole_folder(tmp_path / "runs" / "folder") as partial:
        (partial / "file").write_text("b")
    assert (tmp_path / "disk/file").read_text() == "a" and (tmp_path / "disk/folder/file").read_text() == "b"
    assert (tmp_path / "runs").is_symlink()
