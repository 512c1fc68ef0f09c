"""Records from one process to another through shared memory: one writer that never waits, one reader.

The reader may be slow, and the writer may be killed at any instruction: a record counts from the moment that ``head``
is moved past it, and carries a checksum, since not every processor shows another's writes in order.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from gaitway_files.errors import UserError

HEADER_BYTES = 4096
RECORD = struct.Struct("=IIQII")  # size, checksum, log time [ns], sequence, channel
WRAP = 0xFFFFFFFF
RESERVE = 64 * 1024
"""Room that only vital records get [B]."""
_HEAD, _TAIL, _CLOSED, _TROUBLE = 0, 8, 16, 24  # 64-bit words, each in a cache line of its own


class Record(NamedTuple):
    channel: int
    log_time: int
    sequence: int
    payload: bytes


class Ring:
    """``capacity`` bytes behind a header, in the file descriptor of an anonymous file."""

    def __init__(self, descriptor: int, capacity: int):
        self.descriptor, self.capacity = descriptor, capacity
        # Populated, so that the control loop has no page faults when it gets there.
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._map = mmap.mmap(descriptor, HEADER_BYTES + capacity, flags)
        self._words = memoryview(self._map)[:HEADER_BYTES].cast("Q")
        self._data = memoryview(self._map)[HEADER_BYTES:]
        self._head, self._tail = self._words[_HEAD], self._words[_TAIL]

    @classmethod
    def create(cls, capacity: int) -> Ring:
        if capacity % 8 or capacity < 4 * RESERVE:
            raise UserError(f"ring of {capacity} bytes: give a multiple of 8 of at least {4 * RESERVE}")
        descriptor = os.memfd_create("gaitway-flight")
        os.ftruncate(descriptor, HEADER_BYTES + capacity)
        return cls(descriptor, capacity)

    def write(self, channel: int, log_time: int, sequence: int, payload: bytes, vital: bool) -> bool:
        """Append a record; False if there is no room for it now."""
        size = len(payload)
        need = (RECORD.size + size + 7) & ~7
        head, place = self._head, self._head % self.capacity
        skip = self.capacity - place if self.capacity - place < need else 0
        used = head + skip + need - self._words[_TAIL]
        if used > self.capacity - (0 if vital else RESERVE):
            return False
        if skip:
            struct.pack_into("=I", self._data, place, WRAP)
            head, place = head + skip, 0
        start = place + RECORD.size
        self._data[start : start + size] = payload
        check = zlib.crc32(payload, sequence)
        RECORD.pack_into(self._data, place, size, check, log_time, sequence, channel)
        self._head = self._words[_HEAD] = head + need
        return True

    def read(self) -> Iterator[Record]:
        """Every record that is there; room is free again when the next one is asked for."""
        while self._tail != self._words[_HEAD]:
            place = self._tail % self.capacity
            (size,) = struct.unpack_from("=I", self._data, place)
            if size == WRAP:
                self._move(self.capacity - place)
                continue
            size, check, log_time, sequence, channel = RECORD.unpack_from(self._data, place)
            start = place + RECORD.size
            if start + size > self.capacity:
                return
            payload = bytes(self._data[start : start + size])
            if zlib.crc32(payload, sequence) != check:
                return  # not all of it is visible yet
            yield Record(channel, log_time, sequence, payload)
            self._move((RECORD.size + size + 7) & ~7)

    def _move(self, by: int) -> None:
        self._tail += by
        self._words[_TAIL] = self._tail

    @property
    def closed(self) -> bool:
        """True if the writer has closed the ring."""
        return bool(self._words[_CLOSED])

    def finish(self) -> None:
        self._words[_CLOSED] = 1

    @property
    def trouble(self) -> int:
        """Number of the system's error that keeps the reader from storing what it reads; 0 while there is none."""
        return int(self._words[_TROUBLE])

    def report_trouble(self, number: int) -> None:
        self._words[_TROUBLE] = number

    def release(self) -> None:
        self._words.release()
        self._data.release()
        self._map.close()
        os.close(self.descriptor)
