"""A reader that leaves early is no failure of the command that was writing."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", [["doctor"], ["list"], ["train", "--help"]])
def test_the_reader_may_leave(command: list[str]):
    writer = subprocess.Popen(
        [sys.executable, "-m", "gaitway", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert writer.stdout is not None and writer.stderr is not None
    writer.stdout.close()  # as head does once it has its line, and earlier than any command can write
    errors = writer.stderr.read().decode()
    assert (writer.wait(timeout=60), errors) == (0, "")
