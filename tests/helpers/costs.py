"""Cost of each test in CPU time and memory: ``GAITWAY_TEST_COSTS=costs.jsonl pytest ...`` appends a line for each.

CPU time does not depend on what else a machine does, as wall time does. Children that a test waited for count with it;
"children" is their part.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = resource.getpagesize()


def cpu_seconds(who: int) -> float:
    """CPU time of this process or of the children it waited for [s]."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def resident_megabytes() -> float:
    """Memory that this process holds now [MB]."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


class Costs:
    """Appends the CPU time [s] and memory [MB] of each import, set-up, call and tear-down to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _measure(self, what: str, name: str) -> Iterator[None]:
        before = [cpu_seconds(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        result = yield
        after = [cpu_seconds(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        ours, children = (end - start for start, end in zip(before, after, strict=True))
        line = {
            "what": what,
            "name": name,
            "cpu": round(ours + children, 3),
            "children": round(children, 3),
            "mb": round(resident_megabytes()),
            "worker": os.environ.get("PYTEST_XDIST_WORKER", "main"),
        }
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        return (yield from self._measure("import", collector.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        return (yield from self._measure("setup", item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        return (yield from self._measure("call", item.nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item):
        return (yield from self._measure("teardown", item.nodeid))
