"""Processes of one machine that exchange tensors through memory that they share.

A message of gloo takes two milliseconds on two virtual cores, whatever its size, and an update has dozens. Here it
takes some twenty microseconds: each process writes into its part of the memory, and sends the others one byte.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from gaitway_files.errors import NotDone
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

PART = 2**26  # bytes of a process in each of the two banks; only what is used takes memory
HEAD = 8  # bytes before an object: how many are left
SPIN_S = 0.002  # of looking for a byte before the process sleeps until it comes


class LostProcess(NotDone):
    """Another process of the group has ended."""


class OtherFailed(LostProcess):
    """Another process of the group has failed before an update, so that this one's state is whole."""


class Together:
    """The ``rank``-th of the processes that share ``memory``; ``sockets`` lead to the others, in order of rank.

    Exchanges alternate between two banks of the memory. A process that is in the next exchange has read the last one,
    so a bank is free again once that is true of all.
    """

    def __init__(self, rank: int, memory: int, sockets: Sequence[socket.socket]):
        self.rank, self.size, self.sockets = rank, len(sockets) + 1, sockets
        self.memory = mmap.mmap(memory, 2 * self.size * PART)
        self.bytes = np.frombuffer(self.memory, np.uint8).reshape(2, self.size, PART)
        self.bank = 0
        for each in sockets:
            each.setblocking(False)

    def sum_(self, x: Tensor) -> None:
        """Replace ``x``, of one shape everywhere, by its sum over the processes, added in their order."""
        if x.dtype is torch.bfloat16:  # of which NumPy knows nothing
            self.sum_(wide := x.float())
            x.copy_(wide)
            return
        for piece, (first, *others) in self._pieces(x):
            total = first.copy()
            for other in others:
                total += other
            piece[:] = total

    def copy_first_(self, x: Tensor) -> None:
        """Replace ``x``, of one shape everywhere, by its value in the first process."""
        for piece, (first, *_) in self._pieces(x.detach().view(-1).view(torch.uint8)):
            piece[:] = first

    def _pieces(self, x: Tensor) -> Iterator[tuple[Array, list[Array]]]:
        """Pieces of ``x`` that fit into the memory, each with the values that all processes have there."""
        flat = x.detach().view(-1).numpy()
        count = PART // flat.itemsize
        for start in range(0, flat.size, count):
            piece = flat[start : start + count]
            yield piece, [part[: piece.nbytes].view(flat.dtype) for part in self._exchanged(piece.view(np.uint8))]

    def objects(self, value: Any) -> list[Any]:
        """Objects of all processes, in their order."""
        payload, found, left = pickle.dumps(value), [bytearray() for _ in range(self.size)], True
        while left:
            piece, payload = payload[: PART - HEAD], payload[PART - HEAD :]
            head = np.array([len(piece), len(payload)], np.uint32).tobytes()
            parts = self._exchanged(np.frombuffer(head + piece, np.uint8))
            heads = [part[:HEAD].view(np.uint32) for part in parts]
            for whole, part, (size, _) in zip(found, parts, heads, strict=True):
                whole += part[HEAD : HEAD + int(size)].tobytes()
            left = any(after for _, after in heads)
        return [pickle.loads(whole) for whole in found]

    def close(self) -> None:
        """Leave the others, who notice it in their next exchange."""
        for each in self.sockets:
            each.close()

    def _exchanged(self, data: Array) -> Array:
        """Parts of all processes, (size, PART), once each has written its ``data``."""
        self.bank = 1 - self.bank
        parts = self.bytes[self.bank]
        parts[self.rank, : data.size] = data
        try:
            for other in self.sockets:
                other.send(b"\0")
            for other in self.sockets:
                _await(other)
        except ConnectionError as error:
            raise LostProcess("another process of the training has ended; continue with --resume") from error
        return parts


def _await(other: socket.socket) -> None:
    """Wait for a byte; the system calls also order the accesses to the memory."""
    patience = time.perf_counter() + SPIN_S
    while True:
        try:
            if not other.recv(1):
                raise ConnectionResetError
            return
        except BlockingIOError:
            if time.perf_counter() > patience:
                select.select([other], [], [])
            else:
                os.sched_yield()


def connected(size: int) -> tuple[int, list[list[socket.socket]]]:
    """Memory for ``size`` processes, as a file descriptor, and the sockets of each, in order of the others' ranks."""
    memory = _memory(size)
    rows: list[list[socket.socket]] = [[] for _ in range(size)]
    for i in range(size):
        for j in range(i):
            one, other = socket.socketpair()
            rows[i].append(one)
            rows[j].append(other)
    return memory, rows


def _memory(size: int) -> int:
    memory = os.memfd_create("gaitway")
    os.ftruncate(memory, 2 * size * PART)
    return memory


def met(store: Any, rank: int, size: int) -> Together:
    """The :class:`Together` of ``size`` processes of one machine that share ``store``, one of torch.distributed."""
    found: dict[int, socket.socket] = {}
    place = tempfile.gettempdir() if len(tempfile.gettempdir()) < 80 else "/tmp"  # a socket's path has 107 characters
    with tempfile.TemporaryDirectory(prefix="gaitway-", dir=place) as folder, socket.socket(socket.AF_UNIX) as door:
        door.bind(path := f"{folder}/door")
        door.listen(size)
        store.set(f"door/{rank}", path)
        for lower in range(rank):
            found[lower] = socket.socket(socket.AF_UNIX)
            found[lower].connect(store.get(f"door/{lower}").decode())
            found[lower].sendall(rank.to_bytes(4, "little"))
        for _ in range(rank + 1, size):
            one, _ = door.accept()
            found[int.from_bytes(one.recv(4, socket.MSG_WAITALL), "little")] = one
    if rank == 0:
        memory = _memory(size)
        for one in found.values():
            socket.send_fds(one, [b"\0"], [memory])
    else:
        _, (memory,), _, _ = socket.recv_fds(found[0], 1, 1)
    try:
        return Together(rank, memory, [found[other] for other in sorted(found)])
    finally:
        os.close(memory)
