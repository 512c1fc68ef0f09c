"""A small bundle to publish, and file servers on this machine, honest or not, that end with the test."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gaitway_onboard.bundle.contract import CONTRACT_FILE, Contract, sha256
from gaitway_onboard.bundle.published import index_of, write_index
from gaitway_onboard.bundle.signature import INDEX_FILE
from gaitway_sim2real.pages.verdict import write_verdict
from stand_bundle import make_stand_bundle

GAIT = {"step_rate": 1.83, "swing_time": 0.235, "clearance": 0.0779, "slip": 0.0438}


def make_bundle(folder: Path, *, verdict: str | None = "PASS") -> Path:
    """A bundle of the standing policy, with a verdict."""
    make_stand_bundle(folder)
    if verdict is not None:
        judge(folder, verdict)
    return folder


def judge(folder: Path, verdict: str = "PASS", **changes: object) -> Path:
    """A verdict about the bundle as it is."""
    contract = Contract.load(folder)
    passed = verdict == "PASS"
    body: dict[str, Any] = {
        "gaitway_validation": 1,
        "verdict": verdict,
        "suite_version": "2.1",
        "task": contract.task,
        "robot": contract.robot,
        "policy_sha256": contract.files["policy.onnx"],
        "contract_sha256": sha256((folder / CONTRACT_FILE).read_bytes()),
        "model": "bundle",
        "scenarios": [
            {"name": "stand", "title": "Standing still", "required": True, "passed": True, "metrics": {}},
            {"name": "gait_slow", "title": "Gait: slow", "required": True, "passed": passed, "metrics": GAIT},
        ],
    }
    return write_verdict(folder / "validation.json", body | changes)


def reseal(folder: Path) -> None:
    """Make a changed bundle consistent again, its index included, to reach the checks behind the hashes."""
    contract = Contract.load(folder)
    files = {name: sha256((folder / name).read_bytes()) for name in contract.files}
    dataclasses.replace(contract, files=files).save(folder)
    reindex(folder)


def reindex(folder: Path) -> None:
    (folder / INDEX_FILE).unlink(missing_ok=True)
    write_index(folder, index_of(folder))


@contextlib.contextmanager
def serving(handler: Callable[..., Any]) -> Iterator[str]:
    """Address of a server on this machine with handlers of this class."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=functools.partial(server.serve_forever, 0.01), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def folder_handler(folder: Path) -> Callable[..., Any]:
    """Handler that serves a folder as ``python -m http.server`` does."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    return functools.partial(Quiet, directory=str(folder))
