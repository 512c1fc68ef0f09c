"""Compressed blocks that say how large they are: no more than that is ever unpacked."""

from __future__ import annotations

import io

from .reading import FileError, size


def unpack(data: bytes, kind: str, length: int, name: object, limit: int) -> bytes:
    """Unpacked ``data`` of exactly ``length`` bytes; ``kind`` is ``zstd``, ``lz4`` or empty for none.

    Raises :class:`FileError` for more than ``limit`` bytes or other than declared, else what the libraries raise.
    """
    if length > limit:
        raise FileError(name, f"a block unpacks to {size(length)}; at most {size(limit)} are read")
    if kind == "zstd":
        import zstandard

        found = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read(length + 1)
    elif kind == "lz4":
        import lz4.frame

        found = lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=length + 1)
    elif kind == "":
        found = data
    else:
        raise FileError(name, f"a block is packed by {kind[:20]!r}; zstd and lz4 are read")
    if len(found) != length:
        raise FileError(name, f"a block unpacks to other than the {size(length)} that it declares")
    return bytes(found)
