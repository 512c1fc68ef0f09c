"""Flights from strangers: chunks that unpack to gigabytes, lengths that are claimed, headers that make no sense."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import lz4.frame
import pytest
import zstandard
from gaitway_onboard.flight.messages import FlightError
from gaitway_onboard.flight.opening import open_flight
from gaitway_onboard.flight.reading import read_flight
from memory_taken import watched

from .flights import JOINTS, fly

pytestmark = pytest.mark.hostile("untrusted files")
HEAD = 8  # the magic bytes


@pytest.fixture(scope="module")
def flight(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("flight") / "a.mcap"
    log = open_flight(path, JOINTS, {"robot": "x"}, realtime=False)
    fly(log, 40)
    log.close()
    return path.read_bytes()


def records(content: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind, start and end of each record."""
    at = HEAD
    while at + 9 <= len(content) - HEAD:
        kind, length = struct.unpack_from("<BQ", content, at)
        yield kind, at, at + 9 + length
        at += 9 + length


def chunk(packed: bytes, declared: int, compression: str) -> bytes:
    name = compression.encode()
    body = struct.pack("<QQQI", 0, 1, declared, 0) + struct.pack("<I", len(name)) + name
    body += struct.pack("<Q", len(packed)) + packed
    return struct.pack("<BQ", 6, len(body)) + body


def with_record(content: bytes, record: bytes) -> bytes:
    """Another record after the first metadata."""
    end = next(end for kind, _, end in records(content) if kind == 0x0C)
    return content[:end] + record + content[end:]


ZEROS = bytes(2**26)


@pytest.mark.parametrize("compression", ["zstd", "lz4", ""])
@pytest.mark.parametrize("declared", [64, 2**26, 2**40], ids=["small", "true", "huge"])
def test_chunks_are_unpacked_to_no_more_than_a_chunk_has(
    flight: bytes, tmp_path: Path, compression: str, declared: int
) -> None:
    """Sixty times 64 MiB of zeros, whatever they declare; the flight's own records are read or it is refused."""
    packed = {"zstd": zstandard.compress(ZEROS), "lz4": lz4.frame.compress(ZEROS), "": b""}[compression]
    path = tmp_path / "a.mcap"
    path.write_bytes(with_record(flight, 60 * chunk(packed, declared, compression)))
    with watched() as taken:
        if declared == 64:
            found = read_flight(path)
            assert found.truncated and len(found.state) == 40
        else:
            with pytest.raises(FlightError, match="unpacks to more than a flight of its size could"):
                read_flight(path)
    assert taken() < 2**28


def test_lengths_that_are_claimed_are_not_allocated(flight: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    name = b"contract.yaml"
    attachment = struct.pack("<QQ", 0, 0) + struct.pack("<I", len(name)) + name + struct.pack("<I", 0)
    attachment += struct.pack("<Q", 2**50)
    for record in (
        struct.pack("<BQ", 0x05, 2**60) + bytes(40),
        struct.pack("<BQ", 0x05, 2**31) + bytes(40),
        struct.pack("<BQ", 0x09, len(attachment)) + attachment,
    ):
        path.write_bytes(with_record(flight, record))
        with pytest.raises(FlightError):
            read_flight(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (json.dumps(list(JOINTS)).encode(), b"{" * 30),
        (json.dumps(list(JOINTS)).encode(), b"[1]"),
        (b"joint_names", b"joint_nomes"),
        (b"clock_zero_ns", b"clock_null_ns"),
        (b"float32[12] joint_pos", b"float32[99] joint_pos"),
        (b"float32[12] joint_pos", b"flout32[12] joint_pos"),
        (b"float64 time", b"float64 tame"),
    ],
)
def test_headers_that_make_no_sense_are_told_in_one_sentence(
    flight: bytes, tmp_path: Path, old: bytes, new: bytes
) -> None:
    """Definitions lie in compressed chunks, so they are written out again without compression."""
    plain = b""
    for kind, start, end in records(flight):
        record = flight[start:end]
        if kind == 6:
            (length,) = struct.unpack_from("<I", record, 9 + 28)
            data = record[9 + 28 + 4 + length + 8 :]
            data = zstandard.decompress(data) if length else data
            record = chunk(data.replace(old, new.ljust(len(old))), len(data), "")
        plain += record.replace(old, new.ljust(len(old)))
    assert new in plain
    path = tmp_path / "a.mcap"
    path.write_bytes(flight[:HEAD] + plain + flight[-HEAD:])
    with pytest.raises(FlightError) as error:
        read_flight(path)
    assert "\n" not in str(error.value)


def test_a_pipe_is_no_flight(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.mcap")
    with pytest.raises(FlightError, match="no flight"):
        read_flight(tmp_path / "a.mcap")
