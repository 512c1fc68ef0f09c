"""Begin a flight."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gaitway_files.versions import versions

from ..bundle.contract import CONTRACT_FILE, Contract, sha256
from .encoder import Encoder, Sink
from .file import FlightFile, check_bound, check_path, plain
from .recorder import RecorderProcess

MAX_BYTES = 2_000_000_000
RING_BYTES = 16 * 1024 * 1024
"""Half a minute of a robot with 12 joints at 500 Hz."""
SOFTWARE = ("gaitway", "numpy", "onnxruntime", "cyclonedds", "mcap")


def open_flight(
    path: str | Path,
    joint_names: Sequence[str],
    metadata: Mapping[str, object],
    *,
    realtime: bool,
    bundle: str | Path | None = None,
    max_bytes: int = MAX_BYTES,
    ring_bytes: int = RING_BYTES,
) -> Encoder:
    """A log that writes ``path`` (.mcap), which must not exist; raises :class:`FlightError` if it cannot.

    ``joint_names`` is the robot's own order. ``metadata`` should have "robot", the robot's
    name as in bundles, and "hardware", what ``--robot`` said, or "" for a simulation; other values than texts are
    stored as JSON. Versions, machine and start are added; of ``bundle``, its contract and the hashes of its files.

    ``realtime`` records in a process of its own, which calls reach through shared memory: they take microseconds, never
    wait for a disk, and what they handed over is stored even if this process is killed. A recorder that is more than
    ``ring_bytes`` behind costs records, which are counted and told as an event. Without ``realtime``, calls write the
    file themselves.

    A flight takes at most about ``max_bytes`` of disk: then its oldest part is removed, but no event ever.
    """
    path = Path(path)
    check_path(path)
    check_bound(max_bytes)
    attachments: dict[str, bytes] = {}
    command: dict[str, str] | None = None
    known: dict[str, object] = {
        "robot": "",
        "hardware": "",
        "joint_names": list(joint_names),
        "software": versions(*SOFTWARE),
        "machine": f"{platform.machine()}, {platform.platform()}, {os.cpu_count()} cores",
        "realtime": realtime,
    }
    if bundle is not None:
        contract = Contract.load(bundle)
        if not contract.follows_velocity:
            units = (f"[{unit}]" for unit in contract.command_units)
            command = dict(zip(contract.command_names, units, strict=True))
        content = attachments[CONTRACT_FILE] = (Path(bundle) / CONTRACT_FILE).read_bytes()
        known |= {
            "bundle": Path(bundle).absolute().name,
            "robot": contract.robot,
            "task": contract.task,
            "contract_sha256": sha256(content),
            "files_sha256": dict(contract.files),
        }
    texts = plain({**known, **metadata})
    sink: Sink
    if realtime:
        sink = RecorderProcess(path, texts, attachments, max_bytes, time.time_ns(), ring_bytes)
    else:
        sink = FlightFile(path, texts, attachments, max_bytes, time.time_ns())
    return Encoder(sink, joint_names, command)
