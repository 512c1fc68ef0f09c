"""Processes forked from this one in the place of new ones, which import for ten CPU-seconds before they do anything."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest


class Forked(subprocess.Popen):
    """``python -m gaitway...`` run in a fork of this process: one of its own from the first line of the module on."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startup, flags, shell,
                       p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *others):  # fmt: skip
        if not {"-m", "gaitway"} <= {*args, *(word.partition(".")[0] for word in map(str, args))}:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startup, flags, shell,
                                   p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *others)  # fmt: skip
            return
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._become(args, pass_fds, env, {0: p2cread, 1: c2pwrite, 2: errwrite}, new_session=others[5])
            finally:
                os._exit(70)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _become(self, args: Any, passed: Any, env: Any, streams: dict[int, int], *, new_session: bool) -> None:
        if new_session:
            os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for stream, given in streams.items():
            if given >= 0:
                os.dup2(given, stream)
        nothing = os.open(os.devnull, os.O_RDWR)
        for open_here in map(int, os.listdir("/proc/self/fd")):  # locks and sockets of this process are not the other's
            if open_here > 2 and open_here not in passed:
                os.dup2(nothing, open_here)
        sys.stdout, sys.stderr = (open(stream, "w", buffering=1, closefd=False) for stream in (1, 2))  # noqa: SIM115
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        module = args.index("-m") + 1
        sys.argv = args[module:]
        try:
            runpy.run_module(args[module], run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
        os._exit(code)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of Gaitway that a test starts, and those that these start, are forks."""
    monkeypatch.setattr(subprocess, "Popen", Forked)
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", {"spawn": fork}.__getitem__)


def distributed(*words: str) -> list[str]:
    """What two processes say that run ``gaitway`` together, as torchrun starts them. Both must end well."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        shared = os.environ | {
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(probe.getsockname()[1]),
        }
    started = [
        subprocess.Popen([sys.executable, "-m", "gaitway", *words], stdout=subprocess.PIPE, text=True,
                         env=shared | {"RANK": rank, "LOCAL_RANK": rank})
        for rank in "01"
    ]  # fmt: skip
    said = [process.communicate(timeout=300)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    return said
