"""Readers that leave, consoles that go, disks that are full: what a command does and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from gaitway.cli import main
from gaitway.runs.folder import RunFolder
from gaitway.terminal import guarded, work_on
from gaitway.training.interrupt import stop_requests


@pytest.mark.parametrize("command", [["doctor"], ["list"], ["train", "--help"]])
def test_the_reader_may_leave(command: list[str]):
    writer = subprocess.Popen(
        [sys.executable, "-m", "gaitway", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert writer.stdout is not None and writer.stderr is not None
    writer.stdout.close()  # as head does once it has its line, and earlier than any command can write
    errors = writer.stderr.read().decode()
    assert (writer.wait(timeout=60), errors) == (0, "")


class Gone:
    """A stream whose reader left, or whose disk is full."""

    def __init__(self, number: int, descriptor: int):
        self.number, self.descriptor, self.tries = number, descriptor, 0

    def write(self, text: str) -> int:
        self.tries += 1
        raise OSError(self.number, os.strerror(self.number))

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.descriptor


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_training_that_nobody_reads_is_finished_and_says_so_once(number, tmp_path, monkeypatch, capsys):
    with (tmp_path / "descriptor").open("w") as spare:
        stream = Gone(number, spare.fileno())
        monkeypatch.setattr(sys, "stdout", stream)
        few = ["total_steps=64", "num_envs=4", "agent.num_steps=4", "evaluation_episodes=0"]
        assert main(["train", "cartpole", "--out", str(tmp_path / "run"), *few]) == 0
    assert RunFolder.open(tmp_path / "run").record["status"] == "finished" and stream.tries > 1
    said = capsys.readouterr().err
    assert said.count(os.strerror(number)) == 1 and "goes on" in said


def test_what_only_prints_ends_with_its_reader(tmp_path, monkeypatch):
    with (tmp_path / "descriptor").open("w") as spare:
        monkeypatch.setattr(sys, "stdout", Gone(errno.EPIPE, spare.fileno()))
        assert main(["list", "agents"]) == 0


def test_a_broken_pipe_of_the_work_is_an_error_of_the_work(tmp_path, monkeypatch):
    def lost(*_: object) -> int:
        raise BrokenPipeError(errno.EPIPE, "a process of the training ended")

    monkeypatch.setattr("gaitway.start.begin", lost)
    assert main(["train", "cartpole", "--out", str(tmp_path / "run")]) != 0


def test_closed_streams_are_no_reason_to_fail(tmp_path):
    few = ["total_steps=64", "num_envs=4", "agent.num_steps=4", "evaluation_episodes=0"]
    words = [sys.executable, "-m", "gaitway", "train", "cartpole", "--out", "run", *few]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], cwd=tmp_path)
    assert done.returncode == 0 and RunFolder.open(tmp_path / "run").record["status"] == "finished"


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path):
    program = (
        "import os, sys; from gaitway.terminal import guarded\n"
        "with guarded(), open('file', 'w') as file:\n"
        "    os.write(1, b'of a library'); os.write(2, b'of another'); assert sys.stdin.read() == ''"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "file").read_text() == ""


def test_streams_are_as_before_after_a_command(capsys):
    before = sys.stdout, sys.stderr
    with guarded():
        work_on()
        print("shown\x1b[2J")
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().out == "shown\\x1b[2J\n"


def test_a_terminal_that_goes_is_told_more_than_once():
    """By the shell and by the system: the second is no reason to end at once, and the first one counts."""
    with stop_requests() as stop:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGUSR1)
    assert (stop.signal, stop.exit_code) == (signal.SIGHUP, 129)


def test_under_nohup_a_terminal_may_go():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_requests() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.signal is None and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("words", "said"), [(["train", "--help"], "--resume"), (["list", "tasks"], "digit-sums")])
def test_no_docstrings_are_needed(words, said):
    done = subprocess.run([sys.executable, "-OO", "-m", "gaitway", *words], capture_output=True, text=True)
    assert done.returncode == 0 and said in done.stdout and "None" not in done.stdout, done.stderr
