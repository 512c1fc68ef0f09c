"""The recorder in a process of its own: it outlives the controller by as long as it takes to store the last record.

``python -m gaitway_onboard.flight.recorder`` is started by :class:`RecorderProcess` and told by one line on
its standard input what to do; the end of that input is the end of the controller, however it came.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from .encoder import EVENT, LoggedEvent
from .messages import FlightError, pack_event
from .ring import Ring

GONE = (errno.ENOENT, errno.ESTALE)
"""Errors after which the file's name stands for nothing, or for another file."""
POLL = 0.02  # [s] between looks into the ring
FLUSH = 0.5  # [s] between chunks: what is lost if this process is killed too
SYNC = 2.0  # [s] between waits for the disk: what is lost if the power goes
START_TIMEOUT = 20.0  # [s]
CLOSE_TIMEOUT = 60.0  # [s]
DEFINITION, SUMMARY = 0, 0xFFFF  # channels of definitions, and of what is known only at the end


class RecorderProcess:
    """Implements :class:`gaitway_onboard.flight.encoder.Sink`: takes microseconds and never waits."""

    def __init__(
        self,
        path: Path,
        metadata: Mapping[str, str],
        attachments: Mapping[str, bytes],
        max_bytes: int,
        start_ns: int,
        ring_bytes: int,
    ):
        self._path, self._closed = path, False
        self._trouble: str | None = None
        self._ring = Ring.create(ring_bytes)
        order = {
            "path": str(path.absolute()),
            "metadata": dict(metadata),
            "attachments": {name: base64.b64encode(content).decode() for name, content in attachments.items()},
            "max_bytes": max_bytes,
            "start_ns": start_ns,
            "ring": [self._ring.descriptor, ring_bytes],
            "parent": os.getpid(),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],  # -P: no module of the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._ring.descriptor],
            start_new_session=True,  # Ctrl-C is for the controller; the recorder goes after it
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        answer = _answer(self._process.stdout)
        if answer != "ready":
            self._process.kill()
            self._process.wait()
            self._ring.release()
            raise FlightError(f"flight {path}: the recorder did not start: {answer or 'no answer'}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def trouble(self) -> str | None:
        """Reason why the flight is no longer recorded, or None."""
        if self._closed:
            return self._trouble
        if number := self._ring.trouble:
            return f"flight {self._path} cannot be written any further: {os.strerror(number)}"
        if (code := self._process.poll()) is not None:
            return f"the recorder of flight {self._path} has ended with code {code}"
        return None

    def define(self, channel: int, topic: str, name: str, schema: str, metadata: Mapping[str, str]) -> None:
        definition = json.dumps([channel, topic, name, schema, dict(metadata)]).encode()
        if not self._ring.write(DEFINITION, 0, 0, definition, True):
            raise FlightError("the recorder is behind: no room for a definition")

    def write(self, channel: int, log_time: int, sequence: int, payload: bytes, vital: bool) -> bool:
        return not self._closed and self._ring.write(channel, log_time, sequence, payload, vital)

    def close(self, summary: Mapping[str, str], told: Sequence[LoggedEvent] = ()) -> None:
        """Let the recorder finish; it does so on its own should it need longer than a minute.

        If it cannot any more, the file is finished here, and says that something is missing.
        """
        if self._closed:
            return
        process = self._process
        self._ring.write(SUMMARY, 0, 0, json.dumps(dict(summary)).encode(), True)
        self._ring.finish()
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(CLOSE_TIMEOUT)
        process.stdout.close()
        if process.returncode is None:
            self._trouble = f"the recorder of flight {self._path} did not finish within {CLOSE_TIMEOUT:g} s"
        elif process.returncode != 0:
            self._trouble = self.trouble
            if self._ring.trouble not in GONE:
                self._finish({**summary, "trouble": str(self._trouble)}, told)
        self._closed = True
        self._ring.release()

    def _finish(self, summary: Mapping[str, str], told: Sequence[LoggedEvent]) -> None:
        from .file import finish_cut

        try:
            finish_cut(self._path, summary, told)
        except OSError as error:
            self._trouble = f"{self._trouble}, and its end cannot be written: {error.strerror or error}"


def _answer(stream: IO[bytes]) -> str:
    ready, _, _ = select.select([stream], [], [], START_TIMEOUT)
    return stream.readline().decode().strip() if ready else ""


def main() -> int:
    """Drain the ring into the file until the controller has closed it or is gone."""
    _leave_the_controller_alone()
    order = json.loads(sys.stdin.buffer.readline())
    ring = Ring(*order["ring"])
    attachments = {name: base64.b64decode(content) for name, content in order["attachments"].items()}
    try:
        from .file import FlightFile

        file = FlightFile(Path(order["path"]), order["metadata"], attachments, order["max_bytes"], order["start_ns"])
    except (OSError, ImportError) as error:
        print(f"{error}", flush=True)
        return 1
    print("ready", flush=True)
    sys.stdout.close()
    try:
        _record(ring, file, order["parent"])
    except OSError as error:
        ring.report_trouble(error.errno or errno.EIO)
        print(f"gaitway flight recorder: cannot write {order['path']}: {error.strerror or error}", file=sys.stderr)
        _discard(ring, order["parent"])
        return 1
    return 0


def _record(ring: Ring, file: Any, parent: int) -> None:
    flushed = synced = time.monotonic()
    last_ns, sequence, count = 0, 0, 0
    summary: dict[str, str] = {}
    over = False
    while True:
        # Asked for before the ring is emptied: what the controller wrote before its end is then in the ring.
        over = over or _over(ring, parent)
        for record in ring.read():
            if record.channel == DEFINITION:
                channel, topic, name, schema, metadata = json.loads(record.payload)
                file.define(channel, topic, name, schema, metadata)
                continue
            if record.channel == SUMMARY:
                summary = json.loads(record.payload)
                continue
            file.write(record.channel, record.log_time, record.sequence, record.payload, False)
            last_ns, count = record.log_time, count + 1
            if record.channel == EVENT:
                sequence = record.sequence + 1
        now = time.monotonic()
        if over:
            break
        if now - flushed >= FLUSH:
            file.flush()
            flushed = now
        if now - synced >= SYNC:
            file.sync()
            synced = now
    if not ring.closed and sequence:
        text = "the controller ended without closing its flight: killed, or crashed"
        file.write(EVENT, last_ns, sequence, pack_event(last_ns, "killed", text), True)
    file.close({"closed": str(ring.closed).lower(), "records": str(count), **summary})


def _over(ring: Ring, parent: int) -> bool:
    """True if the controller has ended or closed the flight; waits a moment otherwise."""
    ready, _, _ = select.select([sys.stdin], [], [], POLL)
    # A process forked off the controller may hold the pipe open after its death.
    return bool(ready) or ring.closed or os.getppid() != parent


def _discard(ring: Ring, parent: int) -> None:
    while not _over(ring, parent):
        for _ in ring.read():
            pass


def _leave_the_controller_alone() -> None:
    """Undo what a controller may have set for its own real-time threads, and do not end before it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    with contextlib.suppress(OSError):
        os.nice(5)


if __name__ == "__main__":
    sys.exit(main())
