"""A cluster of Ray on loopback: a head without CPUs, and nodes of one CPU, whose raylets a test may kill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SETTINGS = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray would take the outer interface of this machine
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # its own 15 would wait for whatever else this machine does
    "RAY_TMPDIR": "/tmp/ray-gaitway",  # paths of its sockets have at most 107 characters
}
STORE = {"object_store_memory": 100 * 2**20}


@contextmanager
def cluster(count: int = 2) -> Iterator[Any]:
    """Ray's ``Cluster``, whose nodes but the head are also in its list ``gaitway_nodes``."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        patch.setenv("PYTHONPATH", os.pathsep.join(path))  # of the nodes
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **STORE})
        made.gaitway_nodes = [made.add_node(num_cpus=1, **STORE) for _ in range(count)]
        yield made
        made.shutdown()


def raylet(node: Any) -> int:
    """Process id of a node's raylet."""
    return int(node.all_processes["raylet"][0].process.pid)


def servers() -> dict[int, list[int]]:
    """Process ids of engines' servers on this machine, and of the processes that they come from, nearest first."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            if b"gaitway_language.engines.serve" in words and b"-m" in words:
                found[int(path.name)] = _ancestors(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found
