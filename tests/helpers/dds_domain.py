"""A DDS domain that no other test on this computer uses at the same time."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

DOMAINS = range(20, 220)
"""Away from 0 and 1, where robots and simulators are."""


@pytest.fixture
def dds_domain() -> Iterator[int]:
    """Locked until the test ends."""
    folder = Path(tempfile.gettempdir()) / "gaitway-test-domains"
    folder.mkdir(mode=0o777, exist_ok=True)
    for attempt in DOMAINS:
        domain = DOMAINS[(os.getpid() * 7 + attempt) % len(DOMAINS)]
        with open(folder / str(domain), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield domain
            return
    pytest.fail(f"all DDS domains are locked in {folder}")
