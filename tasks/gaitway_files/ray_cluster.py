"""Clusters of Ray, which this machine joins. Ray has no authentication: its ports belong into closed networks."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
from typing import Any

from .errors import UserError

REACH_S = 5.0
"""Longest wait for the cluster's port."""
START = "start one with 'ray start --head --port=6379' and name it as HOST:6379"


def join_cluster(address: str, option: str) -> Any:
    """The module of Ray, connected to the cluster at ``address``, HOST:PORT; ``ray.shutdown()`` leaves it.

    Raises :class:`UserError` that begins with ``option``, by which the cluster was named, if it cannot be reached or
    has other versions of Ray or Python.
    """
    _reach(address, option)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())
        remedy = "install the same versions on all nodes" if "ersion mismatch" in said else START
        raise UserError(f"{option}: {said[:300]}: {remedy}") from None
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():  # Ray has put its own there
            signal.signal(signal.SIGTERM, before)
    return ray


def _reach(address: str, option: str) -> None:
    """Raise unless something listens at the address."""
    if not re.fullmatch(r"[\w.-]+:\d{1,5}", address):
        raise UserError(f"{option}: write HOST:PORT of the cluster's head, such as 10.0.0.1:6379")
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"{option}: no cluster answers there ({error}): {START}") from None
