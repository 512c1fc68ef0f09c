"""Processes of ours end with the one that started them, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gaitway_files.children import ending_with_us, worker_pool

pytestmark = pytest.mark.hostile("durability")

POOL = """
import os, time
from gaitway_files.children import worker_pool
if __name__ == "__main__":
    with worker_pool(2) as pool:
        print(*{pool.submit(os.getpid).result() for _ in range(2)} | set(pool._processes), flush=True)
        list(pool.map(time.sleep, [600, 600]))
"""
COMMAND = """
import subprocess, sys, time
from gaitway_files.children import ending_with_us
child = subprocess.Popen(ending_with_us([sys.executable, "-c", "import time; time.sleep(600)"]), start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def gone(pid: int) -> bool:
    """Ended, if perhaps not yet waited for by the process that inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] == b"Z"
    except OSError:
        return True


def wait(until, seconds=20.0):
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.02)
    assert until()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("program", [POOL, COMMAND], ids=["pool", "command"])
def test_children_end_with_their_parent(program, number, tmp_path):
    (tmp_path / "parent.py").write_text(program)
    with subprocess.Popen([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True) as parent:
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert children and not any(gone(pid) for pid in children)
        parent.send_signal(number)
        parent.wait(10)
    wait(lambda: all(gone(pid) for pid in children))


def test_a_block_that_is_left_by_an_exception_ends_its_workers():
    begin, workers = time.monotonic(), []
    with pytest.raises(SystemExit), worker_pool(1) as pool:
        workers += [pool.submit(os.getpid).result()]
        pool.submit(time.sleep, 600)
        raise SystemExit
    assert time.monotonic() - begin < 60.0
    wait(lambda: all(gone(pid) for pid in workers))


def test_a_command_gets_the_signal_it_asked_for_and_keeps_its_exit_code():
    show = "import os, sys; print(os.getppid(), sys.argv[1:]); sys.exit(3)"
    done = subprocess.run(ending_with_us([sys.executable, "-c", show, "a b"]), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, f"{os.getpid()} ['a b']\n")


def test_one_that_starts_too_late_ends_at_once():
    command = ending_with_us([sys.executable, "-c", "print(1)"], signal.SIGTERM)
    command[command.index(str(os.getpid()))] = "1"
    assert subprocess.run(command, stdout=subprocess.PIPE).returncode == -signal.SIGTERM
