import gc
import os
import sys
import time

import pytest
from gaitway_onboard.realtime import _receiving, prioritised, realtime


def _named() -> list[int]:
    """The threads once they have their names, which each gives itself when it first runs."""
    found: list[int] = []
    for _ in range(100):
        before, found = found, sorted(_receiving())
        if found and found == before:
            break
        time.sleep(0.05)
    return found


def test_threads_that_bring_messages_are_scheduled_as_the_loop_is(dds_domain):
    pytest.importorskip("cyclonedds")
    from gaitway_onboard.wire.dds import DdsBus

    bus = DdsBus("lo", dds_domain)
    try:
        threads = _named()
        assert threads and os.getpid() not in threads
        before = [os.sched_getscheduler(thread) for thread in (0, *threads)]
        with prioritised(5) as allowed:
            if not allowed:
                pytest.skip("real-time scheduling is not allowed here")
            assert {os.sched_getscheduler(thread) & 0xF for thread in (0, *threads)} == {os.SCHED_FIFO}
            assert {os.sched_getparam(thread).sched_priority for thread in (0, *threads)} == {5}
        assert [os.sched_getscheduler(thread) for thread in (0, *threads)] == before
    finally:
        bus.close()


def test_the_operating_system_is_left_as_it_was() -> None:
    gc.unfreeze()  # what the tests froze
    before = gc.isenabled(), sys.getswitchinterval(), os.sched_getscheduler(0), gc.get_freeze_count()
    with realtime() as notes:
        assert not gc.isenabled() and sys.getswitchinterval() < 1e-3
        granted = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
        assert granted != any("real-time scheduling" in note for note in notes)
    assert (gc.isenabled(), sys.getswitchinterval(), os.sched_getscheduler(0), gc.get_freeze_count()) == before
    gc.freeze()
