"""An MCAP file that is readable at any moment of its writing, and bounded."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from mcap.writer import CompressionType, Writer

from .encoder import EVENT
from .messages import ENCODING, SCHEMA_ENCODING, FlightError

VERSION = "1"
METADATA = "gaitway_flight"
END = "gaitway_flight_end"
CHUNK_BYTES = 256 * 1024
PARTS = 8
"""A flight that reaches its bound loses about the oldest eighth of it."""
MIN_BYTES = 1_000_000


class FlightFile:
    """Implements :class:`gaitway_sim2real.onboard.flight.encoder.Sink` on a file, ``flight.mcap``.

    When the file has ``max_bytes / 8`` bytes it becomes ``flight.0001.mcap`` and a new one is begun; the oldest is
    removed when together they have more than ``max_bytes``. Every file has all definitions and all events so far, so
    that none needs another.
    """

    def __init__(
        self, path: Path, metadata: Mapping[str, str], attachments: Mapping[str, bytes], max_bytes: int, start_ns: int
    ):
        self.path, self._max = path, max_bytes
        self._metadata = {**metadata, "version": VERSION, "id": uuid.uuid4().hex, "start_ns": str(start_ns)}
        self._attachments, self._start_ns = attachments, start_ns
        self._definitions: dict[int, tuple[str, str, str, Mapping[str, str]]] = {}
        self._events: list[tuple[int, int, bytes]] = []
        self._parts: list[Path] = []
        self._sizes: list[int] = []
        self._chunk = min(CHUNK_BYTES, max_bytes // (4 * PARTS))
        self._ids: dict[int, int] = {}
        self._number = 0
        self._begin()

    def _begin(self) -> None:
        self._stream: IO[bytes] = open(self.path, "xb")  # noqa: SIM115
        self._pending = 0
        self._writer = Writer(self._stream, chunk_size=self._chunk, compression=CompressionType.ZSTD)
        self._writer.start(profile="ros2", library="gaitway")
        self._writer.add_metadata(METADATA, {**self._metadata, "part": str(self._number)})
        for name, content in self._attachments.items():
            media = "application/json" if name.endswith(".json") else "text/yaml"
            self._writer.add_attachment(self._start_ns, self._start_ns, name, media, content)
        self._ids.clear()
        for channel, definition in self._definitions.items():
            self._register(channel, *definition)
        for log_time, sequence, payload in self._events:
            self._writer.add_message(self._ids[EVENT], log_time, payload, log_time, sequence)
        self._writer.flush()
        self._full = self._stream.tell() + self._max // PARTS

    @property
    def trouble(self) -> str | None:
        return None  # a write that fails raises

    @property
    def pid(self) -> int | None:
        return None

    def define(self, channel: int, topic: str, name: str, schema: str, metadata: Mapping[str, str]) -> None:
        self._definitions[channel] = (topic, name, schema, metadata)
        self._register(channel, topic, name, schema, metadata)

    def _register(self, channel: int, topic: str, name: str, schema: str, metadata: Mapping[str, str]) -> None:
        number = self._writer.register_schema(name, SCHEMA_ENCODING, schema.encode())
        self._ids[channel] = self._writer.register_channel(topic, ENCODING, number, dict(metadata))

    def write(self, channel: int, log_time: int, sequence: int, payload: bytes, vital: bool) -> bool:
        self._writer.add_message(self._ids[channel], log_time, payload, log_time, sequence)
        if channel == EVENT:
            self._events.append((log_time, sequence, payload))
        self._pending += len(payload)
        if self._pending > self._chunk:
            self.flush()
        return True

    def flush(self) -> None:
        """Give all that was written to the operating system: it outlives this process from now on."""
        self._writer.flush()
        self._pending = 0
        if self._stream.tell() > self._full:
            self._roll()

    def sync(self) -> None:
        """Have what was flushed outlive a loss of power too."""
        os.fdatasync(self._stream.fileno())

    def _roll(self) -> None:
        self._writer.finish()
        self._stream.close()
        self._number += 1
        part = self.path.with_name(f"{self.path.stem}.{self._number:04d}{self.path.suffix}")
        os.replace(self.path, part)
        self._parts.append(part)
        self._sizes.append(part.stat().st_size)
        while sum(self._sizes) > self._max - self._max // PARTS:
            self._parts.pop(0).unlink(missing_ok=True)
            self._sizes.pop(0)
        self._begin()

    def close(self, summary: Mapping[str, str] | None = None) -> None:
        """Finish the file; ``summary`` is what is known only now."""
        self._writer.add_metadata(END, {"end_ns": str(time.time_ns()), **(summary or {})})
        self._writer.finish()
        self._stream.flush()
        self.sync()
        self._stream.close()


def check_path(path: Path) -> None:
    """Refuse a name that cannot become a flight, before anything runs."""
    if path.suffix != ".mcap":
        raise FlightError(f"flight {path}: the name must end in .mcap")
    if path.exists():
        raise FlightError(f"flight {path} exists, and no flight is overwritten: choose another name, or move it away")
    if not path.absolute().parent.is_dir():
        raise FlightError(f"flight {path}: there is no folder {path.absolute().parent}")
    if not os.access(path.absolute().parent, os.W_OK):
        raise FlightError(f"flight {path}: no permission to write into {path.absolute().parent}")


def check_bound(max_bytes: int) -> None:
    if max_bytes < MIN_BYTES:
        raise FlightError(f"a flight of {max_bytes} bytes at most: give it {MIN_BYTES} or more")


def plain(metadata: Mapping[str, object]) -> dict[str, str]:
    """MCAP's metadata are texts: everything else becomes JSON."""
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}
