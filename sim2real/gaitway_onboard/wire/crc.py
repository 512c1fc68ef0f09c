"""Unitree's checksum: CRC-32/MPEG-2 over the C struct of a message, as little-endian words, the last one being the CRC.

CDR lays the same fields out differently, so a payload is first gathered into its C struct. The CRC itself is zlib's
with the bits of every byte, and of the result, reversed.
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np

from .layouts import Layout, Message

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def crc32_mpeg2(data: bytes) -> int:
    """CRC-32/MPEG-2 (polynomial 0x04C11DB7, initial value all ones, nothing reflected) of bytes, first byte first."""
    reflected = zlib.crc32(data.translate(_REVERSED)) ^ 0xFFFFFFFF
    return int.from_bytes(reflected.to_bytes(4, "little").translate(_REVERSED), "big")


def checksum(message: Message) -> int:
    """Checksum that belongs into the field ``crc`` of this message."""
    return crc32_mpeg2(message.bytes[_word_order(message.layout)].tobytes())


def seal(message: Message) -> None:
    """Write the checksum into the message; the last thing before it is sent."""
    message["crc"] = checksum(message)


def check(message: Message) -> bool:
    """True if the message has the right checksum."""
    return int(message["crc"]) == checksum(message)


@lru_cache
def _word_order(layout: Layout) -> np.ndarray:
    """Bytes of the payload in the order the checksum takes them: each word of the C struct from its high end."""
    words = layout.image_index.reshape(-1, 4)[:-1, ::-1]
    return np.ascontiguousarray(words.ravel())
