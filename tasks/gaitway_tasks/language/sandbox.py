"""Runs Python programs that may do anything."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gaitway_files.errors import NotDone
from gaitway_files.ranges import Checked, PositiveFloat, PositiveInt

from . import confine

_ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_SYSTEM = (
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/usr/share/zoneinfo",
    "/dev/urandom",
    "/dev/null",
)

_LOOK = 0.1
"""Time between two looks at what a program does [s]."""


class SandboxError(NotDone):
    """Programs cannot be confined on this machine, so none is run."""


@dataclass(frozen=True, kw_only=True)
class Limits(Checked):
    """Resources that a program may use."""

    cpu: PositiveFloat = 5.0
    """Processor time [s], rounded up to whole seconds."""
    wall: PositiveFloat = 15.0
    """Time until it is stopped whatever it does [s]."""
    asleep: PositiveFloat = 2.0
    """Time in all that it may wait, when there is nothing to wait for [s]."""
    memory: PositiveInt = 1 << 29
    """Address space [bytes]; the interpreter itself takes some 30 MB of it."""
    threads: PositiveInt = 64
    """Most threads at a time; more end it, within a tenth of a second."""
    output: PositiveInt = 1 << 16
    """Most output on each of its two streams [bytes]; more ends it."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a program."""

    stdout: str
    stderr: str
    ended: str
    """"finished", "failed" (an exception or an exit code), "time", "asleep", "memory", "threads" or "output"."""


def run_python(program: str, *, stdin: str = "", limits: Limits | None = None) -> Outcome:
    """Run a program in an interpreter of its own, confined as :mod:`~gaitway_tasks.language.confine` says.

    It sees the standard library and the installed packages, its own empty folder, no environment variables and no
    network; it can write nothing but its two streams. It can read no other file, but can learn whether one exists. On
    a kernel without Landlock (before 5.13) it can read the user's files; :func:`confinement` tells. Raises
    :class:`SandboxError` where it cannot be confined.
    """
    return _run(program, stdin, limits or Limits())[0]


@functools.cache
def confinement() -> str:
    """Confinement on this machine: "files and calls", or "calls" alone; raises :class:`SandboxError`."""
    return _run("", "", Limits())[1]


def _run(program: str, stdin: str, limits: Limits) -> tuple[Outcome, str]:
    options = {
        "parent": os.getpid(),
        "cpu": max(1, int(-(-limits.cpu // 1))),
        "memory": int(limits.memory),
        "packages": sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}),
        "readable": [*_SYSTEM, *{sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib")}],
    }
    with tempfile.TemporaryDirectory(prefix="gaitway-sandbox-") as folder:
        Path(folder, "program.py").write_text(program, "utf-8", errors="replace")
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", confine.__file__, json.dumps(options), str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=_ENVIRONMENT,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        try:
            streams, stopped = _converse(process, stdin.encode("utf-8", "replace"), limits)
        finally:
            _kill(process)
            report = _drain(reading)
    if not report and stopped in ("time", "asleep"):
        return Outcome("", "", "time"), report  # the machine was too busy to start it
    if report.startswith("error ") or not report:
        said = streams[1].decode("utf-8", "replace").strip().splitlines()
        raise SandboxError(
            report.removeprefix("error ") or f"a confined program does not start: {said[-1:] or stopped}"
        )
    stdout, stderr = (stream[: limits.output].decode("utf-8", "replace") for stream in streams)
    return Outcome(stdout, stderr, stopped or _ending(process.returncode, stderr)), report


def _converse(process: subprocess.Popen[bytes], said: bytes, limits: Limits) -> tuple[list[bytes], str]:
    """Feed a program and hear it out: its two streams, and the limit that it exceeded."""
    watch = _Watch(process.pid, limits)
    streams = [b"", b""]
    with selectors.DefaultSelector() as selector:
        assert process.stdin and process.stdout and process.stderr
        selector.register(process.stdout, selectors.EVENT_READ, 0)
        selector.register(process.stderr, selectors.EVENT_READ, 1)
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        while len(selector.get_map()) > (process.stdin in {key.fileobj for key in selector.get_map().values()}):
            if stopped := watch.stopped():
                return streams, stopped
            for key, _ in selector.select(_LOOK):
                if key.fileobj is process.stdin:
                    said = _feed(process, said)
                    if not said:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                chunk = os.read(key.fd, 1 << 16)
                streams[key.data] += chunk
                if len(streams[key.data]) > limits.output:
                    return streams, "output"
                if not chunk:
                    selector.unregister(key.fileobj)
    while process.poll() is None:  # it has closed its streams
        if stopped := watch.stopped():
            return streams, stopped
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK)
    return streams, ""


class _Watch:
    """Looks at a process now and then: the time it takes, how long all its threads wait, and how many there are.

    On a busy machine a thread that waits for a processor counts as awake.
    """

    def __init__(self, pid: int, limits: Limits):
        self._threads, self._limits = f"/proc/{pid}/task", limits
        self._looked, self._slept = time.monotonic(), 0.0
        self._deadline = self._looked + limits.wall

    def stopped(self) -> str:
        """The limit that it exceeds: "time", "asleep" or "threads"; else empty."""
        now = time.monotonic()
        if now >= self._deadline:
            return "time"
        passed = now - self._looked
        if passed < _LOOK / 2:
            return ""
        self._looked = now
        try:
            threads = os.listdir(self._threads)
            if len(threads) > self._limits.threads:
                return "threads"
            asleep = all(self._state(thread) == b"S" for thread in threads)
        except OSError:
            return ""
        self._slept += min(passed, 2 * _LOOK) if asleep else 0.0
        return "asleep" if self._slept > self._limits.asleep else ""

    def _state(self, thread: str) -> bytes:
        return Path(self._threads, thread, "stat").read_bytes().rpartition(b") ")[2][:1]


def _feed(process: subprocess.Popen[bytes], said: bytes) -> bytes:
    """The input that is left after the program has taken some; empty for a program that has closed its input."""
    assert process.stdin
    try:
        return said[os.write(process.stdin.fileno(), said[: 1 << 12]) :]
    except BrokenPipeError:
        return b""


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def _drain(pipe: int) -> str:
    with os.fdopen(pipe, "rb") as file:
        return file.read().decode("utf-8", "replace")


def _ending(code: int, stderr: str) -> str:
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "time"
    if code and stderr.rstrip().rpartition("\n")[2].startswith("MemoryError"):
        return "memory"
    return "failed" if code else "finished"
