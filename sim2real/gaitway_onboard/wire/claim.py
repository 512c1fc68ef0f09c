"""A right that one program of this computer can have at a time, and that ends with the program, however it ends."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from hashlib import sha256

from ..interface import DeployError

_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: process, user, group


@contextlib.contextmanager
def claim(name: str, what: str) -> Iterator[None]:
    """Have the right ``name``; raises :class:`DeployError`, which says ``what`` it is for, if another process has it.

    It is an address of Linux's abstract sockets, which no file can block and the system takes back at once.
    """
    address = "\0gaitway-" + sha256(name.encode()).hexdigest()[:32]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as held:
        try:
            held.bind(address)
        except OSError:
            holder = _holder(address)
            raise DeployError(
                f"another program of this computer{f', process {holder},' if holder else ''} drives {what} already: "
                "end it first; nothing was sent"
            ) from None
        held.listen(64)  # each that was refused stays in the queue
        yield


def _holder(address: str) -> int | None:
    """Process that listens there, if the system tells it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, contextlib.suppress(OSError):
        asking.setblocking(False)
        asking.connect(address)
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(credentials)[0]) or None
    return None
