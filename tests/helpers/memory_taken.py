"""Most memory that this process had at a time, of Linux: that of ``getrusage`` begins with the parent's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROCESS = Path("/proc/self")


def peak() -> int:
    """Most bytes since the process began or was last :func:`watched`."""
    status = PROCESS.joinpath("status").read_text("utf-8")
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


@contextmanager
def watched() -> Iterator[Callable[[], int]]:
    """A function that tells by how many bytes the process has grown at most since the block began."""
    if not PROCESS.is_dir():
        pytest.skip("only Linux tells the most memory of a part of a process")
    PROCESS.joinpath("clear_refs").write_text("5", "utf-8")
    before = peak()
    yield lambda: peak() - before
