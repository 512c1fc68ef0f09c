"""An MCAP file that is readable at any moment of its writing, and bounded."""

from __future__ import annotations

import errno
import json
import os
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import Channel, DataEnd, Footer, Message, Metadata, Schema
from mcap.writer import CompressionType, Writer

from .encoder import EVENT, TOPICS, LoggedEvent, Sink
from .messages import ENCODING, EVENT_SCHEMA, EVENT_SCHEMA_NAME, SCHEMA_ENCODING, FlightError

VERSION = "1"
METADATA = "gaitway_flight"
END = "gaitway_flight_end"
CHUNK_BYTES = 256 * 1024
PARTS = 8
"""A flight that reaches its bound loses about the oldest eighth of it."""
MIN_BYTES = 1_000_000
MAGIC = b"\x89MCAP0\r\n"
OTHER_CHANNEL = 0xFFFF
"""Channel of the events that :func:`finish_cut` adds: a number that the recorder never gives."""


class FlightFile(Sink):
    """A file, ``flight.mcap``.

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
        self._length = self._stream.tell()
        self._full = self._length + self._max // PARTS

    def define(self, channel: int, topic: str, name: str, schema: str, metadata: Mapping[str, str]) -> None:
        self._definitions[channel] = (topic, name, schema, metadata)
        self._register(channel, topic, name, schema, metadata)

    def _register(self, channel: int, topic: str, name: str, schema: str, metadata: Mapping[str, str]) -> None:
        number = self._writer.register_schema(name, SCHEMA_ENCODING, schema.encode())
        self._ids[channel] = self._writer.register_channel(topic, ENCODING, number, dict(metadata))

    def write(self, channel: int, log_time: int, sequence: int, payload: bytes, vital: bool) -> bool:
        self._check_length()
        self._writer.add_message(self._ids[channel], log_time, payload, log_time, sequence)
        if channel == EVENT:
            self._events.append((log_time, sequence, payload))
        self._pending += len(payload)
        if self._pending > self._chunk:
            self.flush()
        return True

    def flush(self) -> None:
        """Give all that was written to the operating system: it outlives this process from now on.

        Raises OSError if the flight, or a part of it, is not any more where it was written.
        """
        self._check()
        self._writer.flush()
        self._pending, self._length = 0, self._stream.tell()
        if self._length > self._full:
            self._roll()

    def _check_length(self) -> None:
        if os.fstat(self._stream.fileno()).st_size < self._length:  # writing on would leave a hole
            raise OSError(errno.ENODATA, "the file was cut while it was written", str(self.path))

    def _check(self) -> None:
        self._check_length()
        named, own = os.stat(self.path), os.fstat(self._stream.fileno())
        if not os.path.samestat(named, own):
            raise OSError(errno.ESTALE, "another file took its place", str(self.path))
        for part, size in zip(self._parts, self._sizes, strict=True):
            if part.stat().st_size != size:
                raise OSError(errno.ENODATA, "a part of the flight was changed", str(part))

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

    def close(self, summary: Mapping[str, str], told: Sequence[LoggedEvent] = ()) -> None:
        """Finish the file; ``summary`` is what is known only now. It has every event already. Raises OSError."""
        self._check()
        self._writer.add_metadata(END, {"end_ns": str(time.time_ns()), **summary})
        self._writer.finish()
        self._stream.flush()
        self.sync()
        self._stream.close()


def finish_cut(path: Path, summary: Mapping[str, str], told: Sequence[LoggedEvent]) -> None:
    """Finish, in the place of its recorder, a file that it left behind: what is whole stays, and all events are added.

    The last record that is not whole goes, which makes room for this on a disk that is full. Raises OSError.
    """
    extra = RecordBuilder()
    if told:
        zero = {"clock_zero_ns": str(told[0].clock_zero_ns)}
        Schema(OTHER_CHANNEL, EVENT_SCHEMA.encode(), SCHEMA_ENCODING, EVENT_SCHEMA_NAME).write(extra)
        Channel(OTHER_CHANNEL, TOPICS[EVENT], ENCODING, zero, OTHER_CHANNEL).write(extra)
        for event in told:
            Message(OTHER_CHANNEL, event.log_time, event.payload, event.log_time, event.sequence).write(extra)
    Metadata(END, {"end_ns": str(time.time_ns()), **summary}).write(extra)
    DataEnd(0).write(extra)
    Footer(0, 0, 0).write(extra)
    with open(path, "r+b") as stream:
        whole = _whole(stream)
        stream.truncate(whole)
        stream.seek(whole)
        stream.write(extra.end() + MAGIC)
        stream.flush()
        os.fdatasync(stream.fileno())


def _whole(stream: IO[bytes]) -> int:
    """End of the last whole record of data [B]."""
    size, place = os.fstat(stream.fileno()).st_size, len(MAGIC)
    while place + 9 <= size:
        stream.seek(place)
        kind, length = struct.unpack("<BQ", stream.read(9))
        if kind == Opcode.DATA_END or place + 9 + length > size:
            break
        place += 9 + length
    return place


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
