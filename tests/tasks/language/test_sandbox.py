"""Abilities of a program in the sandbox, and their bounds."""

import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from gaitway_tasks.language import confine, sandbox
from gaitway_tasks.language.sandbox import Limits, SandboxError, confinement, run_python

QUICK = Limits(cpu=1.0, wall=3.0, asleep=0.6, memory=1 << 28)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print(sum(map(int, input().split())))", "7"),
        ("import json, re, math, random, datetime, decimal, heapq; print(json.dumps([1]))", "[1]"),
        ("import numpy; print(numpy.arange(4).sum())", "6"),
        ("import threading as t; x = t.Thread(target=print, args=('hi',)); x.start(); x.join()", "hi"),
        ("import asyncio\nasync def f():\n  await asyncio.sleep(0.01)\n  return 3\nprint(asyncio.run(f()))", "3"),
        ("import os; print(sorted(os.environ), os.listdir('.'))", None),
        ("import sys; print(__name__, sys.argv)", "__main__ ['program.py']"),
    ],
)
def test_ordinary_programs_run(program, said):
    outcome = run_python(program, stdin="3 4\n", limits=QUICK)
    assert (outcome.ended, outcome.stderr) == ("finished", "")
    assert said is None or outcome.stdout.strip() == said


def test_a_program_sees_nothing_of_its_surroundings(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    assert "SECRET" not in run_python("import os; print(os.environ)").stdout


FORBIDDEN = {
    "a connection": "import socket; socket.create_connection(('127.0.0.1', {port}), timeout=1)",
    "datagrams": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "local sockets": "import socket; socket.socket(socket.AF_UNIX)",
    "a datagram pair": "import socket; socket.socketpair(type=socket.SOCK_DGRAM)",
    "new processes": "import os\nwhile True: os.fork()",
    "other programs": "import subprocess; subprocess.run(['/bin/true'])",
    "replacing itself": "import os; os.execv('/bin/true', ['true'])",
    "new files": "open('x', 'w')",
    "files elsewhere": "open('{folder}/made', 'w')",
    "appending": "open('{file}', 'a')",
    "truncating": "import os; os.truncate('{file}', 0)",
    "removing": "import os; os.remove('{file}')",
    "renaming": "import os; os.rename('{file}', '{file}2')",
    "modes": "import os; os.chmod('{file}', 0)",
    "folders": "import os; os.mkdir('{folder}/made')",
    "links": "import os; os.symlink('{file}', '{folder}/made')",
    "files in memory": "import os; os.memfd_create('x')",
    "killing its parent": "import os; os.kill(os.getppid(), 9)",
    "killing everything": "import os; os.kill(-1, 9)",
    "signals by a file": "import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, 8, os.getppid())",
    "more memory": "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
    "limits of others": "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
}


@pytest.mark.hostile("language")
@pytest.mark.parametrize("what", FORBIDDEN)
def test_forbidden(what, tmp_path):
    file = tmp_path / "precious"
    file.write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        program = FORBIDDEN[what].format(port=server.getsockname()[1], folder=tmp_path, file=file)
        outcome = run_python(program, limits=QUICK)
        with pytest.raises(BlockingIOError):  # nobody knocked
            server.accept()
    assert outcome.ended == "failed"
    assert any(word in outcome.stderr for word in ("not permitted", "Permission denied", "not allowed")), outcome.stderr
    assert file.read_text() == "kept" and [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.hostile("language")
def test_raw_system_calls_are_refused_too():
    """Beneath Python's own functions, where its checks do not reach."""
    program = (
        "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\n"
        "print(l.socket(2, 1, 0), l.execve(b'/bin/true', None, None), l.ptrace(0, 0, 0, 0), l.unshare(0x10000000),"
        " l.mount(None, b'/', None, 0, None), l.syscall(425, 8, None))"
    )
    assert run_python(program, limits=QUICK).stdout.split() == ["-1"] * 6


@pytest.mark.skipif(confine.platform.machine() != "x86_64", reason="machine code of one processor")
@pytest.mark.hostile("language")
def test_calls_by_another_table_of_numbers_end_the_program():
    """``int 0x80`` enters the kernel by the 32-bit table, whose numbers mean other calls."""
    program = (
        "import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b814000000cd80c3'))\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())"
    )
    outcome = run_python(program, limits=QUICK)
    assert (outcome.ended, outcome.stdout) == ("failed", "")


@pytest.mark.hostile("language")
def test_files_of_the_user_cannot_be_read(tmp_path):
    if "files" not in confinement():
        pytest.skip("the kernel has no Landlock")
    (tmp_path / "answers").write_text("42")
    for path in (tmp_path / "answers", Path(__file__), "/etc/passwd", "/proc/self/environ"):
        outcome = run_python(f"print(open({str(path)!r}).read())", limits=QUICK)
        assert outcome.ended == "failed" and "Permission denied" in outcome.stderr, path


@pytest.mark.parametrize(
    ("program", "ended"),
    [
        ("while True: pass", "time"),
        ("9 ** 9 ** 9", "time"),
        ("import time; time.sleep(60)", "asleep"),
        ("import select; select.select([], [], [], 60)", "asleep"),
        ("import os; r, w = os.pipe(); os.read(r, 1)", "asleep"),
        ("import threading as t; x = t.Lock(); x.acquire(); t.Thread(target=x.acquire).start()", "asleep"),
        ("import os, time; os.close(1); os.close(2); time.sleep(60)", "asleep"),
        ("import time\nwhile True: time.sleep(0.01)", "asleep"),
        ("import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", "time"),
        ("x = 'a' * 10 ** 10", "memory"),
        ("x = [0]\nwhile True: x += x", "memory"),
        ("while True: print('a' * 1000)", "output"),
        ("import sys\nwhile True: sys.stderr.write('a' * 1000)", "output"),
        ("def f(): f()\nf()", "failed"),
        ("(" * 5000, "failed"),
        ("import os; os.abort()", "failed"),
        ("import sys; sys.exit(3)", "failed"),
        ("def f(:", "failed"),
    ],
)
@pytest.mark.hostile("language")
def test_every_program_ends(program, ended):
    begin = time.monotonic()
    outcome = run_python(program, limits=QUICK)
    assert outcome.ended == ended
    assert len(outcome.stdout) <= QUICK.output and time.monotonic() - begin < QUICK.wall + 2.0


PARENT = """
from gaitway_tasks.language import sandbox
sandbox.run_python("import time; time.sleep(600)", limits=sandbox.Limits(asleep=600, wall=600))
"""


def test_a_program_ends_with_the_process_that_started_it():
    with subprocess.Popen([sys.executable, "-c", PARENT]) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        _wait(lambda: children.read_text().split())
        child = int(children.read_text().split()[0])
        _wait(lambda: "Seccomp:\t2" in Path(f"/proc/{child}/status").read_text())
        parent.kill()
    _wait(lambda: not Path(f"/proc/{child}").exists())


def _wait(until, seconds=20.0):
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_waiting_for_input_is_no_sleep():
    program = "import sys; print(sum(map(int, sys.stdin)))"
    outcome = run_python(program, stdin="1\n" * 200_000, limits=QUICK)
    assert (outcome.ended, outcome.stdout) == ("finished", "200000\n")


@pytest.mark.hostile("language")
def test_a_crowd_of_threads_ends():
    program = (
        "import threading, time\nthreading.stack_size(1 << 15)\n"
        "for _ in range({}): threading.Thread(target=time.sleep, args=(60,)).start()\n"
    )
    limits = replace(QUICK, asleep=1.0)
    most = limits.threads - 1  # the program's own thread is one
    assert run_python(program.format(most), limits=limits).ended == "asleep"
    assert run_python(program.format(most + 1), limits=limits).ended == "threads"
    assert run_python(program.format(10**6), limits=limits).ended in ("threads", "failed")


def test_existence_of_a_file_is_all_that_is_told(tmp_path):
    """As docs/trust.md says."""
    if "files" not in confinement():
        pytest.skip("the kernel has no Landlock")
    (tmp_path / "there").touch()
    program = f"import os; print([os.path.exists({str(tmp_path)!r} + name) for name in ('/there', '/absent')])"
    assert run_python(program, limits=QUICK).stdout == "[True, False]\n"


def test_input_that_nobody_reads_blocks_nothing():
    assert run_python("print(1)", stdin="x" * 10_000_000, limits=QUICK).stdout == "1\n"


def test_an_error_speaks_of_the_program_only():
    outcome = run_python("def f():\n    return 1 / 0\nf()")
    assert outcome.stderr.splitlines()[1:] == [
        '  File "program.py", line 3, in <module>',
        *outcome.stderr.splitlines()[2:-1],
        "ZeroDivisionError: division by zero",
    ]
    assert "confine" not in outcome.stderr


def test_where_nothing_can_be_confined_nothing_runs(monkeypatch, tmp_path):
    """An interpreter that reports no confinement, as on another system."""
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nprintf 'error no filter here' > /proc/self/fd/$6\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sandbox.sys, "executable", str(fake))
    with pytest.raises(SandboxError, match="no filter here"):
        run_python("print(1)")
    monkeypatch.setattr(confine.platform, "machine", lambda: "riscv64")
    with pytest.raises(confine.Unconfined, match="riscv64"):
        confine.restrict_calls()


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="wall 0: must be positive"):
        Limits(wall=0)
