"""Calls of other people's code: each has an end, and what comes out is named."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from gaitway_files import foreign
from gaitway_files.errors import Stopped
from gaitway_files.foreign import BrokenEnvironmentError, EnvironmentRaised, calling


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(foreign, "LOOK", 0.02)
    monkeypatch.setattr(foreign, "_watcher", None)
    yield
    assert foreign._calls == {}


def wait():
    time.sleep(60)


def spin():
    """As those do who try again and again."""
    while True:
        with contextlib.suppress(Exception):
            sum(range(100))


def read():
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.read()
        finally:
            child.kill()


@pytest.mark.parametrize("body", [wait, spin, read])
def test_a_call_that_does_not_return_is_given_up(body):
    start = time.monotonic()
    message = r"Hangs-v0 does not return from its step 5.*call_time_limit"
    with pytest.raises(BrokenEnvironmentError, match=message), calling("Hangs-v0", "step 5", 0.2):
        body()
    assert time.monotonic() - start < 10.0


def test_a_call_in_another_thread_is_given_up_too():
    found = []

    def work():
        try:
            with calling("Hangs-v0", "step 5", 0.2):
                spin()
        except BrokenEnvironmentError as error:
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10.0)
    assert "does not return" in found[0]


def test_a_long_call_is_told_of_once(monkeypatch, capsys):
    monkeypatch.setattr(foreign, "TELL_AFTER", 0.1)
    with calling("Slow-v0", "reset", 900.0):
        time.sleep(0.5)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Slow-v0: its reset has taken 0 s; it is given up after 900 s")


def test_what_is_raised_is_named_once():
    with pytest.raises(EnvironmentRaised) as found, calling("Outer-v0", "step 7"), calling("Falls-v0", "step 5"):
        raise KeyError("key")
    start = "environment Falls-v0 raised KeyError: 'key' (step 5), in test_foreign.py, line "
    assert str(found.value).startswith(start)
    message = r"^reward is None \(step 5 of Falls-v0\)$"
    with pytest.raises(BrokenEnvironmentError, match=message), calling("Falls-v0", "step 5"):
        raise BrokenEnvironmentError("reward is None")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), Stopped(143)], ids=repr)
def test_signals_and_want_of_memory_go_their_way(error):
    with pytest.raises(type(error)) as found, calling("Falls-v0", "step 5"):
        raise error
    assert found.value is error


def test_its_signal_does_nothing_between_calls():
    with calling("Quick-v0", "reset"):
        pass
    signal.raise_signal(signal.SIGURG)
    assert sys.exc_info() == (None, None, None)
